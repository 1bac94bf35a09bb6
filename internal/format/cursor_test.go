package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// readers are all ways to read, with the bytes that each takes from a cursor over 0x01, 0x00, 0x00, …. They
// return whether what came back is the zero value.
var readers = map[string]struct {
	size int
	read func(*Cursor) (zero bool)
}{
	"u8":      {1, func(c *Cursor) bool { return c.U8() == 0 }},
	"u16":     {2, func(c *Cursor) bool { return c.U16() == 0 }},
	"u32":     {4, func(c *Cursor) bool { return c.U32() == 0 }},
	"u64":     {8, func(c *Cursor) bool { return c.U64() == 0 }},
	"i64":     {8, func(c *Cursor) bool { return c.I64() == 0 }},
	"id":      {16, func(c *Cursor) bool { return c.ID() == ID{} }},
	"digest":  {32, func(c *Cursor) bool { return c.Digest() == Digest{} }},
	"bytes":   {5, func(c *Cursor) bool { return len(c.Bytes(5)) == 0 }},
	"uvarint": {1, func(c *Cursor) bool { return c.Uvarint(math.MaxUint64) == 0 }},
	"varint":  {1, func(c *Cursor) bool { return c.Varint() == 0 }},
}

// Each reader takes exactly its bytes, and at the end of the input fails, returns zero and stays failed.
func TestReadersAtTheEnd(t *testing.T) {
	for name, r := range readers {
		one := append([]byte{1}, make([]byte, 40)...)
		c := NewCursor(one[:r.size], "record", 100)
		if zero := r.read(c); zero || c.Err() != nil || c.Len() != 0 || c.Done() != nil {
			t.Errorf("%s: exactly enough: zero %v, %d left, %v", name, zero, c.Len(), c.Err())
		}
		for n := range r.size {
			c := NewCursor(one[:n], "record", 100)
			if !r.read(c) || c.Len() != 0 {
				t.Errorf("%s: a value from %d bytes, %d left", name, n, c.Len())
			}
			if err := c.Err(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s from %d bytes: %v", name, n, err)
			}
		}
		c = NewCursor(one, "record", 100)
		if r.read(c); c.Len() != len(one)-r.size {
			t.Errorf("%s: took %d bytes", name, len(one)-c.Len())
		}
		c.Fail("first")
		c.Fail("second")
		for other, o := range readers {
			if !o.read(c) {
				t.Errorf("%s returns a value after the failure", other)
			}
		}
		c.Zero(1)
		if got := c.Done().Error(); got != "damaged: record at offset 100: first" {
			t.Errorf("the first failure is kept: %s", got)
		}
	}
}

func TestCursorValues(t *testing.T) {
	b := []byte{0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
	c := NewCursor(b, "record", -1)
	if a, b, d := c.U8(), c.U16(), c.U32(); a != 0x80 || b != 0x0201 || d != 0x06050403 {
		t.Errorf("%x %x %x", a, b, d)
	}
	if v := c.U64(); v != 0x0e0d0c0b0a090807 {
		t.Errorf("%x", v)
	}
	if err := c.Done(); err != nil {
		t.Error(err)
	}
	long := make([]byte, 48)
	for i := range long {
		long[i] = byte(i + 1)
	}
	c = NewCursor(long, "record", -1)
	if id, d := c.ID(), c.Digest(); !bytes.Equal(id[:], long[:16]) || !bytes.Equal(d[:], long[16:]) || c.Done() != nil {
		t.Errorf("%v %v", id, d)
	}
}

func TestCursorBounds(t *testing.T) {
	u64 := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	for _, v := range []uint64{0, 1, uint64(MaxLogicalEnd)} {
		if c := NewCursor(u64(v), "r", -1); c.I64() != int64(v) || c.Done() != nil {
			t.Errorf("offset %d refused: %v", v, c.Err())
		}
	}
	for _, v := range []uint64{uint64(MaxLogicalEnd) + 1, 1 << 63, math.MaxUint64} {
		if c := NewCursor(u64(v), "r", -1); c.I64() != 0 || !errors.Is(c.Err(), ErrCorrupt) {
			t.Errorf("offset %d accepted", v)
		}
	}
	for _, n := range []int{-1, math.MinInt, 4, math.MaxInt} {
		c := NewCursor([]byte{1, 2, 3}, "r", -1)
		if c.Bytes(n) != nil || c.Err() == nil {
			t.Errorf("%d bytes of 3", n)
		}
		c = NewCursor([]byte{0, 0, 0}, "r", -1)
		if c.Zero(n); c.Err() == nil {
			t.Errorf("%d zeros of 3", n)
		}
	}
	// A caller that appends to what it was given must not reach what follows.
	b := []byte{1, 2, 3}
	c := NewCursor(b, "r", -1)
	_ = append(c.Bytes(1), 9)
	if b[1] != 2 || c.U8() != 2 {
		t.Error("bytes behind a slice were overwritten")
	}
	if err := c.Done(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte left over: %v", err)
	}
	for i := range 6 {
		b := make([]byte, 6)
		b[i] = 1
		c := NewCursor(b, "r", -1)
		if c.Zero(6); (c.Err() == nil) || c.U8() != 0 {
			t.Errorf("byte %d of reserved ones is not zero: %v", i, c.Err())
		}
	}
	c = NewCursor(make([]byte, 6), "r", -1)
	if c.Zero(0); c.Len() != 6 || c.Err() != nil {
		t.Error("no reserved bytes")
	}
	if c.Zero(6); c.Done() != nil {
		t.Error(c.Err())
	}
}

func TestUvarintForms(t *testing.T) {
	ff := bytes.Repeat([]byte{0xff}, 9)
	for _, k := range []struct {
		name string
		b    []byte
		max  uint64
		want uint64
		ok   bool
	}{
		{"zero", []byte{0}, 0, 0, true},
		{"at the bound", []byte{0x7f}, 127, 127, true},
		{"over the bound", []byte{0x7f}, 126, 0, false},
		{"two bytes", []byte{0x80, 1}, 128, 128, true},
		{"largest", append(bytes.Clone(ff), 1), math.MaxUint64, math.MaxUint64, true},
		{"65 bits", append(bytes.Clone(ff), 2), math.MaxUint64, 0, false},
		{"eleven bytes", append(bytes.Clone(ff), 0x81, 0), math.MaxUint64, 0, false},
		{"no end", ff, math.MaxUint64, 0, false},
		{"nothing", nil, math.MaxUint64, 0, false},
		{"zero in two bytes", []byte{0x80, 0}, 10, 0, false},
		{"one in three bytes", []byte{0x81, 0x80, 0}, 10, 0, false},
		{"ten bytes, the last zero", append(bytes.Clone(ff), 0), math.MaxUint64, 0, false},
	} {
		c := NewCursor(k.b, "r", -1)
		got := c.Uvarint(k.max)
		if got != k.want || (c.Done() == nil) != k.ok {
			t.Errorf("%s: %d, %v", k.name, got, c.Err())
		}
		if !k.ok && !errors.Is(c.Err(), ErrCorrupt) {
			t.Errorf("%s: %v", k.name, c.Err())
		}
	}
	for v, b := range map[int64][]byte{
		0: {0}, -1: {1}, 1: {2}, -64: {0x7f}, 64: {0x80, 1},
		math.MaxInt64: append([]byte{0xfe}, append(bytes.Clone(ff[:8]), 1)...), math.MinInt64: append(bytes.Clone(ff), 1),
	} {
		c := NewCursor(b, "r", -1)
		if got := c.Varint(); got != v || c.Done() != nil {
			t.Errorf("varint %x is %d, want %d: %v", b, got, v, c.Err())
		}
		if got := AppendVarint(nil, v); !bytes.Equal(got, b) {
			t.Errorf("%d is written as %x, want %x", v, got, b)
		}
	}
}

func TestVarintRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, v := rapid.Uint64().Draw(t, "u"), rapid.Int64().Draw(t, "v")
		b := AppendVarint(binary.AppendUvarint(nil, u), v)
		c := NewCursor(b, "r", -1)
		if x, y := c.Uvarint(u), c.Varint(); x != u || y != v || c.Done() != nil {
			t.Fatalf("%d %d came back as %d %d: %v", u, v, x, y, c.Err())
		}
		if u > 0 {
			if c := NewCursor(b, "r", -1); c.Uvarint(u-1) != 0 || c.Err() == nil {
				t.Fatalf("%d accepted where %d is the bound", u, u-1)
			}
		}
	})
}

// FuzzCursor runs a program of reads over bytes. What a cursor has read can be written again as the same
// bytes, and once it has failed it gives nothing more.
func FuzzCursor(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []byte{0, 1, 2, 5})
	f.Add(append([]byte{0x80, 1, 0x7f}, make([]byte, 80)...), []byte{5, 6, 7, 8, 9, 4})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, []byte{5})
	f.Fuzz(func(t *testing.T, in, program []byte) {
		c := NewCursor(in, "record", 0)
		var out []byte
		le := binary.LittleEndian
		for _, op := range program {
			failed, before := c.Err() != nil, c.Len()
			arg := int(op >> 4)
			n := len(out)
			switch op & 15 {
			case 0:
				out = append(out, c.U8())
			case 1:
				out = le.AppendUint16(out, c.U16())
			case 2:
				out = le.AppendUint32(out, c.U32())
			case 3:
				out = le.AppendUint64(out, c.U64())
			case 4:
				out = le.AppendUint64(out, uint64(c.I64()))
			case 5:
				out = binary.AppendUvarint(out, c.Uvarint(math.MaxUint64>>(4*arg)))
			case 6:
				out = AppendVarint(out, c.Varint())
			case 7:
				id := c.ID()
				out = append(out, id[:]...)
			case 8:
				d := c.Digest()
				out = append(out, d[:]...)
			case 9:
				c.Zero(arg)
				out = append(out, make([]byte, arg)...)
			default:
				out = append(out, c.Bytes(arg-2)...)
			}
			if err := c.Err(); err != nil {
				if !errors.Is(err, ErrCorrupt) || c.Len() != 0 {
					t.Fatalf("%v, %d bytes left", err, c.Len())
				}
				if len(bytes.Trim(out[n:], "\x00")) != 0 {
					t.Fatalf("operation %d gave %x and failed", op, out[n:])
				}
				out = out[:n]
				continue
			}
			if failed || before-c.Len() != len(out)-n {
				t.Fatalf("operation %d took %d bytes and gave %d", op, before-c.Len(), len(out)-n)
			}
		}
		if !bytes.HasPrefix(in, out) {
			t.Fatalf("%x was read as %x", in, out)
		}
	})
}
