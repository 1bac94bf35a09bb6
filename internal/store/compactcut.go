package store

import (
	"context"
	"errors"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// cutUsable is how many of its stage extents a cut keeps for itself to write to.
const cutUsable = 32

// cut publishes a root whose logical end stands right behind the last frame or node, and truncates the
// file there (C8). Free extents before it stay, in sets as small as an ordinary transaction's. While a
// reader could need what is to be cut off, or when nothing can be cut off, it does nothing.
func (c *compaction) cut() error {
	a := c.a
	if err := c.scan(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.poison != nil {
		return a.poison
	}
	if err := a.unchanged(); err != nil {
		return err
	}
	if err := a.mirror(); err != nil {
		return err
	}
	if busy, err := readersBelow(a.f, a.cur.super.Generation+1); err != nil || busy {
		return err
	}
	t, err := a.begin()
	if err != nil {
		return err
	}
	done, err := c.cutWith(t)
	if err != nil || !done {
		return errors.Join(err, t.rollback())
	}
	t.done, a.tx = true, nil
	c.commits++
	if err := a.mirror(); err != nil {
		return err
	}
	return a.truncate()
}

func (c *compaction) cutWith(t *Tx) (bool, error) {
	a, v := c.a, t.base
	t.space.limit = a.ceiling
	edits := newFreeEdits(t)
	edits.rebuild = true
	end := c.lastEnd
	for _, p := range v.commit.Retire {
		end = max(end, p.End())
	}
	var records []index.FreeExtent // those behind end
	it := index.NewIter(a, index.Free, edits.root)
	for ok := edits.root.Height > 0 && it.Next(); ok; ok = it.Next() {
		e, err := a.freeExtent(it.Key(), it.Value())
		if err != nil {
			return false, err
		}
		if e.State == index.FreePending {
			end = max(end, e.Ext.End())
		}
		if e.Ext.Off >= end {
			records = append(records, e)
		}
	}
	if err := it.Err(); err != nil {
		return false, err
	}
	// The transaction's own nodes and commit block go into free extents before end, or right behind it, where
	// the free tree and the commit block of the generation before stand.
	near := end + c.slack(end)/2 + c.freeNodes + v.super.CommitExtent().Len
	var tail *journal.Planned
	for i := range t.space.usable {
		p := &t.space.usable[i]
		if p.Off >= end && p.Len > nodeSize {
			if p.Off <= near {
				tail = new(*p)
				end = p.Off
			}
			break
		}
	}
	for _, e := range records {
		if e.Ext.Off >= end {
			edits.take(e, e.Ext.Len)
		}
	}
	before := func(set []journal.Planned) []journal.Planned {
		return slices.DeleteFunc(slices.Clone(set), func(p journal.Planned) bool { return p.Off >= end })
	}
	t.space.usable, t.space.held = before(t.space.usable), before(t.space.held)
	if n := len(t.space.usable); n > cutUsable {
		bySize := slices.Clone(t.space.usable)
		slices.SortStableFunc(bySize, func(x, y journal.Planned) int { return int(min(max(y.Len-x.Len, -1), 1)) })
		t.space.held = append(t.space.held, bySize[cutUsable:]...)
		t.space.usable = bySize[:cutUsable]
		byOffset(t.space.usable)
	}
	byOffset(t.space.held)
	t.spill(edits)
	t.space.held = append(t.space.held, journal.Planned{Extent: v.super.CommitExtent(), Generation: t.gen, Kind: journal.OwnerCommit})
	if tail != nil {
		t.space.usable = append(t.space.usable, *tail)
	}
	k := v.commit.Counters
	roots := v.roots
	var err error
	if roots[index.Free-1], err = edits.apply(&k); err != nil {
		return false, err
	}
	k.NodeBytes = uint64(int64(k.NodeBytes) + t.nodes)
	commit := &journal.Commit{Counters: k, Options: v.commit.Options, Retire: v.commit.Retire, OpenPacks: v.commit.OpenPacks}
	commit.Carry(v.commit)
	if !t.trim(commit, end, tail) || t.space.end >= v.super.End {
		return false, nil
	}
	return true, t.publish(context.Background(), commit, roots)
}

// trim lowers the logical end to end, or as far behind it as the tail is needed, so that the commit block
// still finds room before it; false when it does not.
func (t *Tx) trim(c *journal.Commit, end int64, tail *journal.Planned) bool {
	s := &t.space
	probe := *c
	probe.Trees = make([]byte, 5*index.RootSize(t.a.suite.TagSize()))
	probe.Stage, probe.Salt = s.stage(), t.salt
	need := format.AlignUp(probe.EncodedLen(t.a.suite, t.a.sector), t.a.sector)
	last := -1 // index of what is left of the tail
	if n := len(s.usable) - 1; tail != nil && n >= 0 && s.usable[n].End() == tail.End() {
		last = n
	}
	switch i := s.lowest(need, true, 0); {
	case i < 0 || s.end > t.base.super.End:
		return false
	case i == last:
		p := &s.usable[i]
		p.Len = min(p.Len, need+max(t.a.sector, t.base.reserve(end)))
		end = p.End()
	case last >= 0:
		p := &s.usable[last]
		p.Len = min(p.Len, max(t.a.sector, t.base.reserve(end)))
		end = p.End()
	case tail != nil:
		end = tail.End() // used up
	}
	behind := func(p journal.Planned) bool { return p.Off >= end }
	s.usable = slices.DeleteFunc(s.usable, behind)
	s.held = slices.DeleteFunc(s.held, behind)
	s.end = end
	return true
}
