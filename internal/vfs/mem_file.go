package vfs

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"
)

// memFile is a handle. closed is guarded by the file system's mutex.
type memFile struct {
	fs       *MemFS
	node     *memNode
	name     string
	writable bool
	closed   bool
	held     held
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	switch {
	case f.closed:
		return 0, pathErr("read", f.name, fs.ErrClosed)
	case off < 0:
		return 0, pathErr("read", f.name, fs.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	case off >= int64(len(f.node.data)):
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// change performs do on the file's bytes unless the handle is closed or not writable.
func (f *memFile) change(op Op, do func() error) error {
	if !f.writable && op.Kind != OpSync {
		return pathErr(op.Kind.String(), f.name, ErrReadOnly)
	}
	op.Name = f.name
	return f.fs.change(op, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return do()
	})
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.change(Op{Kind: OpWrite, Off: off, Len: len(p)}, func() error {
		if len(p) == 0 && off >= 0 {
			return nil
		}
		if err := f.checkSize(off, int64(len(p))); err != nil {
			return err
		}
		if end := int(off) + len(p); end > len(f.node.data) {
			f.resize(end)
		}
		copy(f.node.data[off:], p)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memFile) Truncate(size int64) error {
	return f.change(Op{Kind: OpTruncate, Off: size}, func() error {
		if err := f.checkSize(size, 0); err != nil {
			return err
		}
		f.resize(int(size))
		return nil
	})
}

func (f *memFile) checkSize(off, n int64) error {
	limit := f.fs.Limit
	if limit == 0 {
		limit = defaultMemLimit
	}
	if off < 0 {
		return fs.ErrInvalid
	}
	if off > limit || n > limit-off {
		return syscall.ENOSPC
	}
	return nil
}

func (f *memFile) resize(size int) {
	d := f.node.data
	if size > len(d) {
		d = slices.Grow(d, size-len(d))
		clear(d[len(d):size]) // a truncation may have left bytes there
	}
	f.node.data = d[:size]
}

func (f *memFile) Sync() error {
	return f.change(Op{Kind: OpSync}, func() error { return nil })
}

func (f *memFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return nil, pathErr("stat", f.name, fs.ErrClosed)
	}
	return memInfo{path.Base(memName(f.name)), int64(len(f.node.data)), f.node.mode}, nil
}

func (f *memFile) Names() (n uint64, err error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return 0, pathErr("stat", f.name, fs.ErrClosed)
	}
	for _, node := range f.fs.files {
		if node == f.node {
			n++
		}
	}
	return n, nil
}

func (f *memFile) SameFile(name string) (bool, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return false, pathErr("stat", f.name, fs.ErrClosed)
	}
	return f.fs.files[memName(name)] == f.node, nil
}

func (f *memFile) TryLock(off, n int64, exclusive bool) (bool, error) {
	if exclusive && !f.writable {
		return false, pathErr("lock", f.name, ErrReadOnly)
	}
	s := span{off, n}
	ok, err := f.held.try(s, func() (bool, error) {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		return f.node.locks.take(s, exclusive, f), nil
	})
	return ok, pathErr("lock", f.name, err)
}

func (f *memFile) Unlock(off, n int64) error {
	s := span{off, n}
	return pathErr("unlock", f.name, f.held.release(s, func() error { return f.unlock(s) }))
}

func (f *memFile) unlock(s span) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.locks.drop(s, f)
	return nil
}

func (f *memFile) Close() error {
	err, open := f.held.close(f.unlock)
	if !open {
		err = fs.ErrClosed
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.closed = true
	return pathErr("close", f.name, err)
}

type memTemp struct {
	*memFile
	published bool // guarded by the file system's mutex
}

func (t *memTemp) Publish() error {
	err := t.change(Op{Kind: OpPublish}, func() error {
		switch {
		case t.published:
			return fs.ErrInvalid
		case t.fs.files[memName(t.name)] != nil:
			return fs.ErrExist
		}
		t.fs.files[memName(t.name)] = t.node
		t.published = true
		return nil
	})
	if err != nil {
		return err
	}
	return t.fs.SyncDir(path.Dir(memName(t.name)))
}

type memInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return false }
func (i memInfo) Sys() any           { return nil }
