package vfs

import (
	"io/fs"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What was uncached is not in the page cache any more, and reads as before.
func TestUncache(t *testing.T) {
	const size = 1 << 20
	name := filepath.Join(t.TempDir(), "a")
	f, err := OS().CreateTemp(name, 0o600)
	ok(t, err)
	write(t, f, string(make([]byte, size)), 0)
	ok(t, f.Sync())
	ok(t, f.Publish())
	ok(t, f.Close())
	r, err := OS().Open(name, false)
	ok(t, err)
	o := r.(*osFile)
	fd := int(o.f.Fd())
	cached := func(off int64) bool {
		t.Helper()
		m, err := unix.Mmap(fd, off, 4096, unix.PROT_READ, unix.MAP_SHARED)
		ok(t, err)
		defer func() { ok(t, unix.Munmap(m)) }()
		var in [16]byte // one for each page
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&in[0])))
		if errno != 0 {
			t.Skipf("no way to see what is cached: %v", errno)
		}
		return in[0]&1 != 0
	}
	read := func() {
		t.Helper()
		if n, err := r.ReadAt(make([]byte, size), 0); n != size {
			t.Fatal(n, err)
		}
	}
	read()
	if !cached(0) || !cached(size/2) {
		t.Skip("nothing is cached here")
	}
	var st unix.Statfs_t
	ok(t, unix.Fstatfs(fd, &st))
	if st.Type == unix.TMPFS_MAGIC {
		t.Skip("memory is the device")
	}
	ok(t, o.Uncache())
	if cached(0) || cached(size/2) {
		t.Error("still cached")
	}
	read()
	ok(t, r.Close())
	is(t, o.Uncache(), fs.ErrClosed)
}

// A change of a file changes its stamp: of its bytes, its size, its mode.
func TestStamp(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f, err := OS().CreateTemp(name, 0o600)
	ok(t, err)
	defer f.Close()
	write(t, f, "some bytes", 0)
	ok(t, f.Publish())
	stamp := func() Stamp {
		t.Helper()
		s, err := StampOf(f)
		ok(t, err)
		return s
	}
	old := stamp()
	if stamp() != old || old.Size != 10 || old.Modified == 0 || old.Latest().UnixNano() != max(old.Modified, old.Changed) {
		t.Fatalf("%+v", old)
	}
	for what, change := range map[string]func(){
		"bytes": func() { write(t, f, "x", 3) },
		"size":  func() { ok(t, f.Truncate(5)) },
		"mode":  func() { ok(t, unix.Chmod(name, 0o644)) },
	} {
		before := stamp()
		for range 1000 { // the clock of the file system ticks some hundred times a second
			if change(); stamp() != before {
				break
			}
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		}
		if stamp() == before {
			t.Errorf("%s: the stamp stays", what)
		}
	}
}
