package recover

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"lockbox/internal/format"
	"lockbox/internal/seal"
	"lockbox/internal/sealtest"
	"lockbox/internal/store"
)

var suites = []format.Suite{format.SuiteNone, format.SuiteSigned, format.SuiteEncrypted, format.SuiteBoth}

var testSigner = seal.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("s"), 32)))

func protect(o *store.Options, c *store.CreateOptions, s format.Suite) {
	if s.Signed() {
		o.SignKey = testSigner
	}
	if s.Encrypted() {
		o.Unlock = sealtest.Unlock
		c.Slots = []seal.NewSlot{{Recipient: sealtest.ClearKey{}, Label: "test"}}
	}
}

// Without the key nothing comes back, whatever is left; and a pinned signer must be shown to have signed.
func TestKeys(t *testing.T) {
	for _, suite := range suites {
		w := sampleOf(t, 512, suite)
		good := w.bytes()
		ps, _ := w.parts()
		noFront := bytes.Clone(good)
		clear(noFront[:format.DataStart])
		noCommit := wipe(good, ps, func(p part) bool { return p.kind == "commit" })
		for what, b := range map[string][]byte{"whole": good, "without superblocks": noFront, "without commit block": noCommit} {
			o := &outcome{}
			_, err := Run(ctx, memFile{b: b}, Options{Found: func(i Item) { o.items = append(o.items, i) }})
			if suite.Encrypted() != errors.Is(err, format.ErrAuth) || suite.Encrypted() && len(o.items) > 0 {
				t.Errorf("%v, %s: without a key: %v, %d items", suite, what, err, len(o.items))
			}
			for name, pin := range map[string]seal.PublicKey{"right": testSigner.Public(), "another": {1}} {
				rep, err := Run(ctx, memFile{b: b}, Options{Unlock: sealtest.Unlock, Signers: []seal.PublicKey{pin}})
				if ok := suite.Signed() && what == "whole" && name == "right"; ok != (err == nil) || !ok && !errors.Is(err, format.ErrAuth) {
					t.Errorf("%v, %s, %s signer: %v", suite, what, name, err)
				} else if ok && rep.Signer != pin {
					t.Errorf("%v: signed by %v", suite, rep.Signer)
				}
			}
		}
	}
}

// Whatever of the key directory rots, the archive is recovered as long as one copy has a slot left.
func TestKeyDirectoryRots(t *testing.T) {
	w := sampleOf(t, 512, format.SuiteBoth)
	good := w.bytes()
	s := currentOf(t, good)
	_, contents := w.parts()
	for k := range int(s.KeyDirLen) {
		b := bytes.Clone(good)
		b[s.KeyDirCopy(0)+int64(k)] ^= 1
		clear(b[s.KeyDirCopy(1):s.KeyDirExtent().End()])
		o, err := w.salvage(memFile{b: b})
		if err != nil {
			// What the slot itself consists of, and what says where it is.
			if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) {
				t.Errorf("byte %d: %v", k, err)
			}
			continue
		}
		if missing := w.check("key directory", o, contents); len(missing) > 0 {
			t.Errorf("byte %d: %v missing", k, missing)
		}
	}
	b := bytes.Clone(good)
	b[s.KeyDirCopy(0)+journalCheckOffset] ^= 1
	b[s.KeyDirCopy(1)+journalCheckOffset] ^= 1
	if o, err := w.salvage(memFile{b: b}); err != nil || !o.rep.Complete {
		t.Errorf("only the check value is damaged: %v", err)
	}
}

const journalCheckOffset = 60 // a byte of the key check value

// deaf is an identity that opens nothing, and counts how often it was to.
type deaf struct{ n *int }

func (d deaf) Unwrap([]*age.Stanza) ([]byte, error) { *d.n++; return nil, age.ErrIncorrectIdentity }

// A file made of what looks like key directories is not read for ever, and not every slot in it is tried.
func TestSearchForKeysIsBounded(t *testing.T) {
	marks := make([]byte, 8<<20)
	for at := format.DataStart; at < len(marks); at += stride {
		copy(marks[at:], "LBXK")
	}
	good := sampleOf(t, 512, format.SuiteEncrypted).bytes()
	s := currentOf(t, good)
	dir := good[s.KeyDirOff:][:s.KeyDirLen]
	copies := make([]byte, format.DataStart, 2<<20)
	for n := uint32(0); len(copies) < 2<<20; n++ {
		at := len(copies)
		copies = append(append(copies, dir...), make([]byte, format.AlignUp(int64(len(dir)), stride)-int64(len(dir)))...)
		binary.LittleEndian.PutUint32(copies[at+32:], n) // of the attempt id
	}
	for what, b := range map[string][]byte{"marks": marks, "directories": copies, "directories of an archive": append(bytes.Clone(good[:format.DataStart]), copies[format.DataStart:]...)} {
		read, tried := int64(0), 0
		var notes []string
		f := memFile{b: b, broken: func(_ int64, n int) bool { read += int64(n); return false }}
		unlock := func(context.Context, []seal.Slot) ([]seal.Identity, error) { return []seal.Identity{deaf{&tried}}, nil }
		_, err := Run(ctx, f, Options{Unlock: unlock, Note: func(s string) { notes = append(notes, s) }})
		if limit := 9*int64(len(b)) + 130<<20; err == nil || read > limit || tried > maxSlots+8 {
			t.Errorf("%s: %d bytes read of %d, limit %d, %d slots tried: %v", what, read, len(b), limit, tried, err)
		}
		if !slices.ContainsFunc(notes, func(s string) bool { return strings.HasPrefix(s, "the search for a key directory ended") }) {
			t.Errorf("%s: %q", what, notes)
		}
	}
}
