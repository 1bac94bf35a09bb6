package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lockbox/internal/bench"
)

// addOne adds small files one at a time, as processes.
func (b *run) addOne(to, lbx, zipped string) error {
	workload := "add one 1 KiB file to " + to
	dir := filepath.Join(b.tmp, "one")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n := 0
	var name string
	next := func() error {
		n++
		name = fmt.Sprintf("added%04d", n)
		f := bench.Raw(name, 1<<10, uint64(1_000_000+n))
		return writeFile(filepath.Join(dir, name), &f)
	}
	one := func(label string, args ...string) bench.Contender {
		return bench.Contender{Name: label, Prepare: next, Run: func() (time.Duration, error) {
			u, err := b.exec(dir, append(args, name)...)
			return u.Wall, err
		}}
	}
	if !installed("zip") {
		b.missing(commandLine, workload, "zip is not installed")
		return nil
	}
	sets, err := b.take(commandLine, workload, b.samples, one("lockbox", b.bin, "add", "--quiet", lbx), one("zip", "zip", "-q", zipped))
	if err != nil {
		return err
	}
	b.against(sets, []float64{0, 0.15})
	return nil
}
