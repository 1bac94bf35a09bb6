package index

import (
	"sync"

	"lockbox/internal/format"
)

// lookup is the scratch of one Get: the scan of the current node and buffers for its bounds.
type lookup struct {
	s                   Scan
	lower, upper, spare []byte
}

// lookups keeps the scratch, so that a lookup allocates nothing.
var lookups = sync.Pool{New: func() any { return new(lookup) }}

// Get looks key up. It loads at most root.Height nodes; value aliases the last of them.
func Get(src Source, t Tree, root Root, key []byte) (value []byte, ok bool, err error) {
	if root.Height == 0 {
		return nil, false, nil
	}
	if root.Height > format.MaxHeight {
		return nil, false, format.Corrupt(t.record(), root.Ref.Off, "tree too high")
	}
	l := lookups.Get().(*lookup)
	value, ok, err = l.get(src, t, root, key)
	l.s = Scan{key: l.s.key[:0]} // the pool keeps no node alive
	lookups.Put(l)
	return value, ok, err
}

func (l *lookup) get(src Source, t Tree, root Root, key []byte) (value []byte, ok bool, err error) {
	s := &l.s
	l.lower, l.upper = l.lower[:0], l.upper[:0]
	ref := root.Ref
	for level := int(root.Height) - 1; ; level-- {
		n, err := load(src, t, ref, level)
		if err != nil {
			return nil, false, err
		}
		if err := n.checkFirst(l.lower, l.upper); err != nil {
			return nil, false, err
		}
		found, exact := s.seek(n, key)
		if s.err != nil {
			return nil, false, s.err
		}
		if level == 0 {
			if exact {
				return s.val, true, nil
			}
			// The item after the gap shows that this leaf is where the key would be.
			if next := s.peekKey(l.spare); found && next != nil {
				err = n.checkKey(next, l.lower, l.upper)
			}
			if err == nil {
				err = s.err
			}
			return nil, false, err
		}
		if ref, err = s.Ref(); err != nil {
			return nil, false, err
		}
		lo, hi, err := s.childRange(l.lower, l.upper, l.spare)
		if err != nil {
			return nil, false, err
		}
		if s.ahead {
			l.upper, l.spare = hi, l.upper
		}
		if s.idx > 1 {
			l.lower, s.key = lo, l.lower
		}
	}
}

// Walk calls fn for every node: parents before children, children in order. lower and upper are the
// range that the parents promise for the node's keys (empty: no bound), valid during the call. Order
// inside a node is held only as far as its range needs; Node.Check holds the rest. An error of fn ends
// the walk and is returned.
func Walk(src Source, t Tree, root Root, fn func(level int, ref Ref, n *Node, lower, upper []byte) error) error {
	if root.Height == 0 {
		return nil
	}
	if root.Height > format.MaxHeight {
		return format.Corrupt(t.record(), root.Ref.Off, "tree too high")
	}
	w := walker{src: src, t: t, fn: fn}
	return w.node(int(root.Height)-1, root.Ref, nil, nil)
}

type walker struct {
	src  Source
	t    Tree
	fn   func(level int, ref Ref, n *Node, lower, upper []byte) error
	bufs [format.MaxHeight][]byte
}

func (w *walker) node(level int, ref Ref, lower, upper []byte) error {
	n, err := load(w.src, w.t, ref, level)
	if err != nil {
		return err
	}
	if err := n.checkFirst(lower, upper); err != nil {
		return err
	}
	if level == 0 {
		if err := n.checkLast(lower, upper); err != nil {
			return err
		}
		return w.fn(level, ref, n, lower, upper)
	}
	if err := w.fn(level, ref, n, lower, upper); err != nil {
		return err
	}
	s := n.Scan()
	for s.Next() {
		child, err := s.Ref()
		if err != nil {
			return err
		}
		lo, hi, err := s.childRange(lower, upper, w.bufs[level])
		if err != nil {
			return err
		}
		if s.ahead {
			w.bufs[level] = hi
		}
		if err := w.node(level-1, child, lo, hi); err != nil {
			return err
		}
	}
	return s.Err()
}

// checkLast holds a leaf's last key to its range.
func (n *Node) checkLast(lower, upper []byte) error {
	if len(upper) == 0 {
		return nil
	}
	var s Scan
	if !s.last(n) {
		return s.err
	}
	return n.checkKey(s.key, lower, upper)
}

// last moves to the node's last item.
func (s *Scan) last(n *Node) bool {
	return s.to(n, n.count-1)
}

// to moves to item i.
func (s *Scan) to(n *Node, i int) bool {
	s.reset(n, i/restartEvery)
	for s.Next() {
		if s.Index() == i {
			return true
		}
	}
	return false
}
