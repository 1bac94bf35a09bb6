package index

import (
	"errors"
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

// stage packs one level. held is a finished node that waits, unwritten, to see whether the one after it
// wants to join it; cur is what comes after.
type stage struct {
	cur, held, spare *packer
	upper            []byte // scratch for the bounds of this level's children
	// The last branch with one child that was written, so that a root can be replaced by that child
	// without reading back what this Apply wrote.
	lone, loneChild Ref
}

func (a *applier) stage(level int) (*stage, error) {
	for len(a.stages) <= level {
		if len(a.stages) == format.MaxHeight {
			return nil, fmt.Errorf("apply to the tree %v: more than %d levels", a.t, format.MaxHeight)
		}
		branch := len(a.stages) > 0
		fresh := func() *packer { return &packer{branch: branch, tagSize: a.tagSize, target: a.nodeSize} }
		a.stages = append(a.stages, &stage{cur: fresh(), held: fresh(), spare: fresh()})
	}
	return a.stages[level], nil
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

// settle ends an old node's items: they become the held node, unless they are so few that the old node
// after it had better join them.
func (a *applier) settle(level int) error {
	st := a.stages[level]
	if st.cur.empty() {
		st.cur.reset()
		return nil
	}
	if st.cur.sparse() {
		return nil
	}
	if err := a.flushHeld(level); err != nil {
		return err
	}
	if k, single := st.cur.divide(false); !single {
		if err := a.write(level, st.cur, 0, k); err != nil {
			return err
		}
		st.cur.drop(k)
	}
	st.held, st.cur = st.cur, st.held
	return nil
}

// close writes all that a stage holds: what comes next has another parent or is not touched.
func (a *applier) close(level int) error {
	if err := a.mend(level); err != nil {
		return err
	}
	return a.flush(level, false)
}

// mend lets a sparse last node join the one before it: the held one, or an untouched one under the
// same parent. A neighbour with an outsized item would only be divided from it again.
func (a *applier) mend(level int) error {
	st := a.stages[level]
	if !st.cur.sparse() {
		return nil
	}
	if !st.held.empty() {
		if st.held.first > a.nodeSize {
			return nil
		}
		st.spare, st.cur, st.held = st.cur, st.held, st.spare
		return a.unspare(level)
	}
	if level+1 >= len(a.stages) || a.stages[level+1].cur.empty() {
		return nil
	}
	parent := a.stages[level+1].cur
	i := len(parent.items) - 1
	ref, ok := refFrom(parent.value(i), a.tagSize)
	if !ok || parent.items[i].fresh || int(ref.Len) > a.nodeSize {
		return nil
	}
	n, err := load(a.src, a.t, ref, level)
	if err != nil {
		return err
	}
	st.spare, st.cur = st.cur, st.spare
	st.cur.sep = append(st.cur.sep[:0], parent.key(i)...)
	parent.pop()
	if err := n.checkFirst(st.cur.sep, st.spare.sep); err != nil {
		return err
	}
	a.sink.Retire(a.t, level, ref)
	s := n.Scan()
	for s.Next() {
		key := s.key
		if level > 0 && s.idx == 1 {
			key = st.cur.sep
		} else if level > 0 && s.idx == 2 && string(key) <= string(st.cur.sep) {
			return n.outside()
		}
		if err := a.add(level, key, s.val, false); err != nil {
			return err
		}
	}
	if s.err != nil {
		return s.err
	}
	if err := n.checkKey(s.key, nil, st.spare.sep); err != nil {
		return err
	}
	return a.unspare(level)
}

// unspare puts the spare packer's items behind those of cur, which no longer count as a remainder.
func (a *applier) unspare(level int) error {
	st := a.stages[level]
	for i := range st.spare.items {
		if err := a.add(level, st.spare.key(i), st.spare.value(i), st.spare.items[i].fresh); err != nil {
			return err
		}
	}
	st.spare.reset()
	st.cur.fromBytes, st.cur.fromItems = 0, 0
	return nil
}

func (a *applier) flushHeld(level int) error {
	st := a.stages[level]
	if st.held.empty() {
		return nil
	}
	if err := a.write(level, st.held, 0, len(st.held.items)); err != nil {
		return err
	}
	st.held.reset()
	return nil
}

// flush writes all that a stage holds. fullLeft keeps the left part of an overflow full.
func (a *applier) flush(level int, fullLeft bool) error {
	if err := a.flushHeld(level); err != nil {
		return err
	}
	st := a.stages[level]
	if st.cur.empty() {
		st.cur.reset()
		return nil
	}
	k, single := st.cur.divide(fullLeft)
	if err := a.write(level, st.cur, 0, k); err != nil {
		return err
	}
	if !single {
		if err := a.write(level, st.cur, k, len(st.cur.items)); err != nil {
			return err
		}
	}
	st.cur.reset()
	return nil
}

// write makes a node of items[i:j] and hands it to the stage above.
func (a *applier) write(level int, p *packer, i, j int) error {
	ref, err := a.store(level, p, i, j)
	if err != nil {
		return err
	}
	if level > 0 && j-i == 1 {
		child, _ := refFrom(p.value(i), a.tagSize)
		a.stages[level].lone, a.stages[level].loneChild = ref, child
	}
	return a.addChild(level+1, p.sepOf(i), ref, true)
}

func (a *applier) store(level int, p *packer, i, j int) (Ref, error) {
	a.out = p.encode(a.out[:0], a.t, level, i, j)
	ref, err := a.sink.Write(a.t, level, a.out)
	if err != nil {
		return Ref{}, err
	}
	if int(ref.Len) != len(a.out) || !ref.plausible() {
		return Ref{}, errors.New("a node was stored under an impossible reference")
	}
	return ref, nil
}

// finish writes what the stages still hold, from the leaves upwards, until one node is left: the root.
func (a *applier) finish() (Root, error) {
	for level := 0; level < len(a.stages); level++ {
		st := a.stages[level]
		if st.cur.empty() && st.held.empty() {
			continue
		}
		if err := a.mend(level); err != nil {
			return Root{}, err
		}
		if a.topmost(level) {
			return a.newRoot(level)
		}
		if err := a.flush(level, a.appended); err != nil {
			return Root{}, err
		}
	}
	if a.count != 0 {
		return Root{}, format.Corrupt(a.t.record(), -1, "fewer items than the root counts")
	}
	return Root{}, nil
}

// topmost reports whether a stage holds one node and the stages above it nothing.
func (a *applier) topmost(level int) bool {
	st := a.stages[level]
	if !st.cur.empty() && !st.held.empty() {
		return false
	}
	if !st.cur.empty() {
		if _, single := st.cur.divide(a.appended); !single {
			return false
		}
	}
	for _, up := range a.stages[level+1:] {
		if !up.cur.empty() || !up.held.empty() {
			return false
		}
	}
	return true
}

// newRoot makes the last node the root, or its child when it has but one.
func (a *applier) newRoot(level int) (Root, error) {
	p := a.stages[level].cur
	if p.empty() {
		p = a.stages[level].held
	}
	if a.count == 0 {
		return Root{}, format.Corrupt(a.t.record(), -1, "more items than the root counts")
	}
	root := Root{Height: uint8(level) + 1, Count: a.count}
	if level == 0 || len(p.items) > 1 {
		ref, err := a.store(level, p, 0, len(p.items))
		root.Ref = ref
		return root, err
	}
	root.Ref, _ = refFrom(p.value(0), a.tagSize)
	for root.Height--; root.Height > 1; root.Height-- {
		level := int(root.Height) - 1
		var child Ref
		if st := a.stages[level]; root.Ref == st.lone {
			child = st.loneChild
		} else {
			n, err := load(a.src, a.t, root.Ref, level)
			if err != nil {
				return Root{}, err
			}
			if n.Len() > 1 {
				break
			}
			s := n.Scan()
			s.Next()
			if s.err != nil {
				return Root{}, s.err
			}
			if child, err = s.Ref(); err != nil {
				return Root{}, err
			}
		}
		a.sink.Retire(a.t, level, root.Ref)
		root.Ref = child
	}
	return root, nil
}
