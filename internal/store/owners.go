package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// unowned proves that no part of the current trees owns a planned extent, by looking up its former owner.
func (a *Archive) unowned(v *view, p *journal.Planned) error {
	owned := func(what string) error {
		return format.Corrupt("planned extent", p.Off, "it is still owned by %s", what)
	}
	if p.Extent.Overlaps(v.super.CommitExtent()) {
		return owned("the commit block")
	}
	switch p.Kind {
	case journal.OwnerFrame:
		value, ok, err := index.Get(a, index.Frames, v.tree(index.Frames), index.AppendNumKey(nil, p.Owner))
		if err != nil || !ok {
			return err
		}
		r, err := index.DecodeFrameLean(value, a.suite.TagSize(), a.sector)
		if err == nil && r.Ext.Overlaps(p.Extent) {
			err = owned("a frame")
		}
		return err
	case journal.OwnerNode:
		return a.nodeUnowned(v, p, owned)
	case journal.OwnerSeveral:
		m, err := a.ownershipOnce(v)
		if err != nil {
			return err
		}
		if m.overlaps(p.Extent) {
			return owned("a frame or node")
		}
	}
	return nil
}

// nodeUnowned looks for the node at p in its tree. If a current tree owned it, the bytes there would be
// that node, and its own first key would lead down to it; bytes that are not a node are owned by none.
func (a *Archive) nodeUnowned(v *view, p *journal.Planned, owned func(string) error) error {
	tree := index.Tree(p.Owner)
	if tree < index.Entries || tree > index.Free {
		return format.Corrupt("planned extent", p.Off, "unknown tree %d", p.Owner)
	}
	root := v.tree(tree)
	if root.Height == 0 || p.Len > format.MaxNode {
		return nil
	}
	b := make([]byte, p.Len)
	if err := a.pread(b, p.Off, "planned extent"); err != nil {
		return err
	}
	key, level, ok := firstKey(b, tree, a.suite.TagSize())
	if !ok || level >= int(root.Height) {
		return nil
	}
	ref, err := a.findNode(tree, root, key, level)
	if err == nil && ref.Off == p.Off {
		err = owned("the tree " + tree.String())
	}
	return err
}

// firstKey returns the first key and the level of the node at the start of b, or false when no node of
// the tree is there.
func firstKey(b []byte, tree index.Tree, tagSize int) (key []byte, level int, ok bool) {
	if len(b) < 8 {
		return nil, 0, false
	}
	size := int64(binary.LittleEndian.Uint32(b[4:])) + 4*((int64(binary.LittleEndian.Uint16(b[2:]))+15)/16)
	if size > int64(len(b)) {
		return nil, 0, false
	}
	level = int(b[1])
	n, err := index.ParseNode(b[:size], tree, level, tagSize, -1)
	if err != nil {
		return nil, 0, false
	}
	// A branch's first item has no key of its own; its second leads to it or to its right neighbour, and
	// then the branch between the two cannot be missed: both are looked at by the caller's comparison.
	s := n.Scan()
	if !s.Next() {
		return nil, 0, false
	}
	if level > 0 && !s.Next() {
		return nil, 0, false
	}
	return bytes.Clone(s.Key()), level, true
}

// findNode descends to the node at a level that is responsible for key.
func (a *Archive) findNode(tree index.Tree, root index.Root, key []byte, level int) (index.Ref, error) {
	ref := root.Ref
	for l := int(root.Height) - 1; l > level; l-- {
		n, err := a.Node(tree, ref, l)
		if err != nil {
			return ref, err
		}
		s := n.Scan()
		for first := true; s.Next(); first = false {
			if !first && bytes.Compare(s.Key(), key) > 0 {
				break
			}
			if ref, err = s.Ref(); err != nil {
				return ref, err
			}
		}
		if err := s.Err(); err != nil {
			return ref, err
		}
	}
	return ref, nil
}

// extentMap is who owns what in one generation: frames and nodes, by offset.
type extentMap struct {
	of   *view
	exts []format.Extent
}

func (m *extentMap) overlaps(e format.Extent) bool {
	i, _ := slices.BinarySearchFunc(m.exts, e.Off, func(x format.Extent, off int64) int { return cmp.Compare(x.End(), off+1) })
	return i < len(m.exts) && m.exts[i].Overlaps(e)
}

// ownershipOnce returns the map of a generation, made at its first use: from the branches, which name
// every node, and the records of frames.
func (a *Archive) ownershipOnce(v *view) (*extentMap, error) {
	if a.owners != nil && a.owners.of == v {
		return a.owners, nil
	}
	m := &extentMap{of: v}
	for tree := index.Entries; tree <= index.Free; tree++ {
		if root := v.tree(tree); root.Height > 0 {
			if err := a.mapNodes(m, tree, root.Ref, int(root.Height)-1); err != nil {
				return nil, err
			}
		}
	}
	it := index.NewIter(a, index.Frames, v.tree(index.Frames))
	for ok := it.Seek(nil); ok; ok = it.Next() {
		r, err := index.DecodeFrameLean(it.Value(), a.suite.TagSize(), a.sector)
		if err != nil {
			return nil, err
		}
		m.exts = append(m.exts, r.Ext)
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(m.exts, func(x, y format.Extent) int { return cmp.Compare(x.Off, y.Off) })
	a.owners = m
	return m, nil
}

func (a *Archive) mapNodes(m *extentMap, tree index.Tree, ref index.Ref, level int) error {
	m.exts = append(m.exts, format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), a.sector)})
	if level == 0 {
		return nil
	}
	n, err := a.Node(tree, ref, level)
	if err != nil {
		return err
	}
	s := n.Scan()
	for s.Next() {
		child, err := s.Ref()
		if err != nil {
			return err
		}
		if err := a.mapNodes(m, tree, child, level-1); err != nil {
			return err
		}
	}
	return s.Err()
}
