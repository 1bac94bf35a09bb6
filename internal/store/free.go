package store

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// freeEdits gathers changes of the free tree: extents that join it, extents taken out of it.
type freeEdits struct {
	t       *Tx
	root    index.Root
	put     map[int64]index.FreeExtent
	ends    map[int64]int64 // of what is in put: end → offset
	del     map[int64]bool
	rebuild bool  // write the whole tree anew
	free    int64 // change of wiped bytes
	pending int64 // change of extents not wiped
	err     error
}

func newFreeEdits(t *Tx) *freeEdits {
	return &freeEdits{t: t, root: t.base.tree(index.Free), put: map[int64]index.FreeExtent{}, ends: map[int64]int64{}, del: map[int64]bool{}}
}

// add puts an extent into the free tree. It is joined with neighbours of the same state there, unless it
// waits to be wiped: that may have to wait for different readers.
func (f *freeEdits) add(p journal.Planned, state index.FreeState) {
	e := index.FreeExtent{Ext: p.Extent, Gen: p.Generation, State: state}
	if state == index.FreeWiped {
		f.free += p.Len
	} else {
		f.pending++
	}
	for state != index.FreePending {
		n, ok := f.touching(e.Ext, state)
		if !ok {
			break
		}
		f.drop(n)
		if state != index.FreeWiped {
			f.pending--
		}
		e.Gen = max(e.Gen, n.Gen)
		e.Ext = format.Extent{Off: min(e.Ext.Off, n.Ext.Off), Len: e.Ext.Len + n.Ext.Len}
	}
	f.set(e)
}

func (f *freeEdits) set(e index.FreeExtent) {
	f.put[e.Ext.Off] = e
	f.ends[e.Ext.End()] = e.Ext.Off
}

// wiped takes the pending record at e out, if there is one; of a longer one the rest stays.
func (f *freeEdits) wiped(e format.Extent) error {
	key := index.AppendNumKey(nil, uint64(e.Off))
	value, ok, err := index.Get(f.t.a, index.Free, f.root, key)
	if err != nil || !ok {
		return err
	}
	r, err := f.t.a.freeExtent(key, value)
	if err != nil {
		return err
	}
	f.del[e.Off] = true
	if r.Ext.Len > e.Len {
		r.Ext = format.Extent{Off: e.End(), Len: r.Ext.Len - e.Len}
		f.set(r)
	} else {
		f.pending--
	}
	return nil
}

// drop takes a record out, of the edits or of the tree.
func (f *freeEdits) drop(e index.FreeExtent) {
	if _, ok := f.put[e.Ext.Off]; ok {
		delete(f.put, e.Ext.Off)
		delete(f.ends, e.Ext.End())
		return
	}
	f.del[e.Ext.Off] = true
}

// restore takes a drop back.
func (f *freeEdits) restore(e index.FreeExtent) {
	if f.del[e.Ext.Off] {
		delete(f.del, e.Ext.Off)
		return
	}
	f.set(e)
}

// neighbour finds a wiped record that touches e, in the edits or in the tree.
func (f *freeEdits) neighbour(e format.Extent) (index.FreeExtent, bool) {
	return f.touching(e, index.FreeWiped)
}

// touching finds a record of a state that touches e, in the edits or in the tree.
func (f *freeEdits) touching(e format.Extent, state index.FreeState) (index.FreeExtent, bool) {
	if off, ok := f.ends[e.Off]; ok && f.put[off].State == state {
		return f.put[off], true
	}
	if n, ok := f.put[e.End()]; ok && n.State == state {
		return n, true
	}
	if f.root.Height == 0 || f.err != nil {
		return index.FreeExtent{}, false
	}
	it := index.NewIter(f.t.a, index.Free, f.root)
	before := func() bool { return it.SeekLE(index.AppendNumKey(nil, uint64(e.Off-1))) }
	after := func() bool { return it.Seek(index.AppendNumKey(nil, uint64(e.End()))) }
	for _, seek := range []func() bool{before, after} {
		if !seek() {
			if err := it.Err(); err != nil {
				f.err = err
			}
			continue
		}
		n, err := f.t.a.freeExtent(it.Key(), it.Value())
		if err != nil {
			f.err = err
			return index.FreeExtent{}, false
		}
		if n.State == state && !f.del[n.Ext.Off] && (n.Ext.End() == e.Off || n.Ext.Off == e.End()) {
			return n, true
		}
	}
	return index.FreeExtent{}, false
}

// refillLooks is how many records of the free tree are looked at for room.
const refillLooks = 1024

// refill moves about room bytes from the free tree to the stage set, the longest extents among the first of
// the file, so that the next transaction finds room there.
func (f *freeEdits) refill(room int64) error {
	if f.root.Height == 0 {
		return f.err
	}
	t := f.t
	it := index.NewIter(t.a, index.Free, f.root)
	var found []index.FreeExtent
	for ok := it.Seek(nil); ok && len(found) < refillLooks; ok = it.Next() {
		e, err := t.a.freeExtent(it.Key(), it.Value())
		if err != nil {
			return err
		}
		if e.State != index.FreePending && !f.del[e.Ext.Off] {
			found = append(found, e)
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	slices.SortStableFunc(found, func(x, y index.FreeExtent) int { return cmp.Compare(y.Ext.Len, x.Ext.Len) })
	for _, e := range found[:min(len(found), stageExtents/4)] {
		if room <= 0 {
			break
		}
		f.del[e.Ext.Off] = true
		take := e.Ext
		if e.State == index.FreeWiped {
			if take.Len > room {
				// A large one is taken from its front only; the rest stays wiped and free.
				take.Len = format.AlignUp(room, t.a.sector)
				rest := index.FreeExtent{Ext: format.Extent{Off: take.End(), Len: e.Ext.Len - take.Len}, Gen: e.Gen, State: e.State}
				if rest.Ext.Len > 0 {
					f.set(rest)
				} else {
					take = e.Ext
				}
			}
			f.free -= take.Len
		} else {
			f.pending--
		}
		kind := journal.OwnerNone
		if e.State != index.FreeWiped {
			kind = journal.OwnerSeveral
		}
		t.space.held = append(t.space.held, journal.Planned{Extent: take, Generation: e.Gen, Kind: kind})
		room -= take.Len
	}
	byOffset(t.space.held)
	return nil
}

// apply writes the edits and returns the new root. The extents of nodes it supersedes go to the stage
// set: a node of the free tree holds nothing but offsets.
func (f *freeEdits) apply(k *journal.Counters) (index.Root, error) {
	t := f.t
	if f.err != nil {
		return f.root, f.err
	}
	k.FreeBytes = uint64(int64(k.FreeBytes) + f.free)
	k.Pending = uint64(int64(k.Pending) + f.pending)
	if len(f.put)+len(f.del) == 0 && !f.rebuild {
		return f.root, nil
	}
	var ops iter.Seq[index.Op] = func(yield func(index.Op) bool) {
		offs := slices.Collect(maps.Keys(f.put))
		for off := range f.del {
			if _, ok := f.put[off]; !ok {
				offs = append(offs, off)
			}
		}
		slices.Sort(offs)
		for _, off := range offs {
			op := index.Op{Key: index.AppendNumKey(nil, uint64(off)), Delete: true}
			if e, ok := f.put[off]; ok {
				op.Value, op.Delete = index.AppendFree(nil, &e), false
			}
			if !yield(op) {
				return
			}
		}
	}
	var root index.Root
	var err error
	if f.rebuild {
		root, err = t.rebuildTree(index.Free, f.root, ops)
	} else {
		root, err = index.Apply(t.a, t, index.Free, f.root, t.a.suite.TagSize(), nodeSize, ops)
	}
	t.space.held = append(append(t.space.held, t.retired...), t.unused...)
	t.retired, t.unused = nil, nil
	byOffset(t.space.held)
	return root, err
}

// freeExtent reads a record of the free tree and checks that its extent can be one: reuse and wiping go by it.
func (a *Archive) freeExtent(key, value []byte) (index.FreeExtent, error) {
	e, err := index.DecodeFree(key, value)
	if err == nil && (e.Ext.Off%a.sector != 0 || e.Ext.Len%a.sector != 0 || e.Ext.End() > a.cur.super.End) {
		err = format.Corrupt("free tree", e.Ext.Off, "an extent of %d bytes that lies outside the archive or not at sectors", e.Ext.Len)
	}
	return e, err
}
