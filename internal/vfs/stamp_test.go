package vfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// When a file came to be stays when it is written to and renamed, and is another for a copy. What keeps no such time says 0.
func TestBornOf(t *testing.T) {
	dir := t.TempDir()
	born := func(name string) int64 {
		t.Helper()
		f, err := OS().Open(filepath.Join(dir, name), false)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return BornOf(f)
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	first := born("a")
	if first == 0 {
		t.Skip("this file system does not tell when a file came to be")
	}
	for range 50 { // the system's clock may be coarse
		time.Sleep(time.Millisecond)
		if write("b"); born("b") != first {
			break
		}
		if err := os.Remove(filepath.Join(dir, "b")); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if got := born("c"); got != first {
		t.Errorf("%d after writing and renaming, %d before", got, first)
	}
	if born("b") <= first {
		t.Error("a later file is not younger")
	}
	mem := Mem()
	mem.Put("m", nil)
	f, err := mem.Open("m", false)
	if err != nil {
		t.Fatal(err)
	}
	if BornOf(f) != 0 {
		t.Error("a file in memory has a time")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
