package store

import (
	"cmp"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// layout is what stands where in one generation, as far as compacting goes by it.
type layout struct {
	places    []place // of frames, by offset
	frames    int64   // bytes of their extents
	largest   int64   // of these
	lowNode   int64   // where the first node begins; far away when there is none
	lastEnd   int64   // where the last frame or node of the four trees that hold content ends
	nodes     int64   // bytes that the four trees would have if their nodes were full
	freeNodes int64   // bytes of the extents of the free tree's nodes

	nodeExtents []format.Extent
	candidate   []packed
}

// packed is a pack that is not full.
type packed struct {
	number uint64
	class  uint8
	plain  int64
}

// ideal is the size of an archive that holds the same and nothing else.
func (l *layout) ideal() int64 { return format.DataStart + l.frames + l.nodes + 4096 }

// packedEnd is where the frames would end if they stood side by side.
func (l *layout) packedEnd() int64 { return format.DataStart + l.frames }

// gaps is how much of gaps between frames is not worth closing.
func (l *layout) gaps() int64 { return l.packedEnd() / 160 &^ (format.PageSize - 1) }

// scan takes the layout of the current generation from its trees.
func (c *compaction) scan() error {
	a, v := c.a, c.a.cur
	l := layout{places: c.places[:0], nodeExtents: c.nodeExtents[:0], lowNode: noZone, lastEnd: format.DataStart}
	it := index.NewIter(a, index.Frames, v.tree(index.Frames))
	for ok := it.Next(); ok; ok = it.Next() {
		n, err := index.DecodeNumKey(it.Key())
		if err != nil {
			return err
		}
		r, err := index.DecodeFrameLean(it.Value(), a.suite.TagSize(), a.sector)
		if err != nil {
			return err
		}
		l.places = append(l.places, place{r.Ext, n})
		l.frames += r.Ext.Len
		l.largest = max(l.largest, r.Ext.Len)
		l.lastEnd = max(l.lastEnd, r.Ext.End())
		if r.Class < packClasses && int(r.Plain) < packTarget(v.level(), r.Class) {
			l.candidate = append(l.candidate, packed{n, r.Class, int64(r.Plain)})
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	sortPlaces(l.places)
	if e := v.super.KeyDirExtent(); e.Len > 0 {
		// It is moved with the trees.
		l.lowNode, l.lastEnd, l.nodes = min(l.lowNode, e.Off), max(l.lastEnd, e.End()), e.Len
		l.nodeExtents = append(l.nodeExtents, e)
	}
	for tree := index.Entries; tree <= index.Free; tree++ {
		root := v.tree(tree)
		if root.Height == 0 {
			continue
		}
		used := make([]int64, root.Height)
		if err := c.scanNodes(&l, tree, root.Ref, int(root.Height)-1, used); err != nil {
			return err
		}
		for _, n := range used {
			l.nodes += format.AlignUp(n, a.sector)
		}
	}
	c.layout = l
	return nil
}

func (c *compaction) scanNodes(l *layout, tree index.Tree, ref index.Ref, level int, used []int64) error {
	l.lowNode = min(l.lowNode, ref.Off)
	e := format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), c.a.sector)}
	l.nodeExtents = append(l.nodeExtents, e)
	switch {
	case tree == index.Free:
		l.freeNodes += e.Len
	case ref.Len > nodeSize:
		// An item that is longer than a node has one of its own, and the nodes before it cannot be filled from behind it.
		l.nodes += format.AlignUp(used[level], c.a.sector) + e.Len
		used[level] = 0
	default:
		used[level] += int64(ref.Len)
	}
	if tree != index.Free {
		l.lastEnd = max(l.lastEnd, e.End())
	}
	if level == 0 {
		return nil
	}
	return c.a.children(tree, ref, level, func(child index.Ref) error { return c.scanNodes(l, tree, child, level-1, used) })
}

func sortPlaces(p []place) {
	slices.SortFunc(p, func(x, y place) int { return cmp.Compare(x.Off, y.Off) })
}

// freeBelow is how much before end is neither a frame's nor a node's.
func (l *layout) freeBelow(end int64) int64 {
	n := end - format.DataStart
	for _, p := range l.places {
		n -= max(min(p.End(), end)-p.Off, 0)
	}
	for _, e := range l.nodeExtents {
		n -= max(min(e.End(), end)-e.Off, 0)
	}
	return n
}

// misplaced is how many bytes of frames stand beyond the place where all frames could end.
func (c *compaction) misplaced() (n int64) {
	for _, p := range c.places {
		if p.End() > c.packedEnd() {
			n += p.Len
		}
	}
	return n
}
