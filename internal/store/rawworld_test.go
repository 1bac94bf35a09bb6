package store

import (
	"bytes"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/vfs"
)

// dated is a file system whose files have a time of change, which only the test sets: bytes that change without
// it have rotted.
type dated struct {
	vfs.FS
	at      *atomic.Int64
	reading *func() // called before each read when it is not nil
	noLocks bool
}

type datedFile struct {
	vfs.File
	d dated
}

type datedInfo struct {
	fs.FileInfo
	at int64
}

func (d dated) Open(name string, writable bool) (vfs.File, error) {
	f, err := d.FS.Open(name, writable)
	return datedFile{f, d}, err
}

func (f datedFile) Stat() (fs.FileInfo, error) {
	fi, err := f.File.Stat()
	return datedInfo{fi, f.d.at.Load()}, err
}

func (f datedFile) ReadAt(p []byte, off int64) (int, error) {
	if *f.d.reading != nil {
		(*f.d.reading)()
	}
	return f.File.ReadAt(p, off)
}

func (f datedFile) TryLock(off, n int64, exclusive bool) (bool, error) {
	if f.d.noLocks {
		return false, vfs.ErrLockUnsupported
	}
	return f.File.TryLock(off, n, exclusive)
}

func (i datedInfo) ModTime() time.Time { return time.Unix(0, i.at) }

// rawWorld has two files that do not compress, one of several frames and one of a single block, and one that does.
type rawWorld struct {
	*world
	at      atomic.Int64
	reading func()
}

func newRawWorld(t testing.TB) *rawWorld {
	w := &rawWorld{world: newWorld(t, 3, Options{Jobs: 1})}
	w.at.Store(time.Now().Add(-time.Hour).UnixNano())
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 2))
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"raw": randomBytes(r, 2<<20+5000), "raw2": randomBytes(r, 200<<10), "small": randomBytes(r, 3000), "text": textBytes(r, 300_000)})
	})
	w.opt.FS = dated{FS: w.opt.FS, at: &w.at, reading: &w.reading}
	w.opt.Trust = Earned
	return w
}

func (w *rawWorld) open(o Options) *Archive {
	w.t.Helper()
	a, err := Open(ctx, name, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { a.Close() })
	return a
}

func (w *rawWorld) file(a *Archive, path string) *File {
	w.t.Helper()
	e, err := a.Get(mustPath(path))
	if err != nil {
		w.t.Fatal(err)
	}
	f, err := a.Open(&e)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// read reads a range, compares it, and returns how many blocks were hashed for that and how many bytes read.
func (w *rawWorld) read(f *File, off, n int64) (blocks, read uint64) {
	w.t.Helper()
	before := f.a.Counters()
	buf := make([]byte, n)
	if _, err := f.ReadAt(buf, off); err != nil && err != io.EOF {
		w.t.Fatalf("%s at %d: %v", f.path, off, err)
	}
	if !bytes.Equal(buf, w.model[f.path][off:off+n]) {
		w.t.Fatalf("%s at %d: other bytes", f.path, off)
	}
	after := f.a.Counters()
	return after.BlocksVerified - before.BlocksVerified, after.BytesRead - before.BytesRead
}

// rot flips a stored byte of a file that is not compressed, without anything else noticing.
func (w *rawWorld) rot(path string, off int) {
	w.t.Helper()
	at := bytes.Index(w.mem.Bytes(name), w.model[path][off:off+64])
	if at < 0 {
		w.t.Fatalf("%s is not stored as it is", path)
	}
	f, err := w.mem.Open(name, true)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{w.model[path][off] ^ 0x55}, int64(at)); err != nil {
		w.t.Fatal(err)
	}
}

// one is a listing of one entry.
func one(e index.Entry) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) { yield(e, nil) }
}
