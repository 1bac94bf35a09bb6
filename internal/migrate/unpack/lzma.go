package unpack

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz/lzma"

	"lockbox/internal/format"
)

// counted reads head and then from r, no byte more than it is asked for, and counts.
type counted struct {
	head []byte
	r    *bufio.Reader
	n    int64
}

func (c *counted) ReadByte() (byte, error) {
	if len(c.head) > 0 {
		b := c.head[0]
		c.head = c.head[1:]
		return b, nil
	}
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func (c *counted) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// newLZMA opens a stream behind a .lzma header. The library takes its limit from DictCap.
func newLZMA(c *counted, window int64) (*lzma.Reader, error) {
	d, err := lzma.ReaderConfig{DictCap: int(max(window, lzma.MinDictCap))}.NewReader(c)
	var tooBig *lzma.ErrDictSize
	if errors.As(err, &tooBig) {
		return nil, fmt.Errorf("%w: window of %d bytes", ErrWindow, tooBig.HeaderDictSize)
	}
	return d, err
}

// legacy is a .lzma file: one stream, without a checksum.
type legacy struct {
	c   *counted
	dec *lzma.Reader
}

func newLegacy(src *bufio.Reader, window int64) (*legacy, error) {
	c := &counted{r: src}
	d, err := newLZMA(c, window)
	if err != nil {
		return nil, noEOF(err)
	}
	return &legacy{c, d}, nil
}

func (l *legacy) Read(p []byte) (int, error) {
	n, err := l.dec.Read(p)
	if err != io.EOF {
		return n, err
	}
	if _, err := l.c.r.ReadByte(); err != io.EOF {
		return n, format.Corrupt("lzma stream", l.c.n, "bytes follow its end")
	}
	return n, io.EOF
}

// A member of lzip: "LZIP", version (1), coded window (1); LZMA with lc 3, lp 0, pb 2 and an end mark; CRC-32 of the
// plain bytes (4), their number (8), the member's length (8).
const (
	lzipHead    = 6
	lzipTrailer = 20
)

// lzipMembers reads members one after the other. The one library for lzip reads a file into memory whole, takes one
// member only and panics on short ones, so the frame around LZMA is read here.
type lzipMembers struct {
	src    *bufio.Reader
	window int64
	dec    *lzma.Reader
	c      *counted
	crc    uint32
	size   uint64
	any    bool
}

func (m *lzipMembers) Read(p []byte) (int, error) {
	if m.dec == nil {
		if err := m.next(); err != nil {
			return 0, err
		}
	}
	n, err := m.dec.Read(p)
	m.crc = crc32.Update(m.crc, crc32.IEEETable, p[:n])
	m.size += uint64(n)
	if err == io.EOF {
		err = m.finish()
	}
	return n, err
}

func (m *lzipMembers) next() error {
	if m.any {
		again, err := more(m.src, "lzip stream")
		if err != nil {
			return err
		}
		if !again {
			return io.EOF
		}
	}
	var h [lzipHead]byte
	if _, err := io.ReadFull(m.src, h[:]); err != nil {
		return noEOF(err)
	}
	if string(h[:4]) != "LZIP" {
		return format.Corrupt("lzip stream", -1, "what follows a member is not a member")
	}
	if h[4] != 1 {
		return fmt.Errorf("%w: lzip version %d", ErrUnsupported, h[4])
	}
	exp := h[5] & 0x1f
	if exp < 12 || exp > 29 {
		return format.Corrupt("lzip header", -1, "window of 2^%d bytes", exp)
	}
	window := uint32(1)<<exp - uint32(1)<<exp/16*uint32(h[5]>>5)
	head := append([]byte{0x5d}, binary.LittleEndian.AppendUint32(nil, window)...)
	head = append(head, 255, 255, 255, 255, 255, 255, 255, 255)
	m.c = &counted{head: head, r: m.src}
	d, err := newLZMA(m.c, m.window)
	if err != nil {
		return noEOF(err)
	}
	m.dec, m.crc, m.size, m.any = d, 0, 0, true
	return nil
}

func (m *lzipMembers) finish() error {
	var t [lzipTrailer]byte
	if !m.dec.EOSMarker() {
		return format.Corrupt("lzip member", -1, "it has no end mark")
	}
	body := m.c.n
	if _, err := io.ReadFull(m.src, t[:]); err != nil {
		return noEOF(err)
	}
	switch {
	case binary.LittleEndian.Uint32(t[:]) != m.crc:
		return format.Corrupt("lzip member", -1, "its checksum does not match")
	case binary.LittleEndian.Uint64(t[4:]) != m.size:
		return format.Corrupt("lzip member", -1, "its size does not match")
	case binary.LittleEndian.Uint64(t[12:]) != uint64(lzipHead+body+lzipTrailer):
		return format.Corrupt("lzip member", -1, "its length does not match")
	}
	m.dec = nil
	return nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
