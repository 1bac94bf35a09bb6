package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

const copyName = "b.lbx"

// copied opens the archive, copies it and returns the reader's generation and root.
func (w *world) copied(o Options) (Info, error) {
	w.t.Helper()
	o.FS, o.Entropy = w.opt.FS, w.opt.Entropy
	a, err := Open(ctx, name, o)
	if err != nil {
		w.t.Fatal(err)
	}
	in, err := a.Info()
	if err != nil {
		w.t.Fatal(err)
	}
	last := int64(0)
	err = a.CopyTo(ctx, copyName, CopyOptions{Progress: func(done, total int64) {
		if done < last || done > total {
			w.t.Errorf("progress from %d to %d of %d", last, done, total)
		}
		last = done
	}})
	return in, errors.Join(err, a.Close())
}

// isCopy checks that the copy is an archive of its own that holds what the model says.
func (w *world) isCopy(in Info) {
	w.t.Helper()
	c := *w
	c.mem = vfs.Mem()
	c.mem.Put(name, w.mem.Bytes(copyName))
	c.opt.FS = c.mem
	a, err := OpenWrite(ctx, name, c.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := a.Info()
	if err != nil {
		w.t.Fatal(err)
	}
	if got.ID != in.ID || got.Generation != in.Generation || got.Root != in.Root || !got.Clean || got.CopiesDamaged != 0 {
		w.t.Errorf("a copy of %+v is %+v", in, got)
	}
	if err := a.Close(); err != nil {
		w.t.Fatal(err)
	}
	c.check()
}

func TestCopy(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, seed, Options{Jobs: 1 + int(seed)})
		w.create(CreateOptions{Level: frames.Level(seed), Sector: []int64{512, 4096}[seed%2]})
		for range 8 {
			w.change(func(tx *Tx) { w.randomOps(r, tx) })
			in, err := w.copied(Options{Jobs: 1 + int(seed)})
			if err != nil {
				t.Fatal(err)
			}
			w.isCopy(in)
			if err := w.mem.Remove(copyName); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What was deleted, and is kept for a reader only, does not travel.
func TestCopyLeavesDeletedBehind(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelNone})
	secret := randomBytes(rand.New(rand.NewPCG(1, 1)), 5000)
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"secretname": secret, "other": []byte("other")}) })
	old, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	w.change(func(tx *Tx) {
		if err := tx.Remove(mustPath("secretname")); err != nil {
			t.Fatal(err)
		}
	})
	delete(w.model, "secretname")
	if !bytes.Contains(w.mem.Bytes(name), secret[:64]) {
		t.Fatal("the reader's generation was wiped")
	}
	in, err := w.copied(Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.isCopy(in)
	b := w.mem.Bytes(copyName)
	if bytes.Contains(b, secret[:64]) || bytes.Contains(b, secret[4000:4064]) || bytes.Contains(b, []byte("secretname")) {
		t.Error("the copy holds what was deleted")
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
}

// A writer changes, wipes and compacts while the archive is copied: the copy is the reader's generation.
func TestCopyBesideWriter(t *testing.T) {
	w := holed(t, 12)
	reader, err := Open(ctx, name, Options{FS: w.opt.FS, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	in, err := reader.Info()
	if err != nil {
		t.Fatal(err)
	}
	before := *w
	before.model = map[string][]byte{}
	for p, d := range w.model {
		before.model[p] = d
	}
	var mu sync.Mutex // the nodes and the frames are copied by two goroutines
	step := 0
	w.mem.Hook = func(op vfs.Op) error {
		if op.Name != copyName || op.Kind != vfs.OpWrite {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		step++
		switch step {
		case 3:
			w.change(func(tx *Tx) { w.removeEverySecond(tx) })
		case 10, 20:
			w.change(func(tx *Tx) {
				w.add(tx, map[string][]byte{fmt.Sprint("new", step): bytes.Repeat([]byte{byte(step)}, 300_000)})
			})
		case 30:
			w.compact(CompactOptions{batch: 1 << 20})
		}
		return nil
	}
	if err := reader.CopyTo(ctx, copyName, CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	w.mem.Hook = nil
	if step < 30 {
		t.Fatalf("the copy took %d writes only", step)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	before.isCopy(in)
	w.check()
}

func TestCopyRefusesAndLeavesNothing(t *testing.T) {
	w := holed(t, 13)
	w.mem.Put(copyName, []byte("here already"))
	if _, err := w.copied(Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing name: %v", err)
	}
	if string(w.mem.Bytes(copyName)) != "here already" {
		t.Error("an existing file was changed")
	}
	if err := w.mem.Remove(copyName); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpTruncate, vfs.OpSync, vfs.OpPublish} {
		w.mem.Hook = func(op vfs.Op) error {
			if op.Name == copyName && op.Kind == kind && (kind != vfs.OpWrite || op.Off > 100_000) {
				return syscall.EIO
			}
			return nil
		}
		if _, err := w.copied(Options{}); !errors.Is(err, syscall.EIO) {
			t.Errorf("a failing %v: %v", kind, err)
		}
		w.mem.Hook = nil
	}
	short, cancel := context.WithCancel(ctx)
	w.mem.Hook = func(op vfs.Op) error {
		if op.Name == copyName && op.Kind == vfs.OpSync {
			cancel()
		}
		return nil
	}
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.CopyTo(short, copyName, CopyOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if names := w.mem.Names(); !slices.Equal(names, []string{name}) {
		t.Errorf("files left: %v", names)
	}
	w.mem.Hook = nil
	w.check()
}

// A copy is not made of anything that does not verify: a flipped bit anywhere in what is in use is found.
func TestCopyFindsDamage(t *testing.T) {
	w := newWorld(t, 3, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(3, 3))
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"a": randomBytes(r, 9000), "b": textBytes(r, 3000), "d/c": randomBytes(r, 140_000), "e": textBytes(r, 300_000)})
	})
	whole := w.mem.Bytes(name)
	if _, err := w.copied(Options{}); err != nil {
		t.Fatal(err)
	}
	want := w.mem.Bytes(copyName)
	if err := w.mem.Remove(copyName); err != nil {
		t.Fatal(err)
	}
	found, same := 0, 0
	for off := format.DataStart; off < len(whole); off += 257 {
		b := bytes.Clone(whole)
		b[off] ^= 0x10
		w.mem.Put(name, b)
		a, err := Open(ctx, name, w.opt)
		if err == nil {
			err = errors.Join(a.CopyTo(ctx, copyName, CopyOptions{}), a.Close())
		}
		switch {
		case errors.Is(err, format.ErrCorrupt):
			found++
		case err != nil:
			t.Fatalf("offset %d: %v", off, err)
		case !bytes.Equal(w.mem.Bytes(copyName), want):
			t.Fatalf("offset %d: a damaged archive gave another copy", off)
		default:
			same++ // in free space, or in the fill of a node
			if err := w.mem.Remove(copyName); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d found, %d in what does not travel", found, same)
	if found < 10*same {
		t.Errorf("%d found, %d not", found, same)
	}
	w.mem.Put(name, whole)
}

// A stage set that claims a terabyte of a sparse file does not fill the disk with zeros, and an interrupt ends the
// copying of one.
func TestCopyOfAHugeStageSet(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{})
	const end, block = 64<<20 + 16<<20, 1024
	f, err := w.mem.Open(name, true)
	if err != nil {
		t.Fatal(err)
	}
	c, err := journal.ReadCopies(f)
	if err != nil {
		t.Fatal(err)
	}
	s := *c.Current
	m, _, err := journal.ReadCommit(f, &s, seal.New())
	if err != nil {
		t.Fatal(err)
	}
	m.Stage = []journal.Planned{{Extent: format.Extent{Off: s.CommitOff + block, Len: end - s.CommitOff - block}, Generation: s.Generation}}
	b := m.Encode(s.Generation)
	s.CommitLen, s.CommitHash, s.End = uint32(len(b)), journal.Sum(b), end
	if _, err := f.WriteAt(append(b, make([]byte, block-len(b))...), s.CommitOff); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := journal.WriteCopy(f, &s, i/2, i%2); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Truncate(end), f.Close()); err != nil {
		t.Fatal(err)
	}
	a := mustOpen(t, w.opt)
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := a.CopyTo(short, copyName, CopyOptions{}); !errors.Is(err, context.Canceled) || a.Counters().BytesWritten > 1<<20 {
		t.Errorf("cancelled: %v, %d bytes written", err, a.Counters().BytesWritten)
	}
	before := a.Counters().BytesWritten
	if err := a.CopyTo(ctx, copyName, CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := a.Counters().BytesWritten - before; n > 64<<20+1<<20 {
		t.Errorf("%d bytes written", n)
	}
	if !bytes.Equal(w.mem.Bytes(copyName)[format.DataStart:], w.mem.Bytes(name)[format.DataStart:]) {
		t.Error("the copy has other bytes")
	}
}
