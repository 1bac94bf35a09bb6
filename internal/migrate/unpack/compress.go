package unpack

import (
	"bufio"
	"encoding/binary"
	"io"

	"lockbox/internal/format"
)

// A stream of compress: 1f 9d; a byte with the length of the longest code (9 to 16) and, in its highest bit, whether
// there is a code that empties the table; codes, the lowest bit first. It has no end of its own and no check sum.
const (
	compressHead = 3
	compressMost = 16
	emptyTable   = 256 // the code, where there is one
)

// compressBits reads the header's third byte.
func compressBits(b byte) (most uint, empties, ok bool) {
	most = uint(b & 0x1f)
	return most, b&0x80 != 0, b&0x60 == 0 && most >= 9 && most <= compressMost
}

// compressed decodes LZW as compress writes it: codes come in groups of eight of one length, and what is left of a group
// is skipped when the length changes.
type compressed struct {
	src     *bufio.Reader
	most    uint
	empties bool

	width    uint // of a code
	next     int  // the table's next entry
	last     int  // the code before; -1: none
	first    byte // of what it stood for
	prefix   [1 << compressMost]uint16
	suffix   [1 << compressMost]byte
	group    [compressMost + 4]byte // and room to take any code out of it by one reading of four bytes
	at, have uint                   // bits of group
	out      []byte
	back     [1 << compressMost]byte // an entry's bytes come last to first
}

func newCompressed(src *bufio.Reader) (*compressed, error) {
	var head [compressHead]byte
	if _, err := io.ReadFull(src, head[:]); err != nil {
		return nil, noEOF(err)
	}
	most, empties, ok := compressBits(head[2])
	if head[0] != 0x1f || head[1] != 0x9d || !ok {
		return nil, format.Corrupt("compress stream", 0, "its header is malformed")
	}
	c := &compressed{src: src, most: most, empties: empties}
	c.empty()
	return c, nil
}

// empty begins with an empty table.
func (c *compressed) empty() {
	c.width, c.next, c.last, c.at, c.have = 9, 256, -1, 0, 0
	if c.empties {
		c.next++
	}
}

// code reads the next one. io.EOF only where one could have begun.
func (c *compressed) code() (int, error) {
	if c.next == 1<<c.width && c.width < c.most {
		c.width++
		c.at, c.have = 0, 0
	}
	if c.at+c.width > c.have {
		if c.have-c.at >= 8 {
			return 0, io.ErrUnexpectedEOF // a code was cut off
		}
		n, err := io.ReadFull(c.src, c.group[:c.width])
		c.at, c.have = 0, uint(n)*8
		if c.have < c.width || err != nil && err != io.ErrUnexpectedEOF {
			return 0, err
		}
	}
	v := binary.LittleEndian.Uint32(c.group[c.at/8:]) >> (c.at % 8)
	c.at += c.width
	return int(v & (1<<c.width - 1)), nil
}

func (c *compressed) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if err := c.step(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// step decodes one code.
func (c *compressed) step() error {
	code, err := c.code()
	if err != nil {
		return err
	}
	if c.empties && code == emptyTable {
		c.empty()
		return nil
	}
	full := c.next == 1<<c.most // then no code is that long
	if code > c.next || c.last < 0 && code > 255 {
		return format.Corrupt("compress stream", -1, "a code stands for nothing")
	}
	at, k := len(c.back), code
	if code == c.next { // what came before and its own first byte
		at--
		c.back[at], k = c.first, c.last
	}
	for ; k > 255; k = int(c.prefix[k]) {
		at--
		c.back[at] = c.suffix[k]
	}
	at--
	c.back[at], c.first = byte(k), byte(k)
	if c.last >= 0 && !full {
		c.prefix[c.next], c.suffix[c.next] = uint16(c.last), c.first
		c.next++
	}
	c.last, c.out = code, c.back[at:]
	return nil
}
