package vfs

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"
)

// simPage is a sector's bytes. It is never changed once it can be seen; nil stands for zeros.
type simPage struct{ b []byte }

// simNode is a file: what readers see, what the disk has for certain, and the versions in between.
type simNode struct {
	mode     fs.FileMode
	cache    []*simPage // may share its array with durable until either changes
	size     int64
	durable  []*simPage
	dsize    int64
	shared   bool
	versions map[int]*pageVersions
	sizes    []sizeVersion
	resized  bool       // the size has changed since the last sync
	freed    []*simPage // what the disk may have had in sectors that were cut off; nothing overwrites it there
	locks    []simLock
}

// pageVersions are what the disk may have of a sector instead of its durable bytes. Not dirty: a
// sync has failed, and none will write it again.
type pageVersions struct {
	list  []pageVersion
	dirty bool
}

type pageVersion struct {
	page *simPage
	seq  uint64
}

type sizeVersion struct {
	size int64
	seq  uint64
}

type simLock struct {
	span
	exclusive bool
	owner     *simFile
}

func newPage(old *simPage, sector int) *simPage {
	p := &simPage{make([]byte, sector)}
	if old != nil {
		copy(p.b, old.b)
	}
	return p
}

func grown(pages []*simPage, n int) []*simPage {
	if n > len(pages) {
		pages = append(pages, make([]*simPage, n-len(pages))...)
	}
	return pages
}

// own makes the cache's array its own.
func (n *simNode) own() {
	if n.shared {
		n.cache, n.shared = slices.Clone(n.cache), false
	}
}

func (n *simNode) clone() *simNode {
	c := *n
	c.cache, c.durable, c.shared = slices.Clone(n.cache), slices.Clone(n.durable), false
	c.sizes, c.locks, c.freed = slices.Clone(n.sizes), nil, slices.Clone(n.freed)
	c.versions = make(map[int]*pageVersions, len(n.versions))
	for k, v := range n.versions {
		c.versions[k] = &pageVersions{slices.Clone(v.list), v.dirty}
	}
	return &c
}

func (n *simNode) read(p []byte, off int64, sector int) {
	for len(p) > 0 {
		k, in := int(off/int64(sector)), int(off%int64(sector))
		m := min(len(p), sector-in)
		if k < len(n.cache) && n.cache[k] != nil {
			copy(p[:m], n.cache[k].b[in:])
		} else {
			clear(p[:m])
		}
		p, off = p[m:], off+int64(m)
	}
}

// set gives sector k a new version.
func (n *simNode) set(k int, p *simPage, seq uint64) {
	n.cache[k] = p
	v := n.versions[k]
	if v == nil {
		v = &pageVersions{}
		n.versions[k] = v
	}
	v.dirty = true
	v.list = append(v.list, pageVersion{p, seq})
}

var zeroSector [4096]byte

func (n *simNode) write(s *Sim, b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	n.own()
	end := off + int64(len(b))
	first, last := int(off/int64(s.sector)), int((end-1)/int64(s.sector))
	n.cache = grown(n.cache, last+1)
	buf := make([]byte, (last-first+1)*s.sector)
	pages := make([]simPage, last-first+1)
	for k := first; k <= last; k++ {
		p := &pages[k-first]
		p.b = buf[(k-first)*s.sector:][:s.sector:s.sector]
		lo, hi := max(off, int64(k)*int64(s.sector)), min(end, int64(k+1)*int64(s.sector))
		if old := n.cache[k]; old != nil && hi-lo < int64(s.sector) {
			copy(p.b, old.b)
		}
		copy(p.b[lo-int64(k)*int64(s.sector):], b[lo-off:hi-off])
		if bytes.Equal(p.b, zeroSector[:s.sector]) {
			p = nil
		}
		s.seq++
		n.set(k, p, s.seq)
	}
	if end > n.size {
		n.resize(s, end)
	}
}

func (n *simNode) resize(s *Sim, size int64) {
	s.seq++
	n.size, n.resized = size, true
	n.sizes = append(n.sizes, sizeVersion{size, s.seq})
}

func (n *simNode) truncate(s *Sim, size int64) {
	if size == n.size {
		return
	}
	n.own()
	if k, in := int(size/int64(s.sector)), int(size%int64(s.sector)); in > 0 && k < len(n.cache) && n.cache[k] != nil {
		p := newPage(n.cache[k], s.sector)
		clear(p.b[in:])
		s.seq++
		n.set(k, p, s.seq)
	}
	for k := int((size + int64(s.sector) - 1) / int64(s.sector)); k < len(n.cache); k++ {
		if k < len(n.durable) && n.durable[k] != nil {
			n.freed = append(n.freed, n.durable[k])
		}
		if v := n.versions[k]; v != nil {
			for _, w := range v.list {
				if w.page != nil {
					n.freed = append(n.freed, w.page)
				}
			}
		}
		if n.cache[k] != nil {
			s.seq++
			n.set(k, nil, s.seq)
		}
	}
	n.resize(s, size)
}

// sync makes dirty pages and the size durable, or, when it fails, only clean.
func (n *simNode) sync(s *Sim, fails bool) {
	if fails {
		for _, v := range n.versions {
			v.dirty = false
		}
		n.resized = false
		return
	}
	n.own()
	for k, v := range n.versions {
		if !v.dirty {
			continue
		}
		n.durable = grown(n.durable, k+1)
		n.durable[k] = n.cache[k]
		delete(n.versions, k)
	}
	if n.resized {
		n.dsize, n.sizes, n.resized = n.size, nil, false
		sectors := int((n.dsize + int64(s.sector) - 1) / int64(s.sector))
		if sectors < len(n.durable) {
			clear(n.durable[sectors:])
			n.durable = n.durable[:sectors]
		}
	}
}

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
		for _, l := range f.node.locks {
			if l.overlaps(s) && (l.exclusive || exclusive) {
				return false, nil
			}
		}
		f.node.locks = append(f.node.locks, simLock{s, exclusive, f})
		return true, nil
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
	f.node.locks = slices.DeleteFunc(f.node.locks, func(l simLock) bool { return l.owner == f && l.span == s })
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
