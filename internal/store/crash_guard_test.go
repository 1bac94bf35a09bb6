package store_test

import (
	"cmp"
	"errors"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// guard returns a check of every write against the root that is current in the cache (invariant 6).
func (r *run) guard(sim *vfs.Sim, where func() string) func(vfs.SimOp) {
	var allowed []format.Extent
	known, any := false, false
	return func(op vfs.SimOp) {
		switch op.Kind {
		case vfs.OpSync:
			known = false
			return
		case vfs.OpWrite, vfs.OpTruncate:
		default:
			return
		}
		if op.Off < format.DataStart && op.Kind == vfs.OpWrite {
			known = false
			if !any && (op.Len > 512 || op.Off%format.PageSize != 0) {
				if _, err := sim.Open(archive, false); err == nil {
					fail(inv6, where(), "%s reaches beyond a superblock copy", opName(op))
				}
			}
			return
		}
		if !known {
			allowed, any = r.mayWrite(sim)
			known = true
		}
		if any {
			return
		}
		e := format.Extent{Off: op.Off, Len: int64(op.Len)}
		if op.Kind == vfs.OpTruncate {
			e.Len = format.MaxLogicalEnd - e.Off
		}
		for _, x := range allowed {
			if x.Off <= e.Off && e.Off < x.End() {
				if e.End() <= x.End() {
					return
				}
				e = format.Extent{Off: x.End(), Len: e.End() - x.End()}
			}
		}
		fail(inv6, where(), "%s, which the root does not give up (it begins to differ at %d)", opName(op), e.Off)
	}
}

// mayWrite returns what a writer may write: the extents that the current root plans to wipe or to write
// again, of its sets and of the free tree, as far as all four copies, in the cache and on the disk, are
// past the generation that retired them, and everything past its end. any: there is no archive yet.
func (r *run) mayWrite(sim *vfs.Sim) (allowed []format.Extent, any bool) {
	f, err := sim.Open(archive, false)
	if err != nil {
		return nil, true
	}
	defer f.Close()
	c, least := generations(f)
	if c == nil {
		return nil, false
	}
	sim.Pending().Each(vfs.Spread{}, nil, func(durable *vfs.Sim, _ vfs.Rule) bool {
		d, err := durable.Open(archive, false)
		if err != nil {
			least = 0
			return false
		}
		_, onDisk := generations(d)
		least = min(least, onDisk)
		return false
	})
	suite, _, err := journal.Opening{Unlock: r.options(sim).Unlock}.Suite(r.ctx, f, c.Current)
	if err != nil {
		return nil, false
	}
	m, _, err := journal.ReadCommit(f, c.Current, suite)
	if err != nil {
		return nil, false
	}
	for _, p := range append(append(m.Stage, m.Retire...), unwiped(rawNodes{f, suite, c.Current}, m)...) {
		if p.Generation <= least {
			allowed = append(allowed, p.Extent)
		}
	}
	slices.SortFunc(allowed, func(x, y format.Extent) int { return cmp.Compare(x.Off, y.Off) })
	return append(allowed, format.Extent{Off: c.Current.End, Len: format.MaxLogicalEnd - c.Current.End}), false
}

// generations returns what the copies of an archive say, and the lowest generation that one of them names.
func generations(f vfs.File) (*journal.Copies, uint64) {
	front := make([]byte, format.CopiesSize)
	if _, err := f.ReadAt(front, 0); err != nil {
		return nil, 0
	}
	c, err := journal.DecodeCopies(front)
	if err != nil {
		return nil, 0
	}
	if c.AllEqual() {
		return c, c.Current.Generation
	}
	least := c.Current.Generation
	for i := range 4 {
		alone := make([]byte, format.CopiesSize)
		copy(alone[i*format.PageSize:][:format.PageSize], front[i*format.PageSize:])
		x, err := journal.DecodeCopies(alone)
		if err != nil {
			return c, 0
		}
		least = min(least, x.Current.Generation)
	}
	return c, least
}

// rawNodes reads nodes without a cache.
type rawNodes struct {
	f     vfs.File
	suite seal.Suite
	super *journal.Super
}

func (r rawNodes) Node(t index.Tree, ref index.Ref, level int) (*index.Node, error) {
	b := make([]byte, index.StoredLen(r.suite, ref.Len, r.super.Sector))
	if _, err := r.f.ReadAt(b, ref.Off); err != nil {
		return nil, err
	}
	b, ok := index.OpenNode(r.suite, r.super.Archive, t, &ref, b)
	if !ok {
		return nil, errors.New("a node does not verify")
	}
	return index.ParseNode(b, t, level, r.suite.TagSize(), ref.Off)
}

// unwiped returns the extents that the free tree of a root plans to wipe.
func unwiped(nodes rawNodes, m *journal.Commit) (set []journal.Planned) {
	if m.Counters.Pending == 0 {
		return nil
	}
	c := format.NewCursor(m.Trees, "root record", 0)
	var root index.Root
	for tree := index.Entries; tree <= index.Free; tree++ {
		root = index.DecodeRoot(c, nodes.suite.TagSize())
	}
	it := index.NewIter(nodes, index.Free, root)
	for ok := root.Height > 0 && it.Next(); ok; ok = it.Next() {
		if e, err := index.DecodeFree(it.Key(), it.Value()); err == nil && e.State != index.FreeWiped {
			set = append(set, journal.Planned{Extent: e.Ext, Generation: e.Gen})
		}
	}
	return set
}
