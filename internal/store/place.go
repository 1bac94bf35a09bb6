package store

import (
	"context"
	"fmt"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/journal"
)

// placeCommit finds the commit block's extent and completes the stage set: with what is left of it, and where
// the archive is padded with what follows up to a padded logical end. size is the block's stored length.
func (t *Tx) placeCommit(ctx context.Context, c *journal.Commit) (ext format.Extent, size int64, err error) {
	a := t.a
	// The block's length depends on the number of stage extents only, and its allocation keeps that.
	for pads := 0; ; pads++ {
		s := t.space
		s.usable = slices.Clone(s.usable)
		c.Stage = append(s.stage(), make([]journal.Planned, pads)...)
		size = c.EncodedLen(a.suite, a.sector)
		if size > format.MaxCommitBlock {
			return ext, 0, fmt.Errorf("the commit block would have %d bytes, more than the format allows", size)
		}
		ext = s.alloc(format.AlignUp(size, a.sector), true)
		end := t.paddedEnd(s.end, pads)
		if pads == 0 && end > s.end {
			continue // one extent more, and the block may be longer
		}
		c.Stage = s.stage()
		if pads > 0 {
			c.Stage = append(c.Stage, journal.Planned{Extent: format.Extent{Off: s.end, Len: end - s.end}, Generation: t.gen})
			if err := t.fillUp(ctx, s.end, end); err != nil {
				return ext, 0, err
			}
			s.end = end
		}
		t.space = s
		return ext, size, nil
	}
}

// fillUp writes zeros from the old or the new end on, whichever is greater, to the padded one: a hole would reserve nothing
// for a full disk, and how much the file system has allocated would tell what the padding hides.
func (t *Tx) fillUp(ctx context.Context, from, to int64) error {
	for at := max(from, t.base.super.End); at < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(to-at, int64(len(zeros)))
		if err := t.out.write(zeros[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// paddedEnd is the logical end of an archive whose last extent ends at end. With pads it is greater.
func (t *Tx) paddedEnd(end int64, pads int) int64 {
	padding := t.base.commit.Options.Padding
	if padding == format.PadNone {
		return end
	}
	padded := padding.Size(end, t.a.sector)
	if pads > 0 && padded == end {
		padded = padding.Size(end+1, t.a.sector)
	}
	return padded
}
