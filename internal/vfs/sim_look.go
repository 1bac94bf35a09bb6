package vfs

import (
	"iter"
	"slices"
)

// Clone returns a disk in the same state, cache and unsynced versions included, with no handle open:
// what a process finds that starts after all others were killed.
func (s *Sim) Clone() *Sim {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Sim{NamedTemps: s.NamedTemps, NoLinks: s.NoLinks, NoDirSync: s.NoDirSync, sector: s.sector, seq: s.seq, temps: s.temps, names: map[string]*simName{}}
	nodes := map[*simNode]*simNode{nil: nil}
	for _, n := range s.nodes {
		nodes[n] = n.clone()
		c.nodes = append(c.nodes, nodes[n])
	}
	for name, n := range s.names {
		m := &simName{cache: nodes[n.cache], durable: nodes[n.durable], dirty: n.dirty}
		for _, v := range n.list {
			m.list = append(m.list, nameVersion{nodes[v.node], v.seq, v.to, v.toAt})
		}
		c.names[name] = m
	}
	return c
}

// Names returns the names that stand for a file now, sorted.
func (s *Sim) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for name, n := range s.names {
			if n.cache != nil && !yield(name) {
				return
			}
		}
	})
}

// Bytes returns the file as a reader sees it, nil when there is none.
func (s *Sim) Bytes(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lookup(name)
	if n == nil {
		return nil
	}
	b := make([]byte, n.size)
	n.read(b, 0, s.sector)
	return b
}

// Edit overwrites bytes of a file in the cache and on the disk, past everything: rot, or somebody else.
func (s *Sim) Edit(name string, off int64, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lookup(name)
	if n == nil {
		return
	}
	for len(b) > 0 && off < n.size {
		k := int(off / int64(s.sector))
		in := int(off % int64(s.sector))
		n.own()
		n.cache, n.durable = grown(n.cache, k+1), grown(n.durable, k+1)
		same := n.cache[k] == n.durable[k]
		edited := func(old *simPage) *simPage {
			p := newPage(old, s.sector)
			copy(p.b[in:], b)
			return p
		}
		n.cache[k] = edited(n.cache[k])
		if same {
			n.durable[k] = n.cache[k]
		} else {
			n.durable[k] = edited(n.durable[k])
		}
		m := min(len(b), s.sector-in)
		b, off = b[m:], off+int64(m)
	}
}

// Remains yields, with their offsets, all bytes that the cache shows of a file or that the disk may have
// in its place, sector by sector, zeros left out; at last, with offset -1, what a truncation has cut off and
// left on the disk. The bytes must not be changed; equal addresses mean equal bytes.
func (s *Sim) Remains(name string) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := s.lookup(name)
		if n == nil {
			return
		}
		emit := func(k int, p *simPage) bool { return p == nil || yield(int64(k)*int64(s.sector), p.b) }
		for k, p := range n.cache {
			if !emit(k, p) {
				return
			}
		}
		for k, p := range n.durable {
			if (k >= len(n.cache) || p != n.cache[k]) && !emit(k, p) {
				return
			}
		}
		for k, v := range n.versions {
			for _, w := range v.list {
				if (k >= len(n.cache) || w.page != n.cache[k]) && !emit(k, w.page) {
					return
				}
			}
		}
		for _, p := range n.freed {
			if !yield(-1, p.b) {
				return
			}
		}
	}
}
