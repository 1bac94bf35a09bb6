package sevenzip

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// The start header: magic (6), version (2), CRC-32 of the next twenty bytes, the header's offset behind the start
// header (8), length (8) and CRC-32 (4).
const (
	magic     = "7z\xbc\xaf\x27\x1c"
	startSize = 32
)

// Ids of the header's parts.
const (
	idEnd = iota
	idHeader
	idArchiveProperties
	idAdditionalStreams
	idMainStreams
	idFiles
	idPack
	idUnpack
	idSubStreams
	idSize
	idCRC
	idFolder
	idUnpackSizes
	idNumStreams
	idEmptyStream
	idEmptyFile
	idAnti
	idNames
	idCreated
	idAccessed
	idModified
	idAttributes
	idComment
	idEncodedHeader
	idStartPos
	idDummy
)

// Bounds on what a header may claim; each is far beyond what archives hold.
const (
	maxHeader     = 128 << 20
	maxFiles      = 4 << 20
	maxFolders    = 1 << 20
	maxCoders     = 32
	maxStreams    = 64
	maxProperties = 256
	maxNesting    = 4 // headers that hold the packed header
)

// corrupt says what of an archive's header is wrong.
func corrupt(detail string, args ...any) error {
	return format.Corrupt("7z header", -1, detail, args...)
}

func limit(what string, most int) error {
	return fmt.Errorf("%w: more than %d %s", source.ErrLimit, most, what)
}

// start is what the start header says: where the header stands in the input.
type start struct {
	base         int64 // where packed streams are counted from
	offset, size int64
	crc          uint32
}

// readStart reads the start header at off.
func readStart(in source.Input, off int64) (start, error) {
	var b [startSize]byte
	if _, err := in.ReadAt(b[:], off); err != nil && err != io.EOF {
		return start{}, err
	}
	if string(b[:6]) != magic || binary.LittleEndian.Uint32(b[8:]) != crc32.ChecksumIEEE(b[12:]) {
		return start{}, format.Corrupt("7z start header", off, "its checksum does not match")
	}
	offset, size := binary.LittleEndian.Uint64(b[12:]), binary.LittleEndian.Uint64(b[20:])
	if offset > 1<<62 || size > 1<<62 {
		return start{}, format.Corrupt("7z start header", off, "the header's place is out of range")
	}
	s := start{off + startSize, off + startSize + int64(offset), int64(size), binary.LittleEndian.Uint32(b[28:])}
	if s.offset < 0 {
		return start{}, format.Corrupt("7z start header", off, "the header's place is out of range")
	}
	return s, nil
}

// inside says that the header stands within the input; it does not in the first of several volumes.
func (s start) inside(in source.Input) bool {
	return s.offset <= in.Size && s.size <= in.Size-s.offset
}

// number reads a number of 7z: the first byte's leading ones say how many bytes follow, its other bits are the
// number's highest.
func number(c *format.Cursor) uint64 {
	b := c.U8()
	n := bits.LeadingZeros8(^b)
	var v uint64
	for i := range n {
		v |= uint64(c.U8()) << (8 * i)
	}
	if n < 7 {
		v |= uint64(b&(1<<(7-n)-1)) << (8 * n)
	}
	return v
}

// count reads a number that must not be above most.
func count(c *format.Cursor, most int, what string) int {
	v := number(c)
	if v > uint64(most) {
		c.Fail(fmt.Sprintf("%d %s are more than are taken, %d", v, what, most))
		return 0
	}
	return int(v)
}

// bitmap is n bits, the highest of a byte first.
func bitmap(c *format.Cursor, n int) []byte { return c.Bytes((n + 7) / 8) }

func bit(m []byte, i int) bool { return m[i/8]&(0x80>>(i%8)) != 0 }

// defined reads a bitmap that may be left out when all bits are set; then it is nil.
func defined(c *format.Cursor, n int) []byte {
	if c.U8() != 0 {
		return nil
	}
	return bitmap(c, n)
}

// digests reads checksums for n things and calls set for those that have one.
func digests(c *format.Cursor, n int, set func(i int, crc uint32)) {
	m := defined(c, n)
	for i := range n {
		if c.Err() != nil {
			return
		}
		if m == nil || bit(m, i) {
			set(i, c.U32())
		}
	}
}

// header is an archive's directory.
type header struct {
	folders []folder
	streams []stream
	files   []file
	unknown []string // parts that nobody knows the meaning of
}

// readHeader reads the header that s names and, when it is packed, what it unpacks to.
func (a *archive) readHeader(s start) (*header, error) {
	if s.size == 0 {
		return &header{}, nil // an archive without files
	}
	if s.size > maxHeader {
		return nil, limit("bytes of header", maxHeader)
	}
	b := make([]byte, s.size) // it stands within the file
	if _, err := a.in.ReadAt(b, s.offset); err != nil && err != io.EOF {
		return nil, err
	}
	if crc32.ChecksumIEEE(b) != s.crc {
		return nil, corrupt("its checksum does not match")
	}
	for range maxNesting {
		c := format.NewCursor(b, "7z header", -1)
		switch id := c.U8(); id {
		case idHeader:
			return a.parse(c)
		case idEncodedHeader:
			folders, streams := parseStreams(c, a.in.Size-a.base)
			if err := c.Done(); err != nil {
				return nil, err
			}
			if len(folders) != 1 || len(streams) != 1 {
				return nil, corrupt("it is packed in %d blocks", len(folders))
			}
			var err error
			if b, err = a.unpackHeader(&folders[0], streams[0]); err != nil {
				return nil, err
			}
		default:
			return nil, corrupt("it begins with a part of kind %d", id)
		}
	}
	return nil, corrupt("it is packed more than %d times", maxNesting)
}

// unpackHeader decodes a packed header. With a wrong passphrase anything can go wrong in it.
func (a *archive) unpackHeader(f *folder, s stream) ([]byte, error) {
	if f.encrypted() {
		a.info.Encrypted = true
		if err := a.unlock(); err != nil {
			return nil, err
		}
	}
	if s.size > maxHeader {
		return nil, limit("bytes of header", maxHeader)
	}
	r, err := a.openFolder(f)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(&checked{r: r, left: s.size, crc: s.crc, hasCRC: s.hasCRC})
	}
	if err != nil && f.encrypted() && !unsupported(err) {
		return nil, source.Undecided("7z header", err)
	}
	return b, err
}

func (a *archive) parse(c *format.Cursor) (*header, error) {
	h := &header{}
	for c.Err() == nil {
		switch id := c.U8(); id {
		case idEnd:
			if err := c.Done(); err != nil {
				return nil, err
			}
			return h, h.match()
		case idArchiveProperties:
			for c.Err() == nil && c.U8() != 0 {
				c.Bytes(count(c, c.Len(), "bytes"))
			}
		case idMainStreams:
			h.folders, h.streams = parseStreams(c, a.in.Size-a.base)
		case idFiles:
			if err := h.parseFiles(c, a.maxFiles); err != nil {
				return nil, err
			}
		case idAdditionalStreams:
			return nil, fmt.Errorf("%w: 7z headers that stand in streams of their own", unpack.ErrUnsupported)
		default:
			c.Fail(fmt.Sprintf("unknown part of kind %d", id))
		}
	}
	return nil, c.Err()
}

// match gives every file that has content its stream.
func (h *header) match() error {
	n := 0
	for i := range h.files {
		if h.files[i].hasStream {
			h.files[i].stream = n
			n++
		}
	}
	if n != len(h.streams) {
		return corrupt("%d files have content, and there are %d contents", n, len(h.streams))
	}
	return nil
}
