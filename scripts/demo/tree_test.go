package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// plant makes a small tree.
func plant(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := write(filepath.Join(dir, "d", "f"), []byte("text"), 0o640, time.Unix(1_700_000_000, 123)); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Symlink("f", filepath.Join(dir, "d", "l")); err != nil {
			t.Fatal(err)
		}
		// A link's own time cannot be set with the standard library; the walks below take it from one tree.
	}
	if err := stamp(filepath.Join(dir, "d"), 0o755, time.Unix(1_600_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCompare shows that the comparison sees each kind of difference, and none where there is none.
func TestCompare(t *testing.T) {
	ctx := context.Background()
	f := filepath.Join("d", "f")
	for _, c := range []struct {
		name, want string
		change     func(dir string) error
	}{
		{"nothing", "", func(string) error { return nil }},
		{"bytes", "other bytes", func(dir string) error {
			return write(filepath.Join(dir, f), []byte("Text"), 0o640, time.Unix(1_700_000_000, 123))
		}},
		{"size", "5 bytes", func(dir string) error {
			return write(filepath.Join(dir, f), []byte("text!"), 0o640, time.Unix(1_700_000_000, 123))
		}},
		{"mode", "mode", func(dir string) error { return os.Chmod(filepath.Join(dir, f), 0o600) }},
		{"a nanosecond", "modified", func(dir string) error {
			return os.Chtimes(filepath.Join(dir, f), time.Time{}, time.Unix(1_700_000_000, 124))
		}},
		{"directory time", "modified", func(dir string) error {
			return os.Chtimes(filepath.Join(dir, "d"), time.Time{}, time.Unix(1_600_000_001, 0))
		}},
		{"missing", "missing", func(dir string) error { return os.Remove(filepath.Join(dir, f)) }},
		{"one more", "not in the source", func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) }},
		{"kind", "kind", func(dir string) error {
			if err := os.Remove(filepath.Join(dir, f)); err != nil {
				return err
			}
			return os.Mkdir(filepath.Join(dir, f), 0o700)
		}},
		{"target", "target", func(dir string) error {
			l := filepath.Join(dir, "d", "l")
			if err := os.Remove(l); err != nil {
				return err
			}
			return os.Symlink("elsewhere", l)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && (c.name == "mode" || c.name == "target") {
				t.Skip("not compared on Windows")
			}
			a, b := plant(t), plant(t)
			if err := c.change(b); err != nil {
				t.Fatal(err)
			}
			want, err := walk(ctx, a, true)
			if err != nil {
				t.Fatal(err)
			}
			got, err := walk(ctx, b, false)
			if err != nil {
				t.Fatal(err)
			}
			if l, ok := got.entries["d/l"]; ok {
				l.mtime = want.entries["d/l"].mtime
				got.entries["d/l"] = l
			}
			err = want.same(ctx, got)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
}
