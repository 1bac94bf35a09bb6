package store

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"lockbox/internal/index"
	"lockbox/internal/journal"
)

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
