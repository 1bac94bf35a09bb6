package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"testing"

	"github.com/zeebo/blake3"
	"golang.org/x/crypto/chacha20poly1305"
	"pgregory.net/rapid"

	"lockbox/internal/format"
)

var testKey = ContentKey(bytes.Repeat([]byte{0x42}, 32))

func encryptedSuite(alg Algorithm, signed bool) Suite {
	c := someContext()
	return NewEncrypted(Config{Signed: signed, Cipher: alg, Archive: c.Archive, Key: &testKey})
}

// protecting are the suites that hold against more than accidents.
func protecting() map[string]Suite {
	return map[string]Suite{
		"signed": NewSigned(), "AES-GCM": encryptedSuite(AESGCM, false), "XChaCha20": encryptedSuite(XChaCha20, false),
		"AES-GCM, signed": encryptedSuite(AESGCM, true), "XChaCha20, signed": encryptedSuite(XChaCha20, true),
	}
}

func TestSuiteOpens(t *testing.T) {
	for name, s := range protecting() {
		if !s.Algorithm().Fits(s.ID()) {
			t.Errorf("%s: algorithm %v, suite %v", name, s.Algorithm(), s.ID())
		}
		for _, n := range []int{0, 1, 15, 16, 17, 1000, 4096} {
			for _, slack := range []int{0, 1, Slack - 1, Slack, Slack + 5} {
				c := someContext()
				whole := bytes.Repeat([]byte{0xEE}, n+slack)
				b := whole[:n]
				copy(b, pattern(n))
				tag := make([]byte, format.MaxTag)
				s.Seal(&c, KindBlock, 3, b, tag)
				if s.ID().Encrypted() && n > 4 && bytes.Equal(b, pattern(n)) {
					t.Fatalf("%s: %d bytes are stored as they are", name, n)
				}
				if !bytes.Equal(whole[n:], bytes.Repeat([]byte{0xEE}, slack)) {
					t.Fatalf("%s: sealing %d bytes changed what follows", name, n)
				}
				sealed := bytes.Clone(b)
				if !s.Open(&c, KindBlock, 3, b, tag) || !bytes.Equal(b, pattern(n)) {
					t.Fatalf("%s: %d bytes with %d behind them do not open", name, n, slack)
				}
				if !bytes.Equal(whole[n:], bytes.Repeat([]byte{0xEE}, slack)) {
					t.Fatalf("%s: opening %d bytes changed what follows", name, n)
				}
				// The tag may stand behind the block, where the scratch is.
				beside := append(bytes.Clone(sealed), tag...)
				if !s.Open(&c, KindBlock, 3, beside[:n], beside[n:]) || !bytes.Equal(beside[n:], tag) {
					t.Fatalf("%s: %d bytes with their tag behind them do not open", name, n)
				}
			}
		}
	}
}

// Every flipped bit of what is sealed, of the tag and of the context is refused.
func TestSuiteRefuses(t *testing.T) {
	for name, s := range protecting() {
		const n = 100
		c := someContext()
		b := pattern(n)
		tag := make([]byte, s.TagSize())
		s.Seal(&c, KindNode, NoBlock, b, tag)
		opens := func(c Context, kind Kind, block uint32, b, tag []byte) bool {
			return s.Open(&c, kind, block, bytes.Clone(b), tag)
		}
		if !opens(c, KindNode, NoBlock, b, tag) {
			t.Fatal(name)
		}
		for i := range 8 * n {
			bad := bytes.Clone(b)
			bad[i/8] ^= 1 << (i % 8)
			if opens(c, KindNode, NoBlock, bad, tag) {
				t.Fatalf("%s: bit %d of the bytes", name, i)
			}
		}
		for i := range 8 * len(tag) {
			bad := bytes.Clone(tag)
			bad[i/8] ^= 1 << (i % 8)
			if opens(c, KindNode, NoBlock, b, bad) {
				t.Fatalf("%s: bit %d of the tag", name, i)
			}
		}
		for k := range tag {
			if opens(c, KindNode, NoBlock, b, tag[:k]) {
				t.Fatalf("%s: a tag of %d bytes", name, k)
			}
		}
		if opens(c, KindNode, NoBlock, b[:n-1], tag) || opens(c, KindNode, NoBlock, append(bytes.Clone(b), 0), tag) {
			t.Errorf("%s: cut or grown", name)
		}
		for i := range 16 {
			x, y := c, c
			x.Archive[i] ^= 1
			y.Attempt[i] ^= 1
			if opens(x, KindNode, NoBlock, b, tag) || opens(y, KindNode, NoBlock, b, tag) {
				t.Errorf("%s: byte %d of an id", name, i)
			}
		}
		for i := range 64 {
			x := c
			x.Number ^= 1 << i
			if opens(x, KindNode, NoBlock, b, tag) {
				t.Errorf("%s: bit %d of the number", name, i)
			}
		}
		for i := range 32 {
			x, y := c, c
			x.Plain ^= 1 << i
			y.Stored ^= 1 << i
			if opens(x, KindNode, NoBlock, b, tag) || opens(y, KindNode, NoBlock, b, tag) || opens(c, KindNode, NoBlock^1<<i, b, tag) {
				t.Errorf("%s: bit %d of a length or of the block", name, i)
			}
		}
		x := c
		x.Codec ^= 1
		if opens(x, KindNode, NoBlock, b, tag) || opens(c, KindCommit, NoBlock, b, tag) {
			t.Errorf("%s: codec or kind", name)
		}
	}
}

// What a suite makes is what FORMAT.md says, computed here with other calls.
func TestSuiteByTheBook(t *testing.T) {
	c := someContext()
	bound := c.bind(KindBlock, 7)
	plain := pattern(5000)
	for name, s := range protecting() {
		b := bytes.Clone(plain)
		tag := make([]byte, s.TagSize())
		s.Seal(&c, KindBlock, 7, b, tag)
		want, wantTag := bytes.Clone(plain), []byte(nil)
		if s.ID().Encrypted() {
			material := append(append(append(bytes.Clone(testKey[:]), c.Archive[:]...), byte(s.Algorithm())), c.Attempt[:]...)
			key := make([]byte, 32)
			blake3.DeriveKey("lockbox 2026-11-30 attempt key v1", material, key)
			nonce := binary.LittleEndian.AppendUint64(nil, c.Number)
			nonce = append(nonce, byte(KindBlock), 7, 0, 0)
			var aead cipher.AEAD
			if s.Algorithm() == AESGCM {
				block, err := aes.NewCipher(key)
				if err != nil {
					t.Fatal(err)
				}
				aead, _ = cipher.NewGCM(block)
			} else {
				aead, _ = chacha20poly1305.NewX(key)
				nonce = append(nonce, make([]byte, 12)...)
			}
			out := aead.Seal(nil, nonce, plain, bound[:])
			want, wantTag = out[:len(plain)], out[len(plain):]
		}
		if s.ID().Signed() {
			d := blake3.Sum256(append(bound[:], want...))
			wantTag = append(wantTag, d[:]...)
		}
		if !bytes.Equal(b, want) || !bytes.Equal(tag, wantTag) {
			t.Errorf("%s: sealed to other bytes than FORMAT.md says", name)
		}
	}
}

// Different triples make different nonces, whatever is legal in them.
func TestNonces(t *testing.T) {
	type triple struct {
		number uint64
		kind   Kind
		block  uint32
	}
	gen := rapid.Custom(func(t *rapid.T) triple {
		x := triple{rapid.Uint64().Draw(t, "number"), Kind(rapid.IntRange(1, 6).Draw(t, "kind")), rapid.Uint32Range(0, maxBlocks-1).Draw(t, "block")}
		if rapid.Bool().Draw(t, "whole") {
			x.block = NoBlock
		}
		return x
	})
	rapid.Check(t, func(t *rapid.T) {
		x, y := gen.Draw(t, "x"), gen.Draw(t, "y")
		if (nonceOf(x.number, x.kind, x.block) == nonceOf(y.number, y.kind, y.block)) != (x == y) {
			t.Fatal("the same nonce for two things")
		}
	})
}

// Attempts have keys of their own, however many there are and in whatever order they come.
func TestAttemptKeys(t *testing.T) {
	keys := map[[KeySize]byte]format.ID{}
	c := someContext()
	s := NewEncrypted(Config{Cipher: AESGCM, Archive: c.Archive, Key: &testKey, Observe: func(key [KeySize]byte, _ Nonce) {
		if id, ok := keys[key]; ok && id != c.Attempt {
			t.Fatal("two attempts have one key")
		}
		keys[key] = c.Attempt
	}})
	tags := map[uint32][]byte{}
	attempt := func(n uint32) { binary.LittleEndian.PutUint32(c.Attempt[:], n) }
	for n := range uint32(maxAttempts + 100) {
		attempt(n)
		tag := make([]byte, 16)
		s.Seal(&c, KindBlock, 0, pattern(20), tag)
		tags[n] = tag
	}
	if len(keys) != maxAttempts+100 {
		t.Errorf("%d keys", len(keys))
	}
	for n, want := range tags {
		attempt(n)
		tag := make([]byte, 16)
		s.Seal(&c, KindBlock, 0, pattern(20), tag)
		if !bytes.Equal(tag, want) {
			t.Fatalf("attempt %d has another key now", n)
		}
	}
	other := testKey
	other[31] ^= 1
	x := NewEncrypted(Config{Cipher: AESGCM, Archive: c.Archive, Key: &other})
	b, tag := pattern(20), make([]byte, 16)
	s.Seal(&c, KindBlock, 0, b, tag)
	if x.Open(&c, KindBlock, 0, b, tag) {
		t.Error("another content key opens it")
	}
}

func TestHider(t *testing.T) {
	s := encryptedSuite(AESGCM, false)
	h := s.Hider()
	const n = IVSize + 72
	fields := pattern(n - IVSize)
	head := append(make([]byte, IVSize), fields...)
	h.Hide(KindHeader, head)
	if bytes.Contains(head, fields[:8]) {
		t.Error("the fields show")
	}
	again := append(bytes.Repeat([]byte{9}, IVSize), fields...)
	if h.Hide(KindHeader, again); !bytes.Equal(head, again) {
		t.Error("what stands in the place of the IV has a say")
	}
	reveal := func(kind Kind, b []byte) ([]byte, bool) {
		c := bytes.Clone(b)
		ok := h.Reveal(kind, c)
		return c[IVSize:], ok
	}
	if got, ok := reveal(KindHeader, head); !ok || !bytes.Equal(got, fields) {
		t.Error("what was hidden is not revealed")
	}
	if _, ok := reveal(KindCommit, head); ok {
		t.Error("a head of another kind is taken for one")
	}
	for i := range 8 * n {
		bad := bytes.Clone(head)
		bad[i/8] ^= 1 << (i % 8)
		if _, ok := reveal(KindHeader, bad); ok {
			t.Errorf("bit %d", i)
		}
	}
	other := NewEncrypted(Config{Cipher: AESGCM, Archive: format.ID{1}, Key: &testKey}).Hider()
	if c := bytes.Clone(head); other.Reveal(KindHeader, c) {
		t.Error("a head of another archive is taken for one")
	}
	fill := make([]byte, 5000)
	h.Fill(head, fill)
	if bytes.Count(fill, []byte{0}) > 100 || bytes.Contains(fill, head[IVSize:IVSize+16]) {
		t.Error("the fill shows or repeats the head's key stream")
	}
	if h.Fill(head, fill); len(bytes.Trim(fill, "\x00")) != 0 {
		t.Error("the fill does not come back")
	}
	// Not the same key stream twice: that of the head ends before that of the fill begins.
	if fillBlock*64 < IVSize+64+format.MaxTag {
		t.Error("a head reaches into the fill's key stream")
	}
}

func TestPrefix(t *testing.T) {
	d := format.Digest(blake3.Sum256([]byte("x")))
	for name, s := range protecting() {
		if p := s.Prefix(&d); (p == [8]byte(d[:8])) == s.ID().Encrypted() || p != s.Prefix(&d) {
			t.Errorf("%s: prefix %x of %v", name, p, d)
		}
	}
}

// FuzzOpen opens whatever it is given.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("bytes"), []byte("a tag of sixteen or more bytes"), uint64(1), uint32(0), byte(1))
	all := protecting()
	f.Fuzz(func(t *testing.T, b, tag []byte, number uint64, block uint32, kind byte) {
		for name, s := range all {
			c := someContext()
			c.Number = number
			x := bytes.Clone(b)
			if s.Open(&c, Kind(kind), block, x, tag) {
				again := make([]byte, s.TagSize())
				if s.Seal(&c, Kind(kind), block, x, again); !bytes.Equal(x, b) || !bytes.Equal(again, tag[:s.TagSize()]) {
					t.Fatalf("%s opens what it did not seal", name)
				}
			}
		}
	})
}
