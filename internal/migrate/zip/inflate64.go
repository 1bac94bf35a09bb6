package zip

import (
	"errors"
	"io"
)

// Deflate64 is deflate with twice the window, two more distance codes, and a last length code with 16 extra bits. No
// kept library reads it alone.

const window64 = 1 << 16

var (
	lengthBase = [29]uint32{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 3}
	lengthBits = [29]uint{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 16}
	codeOrder  = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
)

var errInflate = errors.New("the compressed data are damaged")

// prefixCode is a canonical code: first a table of its short words, then the others by length.
type prefixCode struct {
	short   [1 << shortBits]uint16 // symbol<<4 | length; 0: longer, or none
	count   [16]uint16
	symbols [288]uint16
}

const shortBits = 9

// build makes the code from the words' lengths. An incomplete one is allowed only where it has one word or none.
func (c *prefixCode) build(lengths []uint8) error {
	clear(c.count[:])
	clear(c.short[:])
	for _, n := range lengths {
		c.count[n]++
	}
	used := len(lengths) - int(c.count[0])
	c.count[0] = 0
	left := 1
	for n := 1; n <= 15; n++ {
		left = left<<1 - int(c.count[n])
		if left < 0 {
			return errInflate
		}
	}
	if left > 0 && (used > 1 || used == 1 && c.count[1] != 1) {
		return errInflate
	}
	var at [16]int
	for n := 1; n < 15; n++ {
		at[n+1] = at[n] + int(c.count[n])
	}
	for s, n := range lengths {
		if n != 0 {
			c.symbols[at[n]] = uint16(s)
			at[n]++
		}
	}
	word, k := 0, 0
	for n := 1; n <= shortBits; n++ {
		for range c.count[n] {
			// Words come with their first bit lowest.
			rev := 0
			for i := range n {
				rev |= word >> i & 1 << (n - 1 - i)
			}
			for j := rev; j < 1<<shortBits; j += 1 << n {
				c.short[j] = c.symbols[k]<<4 | uint16(n)
			}
			word++
			k++
		}
		word <<= 1
	}
	return nil
}

// inflate64 is the decoder.
type inflate64 struct {
	r     io.ByteReader
	bits  uint64
	nbits uint
	err   error

	window  [window64]byte
	at      int // where the next byte goes
	read    int // where the reader is
	full    int // bytes not yet read
	filled  int // bytes that the window has
	last    bool
	inBlock bool
	raw     int // bytes of a stored block that are left, -1 outside of one
	copyLen int // of a copy under way
	copyOff int
	lit     prefixCode
	dist    prefixCode
}

func newInflate64(r io.ByteReader) *inflate64 { return &inflate64{r: r, raw: -1} }

// need makes sure of n bits, 32 at most; at the end of the input those that are missing read as zeros, and taking them
// fails.
func (f *inflate64) need(n uint) bool {
	for f.nbits < n {
		b, err := f.r.ReadByte()
		if err != nil {
			return false
		}
		f.bits |= uint64(b) << f.nbits
		f.nbits += 8
	}
	return true
}

func (f *inflate64) take(n uint) uint32 {
	if !f.need(n) {
		f.fail(io.ErrUnexpectedEOF)
		return 0
	}
	v := uint32(f.bits & (1<<n - 1))
	f.bits >>= n
	f.nbits -= n
	return v
}

func (f *inflate64) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// symbol reads one word of a code, and no byte more than that needs.
func (f *inflate64) symbol(c *prefixCode) int {
	for {
		if e := c.short[f.bits&(1<<shortBits-1)]; e != 0 && uint(e&15) <= f.nbits {
			f.bits >>= e & 15
			f.nbits -= uint(e & 15)
			return int(e >> 4)
		}
		if f.nbits >= shortBits {
			break
		}
		if !f.need(f.nbits + 1) {
			f.fail(io.ErrUnexpectedEOF)
			return 0
		}
	}
	word, first, k := 0, 0, 0
	for n := uint(1); n <= 15; n++ {
		if !f.need(n) {
			f.fail(io.ErrUnexpectedEOF)
			return 0
		}
		word |= int(f.bits >> (n - 1) & 1)
		if count := int(c.count[n]); word-first < count {
			f.bits >>= n
			f.nbits -= n
			return int(c.symbols[k+word-first])
		}
		k += int(c.count[n])
		first = (first + int(c.count[n])) << 1
		word <<= 1
	}
	f.fail(errInflate)
	return 0
}

// Read implements io.Reader.
func (f *inflate64) Read(p []byte) (int, error) {
	for f.full == 0 && f.err == nil {
		f.fill()
	}
	if f.full == 0 {
		return 0, f.err
	}
	n := 0
	for n < len(p) && f.full > 0 {
		k := copy(p[n:], f.window[f.read:min(f.read+f.full, window64)])
		f.read = (f.read + k) % window64
		f.full -= k
		n += k
	}
	return n, nil
}

func (f *inflate64) put(b byte) {
	f.window[f.at] = b
	f.at = (f.at + 1) % window64
	f.full++
	f.filled = min(f.filled+1, window64)
}

// fill decodes until there is something to read. It never holds more than the half of the window back.
func (f *inflate64) fill() {
	for f.err == nil && f.full < window64/2 {
		switch {
		case f.copyLen > 0:
			for ; f.copyLen > 0 && f.full < window64/2; f.copyLen-- {
				f.put(f.window[(f.at-f.copyOff+window64)%window64])
			}
		case f.raw > 0:
			f.put(byte(f.take(8)))
			f.raw--
		case f.raw == 0:
			f.raw = -1
		case f.inBlock:
			f.step()
		case f.last:
			f.fail(io.EOF)
		default:
			f.block()
		}
	}
}

// step decodes one literal or the beginning of a copy.
func (f *inflate64) step() {
	s := f.symbol(&f.lit)
	switch {
	case f.err != nil:
	case s < 256:
		f.put(byte(s))
	case s == 256:
		f.inBlock = false
	case s > 285:
		f.fail(errInflate)
	default:
		n := int(lengthBase[s-257] + f.take(lengthBits[s-257]))
		d := f.symbol(&f.dist)
		if f.err != nil {
			return
		}
		off := d + 1
		if d > 3 {
			extra := uint(d/2 - 1)
			off = (2+d&1)<<extra + 1 + int(f.take(extra))
		}
		if d > 31 || off > f.filled {
			f.fail(errInflate)
		}
		if f.err == nil {
			f.copyLen, f.copyOff = n, off
		}
	}
}

// block reads the beginning of a block.
func (f *inflate64) block() {
	f.last = f.take(1) == 1
	switch f.take(2) {
	case 0:
		f.take(f.nbits % 8)
		n, inverse := f.take(16), f.take(16)
		if n != ^inverse&0xffff {
			f.fail(errInflate)
			return
		}
		f.raw = int(n)
	case 1:
		var lengths [288]uint8
		for i := range lengths {
			switch {
			case i < 144, i >= 280:
				lengths[i] = 8
			case i < 256:
				lengths[i] = 9
			default:
				lengths[i] = 7
			}
		}
		f.codes(lengths[:], []uint8{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5})
	case 2:
		f.dynamic()
	default:
		f.fail(errInflate)
	}
}

func (f *inflate64) codes(lit, dist []uint8) {
	for _, err := range []error{f.lit.build(lit), f.dist.build(dist)} {
		if err != nil {
			f.fail(err)
		}
	}
	f.inBlock = true
}

// dynamic reads the codes of a block.
func (f *inflate64) dynamic() {
	lits, dists, words := int(f.take(5))+257, int(f.take(5))+1, int(f.take(4))+4
	var lengths [288 + 32]uint8
	if lits > 286 {
		f.fail(errInflate)
		return
	}
	for _, i := range codeOrder[:words] {
		lengths[i] = uint8(f.take(3))
	}
	var c prefixCode
	if err := c.build(lengths[:19]); err != nil {
		f.fail(err)
		return
	}
	clear(lengths[:19])
	for i := 0; i < lits+dists && f.err == nil; {
		s := f.symbol(&c)
		n, v := 1, uint8(0)
		switch {
		case s < 16:
			v = uint8(s)
		case s == 16:
			if i == 0 {
				f.fail(errInflate)
				return
			}
			n, v = 3+int(f.take(2)), lengths[i-1]
		case s == 17:
			n = 3 + int(f.take(3))
		default:
			n = 11 + int(f.take(7))
		}
		if n > lits+dists-i {
			f.fail(errInflate)
			return
		}
		for range n {
			lengths[i] = v
			i++
		}
	}
	if f.err == nil && lengths[256] == 0 {
		f.fail(errInflate)
	}
	if f.err == nil {
		f.codes(lengths[:lits], lengths[lits:lits+dists])
	}
}
