package hostfs

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"lockbox/internal/pathsafe"
)

func path(t testing.TB, s string) pathsafe.Path {
	t.Helper()
	p, err := pathsafe.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// top is the operand that means the contents of dir.
func top(dir string) []Operand { return []Operand{{Host: dir}} }

func walkAll(operands []Operand, opt WalkOptions) []Item {
	var items []Item
	for it := range Walk(context.Background(), operands, opt) {
		items = append(items, it)
	}
	return items
}

// names gives one line an item: its path, a slash if it is a directory, a mark if it has an error.
func names(items []Item) []string {
	var list []string
	for _, it := range items {
		s := it.Path.String()
		if it.Kind == KindDir {
			s += "/"
		}
		if it.Err != nil {
			s += " !"
		}
		list = append(list, s)
	}
	return list
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file with the directories above it.
func write(t testing.TB, name, data string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, []byte(data), 0o644))
}

// tree describes a directory by the standard library alone: one line for each thing in it.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	check(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		fi, err := os.Lstat(p)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%v %d", fi.Mode(), fi.ModTime().UnixNano())
		switch {
		case fi.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", data)
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line = fmt.Sprintf("%v -> %q", fi.Mode(), target)
			if linksHaveTimes {
				line += fmt.Sprintf(" %d", fi.ModTime().UnixNano())
			}
		}
		all[rel] = line
		return nil
	}))
	return all
}

func sameTree(t testing.TB, want, got map[string]string) {
	t.Helper()
	for p, w := range want {
		if g, ok := got[p]; !ok {
			t.Errorf("%q is missing", p)
		} else if g != w {
			t.Errorf("%q is\n%.300s, want\n%.300s", p, g, w)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%q is there but should not", p)
		}
	}
}

// transfer extracts all that items hold, as a command would.
func transfer(x *Extractor, items []Item) error {
	for i := range items {
		it := &items[i]
		if it.Err != nil {
			return it.Err
		}
		var err error
		switch it.Kind {
		case KindDir:
			err = x.Mkdir(it.Path, it.Meta, nil)
		case KindSymlink:
			err = x.Symlink(it.Path, it.Meta)
		case KindFile:
			err = copyFile(x, it, i%2 == 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(x *Extractor, it *Item, whole bool) error {
	src, err := it.Open()
	if err != nil {
		return err
	}
	defer src.Close()
	if whole {
		data, err := io.ReadAll(src)
		if err != nil {
			return err
		}
		if err := src.Check(); err != nil {
			return err
		}
		return x.WriteFile(it.Path, src.Meta, data)
	}
	out, err := x.File(it.Path, src.Meta)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.NewOffsetWriter(out, 0), src); err != nil {
		return err
	}
	if err := src.Check(); err != nil {
		return err
	}
	return out.Commit()
}

// removableDir is a temporary directory that is removed whatever modes the directories in it have by then.
func removableDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() { // it is not read yet
				err = os.Chmod(path, 0o700)
			}
			return err
		})
	})
	return dir
}

// noGoroutines fails when more goroutines run than before, after some time to end.
func noGoroutines(t *testing.T, before int) {
	t.Helper()
	for range 4000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func isRoot() bool { return os.Geteuid() == 0 }
