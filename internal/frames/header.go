package frames

import (
	"encoding/binary"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// Codecs.
const (
	Raw  uint8 = 0
	Zstd uint8 = 1
)

// NoPack is the class of a frame that is not a pack.
const NoPack uint8 = 255

const noBlock = seal.NoBlock

// marker opens every frame header of an archive that is not encrypted.
const marker = "LBXF\r\n\x1a\n"

// headerFixed is the part of a header before its commitment and tag.
const headerFixed = 64

// HeaderSize is the length of a frame header.
func HeaderSize(tagSize int) int { return headerFixed + 2*tagSize }

// Info is what is known of a frame from its index record (or, in recovery, from its header).
type Info struct {
	Number      uint64
	Attempt     format.ID
	Codec       uint8
	BlockShift  uint8 // 0: one tag
	Class       uint8 // NoPack, or the pack's size class
	Plain       uint32
	Stored      uint32
	MemberTable uint32
	Commitment  [format.MaxTag]byte
}

// Blocks is the number of verification blocks, and 1 for a frame with one tag.
func (i *Info) Blocks() int {
	if i.BlockShift == 0 {
		return 1
	}
	return int((uint64(i.Stored) + 1<<i.BlockShift - 1) >> i.BlockShift)
}

// TableSize is the length of the tag table that follows the stored bytes.
func (i *Info) TableSize(tagSize int) int {
	if i.BlockShift == 0 {
		return 0
	}
	return i.Blocks() * tagSize
}

// Used is the number of bytes of the extent before its zero fill.
func (i *Info) Used(tagSize int) int64 {
	return int64(HeaderSize(tagSize)) + int64(i.Stored) + int64(i.TableSize(tagSize)) + int64(i.MemberTable)
}

// Valid reports what in a record contradicts the format, or "".
func (i *Info) Valid() string {
	switch {
	case i.Number == 0:
		return "frame number 0"
	case i.Plain == 0 || i.Plain > format.MaxFramePlain || i.Stored == 0 || i.Stored > format.MaxFrameStored:
		return "length out of range"
	case i.Codec > Zstd:
		return "unknown codec"
	case i.Codec == Raw && i.Stored != i.Plain:
		return "a raw frame whose stored length is not its plain length"
	case i.Codec == Zstd && (i.BlockShift != 0 || i.Stored >= i.Plain):
		return "a compressed frame that is longer than its content or has a block shift"
	case i.BlockShift != 0 && (i.BlockShift < 9 || i.BlockShift > 23 || i.Stored <= 1<<i.BlockShift):
		return "block shift out of range"
	case i.MemberTable > maxMemberTable:
		return "member table too long"
	}
	return ""
}

func (i *Info) context(archive format.ID) seal.Context {
	return seal.Context{Archive: archive, Attempt: i.Attempt, Number: i.Number, Plain: i.Plain, Stored: i.Stored, Codec: i.Codec}
}

// Member is a content's share of a frame: Len bytes from Off on of content Content.
type Member struct {
	Content  uint64
	Off, Len int64
}

// maxMemberTable bounds a member table: 4,096 members of three numbers of at most 10 bytes.
const maxMemberTable = 5 + format.MaxMembers*30

func appendMembers(b []byte, ms []Member) []byte {
	b = binary.AppendUvarint(b, uint64(len(ms)))
	last := uint64(0)
	for _, m := range ms {
		b = format.AppendVarint(b, int64(m.Content-last))
		b = binary.AppendUvarint(b, uint64(m.Off))
		b = binary.AppendUvarint(b, uint64(m.Len))
		last = m.Content
	}
	return b
}

// decodeMembers reads a member table whose lengths must add up to plain.
func decodeMembers(b []byte, plain uint32, off int64) ([]Member, error) {
	c := format.NewCursor(b, "frame member table", off)
	n := int(c.Uvarint(format.MaxMembers))
	if n == 0 || n > c.Len() {
		c.Fail("number of members out of range")
		return nil, c.Err()
	}
	ms := make([]Member, n)
	var last uint64
	var sum int64
	for k := range ms {
		last += uint64(c.Varint())
		ms[k] = Member{Content: last, Off: int64(c.Uvarint(uint64(format.MaxFileSize))), Len: int64(c.Uvarint(format.MaxFramePlain))}
		sum += ms[k].Len
	}
	if sum != int64(plain) {
		c.Fail("members do not add up to the plain length")
	}
	return ms, c.Done()
}

// putHeader fills h, which is HeaderSize bytes, for a frame whose commitment is known, and seals the members.
func putHeader(h []byte, s seal.Suite, archive format.ID, i *Info, members []byte) {
	t := s.TagSize()
	copy(h[0:8], marker)
	copy(h[8:24], archive[:])
	copy(h[24:40], i.Attempt[:])
	binary.LittleEndian.PutUint64(h[40:], i.Number)
	binary.LittleEndian.PutUint32(h[48:], i.Plain)
	binary.LittleEndian.PutUint32(h[52:], i.Stored)
	h[56], h[57], h[58], h[59] = i.Codec, i.BlockShift, i.Class, 0
	binary.LittleEndian.PutUint32(h[60:], i.MemberTable)
	copy(h[64:64+t], i.Commitment[:t])
	ctx := i.context(archive)
	if hider := s.Hider(); hider != nil {
		// What the head's IV covers, the member table's tag need not.
		hider.Hide(seal.KindHeader, h[:headerFixed+t])
		s.Seal(&ctx, seal.KindHeader, noBlock, members, h[64+t:64+2*t])
		return
	}
	s.Seal(&ctx, seal.KindHeader, noBlock, headerTagged(h, t, members), h[64+t:64+2*t])
}

// headerTagged is what a header's tag covers where nothing is hidden: the header before the tag, and the
// member table.
func headerTagged(h []byte, t int, members []byte) []byte {
	b := make([]byte, 0, headerFixed+t+len(members))
	return append(append(b, h[:headerFixed+t]...), members...)
}

// DecodeHeader reads a frame header without checking its tag. It tells whether b starts with the
// marker of a frame of this archive; recovery scans with it.
func DecodeHeader(b []byte, s seal.Suite, archive format.ID, off int64) (i Info, ok bool, err error) {
	t := s.TagSize()
	if len(b) < HeaderSize(t) {
		return i, false, nil
	}
	h := b[:HeaderSize(t)]
	if hider := s.Hider(); hider != nil {
		var plain [headerFixed + format.MaxTag]byte
		h = plain[:copy(plain[:], b[:headerFixed+t])]
		if !hider.Reveal(seal.KindHeader, h) {
			return i, false, nil
		}
	} else if string(b[:8]) != marker || format.ID(b[8:24]) != archive {
		return i, false, nil
	}
	c := format.NewCursor(h[24:], "frame header", off)
	i.Attempt = c.ID()
	i.Number = c.U64()
	i.Plain, i.Stored = c.U32(), c.U32()
	i.Codec, i.BlockShift, i.Class = c.U8(), c.U8(), c.U8()
	c.Zero(1)
	i.MemberTable = c.U32()
	copy(i.Commitment[:t], c.Bytes(t))
	if what := i.Valid(); what != "" {
		c.Fail(what)
	}
	return i, true, c.Err()
}

// CheckHeader checks the header and member table of a whole extent against the index record, and
// that nothing but zeros follows. It returns the members.
func CheckHeader(ext []byte, s seal.Suite, archive format.ID, want *Info, off int64) ([]Member, error) {
	t := s.TagSize()
	if int64(len(ext)) < want.Used(t) {
		return nil, format.Corrupt("frame", off, "extent shorter than its parts")
	}
	got, ok, err := DecodeHeader(ext, s, archive, off)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, format.Corrupt("frame header", off, "no marker of this archive")
	case got != *want:
		return nil, format.Corrupt("frame header", off, "disagrees with the index")
	}
	end := want.Used(t)
	members := ext[end-int64(want.MemberTable) : end]
	tag := ext[64+t : 64+2*t]
	ctx := want.context(archive)
	if s.Hider() == nil {
		ok = s.Open(&ctx, seal.KindHeader, noBlock, headerTagged(ext, t, members), tag)
	} else {
		members = append([]byte(nil), members...)
		ok = s.Open(&ctx, seal.KindHeader, noBlock, members, tag)
	}
	if !ok {
		return nil, format.Corrupt("frame header", off, "tag does not verify")
	}
	if !FillOK(s, ext, ext[end:]) {
		return nil, format.Corrupt("frame", off, "fill after the frame is not zero")
	}
	return decodeMembers(members, want.Plain, off)
}

// FillOK reports whether fill, all of what follows a frame in its extent, is as written: zeros, which an
// encrypted archive enciphers. head is the start of the extent.
func FillOK(s seal.Suite, head, fill []byte) bool {
	if h := s.Hider(); h != nil && len(fill) > 0 {
		fill = append([]byte(nil), fill...)
		h.Fill(head, fill)
	}
	for _, b := range fill {
		if b != 0 {
			return false
		}
	}
	return true
}
