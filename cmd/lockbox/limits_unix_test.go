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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lockbox")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	for _, jobs := range []string{"1", "4"} {
		for _, args := range [][]string{{"a.lbx"}, {"new.lbx"}, {"a.lbx", "--dry-run"}} {
			line := append([]string{"-c", `ulimit -n 40; exec "$0" "$@"`, program, "add", "-j", jobs}, args...)
			cmd := exec.Command("sh", append(line, "tree")...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			code, got := exitStatus(t, err), string(out)
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
