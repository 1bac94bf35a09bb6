package vfs

import (
	"bytes"
	"io/fs"
	"slices"
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
	locks    fileLocks
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
