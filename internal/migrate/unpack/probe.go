package unpack

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Magic numbers of lz4's frames, the present ones and the older, and of the frames without data of lz4 and zstd, whose
// last four bits are free.
const (
	lz4Magic  = 0x184d2204
	lz4Legacy = 0x184c2102
	skippable = 0x184d2a50
)

// HeadLen is how many bytes of a stream Probe wants to see; fewer are fine when there are no more.
const HeadLen = 16

// Probe names the compression of a stream that begins with head: gzip, bzip2, xz, zstd, lz4, lzip, lzma, or compress. It
// is "" for anything else.
func Probe(head []byte) string {
	is := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case is("\x1f\x8b\x08"):
		return "gzip"
	case is("\x1f\x9d") && len(head) >= compressHead:
		if _, _, ok := compressBits(head[2]); ok {
			return "compress"
		}
	case is("BZh") && len(head) >= 10 && head[3] >= '1' && head[3] <= '9' &&
		(string(head[4:10]) == "\x31\x41\x59\x26\x53\x59" || string(head[4:10]) == "\x17\x72\x45\x38\x50\x90"):
		return "bzip2"
	case is("\xfd7zXZ\x00"):
		return "xz"
	case is("LZIP"):
		return "lzip"
	case len(head) >= 4:
		switch magic := binary.LittleEndian.Uint32(head); {
		case magic == 0xfd2fb528:
			return "zstd"
		case magic == lz4Magic, magic == lz4Legacy:
			return "lz4"
		case magic&^15 == skippable:
			// Both use these frames; lz4's tools do not write them first, zstd's do (pzstd).
			return "zstd"
		}
	}
	if legacyHeader(head) {
		return "lzma"
	}
	return ""
}

// legacyHeader says whether head can be the header of a .lzma file, which has no magic: properties in range, a window
// that is a power of two or half more, a size that is unknown or below 256 GiB, and then the range coder's first byte,
// which is always zero.
func legacyHeader(head []byte) bool {
	if len(head) < 14 || head[13] != 0 {
		return false
	}
	// (pb*5+lp)*9+lc, of which no encoder takes lc and lp above 4 together.
	if p := head[0]; p >= 5*5*9 || p%9+p/9%5 > 4 {
		return false
	}
	window, size := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint64(head[5:])
	if window < 4<<10 || bits.OnesCount32(window) > 2 || bits.OnesCount32(window) == 2 && window&(window<<1) == 0 {
		return false
	}
	return size == 1<<64-1 || size < 1<<38
}
