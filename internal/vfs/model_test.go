package vfs

import (
	"bytes"
	"errors"
	"io"
	"math"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// TestSameBehaviour performs random operations on a file of the host and on one in memory; both must
// answer alike, and like a plain slice.
func TestSameBehaviour(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		name := filepath.Join(dir, "f")
		var handles [2][3]File // of each system: two writable, one not
		for i, system := range []FS{OS(), Mem()} {
			temp, err := system.CreateTemp(name, 0o644)
			if err == nil {
				err = temp.Publish()
			}
			if err != nil {
				t.Fatal(err)
			}
			handles[i][0] = temp
			for h := 1; h < 3; h++ {
				if handles[i][h], err = system.Open(name, h == 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		defer func() {
			for _, files := range handles {
				for _, f := range files {
					_ = f.Close() // a closed one says so
				}
			}
			if err := OS().Remove(name); err != nil {
				t.Fatal(err)
			}
		}()

		var model []byte
		smallOff := rapid.Int64Range(0, 40)
		lockOff := rapid.OneOf(rapid.Int64Range(base, base+6), rapid.Int64Range(math.MaxInt64-4, math.MaxInt64))
		lockLen := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Just(int64(math.MaxInt64-base)))
		pick := func(t *rapid.T) (a, b File) {
			h := rapid.IntRange(0, 2).Draw(t, "handle")
			return handles[0][h], handles[1][h]
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				a, b := pick(t)
				off, p := smallOff.Draw(t, "off"), rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "bytes")
				na, ea := a.WriteAt(p, off)
				nb, eb := b.WriteAt(p, off)
				alike(t, na == nb, ea, eb)
				if ea == nil {
					model = append(model, make([]byte, max(0, int(off)+len(p)-len(model)))...)
					copy(model[off:], p)
				}
			},
			"truncate": func(t *rapid.T) {
				a, b := pick(t)
				size := smallOff.Draw(t, "size")
				ea, eb := a.Truncate(size), b.Truncate(size)
				alike(t, true, ea, eb)
				if ea == nil {
					model = append(model[:min(len(model), int(size))], make([]byte, max(0, int(size)-len(model)))...)
				}
			},
			"read": func(t *rapid.T) {
				a, b := pick(t)
				off, n := smallOff.Draw(t, "off"), rapid.IntRange(1, 30).Draw(t, "n")
				pa, pb := make([]byte, n), make([]byte, n)
				na, ea := a.ReadAt(pa, off)
				nb, eb := b.ReadAt(pb, off)
				alike(t, na == nb && bytes.Equal(pa, pb) && (ea == io.EOF) == (eb == io.EOF), ea, eb)
				if ea == nil || ea == io.EOF {
					if want := model[min(int(off), len(model)):min(int(off)+n, len(model))]; !bytes.Equal(pa[:na], want) {
						t.Fatalf("read %q, want %q", pa[:na], want)
					}
				}
			},
			"lock": func(t *rapid.T) {
				a, b := pick(t)
				off, n, x := lockOff.Draw(t, "off"), lockLen.Draw(t, "n"), rapid.Bool().Draw(t, "exclusive")
				la, ea := a.TryLock(off, n, x)
				lb, eb := b.TryLock(off, n, x)
				alike(t, la == lb, ea, eb)
			},
			"unlock": func(t *rapid.T) {
				a, b := pick(t)
				off, n := lockOff.Draw(t, "off"), lockLen.Draw(t, "n")
				alike(t, true, a.Unlock(off, n), b.Unlock(off, n))
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					a, b := pick(t)
					alike(t, true, a.Close(), b.Close())
				}
			},
			"": func(t *rapid.T) {
				for h := range 3 {
					sa, ea := handles[0][h].Size()
					sb, eb := handles[1][h].Size()
					alike(t, sa == sb && (ea != nil || sa == int64(len(model))), ea, eb)
				}
			},
		})
	})
}

func alike(t *rapid.T, same bool, a, b error) {
	t.Helper()
	if !same || (a == nil) != (b == nil) {
		t.Fatalf("the systems differ: %v and %v", a, b)
	}
	for _, kind := range []error{ErrReadOnly, ErrLockRange} {
		if errors.Is(a, kind) != errors.Is(b, kind) {
			t.Fatalf("the systems differ in kind: %v and %v", a, b)
		}
	}
}
