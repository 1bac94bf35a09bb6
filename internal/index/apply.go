package index

import (
	"fmt"
	"io/fs"
	"iter"

	"lockbox/internal/format"
)

// Op puts a value under a key, replacing what stands there, or deletes the key.
type Op struct {
	Key, Value []byte
	Delete     bool
}

// minNodeSize keeps a target that holds some items besides header and restart table.
const minNodeSize = 128

// Apply makes the tree that root becomes by ops, which come in strictly ascending order of keys; an op's
// slices are used only until the next is asked for. Deleting a key that is not there is an error of
// kind fs.ErrNotExist. nodeSize is the length of a full node: a longer item gets a node of its own, and
// a branch keeps minFanout children whatever their separators.
//
// Only the touched paths are read and written, and memory holds a few nodes of each level however many
// ops there are. The same tree and ops give the same writes. After an error what was written is rubbish.
func Apply(src Source, sink Sink, t Tree, root Root, tagSize, nodeSize int, ops iter.Seq[Op]) (Root, error) {
	if nodeSize < minNodeSize || nodeSize > format.MaxNode || tagSize < 0 || tagSize > format.MaxTag {
		return Root{}, fmt.Errorf("apply to the tree %v: node size %d, tag size %d", t, nodeSize, tagSize)
	}
	if root.Height > format.MaxHeight {
		return Root{}, format.Corrupt(t.record(), root.Ref.Off, "tree too high")
	}
	next, stop := iter.Pull(ops)
	defer stop()
	a := &applier{src: src, sink: sink, t: t, tagSize: tagSize, nodeSize: nodeSize, pull: next, count: root.Count}
	if err := a.advance(); err != nil {
		return Root{}, err
	}
	if !a.more {
		return root, nil
	}
	var err error
	if root.Height == 0 {
		err = a.leaf(nil, nil, nil)
	} else {
		err = a.touch(int(root.Height)-1, root.Ref, nil, nil)
	}
	if err != nil {
		return Root{}, err
	}
	return a.finish()
}

// applier walks the old tree along the ops. Items of touched nodes, merged with the ops, flow through
// one stage a level into new nodes; a new node becomes an item of the stage above.
type applier struct {
	src      Source
	sink     Sink
	t        Tree
	tagSize  int
	nodeSize int
	count    uint64

	pull   func() (Op, bool)
	op     Op
	more   bool
	lastOp []byte

	stages []*stage
	out    []byte // a node being encoded

	// The last key that went into a leaf, for the separator of the leaf after it. adjacent is false when
	// an untouched subtree came between.
	last     []byte
	adjacent bool
	// appended says that the last item of the last leaf is new and lies above all old ones.
	appended bool
}

// advance takes the next op and checks it.
func (a *applier) advance() error {
	a.lastOp = append(a.lastOp[:0], a.op.Key...)
	a.op, a.more = a.pull()
	switch {
	case !a.more:
		a.op = Op{}
	case len(a.op.Key) == 0 || len(a.op.Key) > format.MaxKey || len(a.op.Value) > format.MaxValue:
		return fmt.Errorf("apply to the tree %v: key of %d, value of %d bytes", a.t, len(a.op.Key), len(a.op.Value))
	case string(a.op.Key) <= string(a.lastOp):
		return fmt.Errorf("apply to the tree %v: key %q after %q", a.t, a.op.Key, a.lastOp)
	}
	return nil
}

// due reports whether the next op lies below upper.
func (a *applier) due(upper []byte) bool {
	return a.more && (len(upper) == 0 || string(a.op.Key) < string(upper))
}

// touch replaces a node: its items and the ops that lie in its range go into its level's stage.
func (a *applier) touch(level int, ref Ref, lower, upper []byte) error {
	n, err := load(a.src, a.t, ref, level)
	if err != nil {
		return err
	}
	st, err := a.stage(level)
	if err != nil {
		return err
	}
	if err := n.checkFirst(lower, upper); err != nil {
		return err
	}
	a.sink.Retire(a.t, level, ref)
	st.cur.fromBytes += n.Size()
	st.cur.fromItems += n.Len()
	if level == 0 {
		return a.leaf(n, lower, upper)
	}
	return a.branch(n, lower, upper)
}

// leaf merges a leaf's items with the ops below upper. n is nil in an empty tree.
func (a *applier) leaf(n *Node, lower, upper []byte) error {
	var s Scan
	ok := false
	if n != nil {
		s = n.Scan()
		ok = s.Next()
	}
	for ok || a.due(upper) {
		order := -1 // of the old item and the op
		switch {
		case !ok:
			order = 1
		case !a.due(upper):
		case string(s.key) > string(a.op.Key):
			order = 1
		case string(s.key) == string(a.op.Key):
			order = 0
		}
		if order < 0 {
			if err := a.addLeaf(s.key, s.val, lower); err != nil {
				return err
			}
			a.appended = false
			ok = s.Next()
			continue
		}
		if a.op.Delete {
			if order > 0 {
				return fmt.Errorf("delete %q from the tree %v: %w", a.op.Key, a.t, fs.ErrNotExist)
			}
			if a.count == 0 {
				return format.Corrupt(a.t.record(), n.off, "more items than the root counts")
			}
			a.count--
		} else {
			if err := a.addLeaf(a.op.Key, a.op.Value, lower); err != nil {
				return err
			}
			a.appended = !ok
			if order > 0 {
				a.count++
			}
		}
		if order == 0 {
			ok = s.Next()
		}
		if err := a.advance(); err != nil {
			return err
		}
	}
	if s.err != nil {
		return s.err
	}
	if n != nil && s.idx > 0 {
		return n.checkKey(s.key, lower, upper)
	}
	return nil
}

// addLeaf puts an item into the leaf stage. lower is the bound of the old leaf it stands in.
func (a *applier) addLeaf(key, value, lower []byte) error {
	st, err := a.stage(0)
	if err != nil {
		return err
	}
	if st.cur.empty() {
		n := 0
		if a.adjacent {
			// The shortest prefix of key above the last key of the leaf before.
			n = min(common(key, a.last)+1, len(key))
		} else if n = common(key, lower); n < len(lower) {
			// The shortest prefix of key that is not below lower.
			n = min(n+1, len(key))
		}
		st.cur.sep = append(st.cur.sep[:0], key[:n]...)
	}
	a.last, a.adjacent = append(a.last[:0], key...), true
	return a.add(0, key, value, false)
}

// branch takes a branch's children in order: untouched ones pass as they are.
func (a *applier) branch(n *Node, lower, upper []byte) error {
	level := n.Level()
	st, err := a.stage(level)
	if err != nil {
		return err
	}
	below, err := a.stage(level - 1)
	if err != nil {
		return err
	}
	s := n.Scan()
	for s.Next() {
		ref, err := s.Ref()
		if err != nil {
			return err
		}
		lo, hi, err := s.childRange(lower, upper, st.upper)
		if err != nil {
			return err
		}
		edge := len(hi) == 0
		if s.ahead {
			st.upper = hi
		}
		if !a.due(hi) && !(below.cur.sparse() && int(ref.Len) <= a.nodeSize) {
			if err := a.close(level - 1); err != nil {
				return err
			}
			a.adjacent, a.appended = false, false
			if err := a.addChild(level, lo, ref, false); err != nil {
				return err
			}
			continue
		}
		if err := a.touch(level-1, ref, lo, hi); err != nil {
			return err
		}
		if edge {
			return s.err // finish decides about the right edge from the leaves upwards
		}
		if err := a.settle(level - 1); err != nil {
			return err
		}
	}
	if s.err != nil {
		return s.err
	}
	return a.close(level - 1)
}

// addChild puts a child into a branch stage. sep is a prefix of the first key of its subtree.
func (a *applier) addChild(level int, sep []byte, ref Ref, fresh bool) error {
	st, err := a.stage(level)
	if err != nil {
		return err
	}
	if st.cur.empty() {
		st.cur.sep = append(st.cur.sep[:0], sep...)
	}
	var buf [refFixed + format.MaxTag]byte
	return a.add(level, sep, ref.Append(buf[:0], a.tagSize), fresh)
}

// add puts an item into a stage and writes a node when there are items for more than two.
func (a *applier) add(level int, key, value []byte, fresh bool) error {
	st := a.stages[level]
	if !st.cur.add(key, value, fresh) {
		return nil
	}
	if err := a.flushHeld(level); err != nil {
		return err
	}
	if err := a.write(level, st.cur, 0, st.cur.cut); err != nil {
		return err
	}
	st.cur.dropFirst()
	return nil
}
