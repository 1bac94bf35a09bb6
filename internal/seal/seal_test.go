package seal

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"lockbox/internal/format"

	"pgregory.net/rapid"
)

// someContext has a different value in every byte of its bound form.
func someContext() Context {
	c := Context{Number: 0x0102030405060708, Plain: 0x11121314, Stored: 0x21222324, Codec: 7}
	for i := range 16 {
		c.Archive[i], c.Attempt[i] = 0xa0+byte(i), 0xc0+byte(i)
	}
	return c
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 3)
	}
	return b
}

func sealed(c *Context, kind Kind, block uint32, b []byte) []byte {
	s := New()
	tag := make([]byte, s.TagSize())
	s.Seal(c, kind, block, b, tag)
	return tag
}

// The bound form, byte by byte.
func TestContextLayout(t *testing.T) {
	want := "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf" + // archive id
		"c0c1c2c3c4c5c6c7c8c9cacbcccdcecf" + // attempt id
		"0807060504030201" + // number
		"14131211" + // plain length
		"24232221" + // stored length
		"07" + // codec
		"01" + // kind
		"34333231" // block
	c := someContext()
	got := c.bind(KindBlock, 0x31323334)
	if hex.EncodeToString(got[:]) != want || len(got) != ContextSize {
		t.Errorf("bound form of %d bytes\n %x, want\n %s", len(got), got, want)
	}
}

// Tags that the reference implementation of XXH3 (libxxhash 0.8.1) gave for the layout above, with lengths
// on both sides of every case that XXH3 has.
func TestKnownTags(t *testing.T) {
	c := someContext()
	for _, k := range []struct {
		kind  Kind
		block uint32
		n     int
		tag   string
	}{
		{KindBlock, 0, 0, "8daabcae65ef2af8652af908475c4915"},
		{KindBlock, 0, 1, "ca42dc34ba8f0e1ed51b23bee3a38584"},
		{KindBlock, 5, 3, "0a25e574ae5e5d55639bf47151543367"},
		{KindBlock, 0xfffffffe, 16, "18338281b1fbfc513db7ecee7c943496"},
		{KindTable, 0xffffffff, 17, "2f34c10758c0ef909b9ca78696b2fff1"},
		{KindHeader, 0xffffffff, 128, "d8b9d663008299c733d721bb699d91ba"},
		{KindHeader, 0xffffffff, 129, "09ff7f77a00d2035478d773bfad66c56"},
		{KindNode, 0xffffffff, 240, "fa0dc6320575446b0a2c031ce78a9565"},
		{KindNode, 0xffffffff, 241, "b0f68aa237f32301da05f826b65fad08"},
		{KindCommit, 0, 1024, "004ead76ab613d25663102c563d5d99a"},
		{KindBlock, 0x31323334, 4096, "920955bcfe0b0be6819d42b5c8b608ee"},
		{KindBlock, 0, 5000, "48d2dc5fe1c1ba43b351770350f82216"},
	} {
		b := pattern(k.n)
		tag := sealed(&c, k.kind, k.block, b)
		if hex.EncodeToString(tag) != k.tag {
			t.Errorf("kind %d, block %#x, %d bytes: tag %x, want %s", k.kind, k.block, k.n, tag, k.tag)
		}
		if !bytes.Equal(b, pattern(k.n)) {
			t.Errorf("%d bytes: stored form differs from the plain form in a suite that does not encrypt", k.n)
		}
		if !New().Open(&c, k.kind, k.block, b, tag) {
			t.Errorf("%d bytes: what was sealed does not open", k.n)
		}
	}
}

// Every byte of every context field, the kind and the block are bound.
func TestBound(t *testing.T) {
	type place struct {
		c     Context
		kind  Kind
		block uint32
	}
	changes := map[string]func(*place){
		"kind":   func(p *place) { p.kind = KindCommit },
		"codec":  func(p *place) { p.c.Codec ^= 1 },
		"fields": func(p *place) { p.c.Plain, p.c.Stored = p.c.Stored, p.c.Plain },
		"ids":    func(p *place) { p.c.Archive, p.c.Attempt = p.c.Attempt, p.c.Archive },
	}
	for i := range 16 {
		changes[fmt.Sprint("archive byte ", i)] = func(p *place) { p.c.Archive[i] ^= 1 }
		changes[fmt.Sprint("attempt byte ", i)] = func(p *place) { p.c.Attempt[i] ^= 1 }
	}
	for i := range 64 {
		changes[fmt.Sprint("number bit ", i)] = func(p *place) { p.c.Number ^= 1 << i }
	}
	for i := range 32 {
		changes[fmt.Sprint("plain bit ", i)] = func(p *place) { p.c.Plain ^= 1 << i }
		changes[fmt.Sprint("stored bit ", i)] = func(p *place) { p.c.Stored ^= 1 << i }
		changes[fmt.Sprint("block bit ", i)] = func(p *place) { p.block ^= 1 << i }
	}
	for _, n := range []int{0, 1, 100, 1000} {
		c := someContext()
		tag := sealed(&c, KindNode, 9, pattern(n))
		for what, change := range changes {
			p := place{someContext(), KindNode, 9}
			change(&p)
			if New().Open(&p.c, p.kind, p.block, pattern(n), tag) {
				t.Errorf("%d bytes open with another %s", n, what)
			}
		}
		for _, kind := range []Kind{0, KindBlock, KindTable, KindHeader, KindCommit, 6, 255} {
			c := someContext()
			if New().Open(&c, kind, 9, pattern(n), tag) {
				t.Errorf("a node of %d bytes opens as kind %d", n, kind)
			}
		}
	}
}

// Open refuses every flipped bit of the bytes and of the tag, bytes cut or grown, and a tag cut short.
func TestOpenRefuses(t *testing.T) {
	s := New()
	c := someContext()
	for _, n := range []int{1, 16, 100, 300, 1500} {
		b := pattern(n)
		tag := sealed(&c, KindBlock, 3, b)
		for i := range 8 * n {
			b[i/8] ^= 1 << (i % 8)
			if s.Open(&c, KindBlock, 3, b, tag) {
				t.Fatalf("%d bytes open with bit %d flipped", n, i)
			}
			b = pattern(n)
		}
		for i := range 8 * len(tag) {
			bad := bytes.Clone(tag)
			bad[i/8] ^= 1 << (i % 8)
			if s.Open(&c, KindBlock, 3, b, bad) {
				t.Fatalf("%d bytes open with bit %d of the tag flipped", n, i)
			}
		}
		for k := range len(tag) {
			if s.Open(&c, KindBlock, 3, b, tag[:k]) {
				t.Fatalf("%d bytes open with %d bytes of a tag", n, k)
			}
		}
		if s.Open(&c, KindBlock, 3, b[:n-1], tag) || s.Open(&c, KindBlock, 3, append(b, 0), tag) {
			t.Fatalf("%d bytes open after they were cut or grown", n)
		}
		if !s.Open(&c, KindBlock, 3, b, append(tag, make([]byte, format.MaxTag-len(tag))...)) {
			t.Fatalf("%d bytes do not open with a tag in a wider field", n)
		}
	}
}

// Whatever was sealed opens in its own place, and two places that differ do not share a tag.
func TestSealOpen(t *testing.T) {
	context := rapid.Custom(func(t *rapid.T) Context {
		var c Context
		copy(c.Archive[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "archive"))
		copy(c.Attempt[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "attempt"))
		c.Number, c.Plain, c.Stored = rapid.Uint64().Draw(t, "number"), rapid.Uint32().Draw(t, "plain"), rapid.Uint32().Draw(t, "stored")
		c.Codec = rapid.Byte().Draw(t, "codec")
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "bytes")
		c, kind, block := context.Draw(t, "context"), Kind(rapid.IntRange(1, 5).Draw(t, "kind")), rapid.Uint32().Draw(t, "block")
		tag := sealed(&c, kind, block, b)
		if !New().Open(&c, kind, block, bytes.Clone(b), tag) {
			t.Fatal("what was sealed does not open")
		}
		d, other, far := context.Draw(t, "context"), Kind(rapid.IntRange(1, 5).Draw(t, "kind")), rapid.Uint32().Draw(t, "block")
		same := c == d && kind == other && block == far
		if New().Open(&d, other, far, bytes.Clone(b), tag) != same {
			t.Fatal("the same tag in two places")
		}
	})
}

func TestSuite(t *testing.T) {
	if s := New(); s.ID() != format.SuiteNone || s.TagSize() != 16 {
		t.Errorf("suite %v with tags of %d bytes", s.ID(), s.TagSize())
	}
}
