package store

import (
	"context"
	"errors"
	"io/fs"

	"lockbox/internal/format"
)

// CompactOptions say how to compact. The zero value is the default.
type CompactOptions struct {
	// Within forbids the file to grow on the way: for a full disk. Less may be reached.
	Within   bool
	Progress func(done, total int64) // bytes of frames moved and to be moved, as far as is known

	batch int64 // bytes of frames that one transaction moves; 0: batchBytes
}

// CompactSummary is what a compaction did.
type CompactSummary struct {
	Generation    uint64
	Root          format.Digest
	Before, After int64 // bytes of the file
	Moved         int64 // bytes of frames that got another place
	Merged        int   // packs that became part of others
	Commits       int
	// Held is what could not be given back because readers of older generations may still need it.
	Held int64
}

// compactGrowth is how much larger than before, beside room for the index, the file may be on the way.
const compactGrowth = 64 << 20

// slack is what is not worth a compaction in an archive that could have size bytes: its reserve and a
// fiftieth more.
func (c *compaction) slack(size int64) int64 { return size/50 + c.a.cur.reserve(size) + 8<<10 }

// Compact gives free space back to the file system: it merges packs where that gives fewer, moves
// frames from the end of the file into free space before them, writes the trees anew and cuts the end off.
// Every step is an ordinary transaction: interrupted, by ctx or a crash, it leaves an archive that holds the
// same and can be compacted again. When there is nothing to gain it commits nothing. Files that the handle
// opened before must be opened again.
func (a *Archive) Compact(ctx context.Context, o CompactOptions) (sum CompactSummary, err error) {
	if o.batch == 0 {
		o.batch = batchBytes
	}
	c := &compaction{a: a, opt: o}
	if sum.Before, err = c.prepare(ctx); err != nil {
		return sum, err
	}
	defer func() { a.ceiling = 0 }()
	err = c.run(ctx)
	if terr := a.Tidy(); err == nil {
		err = terr
	}
	sum.Moved, sum.Merged, sum.Commits, sum.Held = c.moved, c.merged, c.commits, c.held
	v := a.view()
	sum.Generation, sum.Root = v.super.Generation, v.root()
	var serr error
	if sum.After, serr = a.f.Size(); err == nil {
		err = serr
	}
	return sum, err
}

// compaction is one run of Compact.
type compaction struct {
	a   *Archive
	opt CompactOptions

	layout
	zone  int64                    // where nodes and commit blocks stand while frames are moved
	batch map[uint64]format.Extent // what the latest transaction has moved

	moved, total int64
	merged       int
	commits      int
	held         int64
}

// prepare brings the archive into order, sets the bounds and returns the file's size.
func (c *compaction) prepare(ctx context.Context) (int64, error) {
	a := c.a
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := a.compactable(); err != nil {
		return 0, err
	}
	before, err := a.f.Size()
	if err != nil {
		return 0, err
	}
	if err := a.Tidy(); err != nil {
		return 0, err
	}
	size, err := a.f.Size()
	if err != nil {
		return 0, err
	}
	// Under a reader nothing can be given back before it has gone, so the file must not grow either.
	busy, err := readersBelow(a.f, a.cur.super.Generation+1)
	if a.ceiling = size; !c.opt.Within && !busy {
		a.ceiling += compactGrowth + int64(a.cur.commit.Counters.NodeBytes)
	}
	if err != nil {
		return 0, err
	}
	return before, nil
}

func (a *Archive) compactable() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.writer:
		return errors.New("archive is open for reading only")
	case a.closed:
		return fs.ErrClosed
	case a.temp != nil || a.tx != nil:
		return errors.New("an archive with an open transaction cannot be compacted")
	case a.poison != nil:
		return a.poison
	}
	return a.changeable()
}

func (c *compaction) run(ctx context.Context) error {
	if err := c.scan(); err != nil {
		return err
	}
	if err := c.mergePacks(ctx); err != nil {
		return err
	}
	allowed := c.slack(c.ideal())
	if c.merged > 0 {
		allowed = 0 // what the merging has left is to go
	}
	for range 4 {
		end := c.a.cur.super.End
		if c.excess() <= allowed {
			return nil
		}
		err := c.arrange(ctx)
		if err == nil {
			err = c.cut()
		}
		if err != nil {
			return err
		}
		if err := c.scan(); err != nil {
			return err
		}
		if end-c.a.cur.super.End < c.slack(c.ideal())/2 {
			break // as far as it goes
		}
		allowed = c.slack(c.ideal())
	}
	return c.blocked()
}

// excess is how much larger the archive is than it could be. What its padding adds does not count.
func (c *compaction) excess() int64 {
	end := c.a.cur.super.End
	if p := c.a.cur.commit.Options.Padding; end <= p.Size(c.lastEnd+c.slack(c.ideal()), c.a.sector) && p != format.PadNone {
		end = c.lastEnd
	}
	return end - c.ideal()
}

// blocked notes what readers keep from being given back.
func (c *compaction) blocked() error {
	busy, err := readersBelow(c.a.f, c.a.cur.super.Generation+1)
	if left := c.excess(); busy && left > c.slack(c.ideal()) {
		c.held = left
	}
	return err
}

// step runs one transaction. fn may find that there is nothing to do. A step for which there is no room
// counts as one with nothing to do.
func (c *compaction) step(ctx context.Context, r rearrangement, fn func(t *Tx) (bool, error)) (bool, error) {
	t, err := c.a.Begin(ctx)
	if err != nil {
		return false, err
	}
	if r.room == 0 {
		r.room = compactRoom
	}
	r.moves = map[uint64]format.Extent{}
	t.compact = &r
	t.space.limit = c.a.ceiling
	t.space.split(c.zone)
	some, err := fn(t)
	if err == nil && some {
		_, err = t.Commit(ctx)
	}
	if err != nil || !some {
		if rerr := t.Rollback(); rerr != nil && !errors.Is(err, rerr) {
			err = errors.Join(err, rerr)
		}
		if errors.Is(err, errCeiling) {
			err = nil
		}
		return false, err
	}
	c.commits++
	return true, nil
}

// restage publishes a root that stages what the next steps need.
func (c *compaction) restage(ctx context.Context, r rearrangement) error {
	_, err := c.step(ctx, r, func(t *Tx) (bool, error) {
		t.space.floor = c.zone
		return true, nil
	})
	return err
}

// rebuild writes all trees anew: into the lowest free space, or past the end when floor says so.
func (c *compaction) rebuild(ctx context.Context, floor int64, r rearrangement) (bool, error) {
	r.rebuild = true
	return c.step(ctx, r, func(t *Tx) (bool, error) {
		t.space.floor = floor
		if floor > 0 {
			t.space.limit = 0 // past the end, or not at all
			t.space.held = append(t.space.held, t.space.usable...)
			t.space.usable = nil
		}
		return true, nil
	})
}
