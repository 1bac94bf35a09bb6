package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

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

// arrange moves frames to the front of the file and the trees behind them.
func (c *compaction) arrange(ctx context.Context) error {
	a := c.a
	frames := c.packedEnd() + c.gaps() // as far as they may reach
	c.zone = min(max(c.lowNode, frames), a.cur.super.End)
	fill := rearrangement{zone: c.zone, from: format.DataStart}
	outside := func() bool { return a.cur.super.End+c.nodes+c.nodes/8+64<<10 <= a.ceiling }
	clear := c.lowNode >= frames // no nodes stand where frames are to go
	if !clear && outside() {
		fill.zone = a.cur.super.End
		done, err := c.rebuild(ctx, fill.zone, fill)
		if err != nil {
			return err
		}
		if done {
			c.zone, clear = fill.zone, true
		}
	}
	if fill.zone != c.zone || c.zone == c.lowNode {
		fill.zone = c.zone
		if err := c.restage(ctx, fill); err != nil {
			return err
		}
	}
	c.total = c.moved + c.misplaced()
	reach := c.packedEnd()
	if !clear {
		reach = a.cur.super.End // where nodes are in the way, every step down helps
	}
	if err := c.fill(ctx, fill, reach); err != nil {
		return err
	}
	if clear {
		if err := c.slide(ctx); err != nil {
			return err
		}
	}
	return c.trees(ctx, outside)
}

// maxMoves bounds how often a frame is moved, on average.
const maxMoves = 4

// fill moves frames from the end into holes before reach, as long as any fits.
func (c *compaction) fill(ctx context.Context, r rearrangement, reach int64) error {
	for c.moved <= maxMoves*c.frames {
		some, err := c.step(ctx, r, func(t *Tx) (bool, error) {
			t.space.floor = c.zone
			holes := t.space.usable
			if need := min(c.nodes, ownRoom) + 64<<10; t.space.free(c.zone) < need {
				holes = withhold(holes, need)
			}
			moves, least := planFill(c.places, holes, c.packedEnd(), reach, c.opt.batch)
			t.compact.least = least
			return len(moves) > 0, c.apply(t, moves)
		})
		if err != nil || !some {
			return err
		}
		c.settled()
	}
	return nil
}

// slide closes the gaps that are left, when they are worth it: it moves the frames above them down, each
// once, and before that the first ones out of the way when the gap is too small to move much at a time.
func (c *compaction) slide(ctx context.Context) error {
	budget := c.gaps()
	first, end := frontier(c.places, budget)
	if first == len(c.places) {
		return nil
	}
	if err := c.restage(ctx, rearrangement{zone: c.zone, from: end}); err != nil {
		return err
	}
	evacuated := int64(0)
	for {
		first, end = frontier(c.places, budget)
		if first == len(c.places) {
			return nil
		}
		rest := c.places[first:]
		c.total = c.moved
		for _, p := range rest {
			c.total += p.Len
		}
		some, err := c.step(ctx, rearrangement{zone: c.zone, from: end}, func(t *Tx) (bool, error) {
			t.space.floor = c.zone
			var gap format.Extent
			if i := t.space.find(end); i < len(t.space.usable) && t.space.usable[i].Off <= end {
				gap = t.space.usable[i].Extent
				gap.Len, gap.Off = gap.End()-end, end
			}
			if gap.Len == 0 {
				return false, nil
			}
			moves := planSlide(rest, gap, c.opt.batch)
			if n := len(moves); n > 0 {
				t.compact.from = moves[n-1].to + moves[n-1].Len
			}
			// A small gap costs a commit for little. Once made larger it stays so.
			if moved := total(moves); moved < c.opt.batch/4 && moved < c.total-c.moved && len(moves) < batchMoves && end >= evacuated {
				room := t.space.limit - t.space.end - c.nodes - 64<<10
				if out := planEvacuate(rest, gap.Len, room, t.space.end, c.zone, max(c.opt.batch, c.largest)); len(out) > 0 {
					moves = out
					last := out[len(out)-1]
					evacuated = last.End()
					t.space.end = last.to + last.Len
					t.compact.from = end
				}
			}
			return len(moves) > 0, c.apply(t, moves)
		})
		if err != nil || !some {
			return err
		}
		c.settled()
	}
}

// apply writes frames to their new places.
func (c *compaction) apply(t *Tx, moves []move) error {
	slices.SortFunc(moves, func(x, y move) int { return cmp.Compare(x.to, y.to) })
	for _, m := range moves {
		if to := (format.Extent{Off: m.to, Len: m.Len}); to.Off < t.base.super.End {
			t.space.take(to)
		}
	}
	for _, m := range moves {
		to := format.Extent{Off: m.to, Len: m.Len}
		if err := t.relocate(m.number, to); err != nil {
			return err
		}
	}
	c.batch = t.compact.moves
	return nil
}

// settled notes what a committed batch has moved.
func (c *compaction) settled() {
	for i := range c.places {
		p := &c.places[i]
		if to, ok := c.batch[p.number]; ok {
			p.Extent = to
			c.moved += to.Len
		}
	}
	sortPlaces(c.places)
	if c.opt.Progress != nil {
		c.opt.Progress(c.moved, max(c.total, c.moved))
	}
}

// trees writes the trees anew behind the frames, unless they stand there already.
func (c *compaction) trees(ctx context.Context, outside func() bool) error {
	a := c.a
	if err := c.scan(); err != nil {
		return err
	}
	if c.lastEnd-c.ideal() <= c.slack(c.ideal())/4 {
		return nil
	}
	need := c.nodes + c.nodes/8 + 64<<10
	stage := rearrangement{zone: noZone, from: format.DataStart, least: nodeSize, room: compactRoom + need}
	goal := c.ideal() + c.slack(c.ideal())
	if c.lowNode < a.cur.super.End {
		goal = max(goal, c.lowNode)
	}
	if c.freeBelow(goal) < need && outside() {
		// There is too little room behind the frames, so the nodes make room first.
		if done, err := c.rebuild(ctx, a.cur.super.End, stage); err != nil || !done {
			return err
		}
	} else if err := c.restage(ctx, stage); err != nil {
		return err
	}
	_, err := c.rebuild(ctx, 0, rearrangement{zone: noZone, from: format.DataStart, least: nodeSize})
	return err
}
