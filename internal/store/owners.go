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
	if p.Extent.Overlaps(v.super.KeyDirExtent()) {
		return owned("the key directory")
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
	if a.suite.Hider() != nil {
		// Sealed bytes do not tell what they are: ask who owns the extent.
		m, err := a.ownershipOnce(v)
		if err == nil && m.overlaps(p.Extent) {
			err = owned("a frame or node")
		}
		return err
	}
	b := make([]byte, p.Len)
	if err := a.pread(b, p.Off, "planned extent"); err != nil {
		return err
	}
	n, ok := nodeAt(b, tree, a.suite.TagSize())
	if !ok || n.Level() >= int(root.Height) {
		return nil
	}
	key, err := a.firstKey(n)
	if err != nil {
		// Its first leaf is gone or damaged: ask who owns the extent instead of what once stood in it.
		m, err := a.ownershipOnce(v)
		if err == nil && m.overlaps(p.Extent) {
			err = owned("the tree " + tree.String())
		}
		return err
	}
	ref, err := a.findNode(tree, root, key, n.Level())
	if err == nil && ref.Off == p.Off {
		err = owned("the tree " + tree.String())
	}
	return err
}

// nodeAt returns the node at the start of b, or false when no node of the tree is there.
func nodeAt(b []byte, tree index.Tree, tagSize int) (*index.Node, bool) {
	if len(b) < 8 {
		return nil, false
	}
	size := int64(binary.LittleEndian.Uint32(b[4:])) + 4*((int64(binary.LittleEndian.Uint16(b[2:]))+15)/16)
	if size > int64(len(b)) {
		return nil, false
	}
	n, err := index.ParseNode(b[:size], tree, int(b[1]), tagSize, -1)
	return n, err == nil
}

// firstKey returns the first key below a node: that of its first leaf.
func (a *Archive) firstKey(n *index.Node) ([]byte, error) {
	for {
		s := n.Scan()
		if !s.Next() {
			return nil, s.Err()
		}
		if n.Level() == 0 {
			return bytes.Clone(s.Key()), nil
		}
		ref, err := s.Ref()
		if err != nil {
			return nil, err
		}
		if n, err = a.Node(n.Tree(), ref, n.Level()-1); err != nil {
			return nil, err
		}
	}
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
	of    *view
	exts  []format.Extent
	bytes int64 // of nodes
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
	e := format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), a.sector)}
	m.exts = append(m.exts, e)
	// Nodes that are named again and again would have no end; in an archive they all fit.
	if m.bytes += e.Len; m.bytes > m.of.super.End {
		return format.Corrupt("tree "+tree.String(), ref.Off, "its nodes are more than the archive holds")
	}
	if level == 0 {
		return nil
	}
	return a.children(tree, ref, level, func(child index.Ref) error { return a.mapNodes(m, tree, child, level-1) })
}
