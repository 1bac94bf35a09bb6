package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// fillingFS is a disk on which the first file opened for writing meets no space left after some writes.
type fillingFS struct {
	vfs.FS
	writes int64 // that succeed
	opened int
	before func(opened int) // called before each file that is opened for writing, from the second on
}

func (f *fillingFS) Open(name string, writable bool) (vfs.File, error) {
	if !writable {
		return f.FS.Open(name, false)
	}
	if f.opened++; f.opened > 1 {
		f.before(f.opened)
	}
	file, err := f.FS.Open(name, true)
	if err != nil || f.opened > 1 {
		return file, err
	}
	full := &fillingFile{File: file}
	full.left.Store(f.writes)
	return full, nil
}

type fillingFile struct {
	vfs.File
	left atomic.Int64
}

func (f *fillingFile) WriteAt(p []byte, off int64) (int, error) {
	if f.left.Add(-1) < 0 {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

// A command that tries a second time because the disk was full means the state that --expect-root names in that try as
// well, or what its first try has left of it, and nothing that somebody else has committed in between.
func TestExpectedRootOfASecondTry(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		write(t, filepath.Join(dir, "tree", fmt.Sprintf("f%02d", i)), noise(100_000, fmt.Sprint(i)))
	}
	write(t, filepath.Join(dir, "other"), []byte("other"))
	made := filepath.Join(dir, "made.lbx")
	mustRun(t, dir, "add", made, "tree", "other")
	mustRun(t, dir, "remove", made, "tree/f03", "tree/f07", "tree/f11", "tree/f1*")
	whole, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	expected := root(t, mustRun(t, dir, "info", made, "--json"))
	state := func(name string) string {
		ar, err := store.Open(t.Context(), name, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer ar.Close()
		return ar.Root().String()
	}
	commit := func(name string) string {
		ar, err := store.OpenWrite(t.Context(), name, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = transaction(t.Context(), ar, func(tx *store.Tx) error {
			p, err := pathsafe.Parse("other")
			if err == nil {
				err = tx.Remove(p)
			}
			return err
		})
		if err == nil {
			err = ar.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return ar.Root().String()
	}
	for _, args := range [][]string{{"compact", ""}, {"remove", "", "tree/f05"}, {"move", "", "tree/f05", "tree/new"}} {
		moved, stayed, second, unknown := 0, 0, 0, 0
		for _, writes := range []int64{0, 4, 8, 12, 40} {
			for meddle := 0; meddle <= 3; meddle++ { // before which opening somebody else commits; 0: nobody does
				name := filepath.Join(dir, fmt.Sprintf("%s-%d-%d.lbx", args[0], writes, meddle))
				write(t, name, whole)
				disk := &fillingFS{FS: vfs.OS(), writes: writes}
				left := ""
				disk.before = func(opened int) {
					if now := state(name); opened == 2 && now == expected {
						stayed++
					} else if opened == 2 {
						moved++
					}
					if opened == meddle {
						left = commit(name)
					}
				}
				args[1] = name
				var out, errs bytes.Buffer
				code := newApp(system{
					stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }, files: disk,
				}).run(context.Background(), append(args, "--expect-root", expected))
				switch {
				case disk.opened == 1: // it did not meet the full disk
				case strings.Contains(errs.String(), "it is not known whether the change was made"):
					if unknown++; code != 1 || disk.opened != 2 {
						t.Errorf("%v, full after %d writes: exit %d after %d openings", args, writes, code, disk.opened)
					}
				case left == "":
					if second++; code != 0 {
						t.Errorf("%v, full after %d writes: exit %d: %s", args, writes, code, &errs)
					}
				case code != int(exitAuth):
					// The commands whose third opening makes space ready report that the disk was full.
					if code != 1 || args[0] == "compact" || !strings.Contains(errs.String(), "no space left") {
						t.Errorf("%v, full after %d writes, a commit before opening %d: exit %d: %s", args, writes, meddle, code, &errs)
					}
					fallthrough
				default:
					if state(name) != left {
						t.Errorf("%v, full after %d writes: what was committed before opening %d was changed", args, writes, meddle)
					}
				}
				if code, out, _ := inProcess(t.Context(), "verify", "--full", name); code != 0 {
					t.Errorf("%v, full after %d writes: %s", args, writes, out)
				}
			}
		}
		if stayed == 0 || second == 0 || unknown == 0 || args[0] == "compact" && moved == 0 {
			t.Errorf("%s: first tries that left the state %d, that moved it %d, of unknown outcome %d; second ones %d", args[0], stayed, moved, unknown, second)
		}
	}
}
