package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// entry is one name of a tree, as lstat has it.
type entry struct {
	host   string // where it stands
	mode   fs.FileMode
	mtime  time.Time
	size   int64
	target string
}

// tree is what a directory holds below itself: path, with slashes, to entry.
type tree struct{ entries map[string]entry }

// walk reads a tree. With warm it also reads every file once, so that whoever comes first is not the one
// who waits for the disk.
func walk(ctx context.Context, dir string, warm bool) (*tree, error) {
	t := &tree{entries: make(map[string]entry)}
	buf := make([]byte, 1<<20)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || name == dir {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() && !e.IsDir() && e.Type() != fs.ModeSymlink {
			return fmt.Errorf("%s is neither a file, a directory nor a symbolic link; name another tree with -src", name)
		}
		if err := t.note(filepath.ToSlash(rel), name); err != nil {
			return err
		}
		if warm && e.Type().IsRegular() {
			return readThrough(name, buf)
		}
		return nil
	})
	return t, err
}

func readThrough(name string, buf []byte) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
	return err
}

// note sets the entry of a path to what stands at host.
func (t *tree) note(path, host string) error {
	fi, err := os.Lstat(host)
	if err != nil {
		return err
	}
	e := entry{host: host, mode: fi.Mode(), mtime: fi.ModTime()}
	if fi.Mode().IsRegular() {
		e.size = fi.Size()
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		if e.target, err = os.Readlink(host); err != nil {
			return err
		}
	}
	t.entries[path] = e
	return nil
}

func (t *tree) sum() (files, dirs int, bytes int64) {
	for _, e := range t.entries {
		switch {
		case e.mode.IsRegular():
			files++
			bytes += e.size
		case e.mode.IsDir():
			dirs++
		}
	}
	return files, dirs, bytes
}

// sample picks the file that the demonstration reads: fmt/print.go in a Go tree.
func (t *tree) sample() (string, error) {
	if e, ok := t.entries["fmt/print.go"]; ok && e.mode.IsRegular() {
		return "fmt/print.go", nil
	}
	return "", errors.New("the source has no fmt/print.go: it is not a Go source tree")
}

// sameNames compares NUL-separated names with the tree's. A directory's may end in a slash.
func (t *tree) sameNames(out []byte) error {
	seen := make(map[string]bool, len(t.entries))
	for n := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		name := strings.TrimSuffix(string(n), "/")
		if _, ok := t.entries[name]; !ok || seen[name] {
			return fmt.Errorf("list has %q, which the source has not, or lists it twice", n)
		}
		seen[name] = true
	}
	if len(seen) != len(t.entries) {
		return fmt.Errorf("list has %d names, the source %d", len(seen), len(t.entries))
	}
	return nil
}

// same compares a tree that was read back with what is wanted, bytes included. All differences are found;
// the first few are named.
func (t *tree) same(ctx context.Context, got *tree) error {
	var diffs []string
	for _, p := range slices.Sorted(maps.Keys(t.entries)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := t.entries[p]
		g, ok := got.entries[p]
		if !ok {
			diffs = append(diffs, p+": missing")
			continue
		}
		what, err := w.differs(&g)
		if err != nil {
			return err
		}
		if what != "" {
			diffs = append(diffs, p+": "+what)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got.entries)) {
		if _, ok := t.entries[p]; !ok {
			diffs = append(diffs, p+": extracted, but not in the source")
		}
	}
	if n := len(diffs); n > 0 {
		return fmt.Errorf("%d differences:\n  %s", n, strings.Join(diffs[:min(n, 20)], "\n  "))
	}
	return nil
}

func (w *entry) differs(g *entry) (string, error) {
	windows := runtime.GOOS == "windows"
	link := w.mode&fs.ModeSymlink != 0
	switch {
	case w.mode.Type() != g.mode.Type():
		return fmt.Sprintf("kind %v, not %v", g.mode.Type(), w.mode.Type()), nil
	case link && w.target != g.target:
		return fmt.Sprintf("target %q, not %q", g.target, w.target), nil
	case !link && !windows && w.mode != g.mode:
		return fmt.Sprintf("mode %v, not %v", g.mode, w.mode), nil
	case !w.mtime.Equal(g.mtime) && (!link || !windows):
		const ns = "2006-01-02T15:04:05.000000000Z07:00"
		return fmt.Sprintf("modified %s, not %s", g.mtime.Format(ns), w.mtime.Format(ns)), nil
	case !w.mode.IsRegular():
		return "", nil
	case w.size != g.size:
		return fmt.Sprintf("%d bytes, not %d", g.size, w.size), nil
	}
	a, err := os.ReadFile(w.host)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(g.host)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(a, b) {
		return "other bytes", nil
	}
	return "", nil
}
