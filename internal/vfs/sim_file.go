package vfs

import (
	"io"
	"io/fs"
	"path"
	"syscall"
)

// simFile is a handle.
type simFile struct {
	sim      *Sim
	node     *simNode
	name     string
	writable bool
	closed   bool
	epoch    int
	held     held
}

// dead reports that the handle is closed, or its process killed. The Sim's mutex is held.
func (f *simFile) dead() bool { return f.closed || f.epoch != f.sim.epoch }

func (f *simFile) ReadAt(p []byte, off int64) (int, error) {
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	switch {
	case f.dead():
		return 0, pathErr("read", f.name, fs.ErrClosed)
	case off < 0:
		return 0, pathErr("read", f.name, fs.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	case off >= f.node.size:
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.node.size-off))
	f.node.read(p[:n], off, f.sim.sector)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *simFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.writable {
		return 0, pathErr("write", f.name, ErrReadOnly)
	}
	fault := f.sim.ask(SimOp{Op: Op{Kind: OpWrite, Name: f.name, Off: off, Len: len(p)}, Data: p})
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	switch {
	case f.dead():
		return 0, pathErr("write", f.name, fs.ErrClosed)
	case off < 0:
		return 0, pathErr("write", f.name, fs.ErrInvalid)
	case off > simLimit || int64(len(p)) > simLimit-off:
		return 0, pathErr("write", f.name, syscall.ENOSPC)
	case fault == nil:
	case fault.Err != nil:
		f.node.write(f.sim, p[:min(fault.Kept, len(p))], off)
		return 0, pathErr("write", f.name, fault.Err)
	case fault.Misdirect:
		off = fault.To
	}
	f.node.write(f.sim, p, off)
	return len(p), nil
}

func (f *simFile) Truncate(size int64) error {
	if !f.writable {
		return pathErr("truncate", f.name, ErrReadOnly)
	}
	return f.sim.change(Op{Kind: OpTruncate, Name: f.name, Off: size}, func() error {
		switch {
		case f.dead():
			return fs.ErrClosed
		case size < 0:
			return fs.ErrInvalid
		case size > simLimit:
			return syscall.ENOSPC
		}
		f.node.truncate(f.sim, size)
		return nil
	})
}

func (f *simFile) Sync() error {
	fault := f.sim.ask(SimOp{Op: Op{Kind: OpSync, Name: f.name}})
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	if f.dead() {
		return pathErr("sync", f.name, fs.ErrClosed)
	}
	if fault != nil && fault.Err != nil {
		f.node.sync(f.sim, true)
		return pathErr("sync", f.name, fault.Err)
	}
	f.node.sync(f.sim, false)
	return nil
}

func (f *simFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f *simFile) Stat() (fs.FileInfo, error) {
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	if f.dead() {
		return nil, pathErr("stat", f.name, fs.ErrClosed)
	}
	return memInfo{path.Base(simPath(f.name)), f.node.size, f.node.mode}, nil
}

func (f *simFile) Names() (n uint64, err error) {
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	if f.dead() {
		return 0, pathErr("stat", f.name, fs.ErrClosed)
	}
	for _, name := range f.sim.names {
		if name.cache == f.node {
			n++
		}
	}
	return n, nil
}

func (f *simFile) SameFile(name string) (bool, error) {
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	if f.dead() {
		return false, pathErr("stat", f.name, fs.ErrClosed)
	}
	return f.sim.lookup(name) == f.node, nil
}

func (f *simFile) TryLock(off, n int64, exclusive bool) (bool, error) {
	if exclusive && !f.writable {
		return false, pathErr("lock", f.name, ErrReadOnly)
	}
	s := span{off, n}
	ok, err := f.held.try(s, func() (bool, error) {
		if fault := f.sim.ask(SimOp{Op: Op{Kind: OpLock, Name: f.name, Off: off}}); fault != nil && fault.Err != nil {
			return false, fault.Err
		}
		f.sim.mu.Lock()
		defer f.sim.mu.Unlock()
		if f.dead() {
			return false, fs.ErrClosed
		}
		return f.node.locks.take(s, exclusive, f), nil
	})
	return ok, pathErr("lock", f.name, err)
}

func (f *simFile) Unlock(off, n int64) error {
	s := span{off, n}
	return pathErr("unlock", f.name, f.held.release(s, func() error { return f.unlock(s) }))
}

func (f *simFile) unlock(s span) error {
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	f.node.locks.drop(s, f)
	return nil
}

func (f *simFile) Close() error {
	err, open := f.held.close(f.unlock)
	if !open {
		err = fs.ErrClosed
	}
	f.sim.mu.Lock()
	defer f.sim.mu.Unlock()
	f.closed = true
	return pathErr("close", f.name, err)
}

// simTemp is a file without its final name; temp is the name it has meanwhile, if any.
type simTemp struct {
	*simFile
	temp      string
	published bool
}

func (t *simTemp) Publish() error {
	s := t.sim
	err := s.change(Op{Kind: OpPublish, Name: t.name}, func() error {
		switch {
		case t.dead():
			return fs.ErrClosed
		case t.published:
			return fs.ErrInvalid
		case s.lookup(t.name) != nil:
			return fs.ErrExist
		}
		s.bind(simPath(t.name), t.node)
		if t.temp != "" {
			s.bind(t.temp, nil)
		}
		t.published = true
		return nil
	})
	if err != nil {
		return err
	}
	if t.temp != "" {
		if err := t.Unlock(tempLockOff, 1); err != nil {
			return err
		}
	}
	if s.NoDirSync {
		return nil
	}
	return s.SyncDir(path.Dir(simPath(t.name)))
}

func (t *simTemp) Close() error {
	t.sim.mu.Lock()
	leave := t.temp == "" || t.published || t.dead()
	t.sim.mu.Unlock()
	var err error
	if !leave {
		err = t.sim.Remove(t.temp)
	}
	if cerr := t.simFile.Close(); err == nil {
		err = cerr
	}
	return err
}
