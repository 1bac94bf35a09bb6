package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// times is what one program took for the whole tree. extracting includes writing the files.
type times struct {
	create, verify, extract time.Duration
	size                    int64
}

func (d *demo) head(what, how string) {
	d.step++
	fmt.Printf("%2d. %s\n    %s\n", d.step, strings.ToUpper(what[:1])+what[1:], how)
}

func (d *demo) say(text string, args ...any) { fmt.Printf("      "+text+"\n", args...) }

// show prints the first lines of a command's output.
func (d *demo) show(out []byte, most int) {
	text := strings.ReplaceAll(string(out), d.tmp+string(filepath.Separator), "")
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == most {
			d.say("… %d more lines", len(lines)-most)
			return
		}
		if l != "" {
			d.say("%s", l)
		}
	}
}

func (d *demo) table(l, z *times) {
	fmt.Printf("\n%-22s %12s %12s %18s\n", "", "lockbox", "ZIP", "lockbox ÷ ZIP")
	row := func(what string, a, b time.Duration) {
		fmt.Printf("%-22s %12s %12s %18.2f\n", what, brief(a), brief(b), a.Seconds()/b.Seconds())
	}
	row("create", l.create, z.create)
	row("read and check all", l.verify, z.verify)
	row("extract", l.extract, z.extract)
	fmt.Printf("%-22s %12s %12s %18.2f\n", "size", size(l.size), size(z.size), float64(l.size)/float64(z.size))
	fmt.Print("\nlockbox: one process a row, started by this program, with as many workers as it chooses by itself." +
		"\nZIP: the standard library on one core, in this process. One run each; see docs/benchmarks.md for measurements." +
		"\n\nEvery step did what it should, and nothing differs.\n")
}

func brief(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
