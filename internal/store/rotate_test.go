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
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

var x25519 = []seal.NewSlot{slotFor(testRecipient)}

// rotated switches a world to the keys after a rotation.
func (w *world) rotated(o RotateOptions) {
	w.opt.Unlock = unlockWith(testIdentity)
	if o.SignKey != nil {
		w.rotatedSigner(o.SignKey)
	}
}

func TestRotate(t *testing.T) {
	for i, k := range sixteen() {
		if !k.suite.Encrypted() {
			continue
		}
		w := newWorld(t, uint64(i), Options{Jobs: 1})
		w.suite = k.suite
		w.create(CreateOptions{Level: k.level, Padding: k.padding})
		r := rand.New(rand.NewPCG(uint64(i), 4))
		w.change(func(tx *Tx) {
			w.add(tx, map[string][]byte{"d": nil, "d/raw": randomBytes(r, 400<<10), "text": textBytes(r, 300<<10), "small": randomBytes(r, 900), "gone": randomBytes(r, 5000)})
		})
		w.change(func(tx *Tx) { w.remove(tx, "gone") })
		before, err := Peek(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		old := w.mem.Bytes(name)
		o := RotateOptions{Slots: x25519}
		if k.suite.Signed() && i%3 == 0 {
			o.SignKey = otherSigner
		}
		sum, err := Rotate(ctx, name, w.opt, o)
		if err != nil || sum.Held {
			t.Fatalf("%v: %+v, %v", k, sum, err)
		}
		if names := w.mem.Names(); !slices.Equal(names, []string{name}) {
			t.Errorf("%v: left %q", k, names)
		}
		if _, err := Open(ctx, name, w.opt); !errors.Is(err, format.ErrAuth) {
			t.Errorf("%v: opened with the old key: %v", k, err)
		}
		w.rotated(o)
		w.check()
		a, err := Open(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		in, err := a.Info()
		if err != nil || in.ID != before.ID || in.Generation != sum.Generation || in.Generation <= before.Generation || in.Root != sum.Root || in.Padding != k.padding || in.Slots[0].Label != testRecipient {
			t.Errorf("%v: %+v, %v", k, in, err)
		}
		a.Close()
		// No sealed sector of the old file is in the new one.
		fresh := w.mem.Bytes(name)
		for at := format.DataStart; at+512 <= len(old); at += 512 {
			if s := old[at : at+512]; len(bytes.Trim(s, "\x00")) > 16 && bytes.Contains(fresh, s) {
				t.Errorf("%v: the sector at %d is in both files", k, at)
			}
		}
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"after": []byte("after"), "small": randomBytes(r, 1000)}) })
		w.check()
	}
}

func TestRotateRefusals(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.suite = format.SuiteBoth
	w.create(CreateOptions{})
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"f": []byte("x")}) })
	good := w.mem.Bytes(name)
	for what, change := range map[string]func(o *Options, r *RotateOptions){
		"no slot":        func(_ *Options, r *RotateOptions) { r.Slots = nil },
		"no key":         func(o *Options, _ *RotateOptions) { o.Unlock = nil },
		"no signing key": func(o *Options, _ *RotateOptions) { o.SignKey = nil },
		"another signer": func(o *Options, _ *RotateOptions) { o.SignKey, o.Signers = otherSigner, nil },
		"no entropy":     func(o *Options, _ *RotateOptions) { o.Entropy = bytes.NewReader(nil) },
	} {
		o, r := w.opt, RotateOptions{Slots: x25519}
		change(&o, &r)
		if _, err := Rotate(ctx, name, o, r); err == nil {
			t.Errorf("%s: rotated", what)
		}
		if !bytes.Equal(w.mem.Bytes(name), good) || len(w.mem.Names()) != 1 {
			t.Errorf("%s: something changed: %q", what, w.mem.Names())
		}
	}
	plain := newWorld(t, 1, Options{})
	plain.create(CreateOptions{})
	if _, err := Rotate(ctx, name, plain.opt, RotateOptions{Slots: x25519}); err == nil {
		t.Error("an archive without keys was rotated")
	}
	// Damage ends it, and nothing has changed.
	bad := bytes.Clone(good)
	bad[w.frameAt(1)+200] ^= 1
	w.mem.Put(name, bad)
	if _, err := Rotate(ctx, name, w.opt, RotateOptions{Slots: x25519}); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	if len(w.mem.Names()) != 1 {
		t.Errorf("damaged: left %q", w.mem.Names())
	}
	w.mem.Put(name, good)
}

// A key in a tree of numbers that is none ends a rotation. Whoever has the content key can write one.
func TestRotateForgedKey(t *testing.T) {
	for _, tree := range []index.Tree{index.Contents, index.Frames} {
		w := newWorld(t, 1, Options{Jobs: 1})
		w.suite = format.SuiteEncrypted
		w.create(CreateOptions{})
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"f": []byte("x")}) })
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		it := index.NewIter(a, tree, tx.base.tree(tree))
		if !it.Next() {
			t.Fatal(it.Err())
		}
		op := index.Op{Key: []byte{0}, Value: it.Value()}
		roots := tx.base.roots
		if roots[tree-1], err = index.Apply(a, tx, tree, roots[tree-1], a.suite.TagSize(), nodeSize, slices.Values([]index.Op{op})); err != nil {
			t.Fatal(err)
		}
		c := &journal.Commit{Counters: tx.base.commit.Counters, Options: tx.base.commit.Options}
		c.Carry(tx.base.commit)
		if err := tx.publish(ctx, c, roots); err != nil {
			t.Fatal(err)
		}
		a.tx, tx.done = nil, true
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Rotate(ctx, name, w.opt, RotateOptions{Slots: x25519}); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%v: %v", tree, err)
		}
		if len(w.mem.Names()) != 1 {
			t.Errorf("%v: left %q", tree, w.mem.Names())
		}
	}
}

// frameAt is where the extent of a frame begins.
func (w *world) frameAt(number uint64) int64 {
	w.t.Helper()
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	defer a.Close()
	f, err := a.frame(a.cur, number)
	if err != nil {
		w.t.Fatal(err)
	}
	return f.ext.Off
}

// A reader of the old file keeps it whole until it has gone; the next change overwrites it.
func TestRotateUnderAReader(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.suite = format.SuiteEncrypted
	w.create(CreateOptions{})
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"f": bytes.Repeat([]byte("f"), 3000)}) })
	reader, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	o := RotateOptions{Slots: x25519}
	sum, err := Rotate(ctx, name, w.opt, o)
	if err != nil || !sum.Held {
		t.Fatalf("%+v, %v", sum, err)
	}
	e, err := reader.Get(mustPath("f"))
	if err != nil || !bytes.Equal(readFile(t, reader, &e), w.model["f"]) {
		t.Error(err)
	}
	w.rotated(o)
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"g": []byte("g")}) })
	if len(w.mem.Names()) != 2 {
		t.Errorf("the old file went under its reader: %q", w.mem.Names())
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"h": []byte("h")}) })
	if len(w.mem.Names()) != 1 {
		t.Errorf("the old file is still there: %q", w.mem.Names())
	}
	w.check()
}

// A file with a second name is left alone, whenever that name came; the one that an interrupted rotation gave it is no
// obstacle.
func TestRotateSecondName(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.suite = format.SuiteEncrypted
	w.create(CreateOptions{})
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"f": []byte("x")}) })
	good := w.mem.Bytes(name)
	link := func(to string) {
		t.Helper()
		if err := w.mem.Link(name, to); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(when string, o RotateOptions) {
		t.Helper()
		if _, err := Rotate(ctx, name, w.opt, o); !errors.Is(err, ErrSecondName) {
			t.Errorf("%s: %v", when, err)
		}
		if names := w.mem.Names(); !bytes.Equal(w.mem.Bytes(name), good) || !bytes.Equal(w.mem.Bytes("snapshot"), good) || len(names) != 2 {
			t.Errorf("%s: something changed: %q", when, names)
		}
	}
	link("snapshot")
	refused("from the beginning", RotateOptions{Slots: x25519, Progress: func(int64, int64) { t.Error("it has begun") }})
	link(oldName(name))
	refused("beside that of an interrupted rotation", RotateOptions{Slots: x25519})
	if err := w.mem.Remove("snapshot"); err != nil {
		t.Fatal(err)
	}
	done := false
	refused("given while it ran", RotateOptions{Slots: x25519, Progress: func(int64, int64) {
		if !done {
			done = true
			link("snapshot")
		}
	}})
	if err := w.mem.Remove("snapshot"); err != nil {
		t.Fatal(err)
	}
	link(oldName(name))
	if _, err := Rotate(ctx, name, w.opt, RotateOptions{Slots: x25519}); err != nil || len(w.mem.Names()) != 1 {
		t.Errorf("with the name of an interrupted rotation: %v, %q", err, w.mem.Names())
	}
	w.rotated(RotateOptions{})
	w.check()
}

// TestCrashRotate interrupts a rotation before every operation: by a power cut and by a kill. The archive is then
// the old or the new one, whole, and the next change leaves nothing of the other.
func TestCrashRotate(t *testing.T) {
	for _, noLinks := range []bool{false, true} {
		for _, named := range []bool{false, true} {
			crashRotate(t, noLinks, named)
		}
	}
}

func crashRotate(t *testing.T, noLinks, named bool) {
	sim := vfs.NewSim(512)
	sim.NoLinks, sim.NamedTemps = noLinks, named
	draws := byte(0)
	options := func(fsys vfs.FS, unlock seal.Unlock) Options {
		draws++
		return Options{FS: fsys, Entropy: rand.NewChaCha8([32]byte{draws, byte(len(t.Name()))}), LockTimeout: -1, Jobs: 1, Unlock: unlock, SignKey: testSigner}
	}
	data := randomBytes(rand.New(rand.NewPCG(1, 5)), 9000)
	var opt Options
	create := CreateOptions{}
	opt = options(sim, nil)
	Protect(&opt, &create, format.SuiteBoth)
	unlockOld := opt.Unlock
	createWith(t, opt, create, slices.Values([]Source{fileSource("f", data)}))
	both := func(ctx context.Context, s []seal.Slot) ([]seal.Identity, error) {
		x, err := unlockOld(ctx, s)
		y, err2 := unlockWith(testIdentity)(ctx, s)
		return append(x, y...), errors.Join(err, err2)
	}
	read := func(fsys vfs.FS, where string) (generation uint64) {
		a, err := Open(ctx, name, options(fsys, both))
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		defer a.Close()
		e, err := a.Get(mustPath("f"))
		if err != nil || !bytes.Equal(readFile(t, a, &e), data) {
			t.Fatalf("%s: %v", where, err)
		}
		return a.cur.super.Generation
	}
	was := read(sim, "before")
	// finish looks at what is left and lets the next writer finish it.
	finish := func(img *vfs.Sim, where string) {
		if !slices.Contains(img.Names(), name) && !noLinks {
			t.Fatalf("%s: the archive is gone: %q", where, img.Names())
		}
		if !noLinks || slices.Contains(img.Names(), name) {
			read(img, where)
		}
		img.Hook = func(op vfs.SimOp) *vfs.Fault {
			if b := img.Bytes(oldName(name)); op.Kind == vfs.OpRemove && op.Name == oldName(name) && !bytes.Equal(b, img.Bytes(name)) &&
				len(bytes.Trim(b[min(len(b), format.DataStart):], "\x00")) > 0 {
				t.Errorf("%s: the old file is removed before it is overwritten", where)
			}
			return nil
		}
		a, err := OpenWrite(ctx, name, options(img, both))
		if err == nil {
			err = a.Close()
		}
		img.Hook = nil
		if err != nil {
			t.Fatalf("%s: the next writer: %v", where, err)
		}
		left := slices.DeleteFunc(img.Names(), func(n string) bool { return n != name && n != newName(name) && n != oldName(name) })
		if !slices.Equal(left, []string{name}) {
			t.Fatalf("%s: the next writer leaves %q", where, left)
		}
		read(img, where+", finished")
	}
	boundaries, after := 0, 0
	r := rand.New(rand.NewPCG(2, 6))
	sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind == vfs.OpLock {
			return nil
		}
		boundaries++
		where := fmt.Sprintf("no links %v, named %v, boundary %d (%v %s %d+%d)", noLinks, named, boundaries, op.Kind, op.Name, op.Off, op.Len)
		finish(sim.Clone(), where+", killed")
		sim.Pending().Each(vfs.Spread{Exhaustive: 64, Steps: 3, Random: 3, Garbage: 2}, r, func(img *vfs.Sim, _ vfs.Rule) bool {
			finish(img, where+", power cut")
			return true
		})
		return nil
	}
	if _, err := Rotate(ctx, name, options(sim, unlockOld), RotateOptions{Slots: x25519}); err != nil {
		t.Fatal(err)
	}
	sim.Hook = nil
	if read(sim, "after") != was+1 || len(sim.Names()) != 1 || boundaries < 15 {
		t.Errorf("%d boundaries, %d, %q", boundaries, after, sim.Names())
	}
}
