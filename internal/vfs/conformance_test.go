package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// system is a file system under test with a directory of its own; list names what stands there.
type system struct {
	FS
	dir  string
	list func() []string
}

func (s system) path(name string) string { return filepath.Join(s.dir, name) }

// create makes a published file and returns it open.
func (s system) create(t *testing.T, name, content string) Temp {
	t.Helper()
	f, err := s.CreateTemp(s.path(name), 0o644)
	ok(t, err)
	write(t, f, content, 0)
	ok(t, f.Sync())
	ok(t, f.Publish())
	t.Cleanup(func() { _ = f.Close() }) // most tests close it themselves
	return f
}

func (s system) open(t *testing.T, name string, writable bool) File {
	t.Helper()
	f, err := s.Open(s.path(name), writable)
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// systems calls test with every implementation.
func systems(t *testing.T, test func(t *testing.T, s system)) {
	onDisk := func(inner FS) func(t *testing.T) system {
		return func(t *testing.T) system {
			dir := t.TempDir()
			return system{inner, dir, func() []string {
				entries, err := os.ReadDir(dir)
				ok(t, err)
				var names []string
				for _, e := range entries {
					names = append(names, e.Name())
				}
				return names
			}}
		}
	}
	inMemory := func(t *testing.T) system {
		m := Mem()
		return system{m, "d", func() []string {
			var names []string
			for _, n := range m.Names() {
				names = append(names, strings.TrimPrefix(n, "d/"))
			}
			return names
		}}
	}
	simulated := func(sector int, named bool) func(t *testing.T) system {
		return func(t *testing.T) system {
			s := NewSim(sector)
			s.NamedTemps = named
			return system{s, "d", func() []string {
				var names []string
				for _, n := range s.Names() {
					names = append(names, strings.TrimPrefix(n, "d/"))
				}
				return names
			}}
		}
	}
	makers := map[string]func(t *testing.T) system{"os": onDisk(OS()), "mem": inMemory,
		"sim": simulated(512, false), "sim with named temps": simulated(4096, true)}
	for name, inner := range osVariants {
		makers[name] = onDisk(inner)
	}
	for _, name := range []string{"os", "mem"} {
		plain := makers[name]
		makers["counting "+name] = func(t *testing.T) system {
			s := plain(t)
			s.FS, _ = Counting(s.FS)
			return s
		}
	}
	for name, makeSystem := range makers {
		t.Run(name, func(t *testing.T) { test(t, makeSystem(t)) })
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func write(t *testing.T, f File, s string, off int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), off); n != len(s) || err != nil {
		t.Fatalf("WriteAt: %d, %v", n, err)
	}
}

func content(t *testing.T, f File) string {
	t.Helper()
	size, err := f.Size()
	ok(t, err)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	ok(t, err)
	return string(b)
}

func locked(t *testing.T, f File, off, n int64, exclusive, want bool) {
	t.Helper()
	if got, err := f.TryLock(off, n, exclusive); got != want || err != nil {
		t.Fatalf("TryLock(%d, %d, %v) = %v, %v; want %v", off, n, exclusive, got, err, want)
	}
}

func TestReadWriteTruncate(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f := s.create(t, "a", "hello")
		write(t, f, "world", 7)
		if got := content(t, f); got != "hello\x00\x00world" {
			t.Fatalf("content %q", got)
		}
		ok(t, f.Truncate(3))
		ok(t, f.Truncate(6))
		if got := content(t, f); got != "hel\x00\x00\x00" {
			t.Fatalf("bytes that were cut off came back: %q", got)
		}
		buf := make([]byte, 4)
		if n, err := f.ReadAt(buf, 4); n != 2 || err != io.EOF {
			t.Fatalf("read across the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(buf, 100); n != 0 || err != io.EOF {
			t.Fatalf("read past the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(nil, 100); n != 0 || err != nil {
			t.Fatalf("empty read: %d, %v", n, err)
		}
		if n, err := f.WriteAt(nil, 100); n != 0 || err != nil {
			t.Fatalf("empty write: %d, %v", n, err)
		}
		if size, err := f.Size(); size != 6 || err != nil {
			t.Fatalf("an empty write changed the size to %d, %v", size, err)
		}
		for what, err := range map[string]error{
			"read":     errOf(f.ReadAt(buf, -1)),
			"write":    errOf(f.WriteAt(buf, -1)),
			"truncate": f.Truncate(-1),
		} {
			if err == nil || err == io.EOF {
				t.Errorf("%s at -1: %v", what, err)
			}
		}
		fi, err := f.Stat()
		ok(t, err)
		if fi.Size() != 6 || !fi.Mode().IsRegular() {
			t.Fatalf("stat: %d, %v", fi.Size(), fi.Mode())
		}
	})
}

func errOf(_ int, err error) error { return err }

func TestReadOnlyHandle(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		s.create(t, "a", "x")
		f := s.open(t, "a", false)
		is(t, errOf(f.WriteAt([]byte("y"), 0)), ErrReadOnly)
		is(t, f.Truncate(0), ErrReadOnly)
		_, err := f.TryLock(0, 1, true)
		is(t, err, ErrReadOnly)
		locked(t, f, 0, 1, false, true)
		if content(t, f) != "x" {
			t.Fatal("content changed")
		}
	})
}

func TestPublish(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f, err := s.CreateTemp(s.path("a"), 0o600)
		ok(t, err)
		write(t, f, "first", 0)
		_, err = s.Open(s.path("a"), false)
		is(t, err, fs.ErrNotExist)
		if same, err := f.SameFile(s.path("a")); same || err != nil {
			t.Fatalf("SameFile before Publish: %v, %v", same, err)
		}
		other, err := s.CreateTemp(s.path("a"), 0o600)
		ok(t, err)
		write(t, other, "second", 0)

		ok(t, f.Publish())
		if same, err := f.SameFile(s.path("a")); !same || err != nil {
			t.Fatalf("SameFile after Publish: %v, %v", same, err)
		}
		is(t, f.Publish(), fs.ErrInvalid)
		write(t, f, "more", 5)

		is(t, other.Publish(), fs.ErrExist)
		ok(t, other.Close())
		is(t, other.Publish(), fs.ErrClosed)
		if got := content(t, s.open(t, "a", false)); got != "firstmore" {
			t.Fatalf("content %q", got)
		}
		ok(t, f.Close())
		is(t, f.Publish(), fs.ErrClosed)
		if got := s.list(); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("left behind: %q", got)
		}
		fi, err := s.open(t, "a", false).Stat()
		ok(t, err)
		if fi.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			t.Fatalf("mode %v, more than asked for", fi.Mode())
		}
	})
}

func TestCloseWithoutPublish(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f, err := s.CreateTemp(s.path("a"), 0o644)
		ok(t, err)
		write(t, f, "x", 0)
		ok(t, f.Close())
		if got := s.list(); len(got) != 0 {
			t.Fatalf("left behind: %q", got)
		}
	})
}

func TestUnusualNames(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		for _, name := range []string{"with space", "-rf", "ünï", "\u202etxt", ".lockbox-mine", strings.Repeat("n", 255)} {
			f := s.create(t, name, name)
			if got := content(t, s.open(t, name, false)); got != name {
				t.Errorf("%q holds %q", name, got)
			}
			if same, err := f.SameFile(s.path(name)); !same || err != nil {
				t.Errorf("%q: SameFile %v, %v", name, same, err)
			}
			ok(t, f.Close())
			ok(t, s.Remove(s.path(name)))
		}
		for _, name := range []string{"", ".", "..", "x/", "x/.", "x/.."} {
			if f, err := s.CreateTemp(s.dir+"/"+name, 0o644); err == nil {
				t.Errorf("CreateTemp(%q) succeeds", name)
				_ = f.Close()
			}
		}
	})
}

func TestNames(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f := s.create(t, "a", "x")
		names := func(want uint64) {
			t.Helper()
			if n, err := f.Names(); err != nil || n != want {
				t.Errorf("%d names, %v, want %d", n, err, want)
			}
		}
		names(1)
		if err := s.Link(s.path("a"), s.path("b")); errors.Is(err, ErrNoLinks) {
			t.Skip("no hard links here")
		} else {
			ok(t, err)
		}
		names(2)
		ok(t, s.Rename(s.path("b"), s.path("c")))
		names(2)
		ok(t, s.Remove(s.path("a")))
		names(1)
		ok(t, f.Close())
		_, err := f.Names()
		is(t, err, fs.ErrClosed)
	})
}

func TestSameFile(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f := s.create(t, "a", "x")
		again := s.open(t, "a", false)
		s.create(t, "b", "x")
		for name, want := range map[string]bool{"a": true, "b": false, "gone": false} {
			for _, h := range []File{f, again} {
				if got, err := h.SameFile(s.path(name)); got != want || err != nil {
					t.Errorf("%s: %v, %v; want %v", name, got, err, want)
				}
			}
		}
		ok(t, s.Remove(s.path("a")))
		s.create(t, "a", "x")
		if got, err := f.SameFile(s.path("a")); got || err != nil {
			t.Errorf("replaced: %v, %v", got, err)
		}
	})
}

func TestRemoveAndSyncDir(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		is(t, s.Remove(s.path("a")), fs.ErrNotExist)
		f := s.create(t, "a", "still here")
		ok(t, s.Remove(s.path("a")))
		ok(t, s.SyncDir(s.dir))
		if got := content(t, f); got != "still here" {
			t.Fatalf("an open handle reads %q after removal", got)
		}
		if got := s.list(); len(got) != 0 {
			t.Fatalf("left behind: %q", got)
		}
	})
}

func TestAfterClose(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f := s.create(t, "a", "x")
		ok(t, f.Close())
		_, serr := f.Size()
		_, terr := f.Stat()
		_, lerr := f.TryLock(0, 1, true)
		_, merr := f.SameFile(s.path("a"))
		for what, err := range map[string]error{
			"close": f.Close(), "read": errOf(f.ReadAt(make([]byte, 1), 0)), "write": errOf(f.WriteAt([]byte("y"), 0)),
			"truncate": f.Truncate(0), "sync": f.Sync(), "size": serr, "stat": terr, "lock": lerr, "unlock": f.Unlock(0, 1), "same": merr,
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
	})
}

const base = 1 << 62 // where archives lock

func TestLocks(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		a := s.create(t, "a", "x")
		b := s.open(t, "a", true)
		c := s.open(t, "a", false)

		locked(t, a, base, 1, true, true)
		locked(t, b, base, 1, true, false)
		locked(t, c, base, 1, false, false)
		locked(t, b, base+1, 1, true, true) // the neighbour is free
		locked(t, b, base-1, 1, true, true)
		ok(t, a.Unlock(base, 1))
		locked(t, b, base, 1, false, true)
		locked(t, c, base, 1, false, true)
		locked(t, a, base, 1, true, false)
		locked(t, a, base, 1, false, true)
		ok(t, a.Unlock(base, 1))
		ok(t, b.Unlock(base, 1))
		ok(t, c.Unlock(base, 1))

		// A wide exclusive lock meets one byte held anywhere in it, up to the last there is.
		locked(t, c, math.MaxInt64, 1, false, true)
		locked(t, a, base+1024, math.MaxInt64-base-1023, true, false)
		locked(t, a, base+1024, math.MaxInt64-base-1024, true, true)
		ok(t, c.Unlock(math.MaxInt64, 1))
		ok(t, a.Unlock(base+1024, math.MaxInt64-base-1024))
		locked(t, a, base+1024, math.MaxInt64-base-1023, true, true)
		locked(t, c, base+1<<40, 1, false, false)

		// Close releases what is left.
		ok(t, a.Close())
		locked(t, c, base+1<<40, 1, false, true)
		ok(t, b.Close())
		d := s.open(t, "a", true)
		locked(t, d, base+1, 1, true, true)
		locked(t, d, base-1, 1, true, true)
		if got := content(t, d); got != "x" {
			t.Fatalf("locking changed the content to %q", got)
		}
	})
}

func TestLockRangesRefused(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f := s.create(t, "a", "")
		for _, r := range []span{{0, 0}, {0, -1}, {-1, 1}, {2, math.MaxInt64}, {math.MaxInt64, 2}, {base, base + 1}} {
			got, err := f.TryLock(r.off, r.n, true)
			if got {
				t.Errorf("%v locked", r)
			}
			is(t, err, ErrLockRange)
		}
		locked(t, f, 10, 10, true, true)
		for _, r := range []span{{10, 10}, {0, 11}, {19, 1}, {15, 2}, {0, math.MaxInt64}} {
			for _, exclusive := range []bool{true, false} {
				_, err := f.TryLock(r.off, r.n, exclusive)
				is(t, err, ErrLockRange)
			}
		}
		for _, r := range []span{{10, 9}, {11, 9}, {0, 30}, {10, 0}, {30, 1}} {
			is(t, f.Unlock(r.off, r.n), ErrLockRange)
		}
		locked(t, f, 20, 1, true, true)
		ok(t, f.Unlock(10, 10))
		is(t, f.Unlock(10, 10), ErrLockRange)
		locked(t, s.open(t, "a", true), 10, 10, true, true)
	})
}

func TestCounting(t *testing.T) {
	f, c := Counting(Mem())
	temp, err := f.CreateTemp("a", 0o644)
	ok(t, err)
	write(t, temp, "12345", 0)
	before := c.Snapshot()
	ok(t, temp.Truncate(3))
	ok(t, temp.Sync())
	ok(t, temp.Publish())
	ok(t, f.SyncDir("."))
	locked(t, temp, 0, 1, true, true)
	h, err := f.Open("a", true)
	ok(t, err)
	locked(t, h, 0, 1, true, false)
	write(t, h, "xy", 1)
	if n, err := h.ReadAt(make([]byte, 10), 1); n != 2 || err != io.EOF {
		t.Fatalf("read %d, %v", n, err)
	}
	want := Tally{Reads: 1, BytesRead: 2, Writes: 1, BytesWritten: 2, Syncs: 1, DirSyncs: 2, Truncates: 1, Locks: 2}
	if got := c.Snapshot().Sub(before); got != want {
		t.Fatalf("counted %+v, want %+v", got, want)
	}
	if before != (Tally{Writes: 1, BytesWritten: 5}) {
		t.Fatalf("counted %+v at first", before)
	}
}

func TestLargeTransfer(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		f := s.create(t, "a", "")
		p := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
		if n, err := f.WriteAt(p, 12345); n != len(p) || err != nil {
			t.Fatalf("WriteAt: %d, %v", n, err)
		}
		got := make([]byte, len(p))
		if n, err := f.ReadAt(got, 12345); n != len(p) || err != nil || !bytes.Equal(got, p) {
			t.Fatalf("ReadAt: %d, %v", n, err)
		}
	})
}

func TestLinkAndRename(t *testing.T) {
	systems(t, func(t *testing.T, s system) {
		a, b := s.create(t, "a", "old"), s.create(t, "b", "new")
		if err := s.Link(s.path("a"), s.path("b")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a link over a file: %v", err)
		}
		if err := s.Link(s.path("none"), s.path("c")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a link of nothing: %v", err)
		}
		if err := s.Rename(s.path("none"), s.path("c")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("renaming nothing: %v", err)
		}
		ok(t, s.SetRights(s.path("a"), s.path("b")))
		ok(t, s.Link(s.path("a"), s.path("c")))
		ok(t, s.SyncDir(s.dir))
		ok(t, s.Rename(s.path("b"), s.path("a")))
		ok(t, s.SyncDir(s.dir))
		for name, want := range map[string]File{"a": b, "c": a} {
			if same, err := want.SameFile(s.path(name)); err != nil || !same {
				t.Errorf("%s stands for another file: %v", name, err)
			}
		}
		if got := s.list(); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("there is %q", got)
		}
		// The handle of what was replaced stays.
		got := make([]byte, 3)
		if _, err := a.ReadAt(got, 0); err != nil || string(got) != "old" {
			t.Errorf("%q, %v", got, err)
		}
		ok(t, s.Remove(s.path("c")))
	})
}
