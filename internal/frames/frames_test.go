package frames

import (
	"bytes"
	"errors"
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

func BenchmarkEncode(b *testing.B) {
	for name, p := range map[string][]byte{"random": random(256<<10, 1), "text": text(256 << 10)} {
		for _, l := range []Level{LevelNone, LevelFast, LevelDefault} {
			b.Run(name+"/"+string('0'+rune(l)), func(b *testing.B) {
				e, _ := NewEncoder(seal.New(), archive, l, 14, 512, 256<<10)
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
