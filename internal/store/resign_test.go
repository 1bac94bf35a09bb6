package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// From one generation on another key signs, and what this handle still has to tidy up is signed by it as well.
func TestResign(t *testing.T) {
	for i, k := range sixteen() {
		w := newWorld(t, uint64(i), Options{Jobs: 1})
		w.suite = k.suite
		w.create(CreateOptions{Level: k.level, Padding: k.padding})
		r := rand.New(rand.NewPCG(uint64(i), 9))
		w.change(func(tx *Tx) {
			w.add(tx, map[string][]byte{"a": randomBytes(r, 9000), "b": textBytes(r, 9000)})
		})
		before := w.mem.Bytes(name)
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		if !k.suite.Signed() {
			if _, err := a.Resign(ctx, otherSigner); err == nil {
				t.Errorf("%v: signed", k)
			}
			if err := a.Close(); err != nil || !bytes.Equal(w.mem.Bytes(name), before) {
				t.Errorf("%v: something changed: %v", k, err)
			}
			continue
		}
		was := a.cur.super.Generation
		sum, err := a.Resign(ctx, otherSigner)
		if err != nil || sum.Generation != was+1 || sum.Root != a.cur.root() {
			t.Fatalf("%v: %+v, %v", k, sum, err)
		}
		// The same handle goes on: with what leaves something to be wiped and recorded, too.
		tx, err := a.Begin(ctx)
		if err == nil {
			w.remove(tx, "a")
			_, err = tx.Commit(ctx)
		}
		if err := errors.Join(err, a.Close()); err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		if _, err := Open(ctx, name, w.opt); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%v: taken for signed by the key before: %v", k, err)
		}
		old := w.opt
		old.Signers = nil
		if _, err := OpenWrite(ctx, name, old); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%v: opened for changing with the key before: %v", k, err)
		}
		w.rotatedSigner(otherSigner)
		w.check()
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"c": []byte("c")}) })
		w.check()
		// A copy from before is what it was.
		w.mem.Put("copy", before)
		if _, err := Open(ctx, "copy", w.opt); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%v: a copy from before is taken for signed by the new key: %v", k, err)
		}
	}
}

func (w *world) rotatedSigner(s seal.Signer) {
	w.opt.SignKey, w.opt.Signers = s, []seal.PublicKey{s.Public()}
}

// waitingSigner is an agent that asks somebody who does not answer: an interrupt comes meanwhile.
type waitingSigner struct {
	seal.Signer
	interrupt func()
}

func (s waitingSigner) Sign(ctx context.Context, _ []byte) ([]byte, error) {
	s.interrupt()
	<-ctx.Done()
	return nil, ctx.Err()
}

// An interrupt while a signature is waited for leaves the archive as it was, and the handle usable.
func TestInterruptedSignature(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.suite = format.SuiteSigned
	w.create(CreateOptions{})
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"f": []byte("x")}) })
	ctx, cancel := context.WithCancel(t.Context())
	o := w.opt
	o.SignKey = waitingSigner{testSigner, cancel}
	a, err := OpenWrite(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	before := a.cur.root()
	tx, err := a.Begin(ctx)
	if err == nil {
		err = tx.Add(ctx, slices.Values([]Source{fileSource("g", []byte("g"))}), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("committed: %v", err)
	}
	if r, err := Open(t.Context(), name, w.opt); err != nil || r.cur.root() != before {
		t.Errorf("another state: %v", err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.Resign(t.Context(), testSigner); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.check()
}

// Interrupted at any operation, by a kill or a power cut, the archive is signed by the one key or the other, and whoever has
// that key can go on.
func TestCrashResign(t *testing.T) {
	sim := vfs.NewSim(512)
	draws := byte(0)
	options := func(fsys vfs.FS, key seal.Signer) Options {
		draws++
		return Options{FS: fsys, Entropy: rand.NewChaCha8([32]byte{draws, 3}), LockTimeout: -1, Jobs: 1, SignKey: key}
	}
	data := randomBytes(rand.New(rand.NewPCG(1, 5)), 3000)
	createWith(t, options(sim, testSigner), CreateOptions{}, slices.Values([]Source{fileSource("f", data)}))
	acknowledged, seen := false, map[seal.PublicKey]int{}
	look := func(img *vfs.Sim, where string) {
		r, err := Open(ctx, name, options(img, nil))
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		e, err := r.Get(mustPath("f"))
		if err != nil || !bytes.Equal(readFile(t, r, &e), data) {
			t.Fatalf("%s: %v", where, err)
		}
		signer := r.cur.commit.Signer
		r.Close()
		key := map[seal.PublicKey]seal.Signer{testSigner.Public(): testSigner, otherSigner.Public(): otherSigner}[signer]
		if key == nil || acknowledged && signer != otherSigner.Public() {
			t.Fatalf("%s: signed by %s", where, signer.Fingerprint())
		}
		seen[signer]++
		w, err := OpenWrite(ctx, name, options(img, key))
		if err != nil {
			t.Fatalf("%s: the next writer: %v", where, err)
		}
		if err := w.Close(); err != nil {
			t.Fatalf("%s: the next writer: %v", where, err)
		}
	}
	boundaries := 0
	r := rand.New(rand.NewPCG(2, 6))
	sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind == vfs.OpLock {
			return nil
		}
		boundaries++
		where := fmt.Sprintf("boundary %d (%v %s %d+%d)", boundaries, op.Kind, op.Name, op.Off, op.Len)
		look(sim.Clone(), where+", killed")
		sim.Pending().Each(vfs.Spread{Exhaustive: 64, Steps: 3, Random: 3, Garbage: 2}, r, func(img *vfs.Sim, _ vfs.Rule) bool {
			look(img, where+", power cut")
			return true
		})
		return nil
	}
	a, err := OpenWrite(ctx, name, options(sim, testSigner))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = a.Resign(ctx, otherSigner); err != nil {
		t.Fatal(err)
	}
	acknowledged = true
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	sim.Hook = nil
	look(sim, "after")
	if boundaries < 8 || seen[testSigner.Public()] == 0 || seen[otherSigner.Public()] == 0 {
		t.Errorf("%d boundaries, seen %v", boundaries, seen)
	}
}
