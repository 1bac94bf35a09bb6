package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// edit copies the tree's directory dir below to, changes every third file, adds a file and (where that needs
// no special right) a symbolic link, and makes the tree expect the copy in dir's place. It returns the
// number of files changed.
func (t *tree) edit(dir, to string) (changed int, err error) {
	var paths []string
	for _, p := range slices.Sorted(maps.Keys(t.entries)) {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			paths = append(paths, p)
		}
	}
	nth := 0
	for _, p := range paths {
		e := t.entries[p]
		host := filepath.Join(to, filepath.FromSlash(p))
		switch {
		case e.mode.IsDir():
			if err := os.MkdirAll(host, 0o700); err != nil {
				return 0, err
			}
			continue
		case !e.mode.IsRegular():
			return 0, fmt.Errorf("%s: neither a file nor a directory", e.host)
		}
		b, err := os.ReadFile(e.host)
		if err != nil {
			return 0, err
		}
		mtime := e.mtime
		if nth++; nth%3 == 0 {
			b = append(b, "\n// changed by the demonstration\n"...)
			mtime = time.Unix(1_700_000_000, int64(123_456_789+nth)) // not a whole second
			changed++
		}
		if err := write(host, b, e.mode, mtime); err != nil {
			return 0, err
		}
	}
	added := []string{path.Join(dir, "added_by_demo.txt")}
	host := filepath.Join(to, filepath.FromSlash(added[0]))
	if err := write(host, []byte("A file that the source does not have.\n"), 0o640, time.Unix(1_600_000_000, 987_654_321)); err != nil {
		return 0, err
	}
	if runtime.GOOS != "windows" {
		link := path.Join(dir, "link_by_demo")
		if err := os.Symlink("print.go", filepath.Join(to, filepath.FromSlash(link))); err != nil {
			return 0, err
		}
		added = append(added, link)
	}
	// Directories last and deepest first: what is made inside them changes their times.
	slices.Reverse(paths)
	for _, p := range paths {
		if e := t.entries[p]; e.mode.IsDir() {
			host := filepath.Join(to, filepath.FromSlash(p))
			if err := stamp(host, e.mode, e.mtime); err != nil {
				return 0, err
			}
		}
	}
	for _, p := range append(paths, added...) {
		if err := t.note(p, filepath.Join(to, filepath.FromSlash(p))); err != nil {
			return 0, err
		}
	}
	return changed, nil
}

// loose writes small files into the directory to and makes the tree expect them below dir.
func (t *tree) loose(dir, to string, names ...string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for i, n := range names {
		host := filepath.Join(to, n)
		text := fmt.Sprintf("package %s\n\n// Written by the demonstration, number %d.\n", dir, i)
		if err := write(host, []byte(text), 0o600, time.Unix(1_650_000_000+int64(i), 1)); err != nil {
			return err
		}
		if err := t.note(path.Join(dir, n), host); err != nil {
			return err
		}
	}
	return nil
}

func write(host string, b []byte, mode fs.FileMode, mtime time.Time) error {
	if err := os.WriteFile(host, b, 0o600); err != nil {
		return err
	}
	return stamp(host, mode, mtime)
}

func stamp(host string, mode fs.FileMode, mtime time.Time) error {
	if err := os.Chmod(host, mode.Perm()); err != nil {
		return err
	}
	return os.Chtimes(host, time.Time{}, mtime)
}

// forget takes a directory and everything below it out of the tree.
func (t *tree) forget(dir string) {
	maps.DeleteFunc(t.entries, func(p string, _ entry) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}

// rename gives a directory of the tree another name.
func (t *tree) rename(dir, to string) {
	for _, p := range slices.Collect(maps.Keys(t.entries)) {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			t.entries[to+p[len(dir):]] = t.entries[p]
			delete(t.entries, p)
		}
	}
}
