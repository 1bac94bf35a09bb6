package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// settle brings the frames to their final state: contents that nothing references leave their packs (the
// survivors move to new ones), their own frames are given up, and the packs still open are written.
func (t *Tx) settle(ctx context.Context) error {
	if err := t.drain(); err != nil {
		return err
	}
	packs := map[uint64]uint8{} // frames with a dead member, and their class
	dead := func(frame uint64, unit, size int64) error {
		if unit != 0 {
			for k := uint64(0); k < uint64((size+unit-1)/unit); k++ {
				rec, err := t.frameRecord(frame + k)
				if err != nil {
					return err // before a number that no frame bears is noted
				}
				if rec.Class != frames.NoPack {
					return format.Corrupt("content", -1, "frame %d of its run is a pack, which others share", frame+k)
				}
				t.gone[frame+k] = true
			}
			return nil
		}
		if frame == 0 {
			return nil // in an open pack
		}
		rec, err := t.frameRecord(frame)
		if err != nil {
			return err
		}
		if rec.Class == frames.NoPack {
			t.gone[frame] = true
		} else if !t.gone[frame] {
			packs[frame] = rec.Class
		}
		return nil
	}
	for _, n := range slices.Sorted(maps.Keys(t.changed)) {
		if c := t.changed[n]; c.Refs == 0 {
			for _, r := range c.Runs {
				if err := dead(r.Frame, r.Unit, r.Len); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range t.fresh.all() {
		if c.refs == 0 {
			if err := dead(c.frame, int64(c.unit), c.size); err != nil {
				return err
			}
		}
	}
	for _, p := range t.packs {
		// Before survivors join them: a pack that fills up is written as it is.
		if p != nil {
			if err := t.dropDead(p); err != nil {
				return err
			}
		}
	}
	if len(packs) > 0 {
		if err := t.startPipe(); err != nil {
			return err
		}
	}
	for _, number := range slices.Sorted(maps.Keys(packs)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.repack(number, packs[number]); err != nil {
			return err
		}
	}
	for class := range t.packs {
		p := t.packs[class]
		if p == nil {
			continue
		}
		open := journal.NoFrame
		if n := len(*p.buf); n > 0 && n < packTarget(t.level(), uint8(class))*3/4 {
			// Of two that are not full, the smaller one takes what comes.
			last, left, err := t.lastPack(uint8(class))
			if err != nil {
				return err
			}
			if !left || n < last {
				open = t.nextFrame
			}
		}
		if err := t.closePack(uint8(class), open); err != nil {
			return err
		}
	}
	for class, f := range t.openPacks {
		if t.gone[f] {
			t.openPacks[class] = journal.NoFrame
		}
	}
	return t.drain()
}

// repack moves the live members of a pack to the open pack of its class. A pack of this transaction is
// found in its records like a committed one.
func (t *Tx) repack(number uint64, class uint8) error {
	if t.gone[number] {
		return nil // folded into an open pack meanwhile
	}
	if class >= packClasses {
		return format.Corrupt("frame record", -1, "frame %d: unknown pack class %d", number, class)
	}
	if number < t.firstFrame {
		if err := t.apart(number, class); err != nil {
			return err
		}
		return t.unpack(number, class)
	}
	if err := t.drain(); err != nil {
		return err
	}
	rec, err := t.frameRecord(number)
	if err != nil {
		return err
	}
	ref := toRef(number, rec)
	plain, err := t.readFrame(&ref)
	if err != nil {
		return err
	}
	off := int64(0)
	for _, n := range slices.Clone(rec.Contents) {
		size, refs := int64(0), uint64(0)
		if n >= t.firstContent {
			c := t.fresh.at(int(n - t.firstContent))
			size, refs = c.size, uint64(c.refs)
		} else {
			c, err := t.content(n)
			if err != nil {
				return err
			}
			size, refs = c.Size, c.Refs
		}
		if refs > 0 {
			if err := t.locate(n, 0, 0); err != nil {
				return err
			}
			if err := t.pack(class, n, plain[off:off+size]); err != nil {
				return err
			}
		}
		off += size
	}
	t.gone[number] = true
	return nil
}

// dropDead removes contents that nothing references any more from an open pack.
func (t *Tx) dropDead(p *pack) error {
	kept := p.members[:0]
	out, at := 0, 0
	for _, m := range p.members {
		live := true
		if m.Content >= t.firstContent {
			live = t.fresh.at(int(m.Content-t.firstContent)).refs > 0
		} else {
			c, err := t.content(m.Content)
			if err != nil {
				return err
			}
			live = c.Refs > 0
		}
		if live {
			out += copy((*p.buf)[out:], (*p.buf)[at:at+int(m.Len)])
			kept = append(kept, m)
		}
		at += int(m.Len)
	}
	p.members = kept
	*p.buf = (*p.buf)[:out]
	return nil
}

// trees applies the transaction to the four trees that hold the archive's content and returns the new
// roots and counters. The free tree comes later: it depends on what these supersede.
func (t *Tx) trees(ctx context.Context) (roots [5]index.Root, k journal.Counters, err error) {
	roots = t.base.roots
	k = t.base.commit.Counters
	tag := t.a.suite.TagSize()
	apply := func(tree index.Tree, ops iter.Seq[index.Op]) {
		switch {
		case err != nil:
		case ctx.Err() != nil:
			err = ctx.Err()
		case t.compact != nil && t.compact.rebuild:
			roots[tree-1], err = t.rebuildTree(tree, roots[tree-1], ops)
		default:
			roots[tree-1], err = index.Apply(t.a, t, tree, roots[tree-1], tag, nodeSize, ops)
		}
		if errors.Is(err, fs.ErrNotExist) {
			// What is deleted here another record of the archive has named.
			err = format.Corrupt("tree "+tree.String(), -1, "its records and those of another tree disagree: %v", err)
		}
	}
	contents, digests, cerr := t.contentOps(&k)
	if cerr != nil {
		return roots, k, cerr
	}
	frameOps, ferr := t.frameOps(&k)
	if ferr != nil {
		return roots, k, ferr
	}
	apply(index.Contents, contents)
	apply(index.Digests, digests)
	apply(index.Frames, frameOps)
	apply(index.Entries, func(yield func(index.Op) bool) {
		e := &t.entries
		for i := range e.ops {
			o := &e.ops[i]
			op := index.Op{Key: e.key(o), Delete: o.vlen < 0}
			if o.vlen >= 0 {
				op.Value = e.value(o)
			}
			if !yield(op) {
				return
			}
		}
	})
	k.Entries = roots[index.Entries-1].Count
	k.NextContent = t.nextContent()
	k.NextFrame = t.nextFrame
	return roots, k, err
}

// contentOps returns the changes of the trees contents and digests.
func (t *Tx) contentOps(k *journal.Counters) (contents, digests iter.Seq[index.Op], err error) {
	type change struct {
		n     uint64
		value []byte // nil: delete
	}
	type digestKey [16]byte
	var old []change
	var dropped, added []digestKey
	key := func(d *format.Digest, n uint64) (b digestKey) {
		p := t.a.suite.Prefix(d)
		copy(b[:8], p[:])
		binary.BigEndian.PutUint64(b[8:], n)
		return b
	}
	for _, n := range slices.Sorted(maps.Keys(t.changed)) {
		c := t.changed[n]
		if c.Refs == 0 {
			old = append(old, change{n: n})
			dropped = append(dropped, key(&c.Digest, n))
			k.PlainBytes -= uint64(c.Size)
			continue
		}
		was, _, err := index.Get(t.a, index.Contents, t.base.tree(index.Contents), index.AppendNumKey(nil, n))
		if err != nil {
			return nil, nil, err
		}
		if v := index.AppendContent(nil, c); !bytes.Equal(v, was) {
			old = append(old, change{n: n, value: v})
		}
	}
	added = make([]digestKey, 0, t.fresh.len())
	for i, c := range t.fresh.all() {
		if c.refs > 0 {
			added = append(added, key(&c.digest, t.firstContent+uint64(i)))
			k.PlainBytes += uint64(c.size)
		}
	}
	slices.SortFunc(dropped, func(x, y digestKey) int { return bytes.Compare(x[:], y[:]) })
	slices.SortFunc(added, func(x, y digestKey) int { return bytes.Compare(x[:], y[:]) })
	contents = func(yield func(index.Op) bool) {
		for _, c := range old {
			if !yield(index.Op{Key: index.AppendNumKey(nil, c.n), Value: c.value, Delete: c.value == nil}) {
				return
			}
		}
		for i, f := range t.fresh.all() {
			if f.refs == 0 {
				continue
			}
			c := index.Content{Size: f.size, Digest: f.digest, Refs: uint64(f.refs),
				Runs: []index.Run{{Frame: f.frame, Off: f.off, Len: f.size, Unit: int64(f.unit)}}}
			if !yield(index.Op{Key: index.AppendNumKey(nil, t.firstContent+uint64(i)), Value: index.AppendContent(nil, &c)}) {
				return
			}
		}
	}
	digests = func(yield func(index.Op) bool) {
		for i, j := 0, 0; i < len(dropped) || j < len(added); {
			del := j == len(added) || i < len(dropped) && bytes.Compare(dropped[i][:], added[j][:]) < 0
			op := index.Op{Delete: del}
			if del {
				op.Key = dropped[i][:]
				i++
			} else {
				op.Key = added[j][:]
				j++
			}
			if !yield(op) {
				return
			}
		}
	}
	return contents, digests, nil
}

// frameOps returns the changes of the frames tree, and puts the extents of what it drops on the lists.
func (t *Tx) frameOps(k *journal.Counters) (iter.Seq[index.Op], error) {
	var dropped []uint64
	moved := map[uint64]*index.Frame{}
	if t.compact != nil {
		for n, ext := range t.compact.moves {
			rec, err := t.frameRecord(n)
			if err != nil {
				return nil, err
			}
			t.retired = append(t.retired, journal.Planned{Extent: rec.Ext, Generation: t.gen, Kind: journal.OwnerFrame, Owner: n})
			rec.Ext = ext
			moved[n] = rec
			dropped = append(dropped, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(t.gone)) {
		rec, err := t.frameRecord(n)
		if err != nil {
			return nil, err
		}
		p := journal.Planned{Extent: rec.Ext, Generation: t.gen}
		if n >= t.firstFrame {
			t.unused = append(t.unused, p)
			continue
		}
		p.Kind, p.Owner = journal.OwnerFrame, n
		t.retired = append(t.retired, p)
		dropped = append(dropped, n)
		k.StoredBytes -= uint64(rec.Stored)
		k.FrameBytes -= uint64(rec.Ext.Len)
	}
	for i, f := range t.frames.all() {
		if !t.gone[t.firstFrame+uint64(i)] {
			k.StoredBytes += uint64(f.Stored)
			k.FrameBytes += uint64(f.Ext.Len)
		}
	}
	slices.Sort(dropped)
	return func(yield func(index.Op) bool) {
		for _, n := range dropped {
			op := index.Op{Key: index.AppendNumKey(nil, n), Delete: true}
			if rec := moved[n]; rec != nil {
				op.Value, op.Delete = index.AppendFrame(nil, rec, t.a.suite.TagSize(), t.a.sector), false
			}
			if !yield(op) {
				return
			}
		}
		for i, f := range t.frames.all() {
			n := t.firstFrame + uint64(i)
			if t.gone[n] {
				continue
			}
			v := index.AppendFrame(nil, f, t.a.suite.TagSize(), t.a.sector)
			if !yield(index.Op{Key: index.AppendNumKey(nil, n), Value: v}) {
				return
			}
		}
	}, nil
}

// Bounds of the sets that a root carries. What is above them goes to the free tree.
const (
	stageExtents = 256
	stageRefill  = 256 << 10 // a smaller stage set is refilled from the free tree
	retireSoft   = 1024
	retireBytes  = 64 << 20
)

// stageBytes is how much an ordinary transaction's stage set holds. Only tests change it.
var stageBytes int64 = 64 << 20

// stageRoom is how much a stage set should hold, judged by what a transaction has written: room for twice that.
func stageRoom(written int64) int64 { return min(max(4*stageRefill, 2*written), stageBytes/4) }

// sets decides what becomes of the extents that the new root does not use: the stage set, the retire set,
// and the changes of the free tree. roots and k are the new ones, but for the free tree's.
func (t *Tx) sets(roots *[5]index.Root, k *journal.Counters) (retire []journal.Planned, edits *freeEdits, err error) {
	if t.compact != nil {
		return t.compactSets()
	}
	stage := append(t.space.held, t.unused...)
	t.unused = nil
	retire = append(retire, t.base.commit.Retire...)
	for _, p := range t.retired {
		if t.moved {
			p.Deleted = true
			retire = append(retire, p)
		} else {
			stage = append(stage, p)
		}
	}
	t.retired = nil
	old := t.base.super.CommitExtent()
	if t.a.temp == nil {
		stage = append(stage, journal.Planned{Extent: old, Generation: t.gen, Kind: journal.OwnerCommit})
	}
	edits = newFreeEdits(t)
	byOffset(retire)
	if len(retire) > retireSoft {
		if retire = join(retire); len(retire) > retireSoft {
			for _, p := range retire[retireSoft:] {
				edits.add(p, index.FreePending)
			}
			retire = retire[:retireSoft]
		}
	}
	byOffset(stage)
	t.space.held = stage
	if n := len(stage) + len(t.space.usable); n > stageExtents || totalLen(stage)+totalLen(t.space.usable) > stageBytes {
		t.spill(edits)
	} else if totalLen(stage)+totalLen(t.space.usable) < stageRefill || t.space.end > t.base.super.End {
		// Also when the stage set did not serve: what it holds is in too small pieces.
		err = edits.refill(stageRoom(t.space.given))
	}
	if t.restage && err == nil {
		err = edits.refill(stageBytes / 4)
	}
	if err == nil {
		err = t.reserve(edits, roots, *k)
	}
	return retire, edits, err
}

// Restage commits a generation that holds the same and in whose stage set the next transaction finds more of the
// archive's free space: for a transaction that is larger than the ones before it, on a disk that is full. It
// reports whether there was any.
func (a *Archive) Restage(ctx context.Context) (bool, error) {
	k := a.view().commit.Counters
	if k.FreeBytes == 0 && k.Pending == 0 {
		return false, nil
	}
	t, err := a.Begin(ctx)
	if err != nil {
		return false, err
	}
	t.restage = true
	if _, err = t.Commit(ctx); err != nil {
		return false, errors.Join(err, t.Rollback())
	}
	return true, nil
}

// Bounds of the reserve.
const (
	reserveFrom = 1 << 20 // a smaller archive has none, for it has little to give back
	reserveMax  = 384 << 10
)

// reserve is how much free space an archive of size bytes keeps: a removal writes nodes, and what stays of a
// pack, before it gives anything back, and on a full disk it can do that only within the file. So it is one path of
// every tree and a pack as well compressed as the rest, or a 32nd of the file when that is more; never more than
// a 16th.
func reserve(size int64, k *journal.Counters, roots *[5]index.Root, l frames.Level) int64 {
	if size < reserveFrom {
		return 0
	}
	path := uint64(0)
	for _, r := range roots {
		path += uint64(r.Height) * nodeSize
	}
	room := size / 32
	if roots[index.Contents-1].Count > roots[index.Frames-1].Count && k.PlainBytes > 0 { // there are packs
		pack := float64(maxPack(l)) * min(float64(k.StoredBytes)/float64(k.PlainBytes), 1)
		room = max(room, int64(pack)*9/8)
	}
	return min(int64(min(path, k.NodeBytes))+room, size/16, reserveMax) &^ 4095
}

func (v *view) reserve(size int64) int64 {
	return reserve(size, &v.commit.Counters, &v.roots, v.level())
}

// reserve makes sure that a transaction that lets the archive grow leaves it its reserve. The space is
// written, for a hole in the file reserves nothing.
func (t *Tx) reserve(edits *freeEdits, roots *[5]index.Root, k journal.Counters) error {
	s := &t.space
	if s.end == t.base.super.End {
		return nil // it may be a removal on a full disk
	}
	k.NodeBytes = uint64(max(int64(k.NodeBytes)+t.nodes, 0))
	want := reserve(s.end, &k, roots, t.level())
	free := totalLen(s.held) + totalLen(s.usable) + int64(t.base.commit.Counters.FreeBytes) + edits.free
	if free >= want/2 {
		return nil
	}
	e := format.Extent{Off: s.end, Len: format.AlignUp(want-max(free, 0), t.a.sector)}
	s.end += e.Len
	s.usable = append(s.usable, journal.Planned{Extent: e, Generation: t.gen})
	return t.out.write(zeros[:e.Len], e.Off)
}

// spill makes the stage set small enough: neighbours are joined, then the smallest extents go to the free
// tree.
func (t *Tx) spill(edits *freeEdits) {
	s := &t.space
	s.held = join(s.held)
	bySize := slices.Clone(s.held)
	slices.SortStableFunc(bySize, func(x, y journal.Planned) int { return cmp.Compare(y.Len, x.Len) })
	room, bytes := max(stageExtents-len(s.usable), stageExtents/2), stageBytes-totalLen(s.usable)
	s.held = nil
	for _, p := range bySize {
		if room > 0 && p.Len <= bytes {
			room--
			bytes -= p.Len
			s.held = append(s.held, p)
		} else {
			edits.add(p, index.FreePendingClean)
		}
	}
	byOffset(s.held)
}
