package index

import (
	"errors"
	"fmt"

	"lockbox/internal/format"
)

// stage packs one level. held is a finished node that waits, unwritten, to see whether the one after it
// wants to join it; cur is what comes after.
type stage struct {
	cur, held, spare *packer
	upper            []byte // scratch for the bounds of this level's children
	// The node that was written last, how many items it has and, in a branch, its first child: a new root
	// can give way to its only descendants without reading back what this Apply wrote.
	wrote, wroteChild Ref
	wroteItems        int
}

func (a *applier) stage(level int) (*stage, error) {
	for len(a.stages) <= level {
		if len(a.stages) == format.MaxHeight {
			return nil, fmt.Errorf("apply to the tree %v: more than %d levels", a.t, format.MaxHeight)
		}
		branch := len(a.stages) > 0
		fresh := func() *packer { return &packer{branch: branch, target: a.nodeSize} }
		a.stages = append(a.stages, &stage{cur: fresh(), held: fresh(), spare: fresh()})
	}
	return a.stages[level], nil
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
	st := a.stages[level]
	st.wrote, st.wroteItems = ref, j-i
	if level > 0 {
		st.wroteChild, _ = refFrom(p.value(i), a.tagSize)
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
		child, items, err := a.firstChild(level, root.Ref)
		if err != nil {
			return Root{}, err
		}
		if items > 1 {
			break
		}
		a.sink.Retire(a.t, level, root.Ref)
		root.Ref = child
	}
	return root, nil
}

// firstChild gives a branch's first child and the number of its items. Of the nodes that this Apply
// wrote it is only asked about one that is alone on its level.
func (a *applier) firstChild(level int, ref Ref) (child Ref, items int, err error) {
	if st := a.stages[level]; ref == st.wrote {
		return st.wroteChild, st.wroteItems, nil
	}
	n, err := load(a.src, a.t, ref, level)
	if err != nil {
		return Ref{}, 0, err
	}
	s := n.Scan()
	if !s.Next() {
		return Ref{}, 0, s.err
	}
	child, err = s.Ref()
	return child, n.Len(), err
}
