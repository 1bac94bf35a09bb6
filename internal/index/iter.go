package index

import "lockbox/internal/format"

// Iter goes through a tree's items in ascending order. It holds one node a level.
//
//	it := index.NewIter(src, t, root)
//	for ok := it.Seek(from); ok; ok = it.Next() { … }
//	if err := it.Err(); err != nil { … }
type Iter struct {
	src     Source
	t       Tree
	root    Root
	lv      []iterLevel // lv[0] is the leaf
	started bool
	ok      bool
	err     error
}

// iterLevel is the place in one node. In a branch the scan's current item is the child that the level
// below is in.
type iterLevel struct {
	s            Scan
	lower, upper []byte // the node's range, in buffers of its own
}

// NewIter returns an iterator before the first item.
func NewIter(src Source, t Tree, root Root) *Iter {
	it := &Iter{src: src, t: t, root: root}
	if root.Height > format.MaxHeight {
		it.err = format.Corrupt(t.record(), root.Ref.Off, "tree too high")
		return it
	}
	it.lv = make([]iterLevel, root.Height)
	return it
}

// Key is the current item's key, valid until the iterator moves.
func (it *Iter) Key() []byte { return it.lv[0].s.key }

// Value is the current item's value, valid until the iterator moves.
func (it *Iter) Value() []byte { return it.lv[0].s.val }

// Err is the error that ended the iteration. It stays: no later move succeeds.
func (it *Iter) Err() error { return it.err }

// Seek moves to the first item whose key is at least key, nil meaning the first of all; false when
// there is none. A key of the leaf where the iterator stands is found without going down from the root.
func (it *Iter) Seek(key []byte) bool {
	if !it.inLeaf(key) && !it.descend(key, false) {
		return false
	}
	leaf := &it.lv[0]
	_, exact := leaf.s.seek(leaf.s.n, key)
	if exact {
		return it.item()
	}
	return it.advance()
}

// SeekLE moves to the last item whose key is at most key, nil meaning the last of all; false when there
// is none, and then Next has nothing to give either.
func (it *Iter) SeekLE(key []byte) bool {
	if !it.descend(key, key == nil) {
		return false
	}
	leaf := &it.lv[0]
	found := false
	if key == nil {
		found = leaf.s.last(leaf.s.n)
	} else {
		found, _ = leaf.s.seek(leaf.s.n, key)
	}
	if found {
		return it.item()
	}
	if leaf.s.err != nil {
		return it.fail(leaf.s.err)
	}
	// All of this leaf lies above key: the item is the last one of the leaf before.
	for level := 1; level < len(it.lv); level++ {
		s := &it.lv[level].s
		if i := s.Index(); i > 0 {
			if !s.to(s.n, i-1) {
				return it.fail(s.err)
			}
			for ; level > 0; level-- {
				below := &it.lv[level-1].s
				if !it.enterChild(level) {
					return false
				}
				if !below.last(below.n) {
					return it.fail(below.err)
				}
			}
			return it.item()
		}
	}
	return false
}

// Next moves to the next item; the first call after NewIter moves to the first.
func (it *Iter) Next() bool {
	if !it.started {
		return it.Seek(nil)
	}
	if !it.ok {
		return false
	}
	return it.advance()
}

func (it *Iter) fail(err error) bool {
	it.err, it.ok = err, false
	return false
}

// descend goes from the root to the leaf in which key stands or would stand, or to the last leaf. It
// leaves the leaf's scan before its first item.
func (it *Iter) descend(key []byte, last bool) bool {
	it.started, it.ok = true, false
	if it.err != nil || len(it.lv) == 0 {
		return false
	}
	top := len(it.lv) - 1
	it.lv[top].lower, it.lv[top].upper = it.lv[top].lower[:0], it.lv[top].upper[:0]
	if !it.enter(top, it.root.Ref) {
		return false
	}
	for level := top; level > 0; level-- {
		s := &it.lv[level].s
		if last {
			s.last(s.n)
		} else {
			s.seek(s.n, key)
		}
		if s.err != nil {
			return it.fail(s.err)
		}
		if !it.enterChild(level) {
			return false
		}
	}
	return true
}

// inLeaf reports whether key, if the tree has it, stands in the leaf where the iterator is.
func (it *Iter) inLeaf(key []byte) bool {
	if key == nil || !it.started || it.err != nil || len(it.lv) == 0 {
		return false
	}
	leaf := &it.lv[0]
	return leaf.s.n != nil && string(key) >= string(leaf.lower) && (len(leaf.upper) == 0 || string(key) < string(leaf.upper))
}

// enter loads a node whose range is in place already.
func (it *Iter) enter(level int, ref Ref) bool {
	l := &it.lv[level]
	n, err := load(it.src, it.t, ref, level)
	if err == nil {
		err = n.checkFirst(l.lower, l.upper)
	}
	if err != nil {
		return it.fail(err)
	}
	l.s.reset(n, 0)
	return true
}

// enterChild loads the child that level's scan stands at.
func (it *Iter) enterChild(level int) bool {
	p, c := &it.lv[level], &it.lv[level-1]
	ref, err := p.s.Ref()
	if err != nil {
		return it.fail(err)
	}
	lo, hi, err := p.s.childRange(p.lower, p.upper, c.upper)
	if err != nil {
		return it.fail(err)
	}
	c.lower = append(c.lower[:0], lo...)
	c.upper = append(c.upper[:0], hi...)
	return it.enter(level-1, ref)
}

// advance takes the leaf's next item, or the first of the next leaf.
func (it *Iter) advance() bool {
	leaf := &it.lv[0]
	if leaf.s.Next() {
		return it.item()
	}
	for level := 0; ; {
		s := &it.lv[level].s
		if s.err != nil {
			return it.fail(s.err)
		}
		if level++; level == len(it.lv) {
			it.ok = false
			return false
		}
		if !it.lv[level].s.Next() {
			continue
		}
		for ; level > 0; level-- {
			if !it.enterChild(level) {
				return false
			}
			if s := &it.lv[level-1].s; !s.Next() {
				return it.fail(s.err)
			}
		}
		return it.item()
	}
}

// item holds the current item to the leaf's range.
func (it *Iter) item() bool {
	leaf := &it.lv[0]
	if len(leaf.upper) > 0 && string(leaf.s.key) >= string(leaf.upper) {
		return it.fail(leaf.s.n.outside())
	}
	it.ok = true
	return true
}
