package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/vfs"
)

// holed makes an archive of frames of their own and packs, in which every second file was removed.
func holed(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelNone})
	r := rand.New(rand.NewPCG(seed, 3))
	for i := range 4 {
		files := map[string][]byte{}
		for k := range 12 {
			files[fmt.Sprintf("d%d/large%02d", i, k)] = randomBytes(r, 130_000+r.IntN(90_000))
			files[fmt.Sprintf("d%d/small%02d", i, k)] = randomBytes(r, 200+r.IntN(9000))
		}
		w.change(func(tx *Tx) { w.add(tx, files) })
	}
	w.change(func(tx *Tx) { w.removeEverySecond(tx) })
	return w
}

// Interrupted after any number of commits, a compaction leaves an archive that holds the same, keeps what
// was done, and can be finished.
func TestCompactInterrupted(t *testing.T) {
	const batch = 700_000
	whole := holed(t, 7)
	commits := whole.compact(CompactOptions{batch: batch}).Commits
	if commits < 8 {
		t.Fatalf("%d commits are too few for this test", commits)
	}
	want := int64(len(whole.mem.Bytes(name)))
	for n := range commits {
		w := holed(t, 7)
		ctx, cancel := context.WithCancel(ctx)
		superblocks := 0
		w.mem.Hook = func(op vfs.Op) error {
			// A commit writes two copies, the mirror before the next transaction the two others.
			if op.Kind == vfs.OpWrite && op.Off < format.CopiesSize {
				if superblocks++; superblocks == 4*n+1 {
					cancel()
				}
			}
			return nil
		}
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := a.Compact(ctx, CompactOptions{batch: batch})
		cancel()
		if !errors.Is(err, context.Canceled) && sum.Commits < commits-1 {
			t.Fatalf("cancelled after %d commits: %+v, %v", n, sum, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		w.mem.Hook = nil
		w.check()
		w.compact(CompactOptions{batch: batch})
		w.check()
		if got := int64(len(w.mem.Bytes(name))); got > want+want/50 {
			t.Errorf("interrupted after %d commits and finished: %d bytes, want about %d", n, got, want)
		}
	}
}

// A reader keeps its generation, whole, while the archive is compacted around it; what it needs is given
// back when it is gone.
func TestCompactUnderReader(t *testing.T) {
	w := holed(t, 8)
	reader, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	sum := w.compact(CompactOptions{batch: 700_000})
	if sum.Held == 0 {
		t.Errorf("%+v: nothing is said of what the reader holds", sum)
	}
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"later": []byte("later")}) })
	for p, want := range w.model {
		if p == "later" {
			continue
		}
		e, err := reader.Get(mustPath(p))
		if err != nil {
			t.Fatal(err)
		}
		f, err := reader.Open(&e)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 0); err != nil || string(got) != string(want) {
			t.Fatalf("%s: %v", p, err)
		}
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	w.check()
	w.compact(CompactOptions{})
	w.tight(CreateOptions{Level: frames.LevelNone})
}

// On a full disk, what is free inside the file is enough to compact it and to remove from it.
func TestCompactOnFullDisk(t *testing.T) {
	w := holed(t, 9)
	w.mem.Limit = int64(len(w.mem.Bytes(name)))
	a, err := OpenWrite(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Compact(ctx, CompactOptions{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("compacting on a full disk: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.check()
	w.compact(CompactOptions{Within: true})
	w.tight(CreateOptions{Level: frames.LevelNone})

	// What was given back is somebody else's now. One file can still be removed, and then others.
	w.mem.Limit = int64(len(w.mem.Bytes(name)))
	w.change(func(tx *Tx) {
		if err := tx.Remove(mustPath("d1/large03")); err != nil {
			t.Fatal(err)
		}
	})
	delete(w.model, "d1/large03")
	w.change(func(tx *Tx) { w.removeEverySecond(tx) })
	w.check()
	w.compact(CompactOptions{Within: true})
	w.tight(CreateOptions{Level: frames.LevelNone})
}

// Holes that frames would fill to the last sector leave room for the transactions' own nodes.
func TestCompactOnFullDiskExactHoles(t *testing.T) {
	for extra := int64(0); extra <= 64<<10; extra += 8 << 10 {
		w := newWorld(t, 1, Options{Jobs: 1})
		w.create(CreateOptions{Level: frames.LevelNone})
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 8 {
			w.change(func(tx *Tx) { w.add(tx, map[string][]byte{fmt.Sprint("f", i): randomBytes(r, 300_000)}) })
		}
		w.change(func(tx *Tx) {
			for _, p := range []string{"f0", "f2", "f4"} {
				if err := tx.Remove(mustPath(p)); err != nil {
					t.Fatal(err)
				}
				delete(w.model, p)
			}
		})
		w.mem.Limit = int64(len(w.mem.Bytes(name))) + extra
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Compact(ctx, CompactOptions{}); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		w.compact(CompactOptions{Within: true})
		w.check()
		if got, want := int64(len(w.mem.Bytes(name))), w.fresh(CreateOptions{Level: frames.LevelNone}); got > want+want/20+64<<10 {
			t.Errorf("%d bytes to spare: %d bytes, a fresh archive has %d", extra, got, want)
		}
	}
}

// On the way the file grows by no more than is promised.
func TestCompactGrowth(t *testing.T) {
	w := holed(t, 10)
	before := int64(len(w.mem.Bytes(name)))
	most := int64(0)
	w.mem.Hook = func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			most = max(most, op.Off+int64(op.Len))
		}
		return nil
	}
	w.compact(CompactOptions{batch: 1 << 20})
	w.mem.Hook = nil
	t.Logf("%d bytes before, %d at most", before, most)
	if most > before+2<<20+256<<10 {
		t.Errorf("the file grew from %d to %d bytes with batches of 1 MiB", before, most)
	}
	w.tight(CreateOptions{Level: frames.LevelNone})
}

// A frame that is damaged is not moved, and the error says so; nothing else is lost.
func TestCompactFindsDamage(t *testing.T) {
	w := holed(t, 11)
	b := w.mem.Bytes(name)
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	c := compaction{a: a}
	if err := c.scan(); err != nil {
		t.Fatal(err)
	}
	last := c.places[len(c.places)-1]
	b[last.Off+last.Len/2] ^= 1
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.mem.Put(name, b)
	if a, err = OpenWrite(ctx, name, w.opt); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Compact(ctx, CompactOptions{}); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("compacting with a damaged frame: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err = Open(ctx, name, w.opt); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	damaged := 0
	for p, want := range w.model {
		e, err := a.Get(mustPath(p))
		if err != nil {
			t.Fatal(err)
		}
		f, err := a.Open(&e)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 0); errors.Is(err, format.ErrCorrupt) {
			damaged++
		} else if err != nil || string(got) != string(want) {
			t.Fatalf("%s: %v", p, err)
		}
	}
	if damaged == 0 {
		t.Error("the damage has vanished")
	}
}

// What is removed after an interrupted compaction is gone: the copies that moving it has left are wiped, too.
func TestRemoveAfterInterruptedCompaction(t *testing.T) {
	const gone = "d3/large11"
	for n := 1; n < 12; n++ {
		w := holed(t, 14)
		secret := w.model[gone]
		if secret == nil {
			t.Fatal("the file is not there")
		}
		ctx, cancel := context.WithCancel(ctx)
		superblocks := 0
		w.mem.Hook = func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite && op.Off < format.CopiesSize {
				if superblocks++; superblocks == 4*n+1 {
					cancel()
				}
			}
			return nil
		}
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Compact(ctx, CompactOptions{batch: 700_000}); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		w.mem.Hook = nil
		w.change(func(tx *Tx) {
			if err := tx.Remove(mustPath(gone)); err != nil {
				t.Fatal(err)
			}
		})
		delete(w.model, gone)
		b := w.mem.Bytes(name)
		for k := 0; k+32 <= len(secret); k += 997 {
			if i := bytes.Index(b, secret[k:k+32]); i >= 0 {
				t.Fatalf("interrupted after %d commits: byte %d of what was removed is still at offset %d", n, k, i)
			}
		}
		w.check()
	}
}
