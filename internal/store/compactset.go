package store

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"math"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// errCeiling refuses a write that would make the file grow beyond what a compaction may use. Nothing was
// written, so it does not poison the handle.
var errCeiling = errors.New("there is not enough free space inside the archive")

// rearrangement is what a compaction's transaction does beside merging packs, and which of the free
// extents its root stages: a transaction can write only what the root before it announced.
type rearrangement struct {
	moves   map[uint64]format.Extent // frame → its new extent, written already
	rebuild bool                     // write all trees anew

	// Free space before zone is for frames: of its runs of at least least bytes that end after from, the first
	// room bytes are staged. From zone on it is for nodes and commit blocks.
	zone, from, least, room int64
}

// Bounds of the stage set of a compaction's roots.
const (
	compactExtents = 8192 // before the zone
	zoneExtents    = 4096
	zoneRoom       = 16 << 20
	ownRoom        = 512 << 10 // for what the transaction itself has still to write
)

// compactRoom bounds the bytes staged before the zone, unless nodes are to be written there. Only tests change it.
var compactRoom int64 = 64 << 20

const noZone = math.MaxInt64

// freeSpan is a free extent on its way into the next root.
type freeSpan struct {
	journal.Planned
	usable bool            // this transaction may still write it
	tree   bool            // it stands in the free tree
	state  index.FreeState // there
}

// compactSets is sets for a compaction: it stages what the next transaction has planned for.
func (t *Tx) compactSets() (retire []journal.Planned, edits *freeEdits, err error) {
	edits = newFreeEdits(t)
	edits.rebuild = t.compact.rebuild
	retire = slices.Clone(t.base.commit.Retire)
	var pool []freeSpan
	add := func(set []journal.Planned, usable bool) {
		for _, p := range set {
			pool = append(pool, freeSpan{Planned: p, usable: usable})
		}
	}
	add(t.space.usable, true)
	add(t.space.held, false)
	add(t.unused, false)
	add([]journal.Planned{{Extent: t.base.super.CommitExtent(), Generation: t.gen, Kind: journal.OwnerCommit}}, false)
	if t.moved {
		for _, p := range t.retired {
			p.Deleted = true
			retire = append(retire, p)
		}
		byOffset(retire)
	} else {
		add(t.retired, false)
	}
	t.unused, t.retired = nil, nil
	slices.SortFunc(pool, func(x, y freeSpan) int { return cmp.Compare(x.Off, y.Off) })

	s := selection{r: t.compact, edits: edits, sector: t.a.sector,
		count: compactExtents, room: t.compact.room, zoneCount: zoneExtents, zoneRoom: zoneRoom, ownRoom: ownRoom}
	it := index.NewIter(t.a, index.Free, edits.root)
	ok := edits.root.Height > 0 && it.Next()
	for ok || len(pool) > 0 {
		var f index.FreeExtent
		if ok {
			if f, err = t.a.freeExtent(it.Key(), it.Value()); err != nil {
				return nil, nil, err
			}
		}
		switch {
		case !ok || len(pool) > 0 && pool[0].Off < f.Ext.Off:
			s.next(pool[0])
			pool = pool[1:]
			continue
		case f.State != index.FreePending:
			kind := journal.OwnerNone // proven when it was wiped
			if f.State != index.FreeWiped {
				kind = journal.OwnerSeveral
			}
			s.next(freeSpan{Planned: journal.Planned{Extent: f.Ext, Generation: f.Gen, Kind: kind}, tree: true, state: f.State})
		}
		if ok = it.Next(); ok && len(pool) == 0 && s.full() {
			break
		}
	}
	if err := it.Err(); err != nil {
		return nil, nil, err
	}
	s.endRun()
	t.space.usable, t.space.held = s.usable, s.held
	for _, p := range s.rejected {
		edits.add(p, index.FreePendingClean)
	}
	return retire, edits, nil
}

// selection chooses what is staged of the free extents, which come in ascending order.
type selection struct {
	r        *rearrangement
	edits    *freeEdits
	sector   int64
	run      []freeSpan // neighbours
	usable   []journal.Planned
	held     []journal.Planned
	rejected []journal.Planned // not in the free tree yet

	count, zoneCount        int
	room, zoneRoom, ownRoom int64
}

func (s *selection) full() bool {
	return (s.count <= 0 || s.room <= 0) && (s.zoneCount <= 0 || s.zoneRoom <= 0)
}

func (s *selection) next(f freeSpan) {
	if n := len(s.run); n > 0 && (s.run[n-1].End() != f.Off || s.run[0].Off < s.r.zone && f.Off >= s.r.zone) {
		s.endRun()
	}
	s.run = append(s.run, f)
}

func (s *selection) endRun() {
	if len(s.run) == 0 {
		return
	}
	first, last := &s.run[0], &s.run[len(s.run)-1]
	count, room := &s.zoneCount, &s.zoneRoom
	if first.Off < s.r.zone {
		count, room = &s.count, &s.room
		if last.End()-first.Off < s.r.least || last.End() <= s.r.from {
			count, room = new(int), new(int64)
		}
	}
	for _, f := range s.run {
		take := f.Planned
		take.Len = min(take.Len, format.AlignUp(*room, s.sector))
		if *count <= 0 {
			take.Len = 0
		}
		if take.Len == 0 && f.usable && f.Len >= nodeSize && s.ownRoom > 0 {
			take.Len = min(f.Len, s.ownRoom)
			s.ownRoom -= take.Len
			*count++
			*room += take.Len
		}
		rest := f.Planned
		rest.Off, rest.Len = take.End(), f.Len-take.Len
		if take.Len > 0 {
			*count--
			*room -= take.Len
			if f.usable {
				s.usable = append(s.usable, take)
			} else {
				s.held = append(s.held, take)
			}
		}
		switch {
		case !f.tree && rest.Len > 0:
			s.rejected = append(s.rejected, rest)
		case f.tree && take.Len > 0:
			s.edits.take(index.FreeExtent{Ext: f.Extent, Gen: f.Generation, State: f.state}, take.Len)
		}
	}
	s.run = s.run[:0]
}

// take removes the first n bytes of a record of the free tree.
func (f *freeEdits) take(e index.FreeExtent, n int64) {
	f.del[e.Ext.Off] = true
	if e.State == index.FreeWiped {
		f.free -= n
	}
	if n < e.Ext.Len {
		e.Ext = format.Extent{Off: e.Ext.Off + n, Len: e.Ext.Len - n}
		f.set(e)
	} else if e.State != index.FreeWiped {
		f.pending--
	}
}

// rebuildTree writes a tree anew, with ops applied, and retires all of the old one.
func (t *Tx) rebuildTree(tree index.Tree, old index.Root, ops iter.Seq[index.Op]) (index.Root, error) {
	it := index.NewIter(t.a, tree, old)
	root, err := index.Apply(t.a, t, tree, index.Root{}, t.a.suite.TagSize(), nodeSize, func(yield func(index.Op) bool) {
		next, stop := iter.Pull(ops)
		defer stop()
		op, more := next()
		ok := old.Height > 0 && it.Next()
		for ok || more {
			order := 1
			if ok {
				order = -1
				if more {
					order = bytes.Compare(it.Key(), op.Key)
				}
			}
			if order < 0 {
				if !yield(index.Op{Key: it.Key(), Value: it.Value()}) {
					return
				}
				ok = it.Next()
				continue
			}
			if !op.Delete && !yield(op) {
				return
			}
			if order == 0 {
				ok = it.Next()
			}
			op, more = next()
		}
	})
	if err == nil {
		err = it.Err()
	}
	if err == nil && old.Height > 0 {
		err = t.retireNodes(tree, old.Ref, int(old.Height)-1)
	}
	return root, err
}

func (t *Tx) retireNodes(tree index.Tree, ref index.Ref, level int) error {
	if level > 0 {
		err := t.a.children(tree, ref, level, func(child index.Ref) error { return t.retireNodes(tree, child, level-1) })
		if err != nil {
			return err
		}
	}
	t.Retire(tree, level, ref)
	return nil
}

// children calls fn for every child of a branch.
func (a *Archive) children(tree index.Tree, ref index.Ref, level int, fn func(index.Ref) error) error {
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
		if err := fn(child); err != nil {
			return err
		}
	}
	return s.Err()
}

// maxExtent bounds a frame's extent that is read whole: padding at most doubles a frame.
const maxExtent = 2*format.MaxFramePlain + 1<<20

// relocate writes a frame's extent, verified, to where t may write. A frame's tags say nothing of its offset.
func (t *Tx) relocate(number uint64, to format.Extent) error {
	rec, err := t.frameRecord(number)
	if err != nil {
		return err
	}
	ref := toRef(number, rec)
	if ref.ext.Len != to.Len || ref.ext.Len > maxExtent {
		return format.Corrupt("frame record", -1, "frame %d: an extent of %d bytes", number, ref.ext.Len)
	}
	buf := getBuf(int(ref.ext.Len))
	defer putBuf(buf)
	if err := t.a.pread(*buf, ref.ext.Off, "frame"); err != nil {
		return err
	}
	if err := t.a.checkExtent(&ref, *buf); err != nil {
		return err
	}
	if err := t.out.write(*buf, to.Off); err != nil {
		return err
	}
	t.compact.moves[number] = to
	return nil
}

// checkExtent verifies everything in a frame's extent against its index record: header, members, every
// block, and that the fill after them is zero. It does not change b.
func (a *Archive) checkExtent(f *frameRef, b []byte) error {
	if err := a.checkRef(f); err != nil {
		return err
	}
	if _, err := frames.CheckHeader(b, a.suite, a.id, &f.Info, f.ext.Off); err != nil {
		return err
	}
	h := frames.HeaderSize(a.suite.TagSize())
	stored := b[h : h+int(f.Stored)]
	buf := getBuf(len(stored)) // opening may work in place
	defer putBuf(buf)
	copy(*buf, stored)
	a.stats.BlocksVerified.Add(uint64(f.Blocks()))
	if f.BlockShift == 0 {
		_, err := frames.Check(a.suite, a.id, &f.Info, *buf)
		return err
	}
	table, err := frames.CheckTable(a.suite, a.id, &f.Info, bytes.Clone(b[h+len(stored):][:f.TableSize(a.suite.TagSize())]))
	if err != nil {
		return err
	}
	return table.Open(0, *buf)
}
