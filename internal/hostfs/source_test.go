package hostfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// one walks dir and returns the item of name.
func one(t *testing.T, dir, name string) *Item {
	t.Helper()
	for _, it := range walkAll(top(dir), WalkOptions{}) {
		if it.Path.String() == name {
			return &it
		}
	}
	t.Fatalf("%s was not found", name)
	return nil
}

func TestOpenRefusesOther(t *testing.T) {
	for what, swap := range map[string]func(t *testing.T, name string){
		"another file": func(t *testing.T, name string) {
			write(t, name+".new", "data")
			check(t, os.Rename(name+".new", name))
		},
		"a link to the same file": func(t *testing.T, name string) {
			check(t, os.Rename(name, name+".old"))
			check(t, os.Symlink(filepath.Base(name)+".old", name))
		},
		"a directory": func(t *testing.T, name string) {
			check(t, os.Remove(name))
			check(t, os.Mkdir(name, 0o755))
		},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "d", "f")
		write(t, name, "data")
		it := one(t, dir, "d/f")
		swap(t, name)
		if src, err := it.Open(); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				src.Close()
			}
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "d", "f"), "data")
	if _, err := one(t, dir, "d").Open(); err == nil {
		t.Error("a directory was opened as a file")
	}
}

func TestSourceChanges(t *testing.T) {
	const data = "0123456789"
	for what, tt := range map[string]struct {
		change func(t *testing.T, name string)
		reads  string // "" when Check must pass
		says   string
	}{
		"nothing":  {func(*testing.T, string) {}, data, ""},
		"grown":    {func(t *testing.T, name string) { appendTo(t, name, "more") }, data, "from 10 to 14"},
		"shrunk":   {func(t *testing.T, name string) { check(t, os.Truncate(name, 4)) }, data[:4], "from 10 to 4"},
		"emptied":  {func(t *testing.T, name string) { check(t, os.Truncate(name, 0)) }, "", "from 10 to 0"},
		"modified": {func(t *testing.T, name string) { check(t, os.Chtimes(name, time.Time{}, time.Unix(7, 0))) }, data, "modified"},
		"back to size": {func(t *testing.T, name string) {
			check(t, os.Truncate(name, 4))
			check(t, os.Truncate(name, 10))
			check(t, os.Chtimes(name, time.Time{}, time.Unix(8, 1)))
		}, "0123\x00\x00\x00\x00\x00\x00", "modified"},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		write(t, name, data)
		src, err := one(t, dir, "f").Open()
		check(t, err)
		tt.change(t, name)
		got, err := io.ReadAll(src)
		check(t, err)
		if string(got) != tt.reads {
			t.Errorf("%s: read %q, want %q", what, got, tt.reads)
		}
		err = src.Check()
		if tt.says == "" {
			check(t, err)
		} else if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", what, err)
		}
		check(t, src.Close())
	}
}

func appendTo(t *testing.T, name, data string) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteString(data)
	check(t, err)
	check(t, f.Close())
}

// A change between the walk and opening is no harm: what counts is what was opened.
func TestSourceIsFresh(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	write(t, name, "old")
	it := one(t, dir, "f")
	appendTo(t, name, " and new")
	if got := readItem(t, it); got != "old and new" {
		t.Errorf("read %q", got)
	}
}

func TestSourceHalfRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "0123456789")
	src, err := one(t, dir, "f").Open()
	check(t, err)
	defer src.Close()
	if _, err := io.ReadFull(src, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := src.Check(); !errors.Is(err, ErrChanged) {
		t.Errorf("Check of a file that was half read: %v", err)
	}
}
