package store

import (
	"fmt"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/journal"
)

// placeCommit finds the commit block's extent and completes the stage set: with what is left of it, and where
// the archive is padded with what follows up to a padded logical end. size is the block's stored length.
func (t *Tx) placeCommit(c *journal.Commit) (ext format.Extent, size int64, err error) {
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
			// The last sector, so that the file is as long as that; what is before it reads as zeros.
			if err := t.out.write(make([]byte, a.sector), end-a.sector); err != nil {
				return ext, 0, err
			}
			s.end = end
		}
		t.space = s
		return ext, size, nil
	}
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
