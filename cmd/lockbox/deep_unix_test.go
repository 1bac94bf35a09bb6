//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// digDown makes directories of one name below each other, with a file in each, and names them as they are stored.
func digDown(t *testing.T, dir, name string, depth int) (stored []string) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	path := filepath.Base(dir)
	for range depth {
		must(at.Mkdir(name, 0o755))
		sub, err := at.OpenRoot(name)
		must(err)
		must(at.Close())
		at = sub
		must(at.WriteFile("f", []byte("deep"), 0o644))
		path += "/" + name
		stored = append(stored, path, path+"/f")
	}
	must(at.Close())
	return stored
}

// Situation 27 and beyond: 2,000 directories below each other are stored, listed by pattern, extracted, compared by
// what is stored of them, and removed.
func TestVeryDeepTree(t *testing.T) {
	const depth = 2000
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "t"), 0o755); err != nil {
		t.Fatal(err)
	}
	stored := digDown(t, filepath.Join(dir, "t"), "d", depth)
	for _, jobs := range []string{"1", "4"} {
		a := "a" + jobs + ".lbx"
		mustRun(t, dir, "add", a, "t", "-j", jobs)
		if got := strings.Count(mustRun(t, dir, "list", a, "-0"), "\x00"); got != len(stored)+1 {
			t.Errorf("-j %s: %d entries are stored, want %d", jobs, got, len(stored)+1)
		}
		if got := strings.Count(mustRun(t, dir, "list", a, "**/f", "-0"), "\x00"); got != depth {
			t.Errorf("-j %s: the pattern names %d entries", jobs, got)
		}
	}
	mustRun(t, dir, "extract", "a1.lbx", "-d", "out")
	mustRun(t, dir, "add", "again.lbx", "-C", "out", "t")
	if mustRun(t, dir, "list", "again.lbx", "--json") != mustRun(t, dir, "list", "a4.lbx", "--json") {
		t.Error("another tree came out")
	}
	mustRun(t, dir, "remove", "a1.lbx", stored[len(stored)/2], stored[len(stored)-1])
	if got := strings.Count(mustRun(t, dir, "list", "a1.lbx", "-0"), "\x00"); got != len(stored)/2+1 {
		t.Errorf("%d entries are left", got)
	}
	mustRun(t, dir, "verify", "--full", "a1.lbx")
}

// Components of 255 bytes, down to paths that cannot be stored any more: the first of these is named, exit 3, and all
// above it is stored and comes back.
func TestPathsBeyondTheLimit(t *testing.T) {
	name := strings.Repeat("x", 255)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "t"), 0o755); err != nil {
		t.Fatal(err)
	}
	stored := digDown(t, filepath.Join(dir, "t"), name, 70)
	const longest = 16 << 10
	fits := 1
	for _, path := range stored {
		if len(path) <= longest {
			fits++
		}
	}
	for _, jobs := range []string{"1", "4"} {
		a := fmt.Sprintf("a%s.lbx", jobs)
		code, _, errs := lockbox(t, dir, "add", a, "t", "-j", jobs)
		if code != 3 || strings.Count(errs, "left out") != 1 || !strings.Contains(errs, fmt.Sprintf("more than %d", longest)) {
			t.Errorf("-j %s: exit %d: %.300s", jobs, code, errs)
		}
		if got := strings.Count(mustRun(t, dir, "list", a, "-0"), "\x00"); got != fits || fits == len(stored)+1 {
			t.Errorf("-j %s: %d entries are stored, %d fit", jobs, got, fits)
		}
	}
	mustRun(t, dir, "extract", "a1.lbx", "-d", "out")
	mustRun(t, dir, "add", "again.lbx", "-C", "out", "t")
	if mustRun(t, dir, "list", "again.lbx", "--json") != mustRun(t, dir, "list", "a4.lbx", "--json") {
		t.Error("another tree came out")
	}
}
