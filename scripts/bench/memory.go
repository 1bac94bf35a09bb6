package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"lockbox/internal/bench"
)

// memory measures how much of the machine's memory commands hold at most.
func (b *run) memory() error {
	if runtime.GOOS == "windows" {
		b.missing("memory", "all", "this system does not tell a process's largest resident size")
		return nil
	}
	t, err := b.sourceTree()
	if err != nil {
		return err
	}
	if err := b.memoryOf("the Go source", t.lbx, t.dir, "fmt/print.go"); err != nil {
		return err
	}
	if b.quick {
		return nil
	}
	if b.filter.MatchString("memory: a 1 GiB file") {
		dir := filepath.Join(b.tmp, "big")
		text, err := bench.LoadText(filepath.Join(b.goroot, "src"))
		if err != nil {
			return err
		}
		f := text.File("big.txt", 1<<30, 0)
		if err := errors.Join(os.Mkdir(dir, 0o755), writeFile(filepath.Join(dir, f.Name), &f)); err != nil {
			return err
		}
		err = b.memoryOf("a 1 GiB file", filepath.Join(b.tmp, "big.lbx"), dir, "big.txt")
		if err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(filepath.Join(b.tmp, "big.lbx"))); err != nil {
			return err
		}
	}
	if b.wanted("memory", "1,000,000 entries") {
		return b.memoryOfMillion()
	}
	return nil
}

func (b *run) rss(workload string, goal float64, clear []string, args ...string) error {
	var peak int64
	for range 3 {
		for _, c := range clear {
			if err := os.RemoveAll(c); err != nil {
				return err
			}
		}
		u, err := b.exec("", append([]string{b.bin}, args...)...)
		if err != nil {
			return err
		}
		peak = max(peak, u.MaxRSS)
	}
	m := float64(peak) / (1 << 20)
	b.figure("memory", workload, fmt.Sprintf("%.1f MiB", m), m, "MiB", goal)
	return nil
}

func (b *run) memoryOf(what, lbx, dir, one string) error {
	out := filepath.Join(b.tmp, "out")
	if _, err := os.Stat(lbx); err != nil {
		if _, err := b.exec("", b.bin, "add", lbx, "-C", dir, ".", "--quiet"); err != nil {
			return err
		}
	}
	for _, jobs := range slices.Compact([]int{1, min(2, runtime.NumCPU()), min(6, runtime.NumCPU())}) {
		more := float64(jobs - 1)
		j := fmt.Sprintf("--jobs=%d", jobs)
		for _, c := range []struct {
			command string
			goal    float64
			clear   []string
			args    []string
		}{
			{"add", 96 + 32*more, []string{lbx}, []string{"add", lbx, "-C", dir, ".", "--quiet", j}},
			{"extract", 64 + 24*more, []string{out}, []string{"extract", lbx, "-d", out, "--quiet", j}},
			{"verify --full", 64 + 24*more, nil, []string{"verify", lbx, "--full", "--quiet", j}},
			{"cat", 64 + 24*more, nil, []string{"cat", lbx, one, j}},
		} {
			name := fmt.Sprintf("%s, %s, %d job", c.command, what, jobs)
			if jobs > 1 {
				name += "s"
			}
			if !b.wanted("memory", name) {
				continue
			}
			if err := b.rss(name, c.goal, c.clear, c.args...); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(out)
}

func (b *run) memoryOfMillion() error {
	const count = 1_000_000
	lbx, extra := filepath.Join(b.tmp, "million.lbx"), filepath.Join(b.tmp, "extra")
	if err := bench.WriteLockbox(b.ctx, lbx, 0, tiny(count)); err != nil {
		return err
	}
	defer os.Remove(lbx)
	if err := os.WriteFile(extra, []byte("one more\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"list", lbx}, {"verify", lbx, "--full", "--quiet"}, {"cat", lbx, tinyName(count / 2)},
		{"add", lbx, "-C", b.tmp, "extra", "--quiet"},
	} {
		if err := b.rss(args[0]+", 1,000,000 entries", 256, nil, args...); err != nil {
			return err
		}
	}
	return nil
}
