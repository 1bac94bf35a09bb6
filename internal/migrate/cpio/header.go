package cpio

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"lockbox/internal/format"
)

// layout is how headers are written.
type layout uint8

const (
	newc  layout = 1 + iota // 6 bytes of magic, then fields of 8 hexadecimal digits
	crc                     // the same, with a sum of the content's bytes
	odc                     // 6 bytes of magic, then fields of octal digits
	binLE                   // 13 numbers of 16 bits; two that stand for one of 32 have the upper half first
	binBE
)

// Lengths of headers, without the name.
const (
	newcSize = 110
	odcSize  = 76
	binSize  = 26
)

const (
	maxName = 64 << 10
	trailer = "TRAILER!!!"
)

// header is what stands before a name.
type header struct {
	layout       layout
	dev, ino     uint64
	mode         uint64
	uid, gid     uint64
	nlink        uint64
	mtime        int64
	size         int64
	major, minor uint64 // of a device; in the older layouts both are in one number
	nameLen      int
	sum          uint32
}

// layoutOf names the layout of a header that begins with b, 0 when it is none.
func layoutOf(b []byte) layout {
	switch {
	case bytes.HasPrefix(b, []byte("070701")):
		return newc
	case bytes.HasPrefix(b, []byte("070702")):
		return crc
	case bytes.HasPrefix(b, []byte("070707")):
		return odc
	case len(b) >= binSize && binary.LittleEndian.Uint16(b) == 0o70707 && plausible(b, binary.LittleEndian):
		return binLE
	case len(b) >= binSize && binary.BigEndian.Uint16(b) == 0o70707 && plausible(b, binary.BigEndian):
		return binBE
	}
	return 0
}

// plausible looks further than the two bytes of magic of the binary layout: at the kind in the mode, and at the name, as
// much of it as b has.
func plausible(b []byte, o binary.ByteOrder) bool {
	switch o.Uint16(b[6:]) & 0o170000 {
	case 0, 0o010000, 0o020000, 0o040000, 0o060000, 0o100000, 0o110000, 0o120000, 0o140000:
	default:
		return false
	}
	n, name := int(o.Uint16(b[20:])), b[binSize:]
	end := bytes.IndexByte(name, 0)
	return n >= 2 && n <= 4096 && (end == n-1 || end < 0 && n > len(name))
}

// headSize is the length of a header.
func (l layout) headSize() int {
	switch l {
	case newc, crc:
		return newcSize
	case odc:
		return odcSize
	}
	return binSize
}

// pad is how many bytes stand behind n to reach the layout's alignment.
func (l layout) pad(n int64) int64 {
	switch l {
	case newc, crc:
		return -n & 3
	case odc:
		return 0
	}
	return n & 1
}

// parse reads a header of layout l from b, which is as long as one. off says where it is, for errors.
func parse(l layout, b []byte, off int64) (*header, error) {
	h := &header{layout: l}
	var bad bool
	switch l {
	case newc, crc:
		field := func(i int) uint64 {
			v, err := strconv.ParseUint(string(b[6+8*i:14+8*i]), 16, 32)
			bad = bad || err != nil
			return v
		}
		h.ino, h.mode, h.uid, h.gid, h.nlink = field(0), field(1), field(2), field(3), field(4)
		h.mtime, h.size = int64(field(5)), int64(field(6))
		h.dev = field(7)<<32 | field(8)
		h.major, h.minor = field(9), field(10)
		h.nameLen, h.sum = int(field(11)), uint32(field(12))
	case odc:
		at := 6
		field := func(n int) uint64 {
			v, err := strconv.ParseUint(string(b[at:at+n]), 8, 64)
			at += n
			bad = bad || err != nil
			return v
		}
		h.dev, h.ino, h.mode, h.uid, h.gid, h.nlink = field(6), field(6), field(6), field(6), field(6), field(6)
		h.setDevice(field(6))
		h.mtime = int64(field(11))
		h.nameLen = int(field(6))
		h.size = int64(field(11))
	default:
		var o binary.ByteOrder = binary.LittleEndian
		if l == binBE {
			o = binary.BigEndian
		}
		short := func(i int) uint64 { return uint64(o.Uint16(b[2*i:])) }
		long := func(i int) int64 { return int64(short(i)<<16 | short(i+1)) }
		h.dev, h.ino, h.mode, h.uid, h.gid, h.nlink = short(1), short(2), short(3), short(4), short(5), short(6)
		h.setDevice(short(7))
		h.mtime, h.nameLen, h.size = long(8), int(short(10)), long(11)
	}
	switch {
	case bad:
		return nil, format.Corrupt("cpio header", off, "a field is no number")
	case h.nameLen < 1 || h.nameLen > maxName:
		return nil, format.Corrupt("cpio header", off, "the name is %d bytes long", h.nameLen)
	}
	return h, nil
}

// setDevice splits a device number of 16 bits.
func (h *header) setDevice(n uint64) { h.major, h.minor = n>>8, n&0xff }
