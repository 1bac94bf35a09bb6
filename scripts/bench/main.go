// Command bench measures lockbox against ZIP in this process, and the binary against other archivers as
// whole processes, and writes Markdown tables with each goal and whether it was met.
//
// A figure is a ratio from one run: the contenders take turns, at least nine times after a round that does not
// count, and medians are compared. Bytes are compared before anything is timed. Fixtures come from fixed seeds
// and from the Go toolchain's own source. Nothing is averaged away: a missed goal is printed as missed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
)

type bench struct {
	ctx     context.Context
	bin     string // the lockbox binary
	self    string // this program, as the launcher of measured processes
	goroot  string
	tmp     string
	samples int
	quick   bool
	filter  *regexp.Regexp
	report  report
	text    []byte // all Go source, in order of paths
	current string // the workload being measured
	raw     []rawSamples
}

func main() {
	b := &bench{}
	bin := flag.String("lockbox", "bin/lockbox", "the binary for sections 3 and 4")
	sections := flag.String("section", "1,2,3,4", "sections to measure: 1 streaming, 2 random access, 3 whole processes, 4 memory")
	filter := flag.String("filter", "", "measure only workloads that match this regular expression")
	flag.BoolVar(&b.quick, "quick", false, "three samples, and no workload that takes long")
	out := flag.String("o", "", "write the tables to this file (default: docs/benchmarks.md for a complete run, else standard output)")
	raw := flag.String("raw", "", "write every sample to this file, one JSON object per contender (a complete run: docs/benchmarks.ndjson)")
	tmp := flag.String("tmp", "", "work below this directory (default: /dev/shm where there is one)")
	launch := flag.String("launch", "", "internal: run the operands as a process and write what it used to this file")
	flag.Parse()
	if *launch != "" {
		os.Exit(launcher(*launch, flag.Args()))
	}
	var stop context.CancelFunc
	b.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.main(*bin, *sections, *filter, *out, *raw, *tmp); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func (b *bench) main(bin, sections, filter, out, raw, tmp string) (err error) {
	if b.filter, err = regexp.Compile(filter); err != nil {
		return err
	}
	if b.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("asking go for GOROOT: %w", err)
	}
	b.goroot = strings.TrimSpace(string(root))
	b.samples = 9
	if b.quick {
		b.samples = 3
	}
	if tmp == "" {
		if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
			tmp = "/dev/shm"
		}
	}
	if b.tmp, err = os.MkdirTemp(tmp, "lockbox-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()

	complete := !b.quick && filter == "" && sections == "1,2,3,4"
	for s := range strings.SplitSeq(sections, ",") {
		run, ok := map[string]func() error{"1": b.streaming, "2": b.random, "3": b.processes, "4": b.memory}[strings.TrimSpace(s)]
		if !ok {
			return fmt.Errorf("no section %q", s)
		}
		if err := run(); err != nil {
			return fmt.Errorf("section %s: %w", s, err)
		}
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if complete {
		out = cmp.Or(out, filepath.Join("docs", "benchmarks.md"))
		raw = cmp.Or(raw, filepath.Join("docs", "benchmarks.ndjson"))
	}
	if raw != "" {
		if err := writeRaw(raw, b.raw); err != nil {
			return err
		}
	}
	text := b.report.markdown(b)
	if out == "" {
		fmt.Print(text)
		return nil
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

// wanted tells whether a workload is to be measured, and says on standard error that it is.
func (b *bench) wanted(section int, workload string) bool {
	if !b.filter.MatchString(workload) || b.ctx.Err() != nil {
		return false
	}
	fmt.Fprintf(os.Stderr, "%d  %s\n", section, workload)
	b.current = workload
	return true
}
