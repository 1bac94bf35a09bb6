package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Situation 1: there is no free space at all. Reading works, a change works or leaves everything as it was.
func TestNoSpaceLeft(t *testing.T) {
	dir, disk := t.TempDir(), t.TempDir()
	mount(t, "none", disk, "tmpfs", 0, "size=4m")
	one, two := noise(700_000, "one"), noise(700_000, "two")
	write(t, filepath.Join(dir, "tree", "one"), one)
	write(t, filepath.Join(dir, "tree", "two"), two)
	write(t, filepath.Join(dir, "more"), noise(1_000_000, "more"))
	a := filepath.Join(disk, "a.lbx")
	mustRun(t, dir, "add", a, "tree")
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 4096); err == nil; {
		_, err = fill.Write(b)
	}
	fill.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	before := root(t, mustRun(t, dir, "info", a, "--json"))

	if got := mustRun(t, dir, "list", a); got != "tree/\ntree/one\ntree/two\n" {
		t.Errorf("listed are %q", got)
	}
	mustRun(t, dir, "verify", "--full", a)
	if mustRun(t, dir, "cat", a, "tree/one") != string(one) {
		t.Error("cat prints something else")
	}
	mustRun(t, dir, "extract", a, "-d", "out")
	if got, err := os.ReadFile(filepath.Join(dir, "out", "tree", "two")); err != nil || string(got) != string(two) {
		t.Errorf("extracted are %d bytes, %v", len(got), err)
	}

	// What does not fit changes nothing, and says why.
	code, _, errs := lockbox(t, dir, "add", a, "more")
	if code != 1 || !strings.Contains(errs, "no space left") {
		t.Errorf("add: exit %d: %s", code, errs)
	}
	if code, _, errs := lockbox(t, dir, "extract", a, "-d", filepath.Join(disk, "out")); code != 1 || !strings.Contains(errs, "no space left") || !strings.Contains(errs, "go on with --resume") {
		t.Errorf("extract to the full disk: exit %d: %s", code, errs)
	}
	if root(t, mustRun(t, dir, "info", a, "--json")) != before {
		t.Error("the archive changed")
	}

	// Removing makes space inside the archive, and with compact outside of it.
	code, _, errs = lockbox(t, dir, "remove", a, "tree/one")
	gone := code == 0
	if code != 0 && (code != 1 || !strings.Contains(errs, "no space left")) {
		t.Errorf("remove: exit %d: %s", code, errs)
	}
	if listed := mustRun(t, dir, "list", a); strings.Contains(listed, "tree/one") == gone {
		t.Errorf("remove: exit %d, and listed are %q", code, listed)
	}
	mustRun(t, dir, "verify", "--full", a)
	if mustRun(t, dir, "cat", a, "tree/two") != string(two) {
		t.Error("cat prints something else")
	}
	if got := files(t, disk); strings.Contains(got, ".lockbox-") || strings.Contains(got, ".lbxtmp-") {
		t.Errorf("stray files: %s", got)
	}
}
