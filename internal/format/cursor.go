package format

import (
	"encoding/binary"
)

// Cursor reads a record's fields in order from bytes that came from disk. It never panics: the first
// read past the end, or the first malformed varint, makes it fail for good, and every later read
// returns zero. Callers check Err (or Done) once, after the last field.
type Cursor struct {
	b      []byte
	record string
	off    int64
	failed string
}

// NewCursor reads b. record and offset (-1 when unknown) say in errors what b is and where it stands.
func NewCursor(b []byte, record string, offset int64) *Cursor {
	return &Cursor{b: b, record: record, off: offset}
}

// Fail makes the cursor fail with detail unless it has failed already.
func (c *Cursor) Fail(detail string) {
	if c.failed == "" {
		c.failed = detail
		c.b = nil
	}
}

// Err returns nil or an *Error of kind ErrCorrupt.
func (c *Cursor) Err() error {
	if c.failed == "" {
		return nil
	}
	return Corrupt(c.record, c.off, "%s", c.failed)
}

// Done returns Err, and fails also when bytes are left over.
func (c *Cursor) Done() error {
	if c.failed == "" && len(c.b) != 0 {
		c.Fail("bytes left over after the last field")
	}
	return c.Err()
}

// Len is the number of bytes not yet read; 0 once the cursor has failed.
func (c *Cursor) Len() int { return len(c.b) }

// Bytes returns the next n bytes. The slice aliases the cursor's input.
func (c *Cursor) Bytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.Fail("cut short")
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

// U8 reads one byte.
func (c *Cursor) U8() uint8 {
	if p := c.Bytes(1); p != nil {
		return p[0]
	}
	return 0
}

// U16 reads a little-endian 16-bit number.
func (c *Cursor) U16() uint16 {
	if p := c.Bytes(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

// U32 reads a little-endian 32-bit number.
func (c *Cursor) U32() uint32 {
	if p := c.Bytes(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

// U64 reads a little-endian 64-bit number.
func (c *Cursor) U64() uint64 {
	if p := c.Bytes(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

// I64 reads a little-endian 64-bit number that must lie in 0..MaxLogicalEnd, such as a file offset.
func (c *Cursor) I64() int64 {
	v := c.U64()
	if v > uint64(MaxLogicalEnd) {
		c.Fail("offset or length out of range")
		return 0
	}
	return int64(v)
}

// ID reads 16 bytes.
func (c *Cursor) ID() (id ID) {
	copy(id[:], c.Bytes(len(id)))
	return id
}

// Digest reads 32 bytes.
func (c *Cursor) Digest() (d Digest) {
	copy(d[:], c.Bytes(len(d)))
	return d
}

// Uvarint reads an unsigned LEB128 number of at most max; only the shortest form is accepted.
func (c *Cursor) Uvarint(max uint64) uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 && uint64(c.b[0]) <= max {
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	return c.uvarint(max)
}

func (c *Cursor) uvarint(max uint64) uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.Fail("malformed number")
		return 0
	}
	if n > 1 && c.b[n-1] == 0 {
		c.Fail("number not in its shortest form")
		return 0
	}
	if v > max {
		c.Fail("number out of range")
		return 0
	}
	c.b = c.b[n:]
	return v
}

// Varint reads a zigzag LEB128 number; only the shortest form is accepted.
func (c *Cursor) Varint() int64 {
	u := c.Uvarint(^uint64(0))
	return int64(u>>1) ^ -int64(u&1)
}

// AppendVarint appends v as Varint reads it.
func AppendVarint(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, uint64(v)<<1^uint64(v>>63))
}

// Zero reads n bytes that must all be zero.
func (c *Cursor) Zero(n int) {
	p := c.Bytes(n)
	for len(p) >= 8 && binary.LittleEndian.Uint64(p) == 0 {
		p = p[8:]
	}
	for _, x := range p {
		if x != 0 {
			c.Fail("reserved bytes are not zero")
			return
		}
	}
}
