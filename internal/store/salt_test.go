package store

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// saltEntropy is a fixed source, but for what is drawn as a salt: that depends on vary.
type saltEntropy struct {
	io.Reader
	vary  byte
	drawn [][]byte
}

func (s *saltEntropy) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if len(b) == journal.SaltSize { // and the content key, which comes first
		if s.drawn = append(s.drawn, nil); len(s.drawn) > 1 {
			b[0] ^= s.vary
			s.drawn[len(s.drawn)-1] = bytes.Clone(b)
		}
	}
	return n, err
}

// Archives that are equal in everything but their salts have other roots, of which the next superblock shows one:
// without the salt, which is sealed, nobody can tell by trying what it is the root of.
func TestSalt(t *testing.T) {
	for _, suite := range []format.Suite{format.SuiteEncrypted, format.SuiteBoth} {
		var shown [2]format.Digest
		var blocks [2][]byte
		for i := range shown {
			e := &saltEntropy{Reader: rand.NewChaCha8([32]byte{1}), vary: byte(i)}
			w := newWorld(t, 1, Options{Jobs: 1, Entropy: e})
			w.suite = suite
			w.create(CreateOptions{})
			a, err := Open(ctx, name, w.opt)
			if err != nil {
				t.Fatal(err)
			}
			_, raw, err := journal.ReadCommit(a.f, a.cur.super, a.suite)
			if err != nil || !bytes.Equal(a.cur.commit.Salt, e.drawn[len(e.drawn)-1]) {
				t.Fatalf("%v: salt %x, %v", suite, a.cur.commit.Salt, err)
			}
			root := a.cur.root()
			blocks[i] = bytes.Replace(raw[:len(raw)-lenSignature(suite)], a.cur.commit.Salt, make([]byte, journal.SaltSize), 1)
			a.Close()
			w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"f": []byte("x")}) })
			if a, err = Open(ctx, name, w.opt); err != nil {
				t.Fatal(err)
			}
			if shown[i] = a.cur.super.PrevRoot; shown[i] != root {
				t.Errorf("%v: the superblock names %v as the root before, which was %v", suite, shown[i], root)
			}
			a.Close()
			for j, s := range e.drawn[1:] {
				for _, other := range e.drawn[1 : 1+j] {
					if bytes.Equal(s, other) {
						t.Errorf("%v: a salt was used twice", suite)
					}
				}
			}
		}
		if !bytes.Equal(blocks[0], blocks[1]) || shown[0] == shown[1] {
			t.Errorf("%v: commit blocks equal but for the salt: %v; their roots: %v and %v", suite, bytes.Equal(blocks[0], blocks[1]), shown[0], shown[1])
		}
	}
}

func lenSignature(s format.Suite) int {
	if !s.Signed() {
		return 0
	}
	return len(journal.AppendSignature(nil, make([]byte, seal.SignatureSize)))
}
