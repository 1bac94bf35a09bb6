package store

import (
	"cmp"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/journal"
)

// space is where a transaction may write: what is left of the committed root's stage set, as far as
// every copy of the superblock is past the generation that retired an extent and no reader needs it,
// and everything past the logical end.
type space struct {
	usable []journal.Planned // by offset
	held   []journal.Planned // stage extents that may not be written yet
	end    int64
	given  int64           // bytes
	taken  []format.Extent // of the usable ones, what was given out

	// Only a compaction sets these: it takes the lowest place instead of the tightest, keeps the usable
	// extents before floor for frames, and breaks that rule before it lets the archive grow beyond limit.
	floor, limit int64
}

// alloc returns an extent of n bytes, a multiple of the sector size: from the shortest usable one that is
// long enough, so that long ones stay whole, else from the end of the archive. With keep, no usable extent
// is used up whole, so that the number of extents stays as it is.
func (s *space) alloc(n int64, keep bool) format.Extent {
	s.given += n
	best := -1
	if s.limit > 0 {
		if best = s.lowest(n, keep, s.floor); best < 0 && s.end+n > s.limit {
			best = s.lowest(n, keep, 0)
		}
	} else {
		for i := range s.usable {
			l := s.usable[i].Len
			if l >= n && !(keep && l == n) && (best < 0 || l < s.usable[best].Len) {
				best = i
			}
		}
	}
	if best >= 0 {
		p := &s.usable[best]
		e := format.Extent{Off: p.Off, Len: n}
		s.taken = append(s.taken, e)
		p.Off += n
		p.Len -= n
		if p.Len == 0 {
			s.usable = slices.Delete(s.usable, best, best+1)
		}
		return e
	}
	e := format.Extent{Off: s.end, Len: n}
	s.end += n
	return e
}

// lowest returns the index of the first usable extent from floor on that has room for n bytes, or -1.
func (s *space) lowest(n int64, keep bool, floor int64) int {
	for i := range s.usable {
		p := &s.usable[i]
		if p.Off >= floor && p.Len >= n && !(keep && p.Len == n) {
			return i
		}
	}
	return -1
}

// free is how much can be allocated from off on, below limit.
func (s *space) free(off int64) int64 {
	n := max(s.limit-s.end, 0)
	for i := s.find(off); i < len(s.usable); i++ {
		n += s.usable[i].End() - max(s.usable[i].Off, off)
	}
	return n
}

// take gives out exactly e, which lies in one usable extent.
func (s *space) take(e format.Extent) {
	s.split(e.Off)
	s.split(e.End())
	i := s.find(e.Off)
	s.usable = slices.Delete(s.usable, i, i+1)
	s.taken = append(s.taken, e)
}

// split divides the usable extent that off lies in.
func (s *space) split(off int64) {
	i := s.find(off)
	if i == len(s.usable) || s.usable[i].Off >= off {
		return
	}
	rest := s.usable[i]
	rest.Len = rest.End() - off
	rest.Off = off
	s.usable[i].Len -= rest.Len
	s.usable = slices.Insert(s.usable, i+1, rest)
}

// find returns the index of the first usable extent that ends after off.
func (s *space) find(off int64) int {
	i, _ := slices.BinarySearchFunc(s.usable, off, func(p journal.Planned, off int64) int { return cmp.Compare(p.End(), off+1) })
	return i
}

// largestFirst sorts a set so that long extents, which any frame fits into, are chosen first.
func largestFirst(set []journal.Planned) {
	slices.SortStableFunc(set, func(x, y journal.Planned) int { return cmp.Compare(y.Len, x.Len) })
}

// stage is the next root's stage set: what is left, whether it could be written now or not.
func (s *space) stage() []journal.Planned {
	set := append(slices.Clone(s.usable), s.held...)
	byOffset(set)
	return set
}

// byOffset sorts a set.
func byOffset(set []journal.Planned) {
	slices.SortFunc(set, func(x, y journal.Planned) int { return cmp.Compare(x.Off, y.Off) })
}

// join merges neighbours of a sorted set. What a joined extent was before is no longer one owner.
func join(set []journal.Planned) []journal.Planned {
	out := set[:0]
	for _, p := range set {
		if n := len(out); n > 0 && out[n-1].End() == p.Off {
			q := &out[n-1]
			if q.Kind != p.Kind || q.Owner != p.Owner || p.Kind != journal.OwnerNone {
				q.Kind, q.Owner = journal.OwnerSeveral, 0
			}
			q.Len += p.Len
			q.Generation = max(q.Generation, p.Generation)
			q.Deleted = q.Deleted || p.Deleted
			continue
		}
		out = append(out, p)
	}
	return out
}

// subtract returns what of the extents in set lies in none of the extents in gone.
func subtract(set, gone []journal.Planned) (out []journal.Planned) {
	gone = slices.Clone(gone)
	byOffset(gone)
	for _, p := range set {
		i, _ := slices.BinarySearchFunc(gone, p.Off, func(g journal.Planned, off int64) int { return cmp.Compare(g.End(), off+1) })
		for ; i < len(gone) && gone[i].Off < p.End(); i++ {
			if head := gone[i].Off - p.Off; head > 0 {
				q := p
				q.Len = head
				out = append(out, q)
			}
			end := min(max(gone[i].End(), p.Off), p.End())
			p.Off, p.Len = end, p.End()-end
		}
		if p.Len > 0 {
			out = append(out, p)
		}
	}
	return out
}

func totalLen(set []journal.Planned) (n int64) {
	for _, p := range set {
		n += p.Len
	}
	return n
}
