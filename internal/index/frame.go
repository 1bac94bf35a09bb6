package index

import (
	"encoding/binary"

	"lockbox/internal/format"
)

// Frame record, the value of the tree frames:
//
//	codec (1), block shift (1), pack class (1), extent offset and length in sectors, stored length,
//	plain length, member table length (uvarints), attempt id (16), commitment (T), number of members
//	(uvarint), content numbers (varint differences, the first from 0)

// Codecs, block shifts and pack classes that a frame may have.
const (
	CodecRaw  = 0
	CodecZstd = 1

	MinBlockShift = 9
	MaxBlockShift = 23

	MaxClass = 15
	NoClass  = 255 // the frame is not a pack
)

// frameHeader is the fixed part of a frame's self-describing header, which also has two tags.
const frameHeader = 64

// maxMemberTable bounds a member table: a count and three numbers a member.
const maxMemberTable = 3 + 30*format.MaxMembers

// Frame says where a frame is, how it is stored and what authenticates it. Ext is in bytes. Contents
// are the numbers of the contents that it holds, in the order in which they stand.
type Frame struct {
	Codec, BlockShift, Class   uint8
	Ext                        format.Extent
	Stored, Plain, MemberTable uint32
	Attempt                    format.ID
	Commitment                 [format.MaxTag]byte
	Contents                   []uint64
}

// Blocks is the number of tags in the frame's tag table, 0 without one.
func (f *Frame) Blocks() int {
	if f.BlockShift == 0 {
		return 0
	}
	return int((int64(f.Stored) + 1<<f.BlockShift - 1) >> f.BlockShift)
}

// Used is the number of bytes that header, stored bytes, tag table and member table take.
func (f *Frame) Used(tagSize int) int64 {
	return frameHeader + 2*int64(tagSize) + int64(f.Stored) + int64(f.Blocks())*int64(tagSize) + int64(f.MemberTable)
}

const frameRecord = "frame record"

// AppendFrame writes the record to b.
func AppendFrame(b []byte, f *Frame, tagSize int, sector int64) []byte {
	b = append(b, f.Codec, f.BlockShift, f.Class)
	b = binary.AppendUvarint(b, uint64(f.Ext.Off/sector))
	b = binary.AppendUvarint(b, uint64(f.Ext.Len/sector))
	b = binary.AppendUvarint(b, uint64(f.Stored))
	b = binary.AppendUvarint(b, uint64(f.Plain))
	b = binary.AppendUvarint(b, uint64(f.MemberTable))
	b = append(b, f.Attempt[:]...)
	b = append(b, f.Commitment[:tagSize]...)
	b = binary.AppendUvarint(b, uint64(len(f.Contents)))
	last := uint64(0)
	for _, c := range f.Contents {
		b = format.AppendVarint(b, int64(c-last))
		last = c
	}
	return b
}

// DecodeFrame reads a record. The result does not alias value.
func DecodeFrame(value []byte, tagSize int, sector int64) (Frame, error) {
	var f Frame
	cur := format.NewCursor(value, frameRecord, -1)
	f.decode(cur, tagSize, sector)
	n := int(cur.Uvarint(format.MaxMembers))
	if n > cur.Len() {
		cur.Fail("cut short")
	}
	if cur.Err() == nil && (n == 0 || f.Class == NoClass && n != 1) {
		cur.Fail("a frame has a member, one that is not a pack has one")
	}
	if err := cur.Err(); err != nil {
		return Frame{}, err
	}
	f.Contents = make([]uint64, n)
	last := uint64(0)
	for i := range f.Contents {
		d := cur.Varint()
		// Both lie in 0..maxNumber, so a sum outside that range shows as a set top bit.
		next := last + uint64(d)
		if d == 0 || next == 0 || next > maxNumber {
			cur.Fail("content number out of range")
			break
		}
		f.Contents[i], last = next, next
	}
	if err := cur.Done(); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// DecodeFrameLean reads all of a record but the members, which reading a frame does not need and which
// it does not check. It does not allocate.
func DecodeFrameLean(value []byte, tagSize int, sector int64) (Frame, error) {
	var f Frame
	cur := format.NewCursor(value, frameRecord, -1)
	f.decode(cur, tagSize, sector)
	if err := cur.Err(); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// decode reads and checks what stands before the members.
func (f *Frame) decode(cur *format.Cursor, tagSize int, sector int64) {
	f.Codec, f.BlockShift, f.Class = cur.U8(), cur.U8(), cur.U8()
	most := uint64(format.MaxLogicalEnd / sector)
	f.Ext.Off = int64(cur.Uvarint(most)) * sector
	f.Ext.Len = int64(cur.Uvarint(most)) * sector
	f.Stored = uint32(cur.Uvarint(format.MaxFramePlain))
	f.Plain = uint32(cur.Uvarint(format.MaxFramePlain))
	f.MemberTable = uint32(cur.Uvarint(maxMemberTable))
	f.Attempt = cur.ID()
	copy(f.Commitment[:], cur.Bytes(tagSize))
	if cur.Err() != nil {
		return
	}
	switch {
	case f.Codec > CodecZstd:
		cur.Fail("unknown codec")
	case f.BlockShift != 0 && (f.Codec != CodecRaw || f.BlockShift < MinBlockShift || f.BlockShift > MaxBlockShift):
		cur.Fail("block shift out of range")
	case f.Class > MaxClass && f.Class != NoClass:
		cur.Fail("pack class out of range")
	case f.Stored == 0 || f.Plain == 0:
		cur.Fail("stored and plain length are at least 1")
	case f.Codec == CodecRaw && f.Stored != f.Plain:
		cur.Fail("a raw frame stores its plain bytes")
	case f.BlockShift != 0 && f.Blocks() < 2:
		cur.Fail("a block as long as the frame")
	case f.Ext.Off < format.DataStart || f.Ext.End() > format.MaxLogicalEnd:
		cur.Fail("extent out of range")
	case f.Ext.Len < f.Used(tagSize):
		cur.Fail("extent too short for the frame")
	}
}
