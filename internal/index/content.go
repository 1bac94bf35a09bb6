package index

import (
	"encoding/binary"
	"slices"

	"lockbox/internal/format"
)

// Content record, the value of the tree contents:
//
//	size (uvarint), BLAKE3-256 (32), references (uvarint), number of runs (uvarint), and for each run
//	first frame, offset, length, unit (uvarints)

// Content says where a content's plain bytes are. Digest is the BLAKE3-256 of them, Refs the number of
// entries that have it. The runs' lengths add up to Size.
type Content struct {
	Size   int64
	Digest format.Digest
	Refs   uint64
	Runs   []Run
}

// Run is a part of a content. With Unit 0 it lies in one frame, from Off of the frame's plain bytes on.
// Otherwise it fills consecutive frames from the first byte of Frame on; all but the last hold Unit
// plain bytes.
type Run struct {
	Frame          uint64
	Off, Len, Unit int64
}

// Frames is the number of frames that the run touches.
func (r *Run) Frames() uint64 {
	if r.Unit == 0 {
		return 1
	}
	return uint64((r.Len-1)/r.Unit) + 1
}

// Locate finds the plain byte at pos: its frame, its offset in the frame's plain bytes, and how many
// bytes of the content follow there without a break, itself included. avail is 0 outside the content.
func (c *Content) Locate(pos int64) (frame uint64, off, avail int64) {
	if pos < 0 {
		return 0, 0, 0
	}
	for i := range c.Runs {
		r := &c.Runs[i]
		if pos >= r.Len {
			pos -= r.Len
			continue
		}
		if r.Unit == 0 {
			return r.Frame, r.Off + pos, r.Len - pos
		}
		k := pos / r.Unit
		off = pos - k*r.Unit
		return r.Frame + uint64(k), off, min(r.Unit-off, r.Len-pos)
	}
	return 0, 0, 0
}

const contentRecord = "content record"

// AppendContent writes the record to b.
func AppendContent(b []byte, c *Content) []byte {
	b = binary.AppendUvarint(b, uint64(c.Size))
	b = append(b, c.Digest[:]...)
	b = binary.AppendUvarint(b, c.Refs)
	b = binary.AppendUvarint(b, uint64(len(c.Runs)))
	for i := range c.Runs {
		r := &c.Runs[i]
		b = binary.AppendUvarint(b, r.Frame)
		b = binary.AppendUvarint(b, uint64(r.Off))
		b = binary.AppendUvarint(b, uint64(r.Len))
		b = binary.AppendUvarint(b, uint64(r.Unit))
	}
	return b
}

// DecodeContent reads a record. The result does not alias value.
func DecodeContent(value []byte) (Content, error) {
	var c Content
	err := c.Decode(value)
	return c, err
}

// Decode reads a record into c, whose runs it reuses. When it fails, c is empty.
func (c *Content) Decode(value []byte) error {
	runs := c.Runs[:0]
	*c = Content{}
	cur := format.NewCursor(value, contentRecord, -1)
	size := int64(cur.Uvarint(uint64(format.MaxFileSize)))
	digest := cur.Digest()
	refs := cur.Uvarint(maxNumber)
	n := int(cur.Uvarint(format.MaxRuns))
	if cur.Len() < 4*n {
		cur.Fail("cut short")
	}
	if cur.Err() == nil && (size == 0 || refs == 0 || n == 0) {
		cur.Fail("size, references and number of runs are at least 1")
	}
	if err := cur.Err(); err != nil {
		return err
	}
	runs = slices.Grow(runs, n)[:n]
	left := size
	for i := range runs {
		r := &runs[i]
		r.Frame = cur.Uvarint(maxNumber)
		r.Off = int64(cur.Uvarint(format.MaxFramePlain))
		r.Len = int64(cur.Uvarint(uint64(left)))
		r.Unit = int64(cur.Uvarint(format.MaxFramePlain))
		if cur.Err() != nil {
			break
		}
		switch {
		case r.Frame == 0 || r.Len == 0:
			cur.Fail("a run's frame and length are at least 1")
		case r.Unit == 0 && r.Off+r.Len > format.MaxFramePlain:
			cur.Fail("a run longer than a frame")
		case r.Unit != 0 && r.Off != 0:
			cur.Fail("a run over several frames does not start at the first byte")
		case r.Frames() > maxNumber-r.Frame:
			cur.Fail("frame number out of range")
		}
		left -= r.Len
	}
	if cur.Err() == nil && left != 0 {
		cur.Fail("the runs do not add up to the size")
	}
	if err := cur.Done(); err != nil {
		return err
	}
	*c = Content{Size: size, Digest: digest, Refs: refs, Runs: runs}
	return nil
}
