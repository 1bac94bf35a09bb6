package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// What judges the archive must itself be able to find fault.
func TestChecksFindFault(t *testing.T) {
	whole := versioned("f", 7, 3000)
	if v, err := versionOf("f", whole); v != 7 || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
	flipped := versioned("f", 7, 3000)
	flipped[2000] ^= 1
	for name, b := range map[string][]byte{"short": whole[:2999], "flipped": flipped, "empty": nil, "long": append(versioned("f", 7, 1), 0)} {
		if _, err := versionOf("f", b); err == nil {
			t.Errorf("%s content passes for a version", name)
		}
	}

	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	secret := noise("a secret", 4000)
	write(t, raw, "front"+string(secret[1024:1100])+"a-name")
	if gone(raw, secret) == nil || gone(raw, nil, "a-name") == nil {
		t.Error("what is still in a file passes for gone")
	}
	if err := gone(raw, noise("another", 4000), "b-name"); err != nil {
		t.Error(err)
	}

	want, got := filepath.Join(dir, "want"), filepath.Join(dir, "got")
	write(t, filepath.Join(want, "d/f"), "content")
	write(t, filepath.Join(want, "g"), "content")
	for _, c := range []struct {
		file, text           string
		whole, partly, older bool // whether it passes as that
	}{
		{"d/f", "conte", false, false, false},
		{"d/f", olderText, false, false, true},
		{"stray", "content", false, false, false},
		{".lbxtmp-1-2", "conte", false, true, true},
	} {
		if err := os.RemoveAll(got); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(got, c.file), c.text)
		if fi, err := os.Stat(filepath.Join(want, c.file)); err == nil {
			if err := os.Chtimes(filepath.Join(got, c.file), fi.ModTime(), fi.ModTime()); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range []struct{ pass, partly, older bool }{{c.whole, false, false}, {c.partly, true, false}, {c.older, true, true}} {
			if err := sameTree(want, got, m.partly, m.older); (err == nil) != m.pass {
				t.Errorf("%s with %q, partly %v, older %v: %v", c.file, c.text, m.partly, m.older, err)
			}
		}
	}
	if err := onlyFiles(want, "d"); err == nil || !strings.Contains(err.Error(), "g was left behind") {
		t.Errorf("a stray file: %v", err)
	}
	for _, r := range []result{
		{code: 2, err: "panic: x\n\ngoroutine 1 [running]:"}, {code: 1}, {code: 15, err: "lockbox: error: damaged"}, {err: "lockbox: error: no"},
	} {
		if r.orderly() == nil {
			t.Errorf("exit %d with %q passes for orderly", r.code, r.err)
		}
	}
}

// The tracer meets exactly one call, whichever thread makes it.
func TestTracer(t *testing.T) {
	if why := traceUnavailable(); why != "" {
		t.Skip(why)
	}
	touch, err := filepath.EvalSymlinks("/bin/touch")
	if err != nil {
		t.Skip("there is no /bin/touch")
	}
	dir := t.TempDir()
	spec := func(s string) string { return `{"Report":"` + filepath.Join(dir, "report") + `"` + s + `}` }
	file := filepath.Join(dir, "f")
	if code := traceMain(spec(`,"N":1,"Kill":true`), []string{touch, file}); code != 137 {
		t.Skipf("processes cannot be traced here: %d", code)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the call before which the process was killed was made")
	}
	if code := traceMain(spec(`,"N":1,"Errno":28`), []string{touch, file}); code != 1 {
		t.Errorf("a failed call: exit %d", code)
	}
	if code := traceMain(spec(`,"N":1000`), []string{touch, file}); code != 0 {
		t.Errorf("an undisturbed run: exit %d", code)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
