package store

import (
	"context"
	"maps"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
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
