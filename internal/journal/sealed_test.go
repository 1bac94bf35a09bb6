package journal

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"pgregory.net/rapid"

	"lockbox/internal/format"
	"lockbox/internal/seal"
	"lockbox/internal/sealtest"
)

var contentKey = seal.ContentKey(bytes.Repeat([]byte{3}, 32))

func encryptedSuper(suite format.Suite, sector int64) (*Super, seal.Suite) {
	s := &Super{Suite: suite, Cipher: seal.AESGCM, Sector: sector, Archive: format.ID{1, 2}, Generation: 6, Attempt: format.ID{9}, End: 1 << 20, CommitOff: 40960}
	return s, seal.NewEncrypted(seal.Config{Signed: suite.Signed(), Cipher: s.Cipher, Archive: s.Archive, Key: &contentKey})
}

func TestSealedCommit(t *testing.T) {
	for _, sector := range []int64{512, 4096} {
		for _, kind := range []format.Suite{format.SuiteEncrypted, format.SuiteBoth} {
			s, suite := encryptedSuper(kind, sector)
			for n := range 1500 {
				plain := bytes.Repeat([]byte{'p'}, n)
				stored := SealCommit(plain, s, suite)
				if int64(len(stored)) != SealedLen(uint32(n), suite, sector) || len(stored)%int(sector) != 0 || n > 8 && bytes.Contains(stored, plain) {
					t.Fatalf("%d bytes are stored as %d", n, len(stored))
				}
				if got, err := OpenCommit(bytes.Clone(stored), s, suite); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("%d bytes: %v", n, err)
				}
			}
			stored := SealCommit(bytes.Repeat([]byte{'p'}, 300), s, suite)
			for i := range 8 * len(stored) {
				bad := bytes.Clone(stored)
				bad[i/8] ^= 1 << (i % 8)
				if _, err := OpenCommit(bad, s, suite); !errors.Is(err, format.ErrCorrupt) {
					t.Fatalf("bit %d: %v", i, err)
				}
			}
			for n := range len(stored) {
				if _, err := OpenCommit(bytes.Clone(stored[:n]), s, suite); !errors.Is(err, format.ErrCorrupt) {
					t.Fatalf("cut to %d: %v", n, err)
				}
			}
			for what, other := range map[string]*Super{
				"generation": with(s, func(s *Super) { s.Generation++ }), "attempt": with(s, func(s *Super) { s.Attempt[0]++ }),
				"archive": with(s, func(s *Super) { s.Archive[0]++ }),
			} {
				if _, err := OpenCommit(bytes.Clone(stored), other, suite); !errors.Is(err, format.ErrCorrupt) {
					t.Errorf("another %s: %v", what, err)
				}
			}
		}
	}
}

func someKeyDir(t testing.TB, s *Super, suite seal.Suite, labels ...string) []byte {
	d := &KeyDir{Attempt: format.ID{7}, Generation: 4}
	for _, l := range labels {
		file, err := contentKey.Lock(seal.NewSlot{Recipient: sealtest.ClearKey{}, Label: l})
		if err != nil {
			t.Fatal(err)
		}
		d.Slots = append(d.Slots, KeySlot{File: file, Label: l})
	}
	b, err := d.Encode(s, suite, &contentKey)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKeyDir(t *testing.T) {
	for _, kind := range []format.Suite{format.SuiteEncrypted, format.SuiteBoth} {
		s, suite := encryptedSuper(kind, 512)
		labels := []string{"one", "", strings.Repeat("long ", 200), "vier"}
		b := someKeyDir(t, s, suite, labels...)
		d := &disk{make([]byte, 1<<20)}
		copy(d.b[20480:], PutKeyDir(s, b, 20480))
		if bytes.Contains(b, []byte("vier")) {
			t.Error("a label shows")
		}
		for _, damage := range []func(){func() {}, func() { d.b[20480+50] ^= 1 }} {
			damage()
			suite2, keys, err := Opening{Unlock: sealtest.Unlock}.Suite(context.Background(), d, s)
			if err != nil || *keys.Key != contentKey || suite2.ID() != kind || len(keys.Dir.Slots) != len(labels) {
				t.Fatalf("%v", err)
			}
			for i, x := range keys.Dir.Public() {
				if x.Label != labels[i] || x.Number != i+1 || len(x.Kinds) != 1 || x.Kinds[0] != "test" {
					t.Errorf("%+v", x)
				}
			}
		}
		if _, bad, err := KeyDirBytes(d, s, true); err != nil || bad != [2]bool{true, false} {
			t.Errorf("%v, %v", bad, err)
		}
		d.b[s.KeyDirCopy(1)+50] ^= 1
		if _, _, err := (Opening{Unlock: sealtest.Unlock}).Suite(context.Background(), d, s); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("both copies damaged: %v", err)
		}
		// Every byte, under a digest that fits: it is damage, or the key check value or a slot does not fit.
		for i := range b {
			bad := bytes.Clone(b)
			bad[i] ^= 1
			x := *s
			copy(d.b[20480:], PutKeyDir(&x, bad, 20480))
			if _, _, err := (Opening{Unlock: sealtest.Unlock}).Suite(context.Background(), d, &x); !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrVersion) && !errors.Is(err, format.ErrAuth) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		// Of another archive, of another kind, or for another cipher.
		for what, fn := range map[string]func(*Super){
			"archive": func(s *Super) { s.Archive[0]++ }, "suite": func(s *Super) { s.Suite ^= format.SuiteSigned },
			"cipher": func(s *Super) { s.Cipher = seal.XChaCha20 }, "sector": func(s *Super) { s.Sector = 4096 },
		} {
			x := with(s, fn)
			if _, err := DecodeKeyDir(b, x); !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("another %s: %v", what, err)
			}
		}
		if su, dir, ok := FindKeyDir(append(bytes.Clone(b), 1, 2, 3), 512); !ok || su.Archive != s.Archive || su.Suite != kind || su.Cipher != s.Cipher || len(dir.Slots) != 4 || su.KeyDirHash != blake3.Sum256(b) {
			t.Errorf("%+v, %v", su, ok)
		}
		if _, err := (&KeyDir{}).Encode(s, suite, &contentKey); err == nil {
			t.Error("a directory without slots")
		}
		if _, err := (&KeyDir{Slots: make([]KeySlot, MaxSlots+1)}).Encode(s, suite, &contentKey); err == nil {
			t.Error("a directory with too many slots")
		}
	}
}

// A signature is looked for where one is due, and nowhere else.
func TestSignatureField(t *testing.T) {
	sig := bytes.Repeat([]byte{5}, seal.SignatureSize)
	plain, signed := goodSuper(6), with(goodSuper(6), func(s *Super) { s.Suite = format.SuiteSigned })
	block := goodCommit().Encode(6)
	if m, err := DecodeCommit(AppendSignature(block, sig), signed); err != nil || !bytes.Equal(m.signature, sig) {
		t.Error(err)
	}
	if _, err := DecodeCommit(AppendSignature(block, sig), plain); !errors.Is(err, format.ErrVersion) {
		t.Errorf("a signature in an archive that is not signed: %v", err)
	}
	if _, err := DecodeCommit(AppendSignature(block, sig[1:]), signed); !errors.Is(err, format.ErrVersion) {
		t.Errorf("a short signature: %v", err)
	}
	d := &disk{make([]byte, 1<<20)}
	for what, b := range map[string][]byte{"no signature": block, "a wrong one": AppendSignature(block, sig)} {
		s := *signed
		copy(d.b[s.CommitOff:], b)
		s.CommitLen, s.CommitHash = uint32(len(b)), Sum(b)
		if _, _, err := ReadCommit(d, &s, seal.NewSigned()); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := (&Commit{}).EncodedLen(seal.NewSigned(), 512); n != int64(len(AppendSignature((&Commit{}).Encode(1), sig))) {
		t.Errorf("a signed block of %d bytes", n)
	}
}

// A salt stands in every commit block of an encrypted archive, whole, and in no other; the root hash depends on it.
func TestSaltField(t *testing.T) {
	plain, encrypted := goodSuper(6), with(goodSuper(6), func(s *Super) { s.Suite = format.SuiteEncrypted })
	salted := func(n int, first byte) []byte {
		m := goodCommit()
		if m.Salt = make([]byte, n); n > 0 {
			m.Salt[0] = first
		}
		return m.Encode(6)
	}
	if m, err := DecodeCommit(salted(SaltSize, 7), encrypted); err != nil || len(m.Salt) != SaltSize || m.Salt[0] != 7 {
		t.Error(err)
	}
	for what, c := range map[string]struct {
		s *Super
		n int
	}{"none": {encrypted, 0}, "a short one": {encrypted, SaltSize - 1}, "a long one": {encrypted, SaltSize + 1}, "one without encryption": {plain, SaltSize}} {
		if _, err := DecodeCommit(salted(c.n, 7), c.s); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if encrypted.RootHash(salted(SaltSize, 7)) == encrypted.RootHash(salted(SaltSize, 8)) {
		t.Error("the root hash does not depend on the salt")
	}
}

// Superblocks of every suite come back as they were written, and what does not go together is refused.
func TestSuperSuites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSuper().Draw(t, "super")
		s.Suite = format.Suite(rapid.IntRange(0, 3).Draw(t, "suite"))
		if s.Suite.Encrypted() {
			s.Cipher = rapid.SampledFrom([]seal.Algorithm{seal.AESGCM, seal.XChaCha20}).Draw(t, "cipher")
			s.KeyDirLen = rapid.Uint32Range(keyDirHeader, 2000).Draw(t, "length")
			s.KeyDirOff, s.End = s.End, s.End+4*4096
			s.KeyDirHash[3] = 1
			if s.End > format.MaxLogicalEnd {
				return
			}
		}
		c, err := DecodeCopies(all(s))
		if err != nil || *c.Current != *s {
			t.Fatalf("%+v came back as %+v: %v", s, c, err)
		}
	})
	base := func(suite format.Suite) *Super {
		s, _ := encryptedSuper(suite, 512)
		s.CommitLen, s.KeyDirOff, s.KeyDirLen = 600, 20480, 700
		return s
	}
	for what, s := range map[string]*Super{
		"no key directory":          with(base(2), func(s *Super) { s.KeyDirLen = 0 }),
		"one that is too short":     with(base(2), func(s *Super) { s.KeyDirLen = keyDirHeader - 1 }),
		"one in the front":          with(base(3), func(s *Super) { s.KeyDirOff = 16384 }),
		"one inside a sector":       with(base(3), func(s *Super) { s.KeyDirOff += 8 }),
		"one whose copy is too far": with(base(2), func(s *Super) { s.KeyDirOff = s.End - 1024 }),
		"one that is too long":      with(base(2), func(s *Super) { s.KeyDirLen = format.MaxKeyDir + 1 }),
	} {
		if _, err := DecodeCopies(all(s)); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func(b []byte){
		"hash tags":    func(b []byte) { b[11] = 2 },
		"no signature": func(b []byte) { b[13] = 0 },
		"a later one":  func(b []byte) { b[13] = 2 },
	} {
		b := all(base(3))
		for i := range copies {
			off, _, _ := place(i)
			change(b[off:])
			reseal(b, i)
		}
		if _, err := DecodeCopies(b); !errors.Is(err, format.ErrVersion) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzKeyDir decodes whatever it is given as a key directory; what decodes was written that way.
func FuzzKeyDir(f *testing.F) {
	s, suite := encryptedSuper(format.SuiteBoth, 512)
	good := someKeyDir(f, s, suite, "one", "two")
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeKeyDir(b, s)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if n := len(d.Slots); n == 0 || n > MaxSlots {
			t.Fatalf("%d slots", n)
		}
		if !bytes.Equal(append(append(bytes.Clone(d.bound[:keyDirBound]), b[keyDirBound:keyDirBound+32]...), d.bound[keyDirBound:]...), b) {
			t.Fatal("the check value does not bind all of it")
		}
		_, _, err = Opening{Unlock: sealtest.Unlock}.With(context.Background(), s, d)
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) {
			t.Fatal(err)
		}
		FindKeyDir(b, 0)
	})
}
