//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// withFiles runs the program with a limit of open files.
func withFiles(t *testing.T, limit int, dir string, args ...string) (code int, out string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lockbox")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit), program}, args...)...)
	cmd.Dir = dir
	b, err := cmd.CombinedOutput()
	return exitStatus(t, err), string(b)
}

// A deep tree is extracted with few open files, whatever exists already; where there are too few for anything, a hint says so.
func TestExtractWithFewOpenFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "t"), 0o755); err != nil {
		t.Fatal(err)
	}
	digDown(t, filepath.Join(dir, "t"), "d", 150)
	mustRun(t, dir, "add", "a.lbx", "t")
	for _, jobs := range []string{"1", "4"} {
		for _, more := range []string{"-q", "--overwrite", "--resume", "--skip-existing"} {
			if code, out := withFiles(t, 60, dir, "extract", "a.lbx", "-d", "out"+jobs, "-j", jobs, more); code != 0 {
				t.Errorf("-j %s %s: exit %d: %.400s", jobs, more, code, out)
			}
		}
	}
	mustRun(t, dir, "diff", "a.lbx", "out4", "--content")
	for _, limit := range []int{16, 20, 28} { // with fewer the runtime itself gives up
		code, out := withFiles(t, limit, dir, "extract", "a.lbx", "-d", "out1", "--overwrite")
		if code != 0 && (!strings.Contains(out, "too many open files") || strings.Count(out, "ulimit -n") != 1) {
			t.Errorf("%d files: exit %d: %.400s", limit, code, out)
		}
	}
}

// When no more files can be opened, the command ends; it does not leave out whatever it cannot open.
func TestTooManyOpenFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "first"), []byte("first"))
	mustRun(t, dir, "add", "a.lbx", "first")
	before := mustRun(t, dir, "info", "a.lbx", "--json")
	deep := "tree"
	for i := range 100 {
		write(t, filepath.Join(dir, deep, "f"), []byte(fmt.Sprint(i)))
		deep = filepath.Join(deep, "d")
	}
	for _, jobs := range []string{"1", "4"} {
		for _, args := range [][]string{{"a.lbx"}, {"new.lbx"}, {"a.lbx", "--dry-run"}} {
			code, got := withFiles(t, 40, dir, append(append([]string{"add", "-j", jobs}, args...), "tree")...)
			if code != 1 || !strings.Contains(got, "too many open files") || !strings.Contains(got, "ulimit -n") {
				t.Errorf("%v -j %s: exit %d: %s", args, jobs, code, got)
			}
			if strings.Contains(got, "left out") {
				t.Errorf("%v -j %s: %s", args, jobs, got)
			}
		}
	}
	if after := mustRun(t, dir, "info", "a.lbx", "--json"); root(t, after) != root(t, before) {
		t.Errorf("the archive changed:\n%s%s", before, after)
	}
	if got := files(t, dir); strings.Contains(got, "new.lbx") || strings.Contains(got, ".lockbox-") {
		t.Errorf("stray files: %s", got)
	}
}

// Situation 22: a gigabyte that is a few bytes in the archive passes through a small part of it in memory.
func TestMemoryOfABomb(t *testing.T) {
	const size, most = 1 << 30, 512 << 20
	dir := t.TempDir()
	add := command(t, dir, "add", "a.lbx", "-", "--stdin-name", "zeros")
	add.Stdin = io.LimitReader(zeros{}, size)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cat := command(t, dir, "cat", "a.lbx", "zeros")
	var n count
	cat.Stdout = &n
	if err := cat.Run(); err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	for _, cmd := range []*exec.Cmd{add, cat} {
		used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
		if runtime.GOOS != "darwin" {
			used <<= 10 // it counts in kilobytes elsewhere
		}
		if used > most {
			t.Errorf("%s took %d bytes of memory", cmd.Args[1], used)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type count int64

func (c *count) Write(p []byte) (int, error) {
	*c += count(len(p))
	return len(p), nil
}
