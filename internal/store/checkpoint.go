package store

import (
	"context"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// due returns the extents that may be wiped now: of the retire set, the pending part of the free tree and,
// if asked for, the stage set, what no reader needs; nothing when none of it must be wiped. What must be comes
// last: the others may hold older copies of it, and once it is gone nothing tells that they have to go, too.
func (a *Archive) due(v *view, stage bool) ([]journal.Planned, error) {
	quiet := newQuiet(a.f)
	var due, last []journal.Planned
	take := func(p journal.Planned, must bool) error {
		ok, err := quiet.below(p.Generation)
		if ok && must {
			last = append(last, p)
		} else if ok {
			due = append(due, p)
		}
		return err
	}
	for _, p := range v.commit.Stage {
		// Several: a checkpoint has moved it there from the free tree, as it was.
		if stage || p.Kind == journal.OwnerSeveral {
			if err := take(p, false); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range v.commit.Retire {
		if err := take(p, true); err != nil {
			return nil, err
		}
	}
	if v.commit.Counters.Pending > 0 {
		it := index.NewIter(a, index.Free, v.tree(index.Free))
		for ok := it.Seek(nil); ok && len(due)+len(last) < format.MaxSetExtents/2; ok = it.Next() {
			e, err := a.freeExtent(it.Key(), it.Value())
			if err != nil {
				return nil, err
			}
			if e.State == index.FreeWiped {
				continue
			}
			p := journal.Planned{Extent: e.Ext, Generation: e.Gen, Kind: journal.OwnerSeveral, Deleted: e.State == index.FreePending}
			if err := take(p, e.State == index.FreePending); err != nil {
				return nil, err
			}
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	if len(last) == 0 {
		return nil, nil
	}
	return append(due, last...), nil
}

// checkpoint publishes a root in which the wiped extents are free: as many as the stage set should have,
// the rest in the free tree, and none at the end of the archive when that is worth a truncation (C7, C8).
func (a *Archive) checkpoint(wiped []journal.Planned) error {
	t, err := a.begin()
	if err != nil {
		return err
	}
	defer func() { a.tx, t.done = nil, true }()
	retire := subtract(a.cur.commit.Retire, wiped)
	t.space.held = subtract(t.space.held, wiped)
	t.space.usable = subtract(t.space.usable, wiped)
	edits := newFreeEdits(t)
	if a.cur.commit.Counters.Pending > 0 {
		for _, p := range wiped {
			if err := edits.wiped(p.Extent); err != nil {
				return err
			}
		}
	}
	// What the wipe gave, joined; a wiped extent has no former owner any more.
	var clean []journal.Planned
	for _, p := range wiped {
		clean = append(clean, journal.Planned{Extent: p.Extent, Generation: p.Generation})
	}
	byOffset(clean)
	clean = join(clean)
	t.giveBack(&clean, edits)
	if skip(truncateFirst) && t.space.end < a.cur.super.End {
		_ = a.f.Truncate(t.space.end)
	}
	room, count := stageRoom(a.written), stageExtents-len(t.space.held)
	largestFirst(clean)
	for _, p := range clean {
		if room > 0 && count > 0 {
			room -= p.Len
			count--
			t.space.usable = append(t.space.usable, p)
		} else {
			edits.add(p, index.FreeWiped)
		}
	}
	if err := edits.refill(room); err != nil {
		return err
	}
	byOffset(t.space.usable)
	k := a.cur.commit.Counters
	roots := a.cur.roots
	if roots[index.Free-1], err = edits.apply(&k); err != nil {
		return err
	}
	k.NodeBytes = uint64(int64(k.NodeBytes) + t.nodes)
	t.space.held = append(t.space.held, journal.Planned{Extent: a.cur.super.CommitExtent(), Generation: t.gen, Kind: journal.OwnerCommit})
	c := &journal.Commit{Counters: k, Options: a.cur.commit.Options, Retire: retire, OpenPacks: a.cur.commit.OpenPacks}
	c.Carry(a.cur.commit)
	return t.publish(context.Background(), c, roots)
}

// truncateMin is the least that giving space back at the end of an archive is worth two more syncs for.
const truncateMin = 1 << 20

// giveBack lowers the logical end below free extents at the end of the archive: those that were just wiped
// and, as long as the transaction has enough other room, those that the free tree names. Without that
// room it would write past the lowered end, into extents that the committed root does not announce. The
// archive's reserve stays.
func (t *Tx) giveBack(clean *[]journal.Planned, edits *freeEdits) {
	end := t.space.end
	set := *clean
	var taken []index.FreeExtent
	for {
		if n := len(set); n > 0 && set[n-1].End() == end {
			end = set[n-1].Off
			set = set[:n-1]
			continue
		}
		if totalLen(set)+totalLen(t.space.usable) < stageRefill {
			break
		}
		n, ok := edits.neighbour(format.Extent{Off: end})
		if !ok || n.Ext.End() != end {
			break
		}
		edits.drop(n)
		taken = append(taken, n)
		end = n.Ext.Off
	}
	free := totalLen(set) + totalLen(t.space.usable) + int64(t.base.commit.Counters.FreeBytes) + edits.free
	for _, n := range taken {
		free -= n.Ext.Len
	}
	if short := t.base.reserve(end) - max(free, 0); short > 0 {
		keep := format.Extent{Off: end, Len: min(format.AlignUp(short, t.a.sector), t.space.end-end)}
		set = append(slices.Clip(set), journal.Planned{Extent: keep, Generation: t.base.super.Generation})
		end = keep.End()
	}
	if t.space.end-end >= max(truncateMin, t.space.end/16) && (len(taken) == 0 || totalLen(set)+totalLen(t.space.usable) >= stageRefill) {
		for _, n := range taken {
			edits.free -= n.Ext.Len
		}
		*clean = set
		t.space.end = end
		return
	}
	for _, n := range taken {
		edits.restore(n)
	}
}
