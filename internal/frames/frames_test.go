package frames

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/seal"

	"pgregory.net/rapid"
)

var archive = format.ID{1, 2, 3}

func random(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func text(n int) []byte {
	return bytes.Repeat([]byte("func (r *Reader) Read(p []byte) (n int, err error) { return r.inner.Read(p) }\n"), n/78+1)[:n]
}

func encode(t testing.TB, level Level, plain []byte) (Info, []byte) {
	t.Helper()
	e, err := NewEncoder(seal.New(), archive, level, 12, 512, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	i := Info{Number: 7, Attempt: format.ID{9}, Class: NoPack}
	ext := e.Encode(nil, &i, plain, []Member{{Content: 3, Off: 0, Len: int64(len(plain))}})
	return i, ext
}

// decode reads a whole frame the way a reader does.
func decode(i *Info, ext []byte) ([]byte, error) {
	s := seal.New()
	if _, err := CheckHeader(ext, s, archive, i, 0); err != nil {
		return nil, err
	}
	h := HeaderSize(s.TagSize())
	stored := bytes.Clone(ext[h : h+int(i.Stored)])
	if i.BlockShift == 0 {
		c, err := Check(s, archive, i, stored)
		if err != nil {
			return nil, err
		}
		out := make([]byte, i.Plain)
		return out, c.Decode(out)
	}
	t, err := CheckTable(s, archive, i, ext[h+int(i.Stored):h+int(i.Stored)+i.TableSize(s.TagSize())])
	if err != nil {
		return nil, err
	}
	return stored, t.Open(0, stored)
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40000).Draw(t, "n")
		plain := random(n, uint64(n))
		if rapid.Bool().Draw(t, "text") {
			plain = text(n)
		}
		level := Level(rapid.IntRange(0, 4).Draw(t, "level"))
		e, err := NewEncoder(seal.New(), archive, level, 12, 512, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		i := Info{Number: 7, Class: 2}
		ext := e.Encode(nil, &i, plain, []Member{{Content: 3, Len: 1}, {Content: 2, Off: 5, Len: int64(n - 1)}})
		if len(ext)%512 != 0 {
			t.Fatalf("extent of %d bytes", len(ext))
		}
		got, err := decode(&i, ext)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("decoded %d bytes, %v", len(got), err)
		}
		if level == LevelNone && i.Codec != Raw {
			t.Fatal("compressed at level none")
		}
	})
}

// Every flipped byte of an extent is noticed by the whole check, and a reader that looks only at what
// it needs never gets other bytes.
func TestEveryFlipIsNoticed(t *testing.T) {
	for name, plain := range map[string][]byte{"text": text(3000), "raw": random(9000, 1), "one block": random(300, 2)} {
		i, ext := encode(t, LevelDefault, plain)
		for k := range ext {
			bad := bytes.Clone(ext)
			bad[k] ^= 0x41
			got, err := decode(&i, bad)
			if err == nil {
				t.Fatalf("%s: byte %d flipped and not noticed (%d bytes)", name, k, len(got))
			}
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("%s: byte %d: %v", name, k, err)
			}
		}
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	plain := random(9000, 3)
	i, ext := encode(t, LevelDefault, plain)
	h := HeaderSize(16)
	tab, err := CheckTable(seal.New(), archive, &i, ext[h+9000:h+9000+i.TableSize(16)])
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Clone(ext[h : h+9000])
	b[8999]++
	if tab.Open(0, b) == nil {
		t.Fatal("bad block accepted")
	}
	if !bytes.Equal(b, make([]byte, len(b))) {
		t.Fatal("unverified bytes left in the caller's buffer")
	}
}

// A tag binds the frame's identity: the same bytes do not verify as another frame, attempt, archive,
// block or codec.
func TestBound(t *testing.T) {
	i, ext := encode(t, LevelDefault, text(3000))
	stored := ext[96 : 96+i.Stored]
	for name, change := range map[string]func(*Info, *format.ID){
		"number":  func(i *Info, _ *format.ID) { i.Number++ },
		"attempt": func(i *Info, _ *format.ID) { i.Attempt[0]++ },
		"plain":   func(i *Info, _ *format.ID) { i.Plain++ },
		"archive": func(_ *Info, a *format.ID) { a[0]++ },
	} {
		j, a := i, archive
		change(&j, &a)
		if _, err := Check(seal.New(), a, &j, bytes.Clone(stored)); err == nil {
			t.Errorf("verified with another %s", name)
		}
	}
}

// A compressible part of a frame of random bytes is found wherever it stands: the encoder's own skipping
// replaces a probe, so this is what it must not miss.
func TestCompressiblePartsAreFound(t *testing.T) {
	for _, n := range []int{64 << 10, 256 << 10, 1 << 20} {
		for name, at := range map[string]int{"head": 0, "tail": n - n/8, "middle": n / 2} {
			b := random(n, 5)
			copy(b[at:at+n/8], text(n/8))
			if i, _ := encode(t, LevelDefault, b); i.Codec != Zstd || int(i.Stored) > n-n/16 {
				t.Errorf("%d bytes: compressible %s stored in %d bytes", n, name, i.Stored)
			}
		}
		if i, _ := encode(t, LevelDefault, random(n, 6)); i.Codec != Raw {
			t.Errorf("%d random bytes were compressed", n)
		}
	}
}

// FuzzDecode reads whatever extent it is given, as the frame that its header says or, when it has none, as the
// one that the numbers say. What is wrong is damage and nothing else, and no byte comes out of a failure.
func FuzzDecode(f *testing.F) {
	for _, p := range [][]byte{text(3000), random(9000, 1), text(600), random(300, 2)} {
		i, ext := encode(f, LevelDefault, p)
		f.Add(ext, i.Codec, i.BlockShift, i.Plain, i.Stored, i.MemberTable)
		f.Add(ext[8:], i.Codec, i.BlockShift, i.Plain, i.Stored, i.MemberTable)
	}
	f.Fuzz(func(t *testing.T, ext []byte, codec, shift uint8, plain, stored, members uint32) {
		damage := func(what string, err error) {
			if err != nil && !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("%s: %v", what, err)
			}
		}
		i, ok, err := DecodeHeader(ext, seal.New(), archive, 0)
		damage("header", err)
		if ok && err == nil && i.Valid() != "" {
			t.Fatalf("the header is accepted, but: %s", i.Valid())
		}
		if !ok || err != nil {
			i = Info{Number: 7, Codec: codec, BlockShift: shift, Plain: plain, Stored: stored, MemberTable: members}
		}
		if i.Valid() != "" {
			_, err := Check(seal.New(), archive, &i, ext)
			_, tableErr := CheckTable(seal.New(), archive, &i, ext)
			if err == nil || tableErr == nil {
				t.Fatalf("a frame that cannot be was accepted: %s", i.Valid())
			}
			damage("check", err)
			damage("table", tableErr)
			return
		}
		_, err = decode(&i, append(bytes.Clone(ext), make([]byte, 64)...))
		damage("decode", err)
		if int(i.Stored) <= len(ext) && i.BlockShift == 0 && i.Plain <= 1<<20 {
			// Past the tag: what the decoder makes of hostile compressed bytes.
			c := Checked{info: &i, stored: ext[:i.Stored]}
			dst := bytes.Repeat([]byte{0xAA}, int(i.Plain))
			err := c.Decode(dst)
			damage("zstd", err)
			if err != nil && len(bytes.Trim(dst, "\x00")) != 0 {
				t.Fatal("bytes left behind by a failure")
			}
		}
	})
}

// Whatever the level and wherever it stands, a part that compresses is not missed among bytes that do not.
func TestNoCompressiblePartIsMissed(t *testing.T) {
	for level := LevelFast; level <= LevelBest; level++ {
		for _, n := range []int{128 << 10, 256 << 10, 1 << 20} {
			part := n / 8
			for _, at := range []int{0, n/3 + 1, n - part} {
				plain := random(n, 5)
				copy(plain[at:], text(part))
				i, ext := encode(t, level, plain)
				if i.Codec != Zstd || int(i.Stored) > n-part/3 {
					t.Errorf("level %d, %d bytes of text at %d of %d: codec %d, %d bytes stored", level, part, at, n, i.Codec, i.Stored)
				}
				if got, err := decode(&i, ext); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("level %d: %v", level, err)
				}
			}
			if i, _ := encode(t, level, random(n, 6)); i.Codec != Raw {
				t.Errorf("level %d: %d random bytes were stored as %d", level, n, i.Stored)
			}
		}
	}
}

func TestLooksRandom(t *testing.T) {
	if !LooksRandom(random(1<<20, 1)) || !LooksRandom(random(16<<10, 2)) {
		t.Error("random bytes do not look random")
	}
	part := random(1<<20, 3)
	copy(part[1<<19:], text(1<<17))
	for name, b := range map[string][]byte{"text": text(1 << 20), "an eighth text": part, "too short": random(16<<10-1, 4), "zeros": make([]byte, 1<<20), "nothing": nil} {
		if LooksRandom(b) {
			t.Errorf("%s looks random", name)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for name, p := range map[string][]byte{"random": random(1<<20, 1), "text": text(1 << 20)} {
		for l := LevelNone; l <= LevelBest; l++ {
			b.Run(name+"/"+string('0'+rune(l)), func(b *testing.B) {
				e, _ := NewEncoder(seal.New(), archive, l, 14, 512, 1<<20)
				var dst []byte
				b.SetBytes(int64(len(p)))
				for b.Loop() {
					i := Info{Number: 7, Class: NoPack}
					dst = e.Encode(dst, &i, p, []Member{{Content: 1, Len: int64(len(p))}})
				}
			})
		}
	}
}

// words is text whose every block compresses, and no two alike.
func words(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%x %d of some words\n", r.Uint32(), r.IntN(1000))
	}
	return b.Bytes()[:n]
}

// The head of a frame is what decoding all of it begins with, and what lies behind it is left alone.
func TestDecodeHead(t *testing.T) {
	half := append(random(HeadSize, 5), words(HeadSize)...)
	for _, c := range []struct {
		name  string
		plain []byte
		head  int
	}{
		{"two blocks", words(256 << 10), HeadSize},
		{"many blocks", words(900_000), HeadSize},
		{"one byte more", words(HeadSize + 1), HeadSize},
		{"one block", words(HeadSize), HeadSize},
		{"short", words(1000), 1000},
		{"one byte over and over", bytes.Repeat([]byte{'x'}, 300_000), HeadSize},
		{"a first block that does not compress", half, len(half)},
		{"raw", random(4000, 1), 4000},
	} {
		i, ext := encode(t, LevelDefault, c.plain)
		if i.BlockShift != 0 {
			t.Fatalf("%s: a frame with blocks", c.name)
		}
		s := seal.New()
		h := HeaderSize(s.TagSize())
		checked, err := Check(s, archive, &i, bytes.Clone(ext[h:h+int(i.Stored)]))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		dst := bytes.Repeat([]byte{0xAA}, len(c.plain)+Slack)[:len(c.plain)]
		n, err := checked.DecodeHead(dst)
		if err != nil || n != c.head || !bytes.Equal(dst[:n], c.plain[:n]) {
			t.Errorf("%s: %d bytes, want %d: %v", c.name, n, c.head, err)
		}
		if n < len(dst)-Slack && !bytes.Equal(dst[n+Slack:], bytes.Repeat([]byte{0xAA}, len(dst)-n-Slack)) {
			t.Errorf("%s: more was decoded than the head", c.name)
		}
		if _, err := checked.DecodeHead(dst[:len(dst)-1]); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: a buffer of another length: %v", c.name, err)
		}
	}
	if _, err := (Checked{}).DecodeHead(make([]byte, HeadSize+1)); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("what was not checked: %v", err)
	}
}

// Bytes that verify and are no zstd frame leave nothing behind.
func TestDecodeHeadOfNonsense(t *testing.T) {
	plain := words(256 << 10)
	i, ext := encode(t, LevelDefault, plain)
	s := seal.New()
	h := HeaderSize(s.TagSize())
	for _, at := range []int{0, 4, 5, 9, 10, 12, 40, 2000, int(i.Stored) / 2, int(i.Stored) - 2} {
		stored := bytes.Clone(ext[h : h+int(i.Stored)])
		stored[at] ^= 0x55
		ctx := i.context(archive)
		j := i
		s.Seal(&ctx, seal.KindBlock, 0, stored, j.Commitment[:s.TagSize()])
		checked, err := Check(s, archive, &j, stored)
		if err != nil {
			t.Fatal(err)
		}
		dst := bytes.Repeat([]byte{0xAA}, len(plain)+Slack)[:len(plain)]
		n, err := checked.DecodeHead(dst)
		if err != nil && (!errors.Is(err, format.ErrCorrupt) || !bytes.Equal(dst, make([]byte, len(dst)))) {
			t.Errorf("byte %d: %v, and something in the buffer", at, err)
		}
		if err == nil && n != HeadSize && n != len(plain) {
			t.Errorf("byte %d: %d bytes", at, n)
		}
	}
}
