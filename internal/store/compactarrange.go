package store

import (
	"cmp"
	"context"
	"slices"

	"lockbox/internal/format"
)

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
