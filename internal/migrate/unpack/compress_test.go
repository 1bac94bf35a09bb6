package unpack

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"lockbox/internal/format"
)

// packCompress is LZW as compress has it; with a code for it, the table is emptied whenever it has been full for a while.
func packCompress(plain []byte, most uint, empties bool) []byte {
	out := []byte{0x1f, 0x9d, byte(most)}
	first := 256
	if empties {
		out[2] |= 0x80
		first++
	}
	width, next, full := uint(9), first, 0
	var group []byte
	var bits uint
	put := func(code int) {
		for i := range width {
			if bits%8 == 0 {
				group = append(group, 0)
			}
			group[bits/8] |= byte(code>>i&1) << (bits % 8)
			bits++
		}
		if bits == 8*width {
			out, group, bits = append(out, group...), nil, 0
		}
	}
	pad := func() {
		if bits > 0 {
			out = append(append(out, group...), make([]byte, int(width)-len(group))...)
			group, bits = nil, 0
		}
	}
	table := map[string]int{}
	code := func(s []byte) (int, bool) {
		if len(s) == 1 {
			return int(s[0]), true
		}
		c, ok := table[string(s)]
		return c, ok
	}
	for len(plain) > 0 {
		n := 1
		for n < len(plain) {
			if _, ok := code(plain[:n+1]); !ok {
				break
			}
			n++
		}
		c, _ := code(plain[:n])
		put(c)
		if n == len(plain) {
			break
		}
		if next < 1<<most {
			table[string(plain[:n+1])] = next
			next++
		} else if full++; full > 1000 && empties {
			put(emptyTable)
			pad()
			clear(table)
			width, next, full = 9, first, 0
		}
		plain = plain[n:]
		// The reader's table is one entry behind.
		if next-1 == 1<<width && width < most {
			pad()
			width++
		}
	}
	return append(out, group...)
}

func TestCompress(t *testing.T) {
	for _, plain := range [][]byte{{}, {7}, bytes.Repeat([]byte("a"), 5000), sample(300), sample(300_000), bytes.Repeat(sample(999), 300)} {
		for most := uint(9); most <= 16; most++ {
			for _, empties := range []bool{false, true} {
				packed := packCompress(plain, most, empties)
				if got := Probe(packed); got != "compress" {
					t.Fatalf("probed as %q", got)
				}
				got, err := unpacked("compress", iotest.HalfReader(bytes.NewReader(packed)), 0)
				if err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%d bytes, %d bits, %v: %d came out, %v", len(plain), most, empties, len(got), err)
				}
			}
		}
	}
}

// Nothing in the format tells damage, so that what comes out is anything; but it ends, and what it cannot be is an error.
func TestCompressDamage(t *testing.T) {
	packed := packCompress(sample(3000), 12, true)
	refused := 0
	for i := range packed {
		bad := slices.Clone(packed)
		bad[i] ^= 0x81
		_, err := unpacked("compress", bytes.NewReader(bad), 0)
		if err != nil && !errors.Is(err, format.ErrCorrupt) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if err != nil {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("%d of %d changes were seen", refused, len(packed))
	}
	for _, b := range []string{"\x1f\x9d", "\x1f\x9d\x90a", "\x1f\x9d\x90\x61\x04\x02", "\x1f\x9d\x90\x01\x01", "\x1f\x9d\x90\x01\x01\x01\x01"} {
		if got, err := unpacked("compress", bytes.NewReader([]byte(b)), 0); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%q: %q, %v", b, got, err)
		}
	}
	z, err := NewReader("compress", io.MultiReader(bytes.NewReader(packed[:100]), iotest.ErrReader(iotest.ErrTimeout)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, z); !errors.Is(err, iotest.ErrTimeout) || errors.Is(err, format.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// A device that fails and then goes on has lost its place in a group of codes.
func TestCompressReadError(t *testing.T) {
	packed := packCompress(sample(3000), 9, false) // soon any code stands for something, so that no other error hides it
	const within = compressHead + 100*9 + 7        // a group
	z, err := NewReader("compress", &failsOnce{parts: [][]byte{packed[:within], packed[within:]}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, z); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%v", err)
	}
}

// failsOnce has an error between its parts.
type failsOnce struct{ parts [][]byte }

func (f *failsOnce) Read(p []byte) (int, error) {
	if len(f.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.parts[0])
	if f.parts[0] = f.parts[0][n:]; n == 0 {
		f.parts = f.parts[1:]
		return 0, iotest.ErrTimeout
	}
	return n, nil
}
