package store

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
	"lockbox/internal/sealtest"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// forgery is an archive and one who wants to change it unnoticed. What a forger knows of keys is in unlock and
// signer: a recipient of a signed archive has the content key and not the signing key.
type forgery struct {
	*world
	good []byte
	s    *journal.Super
}

func newForgery(t *testing.T, suite format.Suite) *forgery {
	w := newWorld(t, 5, Options{Jobs: 1, CacheBytes: 1 << 20})
	w.suite = suite
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 1))
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"d": nil, "d/text": textBytes(r, 3000), "d/raw": randomBytes(r, 140<<10), "d/empty": {}, "gone": textBytes(r, 500)})
	})
	w.change(func(tx *Tx) { w.remove(tx, "gone") })
	w.check()
	f := &forgery{world: w, good: w.mem.Bytes(name)}
	f.s = f.super(f.good)
	return f
}

func (f *forgery) super(b []byte) *journal.Super {
	f.t.Helper()
	c, err := journal.DecodeCopies(b[:format.CopiesSize])
	if err != nil {
		f.t.Fatal(err)
	}
	return c.Current
}

// publish writes s into all copies and the mark.
func publishSuper(b []byte, s *journal.Super) {
	for i := range 4 {
		_ = journal.WriteCopy(inMemory(b), s, i%2, i/2)
	}
	_ = journal.WriteMark(inMemory(b), s)
}

// caught holds an archive that was tampered with to what its suite promises: a reader is given the right bytes or
// an error, and the full check notices.
func (f *forgery) caught(what string, b []byte, kinds ...error) {
	f.t.Helper()
	if bytes.Equal(b, f.good) {
		f.t.Fatalf("%s: nothing was changed", what)
	}
	mem := vfs.Mem()
	mem.Put(name, b)
	opt := f.opt
	opt.FS = mem
	wrong, failed := readAll(opt, f.model)
	if wrong != nil {
		f.t.Fatalf("%s: %v", what, wrong)
	}
	damaged := 0
	s, err := verify.Run(ctx, sized{bytes.NewReader(b)}, verify.Options{Full: true, Unlock: opt.Unlock, Signers: opt.Signers,
		Finding: func(verify.Finding) { damaged++ }})
	if err == nil && damaged == 0 {
		f.t.Fatalf("%s: the full check finds nothing: %+v", what, s)
	}
	for _, err := range []error{failed, err} {
		if err != nil && !slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) }) {
			f.t.Fatalf("%s: %v", what, err)
		}
	}
}

// tree gives the reference to the root node of a tree of an archive of this suite.
func (f *forgery) open(b []byte) *Archive {
	f.t.Helper()
	mem := vfs.Mem()
	mem.Put(name, b)
	opt := f.opt
	opt.FS, opt.Signers, opt.SignKey = mem, nil, nil
	a, err := Open(ctx, name, opt)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

var tampered = []error{format.ErrCorrupt, format.ErrAuth, format.ErrVersion}

// A forger without any key rewrites, swaps, splices, cuts and rolls back single structures, with every checksum
// that needs no key made right again.
func TestForgery(t *testing.T) {
	for _, suite := range suites[1:] {
		t.Run(suite.String(), func(t *testing.T) {
			f := newForgery(t, suite)
			a := f.open(f.good)
			tag := a.suite.TagSize()
			raw, err := a.frame(a.cur, f.rawFrame(a))
			if err != nil {
				t.Fatal(err)
			}
			if raw.BlockShift == 0 {
				t.Fatal("no frame with blocks")
			}
			at, n := raw.storedOff(tag), int64(1)<<raw.BlockShift
			change := func(fn func(b []byte)) []byte {
				b := bytes.Clone(f.good)
				fn(b)
				return b
			}
			f.caught("a byte of a block", change(func(b []byte) { b[at+100] ^= 1 }), tampered...)
			f.caught("two blocks swapped", change(func(b []byte) {
				x := bytes.Clone(b[at : at+n])
				copy(b[at:], b[at+n:at+2*n])
				copy(b[at+n:], x)
			}), tampered...)
			table := at + int64(raw.Stored)
			f.caught("two blocks and their tags swapped", change(func(b []byte) {
				swap := func(p, q, n int64) {
					x := bytes.Clone(b[p : p+n])
					copy(b[p:], b[q:q+n])
					copy(b[q:], x)
				}
				swap(at, at+n, n)
				swap(table, table+int64(tag), int64(tag))
			}), tampered...)
			f.caught("the tag table emptied", change(func(b []byte) { clear(b[table : table+8]) }), tampered...)

			// Another archive's commit block, or one of another generation, under checksums that fit.
			for _, foreign := range []bool{true, false} {
				other := f
				if foreign {
					other = newForgery(t, suite)
				}
				f.caught(fmt.Sprintf("a commit block spliced in, of another archive %v", foreign), change(func(b []byte) {
					block := bytes.Clone(other.good[other.s.CommitOff:][:other.s.CommitLen])
					block[len(block)/2] ^= 1
					s := *f.s
					copy(b[s.CommitOff:s.CommitExtent().End()], block)
					s.CommitLen = min(uint32(len(block)), uint32(s.CommitExtent().Len))
					s.CommitHash = journal.Sum(b[s.CommitOff:][:s.CommitLen])
					publishSuper(b, &s)
				}), tampered...)
			}
			if suite.Signed() {
				f.caught("the signature taken off", change(func(b []byte) {
					s := *f.s
					s.Suite &^= format.SuiteSigned
					publishSuper(b, &s)
				}), tampered...)
			}
			if suite.Encrypted() {
				f.caught("the encryption taken off", change(func(b []byte) {
					s := *f.s
					s.Suite &^= format.SuiteEncrypted
					s.Cipher, s.KeyDirLen, s.KeyDirOff, s.KeyDirHash = 0, 0, 0, format.Digest{}
					publishSuper(b, &s)
				}), tampered...)
				f.caught("the other cipher", change(func(b []byte) {
					s := *f.s
					s.Cipher = seal.AESGCM + seal.XChaCha20 - s.Cipher
					publishSuper(b, &s)
				}), tampered...)
				f.caught("a key directory of the forger's own", change(func(b []byte) {
					s := *f.s
					key, suite := f.forgersKey(&s)
					d, err := newDir(key, []seal.NewSlot{{Recipient: sealtest.ClearKey{}, Label: "forger"}})
					if err != nil {
						t.Fatal(err)
					}
					stored, err := d.Encode(&s, suite, key)
					if err != nil {
						t.Fatal(err)
					}
					copy(b[s.KeyDirOff:f.s.KeyDirExtent().End()], journal.PutKeyDir(&s, stored, s.KeyDirOff))
					publishSuper(b, &s)
				}), tampered...)
			}
			for what, fn := range map[string]func(s *journal.Super){
				"another archive id":  func(s *journal.Super) { s.Archive[3] ^= 1 },
				"another attempt":     func(s *journal.Super) { s.Attempt[3] ^= 1 },
				"a higher generation": func(s *journal.Super) { s.Generation++ },
				"a lower generation":  func(s *journal.Super) { s.Generation-- },
				"another end":         func(s *journal.Super) { s.End -= 512 },
				"another root before": func(s *journal.Super) { s.PrevRoot[0] ^= 1 },
			} {
				f.caught(what, change(func(b []byte) {
					s := *f.s
					fn(&s)
					publishSuper(b, &s)
				}), tampered...)
			}
			a.Close()
		})
	}
}

// rawFrame is the number of a raw frame with blocks.
func (f *forgery) rawFrame(a *Archive) uint64 {
	for n := uint64(1); n < a.cur.commit.Counters.NextFrame; n++ {
		if r, err := a.frame(a.cur, n); err == nil && r.BlockShift != 0 {
			return n
		}
	}
	return 0
}

func (f *forgery) forgersKey(s *journal.Super) (*seal.ContentKey, seal.Suite) {
	key, err := seal.NewContentKey(rand.NewChaCha8([32]byte{99}))
	if err != nil {
		f.t.Fatal(err)
	}
	return key, seal.NewEncrypted(seal.Config{Signed: s.Suite.Signed(), Cipher: s.Cipher, Archive: s.Archive, Key: key})
}

// Who has every key but the signing key changes a signed archive and signs it with another key, or not at all:
// whoever pins the signer refuses it, and without a pin the other signer is named.
func TestForgedSignature(t *testing.T) {
	for _, suite := range []format.Suite{format.SuiteSigned, format.SuiteBoth} {
		f := newForgery(t, suite)
		mem := vfs.Mem()
		resign := func(signer seal.Signer, fn func(root format.Digest, sig []byte)) []byte {
			b := bytes.Clone(f.good)
			a := f.open(b)
			defer a.Close()
			s := *f.s
			c := *a.cur.commit
			c.Counters.Entries++ // a lie
			ext := s.CommitExtent()
			block := c.Encode(s.Generation)
			root := s.RootHash(block)
			sig, err := seal.SignRoot(ctx, signer, root)
			if err != nil {
				t.Fatal(err)
			}
			if fn != nil {
				fn(root, sig)
			}
			stored := journal.SealCommit(journal.AppendSignature(block, sig), &s, a.suite)
			if int64(len(stored)) > ext.Len {
				t.Fatal("it does not fit")
			}
			s.CommitLen, s.CommitHash = uint32(len(stored)), journal.Sum(stored)
			copy(b[s.CommitOff:ext.End()], stored)
			publishSuper(b, &s)
			return b
		}
		own := testSigner.Public()
		for what, b := range map[string][]byte{
			"by another key":                 resign(otherSigner, nil),
			"by another key, named as right": resign(otherSigner, func(_ format.Digest, sig []byte) { copy(sig, own[:]) }),
			"by nobody":                      resign(otherSigner, func(_ format.Digest, sig []byte) { clear(sig) }),
		} {
			mem.Put(name, b)
			opt := f.opt
			opt.FS, opt.SignKey = mem, nil
			if _, err := Open(ctx, name, opt); !errors.Is(err, format.ErrAuth) {
				t.Errorf("%v, signed %s: %v", suite, what, err)
			}
			opt.SignKey, opt.Signers = testSigner, nil
			if _, err := OpenWrite(ctx, name, opt); !errors.Is(err, format.ErrAuth) {
				t.Errorf("%v, signed %s: with the signing key: %v", suite, what, err)
			}
			opt.SignKey = nil
			a, err := Open(ctx, name, opt)
			if what != "by another key" {
				if !errors.Is(err, format.ErrAuth) {
					t.Errorf("%v, signed %s: %v", suite, what, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if in, err := a.Info(); err != nil || in.Signer != otherSigner.Public() {
				t.Errorf("signed by %v, %v", in.Signer, err)
			}
			a.Close()
		}
	}
}

// An older state of the whole file verifies, as it must, and its root is another one.
func TestWholeRollback(t *testing.T) {
	for _, suite := range suites {
		f := newForgery(t, suite)
		a := f.open(f.good)
		root := a.cur.root()
		a.Close()
		f.change(func(tx *Tx) { f.add(tx, map[string][]byte{"later": []byte("later")}) })
		mem := vfs.Mem()
		mem.Put(name, f.good)
		opt := f.opt
		opt.FS, opt.ExpectRoot = mem, &root
		a, err := Open(ctx, name, opt)
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
		root[5] ^= 1
		if _, err := Open(ctx, name, opt); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%v: %v", suite, err)
		}
	}
}

var everyBit = flag.Bool("everybit", false, "flip every single bit in TestEveryBit")

// Every bit of a small archive, or one in so many, flipped: a reader gets the right bytes or an error of a known kind, and where the
// full check finds nothing, the bit is one that nothing uses.
func TestEveryBit(t *testing.T) {
	for _, suite := range suites {
		t.Run(suite.String(), func(t *testing.T) {
			w := newWorld(t, 5, Options{Jobs: 1, CacheBytes: 1 << 20})
			w.suite = suite
			w.create(CreateOptions{Level: frames.LevelDefault})
			r := rand.New(rand.NewPCG(1, 1))
			w.change(func(tx *Tx) {
				w.add(tx, map[string][]byte{"d": nil, "d/text": textBytes(r, 900), "d/raw": randomBytes(r, 700), "d/empty": {}})
			})
			w.check()
			good := w.mem.Bytes(name)
			unused := w.unused(good)
			step := 29 // one bit in almost every fourth byte
			if *everyBit {
				step = 1
			}
			mem := vfs.Mem()
			opt := w.opt
			opt.FS = mem
			silent := 0
			for k := 0; k < 8*len(good); k += step {
				off := int64(k / 8)
				if unused(off) && k%8 != 0 {
					continue // one bit of each of these bytes shows that it is not looked at
				}
				b := bytes.Clone(good)
				b[off] ^= 1 << (k % 8)
				mem.Put(name, b)
				wrong, failed := readAll(opt, w.model)
				if wrong != nil {
					t.Fatalf("bit %d of byte %d: %v", k%8, off, wrong)
				}
				if failed != nil && !errors.Is(failed, format.ErrCorrupt) && !errors.Is(failed, format.ErrVersion) && !errors.Is(failed, format.ErrAuth) {
					t.Fatalf("bit %d of byte %d: %v", k%8, off, failed)
				}
				found := 0
				_, err := verify.Run(ctx, sized{bytes.NewReader(b)}, verify.Options{Full: true, Unlock: opt.Unlock, Signers: opt.Signers,
					Finding: func(verify.Finding) { found++ }})
				if err == nil && found == 0 {
					if silent++; !unused(off) {
						t.Fatalf("bit %d of byte %d: nothing notices", k%8, off)
					}
				} else if unused(off) {
					t.Fatalf("byte %d is said to be unused, but: %d findings, %v", off, found, err)
				}
			}
			t.Logf("%d bits of %d bytes, %d of them unused", 8*len(good), len(good), silent)
		})
	}
}

// unused tells which bytes of an archive nothing reads: the rest of the front's pages, and what is free and not
// yet wiped.
func (w *world) unused(b []byte) func(off int64) bool {
	w.t.Helper()
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	defer a.Close()
	free := slices.Concat(a.cur.commit.Stage, a.cur.commit.Retire)
	it := index.NewIter(a, index.Free, a.cur.tree(index.Free))
	for ok := it.Next(); ok; ok = it.Next() {
		if e, err := a.freeExtent(it.Key(), it.Value()); err == nil && e.State != index.FreeWiped {
			free = append(free, journal.Planned{Extent: e.Ext})
		}
	}
	return func(off int64) bool {
		if off < format.CopiesSize {
			return off%format.PageSize >= 512
		}
		if off < format.DataStart {
			return true // the clean mark decides only whether the next writer looks at everything first
		}
		return slices.ContainsFunc(free, func(p journal.Planned) bool { return off >= p.Off && off < p.End() })
	}
}

// A wrong key and a damaged archive are told apart by what authentication tells and by nothing else, and neither
// writes anything.
func TestWrongKeys(t *testing.T) {
	for _, suite := range []format.Suite{format.SuiteEncrypted, format.SuiteBoth} {
		f := newForgery(t, suite)
		for what, unlock := range map[string]seal.Unlock{
			"none": nil, "another": unlockWith(otherIdentity),
			"no identity":   func(context.Context, []seal.Slot) ([]seal.Identity, error) { return nil, nil },
			"a user's stop": func(context.Context, []seal.Slot) ([]seal.Identity, error) { return nil, context.Canceled },
		} {
			kind := format.ErrAuth
			if what == "a user's stop" {
				kind = context.Canceled
			}
			opt := f.opt
			opt.Unlock = unlock
			if _, err := Open(ctx, name, opt); !errors.Is(err, kind) {
				t.Errorf("%s: open: %v", what, err)
			}
			if _, err := OpenWrite(ctx, name, opt); !errors.Is(err, kind) {
				t.Errorf("%s: open for writing: %v", what, err)
			}
			if _, err := verify.Run(ctx, sized{bytes.NewReader(f.good)}, verify.Options{Unlock: unlock}); !errors.Is(err, kind) {
				t.Errorf("%s: verify: %v", what, err)
			}
			in, err := Peek(ctx, name, opt)
			if err != nil || !in.Locked || in.Suite != suite || in.Entries != 0 || len(in.Slots) != 1 || in.Slots[0].Label != "" || in.Slots[0].Kinds[0] != "test" || in.Root != (format.Digest{}) {
				t.Errorf("%s: peek: %+v, %v", what, in, err)
			}
			if !bytes.Equal(f.mem.Bytes(name), f.good) {
				t.Fatalf("%s: something was written", what)
			}
		}
		if _, err := Create(ctx, "other", f.opt, CreateOptions{Reproducible: true, Slots: x25519}); err == nil {
			t.Error("a reproducible encrypted archive")
		}
		opt := f.opt
		opt.Reproducible = true
		if _, err := OpenWrite(ctx, name, opt); err == nil {
			t.Error("an encrypted archive is changed reproducibly")
		}
	}
}

// A signed archive is not changed without its key, and can be repaired without it.
func TestWithoutTheSigningKey(t *testing.T) {
	f := newForgery(t, format.SuiteSigned)
	opt := f.opt
	opt.SignKey = nil
	a, err := OpenWrite(ctx, name, opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Begin(ctx); !errors.Is(err, format.ErrAuth) {
		t.Error(err)
	}
	if _, err := a.Compact(ctx, CompactOptions{}); !errors.Is(err, format.ErrAuth) {
		t.Error(err)
	}
	if err := a.Close(); err != nil || !bytes.Equal(f.mem.Bytes(name), f.good) {
		t.Errorf("%v, changed %v", err, !bytes.Equal(f.mem.Bytes(name), f.good))
	}
	// Not closed in order: one copy is damaged.
	b := bytes.Clone(f.good)
	b[70] ^= 1
	f.mem.Put(name, b)
	if a, err = OpenWrite(ctx, name, opt); err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Errorf("not repaired: %v", err)
	}
	f.check()
	if in, err := Peek(ctx, name, f.opt); err != nil || in.CopiesDamaged > 0 || !in.Clean || in.Generation != f.s.Generation {
		t.Errorf("not repaired: %+v, %v", in, err)
	}
	plain := newForgery(t, format.SuiteNone)
	plain.opt.SignKey = testSigner
	if _, err := Open(ctx, name, plain.opt); !errors.Is(err, format.ErrAuth) {
		t.Errorf("an archive that is not signed, with a signing key: %v", err)
	}
	plain.opt.SignKey = nil
}

func TestSlotChanges(t *testing.T) {
	for _, suite := range []format.Suite{format.SuiteEncrypted, format.SuiteBoth} {
		f := newForgery(t, suite)
		a, err := OpenWrite(ctx, name, f.opt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.AddSlot(ctx, slotFor(testRecipient)); err != nil {
			t.Fatal(err)
		}
		slots := a.Slots()
		if len(slots) != 2 || slots[0].Label != "test" || slots[1].Label != testRecipient || slots[1].Number != 2 || slots[1].Kinds[0] != "X25519" {
			t.Errorf("%+v", slots)
		}
		for _, n := range []int{0, 3, -1} {
			if _, err := a.RemoveSlot(ctx, n); err == nil {
				t.Errorf("slot %d removed", n)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		f.check()
		was := f.mem.Bytes(name)
		dir := f.super(was).KeyDirExtent()
		gone := bytes.Clone(was[dir.Off:dir.End()])
		opt := f.opt
		opt.Unlock = unlockWith(testIdentity)
		if a, err = OpenWrite(ctx, name, opt); err != nil {
			t.Fatal(err)
		}
		if _, err := a.RemoveSlot(ctx, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := a.RemoveSlot(ctx, 1); err == nil {
			t.Error("the last slot was removed")
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(f.mem.Bytes(name), gone[:200]) {
			t.Error("the old key directory is still there")
		}
		if _, err := Open(ctx, name, f.opt); !errors.Is(err, format.ErrAuth) {
			t.Errorf("the removed slot opens it: %v", err)
		}
		f.opt.Unlock = opt.Unlock
		f.check()
	}
	plain := newForgery(t, format.SuiteNone)
	a, err := OpenWrite(ctx, name, plain.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.AddSlot(ctx, slotFor(testRecipient)); err == nil || a.Slots() != nil {
		t.Error("a slot in an archive that is not encrypted")
	}
}

// The full check goes by keys and pins of its own, and names a key directory that has lost a copy.
func TestVerifyKeys(t *testing.T) {
	for _, suite := range suites {
		f := newForgery(t, suite)
		run := func(b []byte, o verify.Options) (verify.Summary, []verify.Finding, error) {
			var fs []verify.Finding
			o.Full, o.Finding = true, func(x verify.Finding) { fs = append(fs, x) }
			s, err := verify.Run(ctx, sized{bytes.NewReader(b)}, o)
			return s, fs, err
		}
		own := []seal.PublicKey{otherSigner.Public(), testSigner.Public()}
		s, _, err := run(f.good, verify.Options{Unlock: f.opt.Unlock, Signers: own, Jobs: 3})
		if suite.Signed() != (err == nil) || !suite.Signed() && !errors.Is(err, format.ErrAuth) || err == nil && s.Signer != own[1] {
			t.Errorf("%v: pinned: %v", suite, err)
		}
		if _, _, err := run(f.good, verify.Options{Unlock: f.opt.Unlock, Signers: own[:1]}); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%v: another signer: %v", suite, err)
		}
		if !suite.Encrypted() {
			continue
		}
		b := bytes.Clone(f.good)
		b[f.s.KeyDirCopy(1)+90] ^= 1
		s, fs, err := run(b, verify.Options{Unlock: f.opt.Unlock})
		if err != nil || s.Damaged > 0 || s.Repairable != 1 || len(fs) != 1 || fs[0].Kind != verify.KindRepairable || fs[0].Offset != f.s.KeyDirCopy(1) {
			t.Errorf("%v: one copy of the key directory: %+v, %+v, %v", suite, s, fs, err)
		}
		b[f.s.KeyDirCopy(0)+90] ^= 1
		if _, fs, err = run(b, verify.Options{Unlock: f.opt.Unlock}); !errors.Is(err, format.ErrCorrupt) || len(fs) != 1 || fs[0].Kind != verify.KindKeys {
			t.Errorf("%v: both copies of the key directory: %+v, %v", suite, fs, err)
		}
		b = bytes.Clone(f.good)
		b[f.s.KeyDirExtent().End()-1] = 1
		if _, fs, err = run(b, verify.Options{Unlock: f.opt.Unlock}); err != nil || len(fs) != 1 || fs[0].Kind != verify.KindFill {
			t.Errorf("%v: fill after the key directory: %+v, %v", suite, fs, err)
		}
	}
}
