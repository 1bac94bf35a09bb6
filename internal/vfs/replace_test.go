package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report")
	for _, text := range []string{"first", "second, longer", "3"} {
		ok(t, ReplaceFile(name, 0o600, []byte(text)))
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if es, err := os.ReadDir(dir); err != nil || len(es) != 1 {
		t.Errorf("%v, %v", es, err)
	}
	if err := ReplaceFile(filepath.Join(dir, "none", "x"), 0o600, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	ok(t, CheckReplace(name))
	ok(t, CheckReplace(filepath.Join(dir, "new")))
	if es, err := os.ReadDir(dir); err != nil || len(es) != 1 {
		t.Errorf("looking left something: %v, %v", es, err)
	}
	if err := CheckReplace(filepath.Join(dir, "none", "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	ok(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	if err := CheckReplace(filepath.Join(dir, "sub")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a directory: %v", err)
	}
	if err := ReplaceFile(filepath.Join(dir, "sub"), 0o600, nil); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a directory: %v", err)
	}
}

// Whoever reads while others write sees the whole of what one of them has written.
func TestReplaceFileWhileRead(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "metrics")
	ok(t, ReplaceFile(name, 0o644, []byte(strings.Repeat("x", 100))))
	var wg sync.WaitGroup
	for _, c := range []string{"a", "b"} {
		wg.Go(func() {
			for range 50 {
				ok(t, ReplaceFile(name, 0o644, []byte(strings.Repeat(c, 10_000))))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for end := false; !end; {
		select {
		case <-done:
			end = true
		default:
		}
		b, err := os.ReadFile(name)
		if err != nil || len(b) == 0 || strings.Trim(string(b), string(b[0])) != "" || len(b) != 100 && len(b) != 10_000 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	if es, err := os.ReadDir(dir); err != nil || len(es) != 1 {
		t.Errorf("left behind: %v, %v", es, err)
	}
}
