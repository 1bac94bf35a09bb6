package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// compact compacts the world's archive and checks it.
func (w *world) compact(o CompactOptions) CompactSummary {
	w.t.Helper()
	a, err := OpenWrite(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	before := w.count.Snapshot()
	sum, err := a.Compact(ctx, o)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		w.t.Fatal(err)
	}
	n := w.count.Snapshot().Sub(before)
	if got := int64(len(w.mem.Bytes(name))); got != sum.After {
		w.t.Errorf("the file has %d bytes, the summary says %d", got, sum.After)
	}
	w.t.Logf("%d → %d bytes; %d moved, %d packs merged, %d commits, %d syncs, %d bytes written", sum.Before, sum.After, sum.Moved, sum.Merged, sum.Commits, n.Syncs, n.BytesWritten)
	return sum
}

// fresh is the size of an archive of the same content made by one transaction.
func (w *world) fresh(o CreateOptions) int64 {
	w.t.Helper()
	f := newWorld(w.t, 99, Options{Jobs: 1})
	f.create(o)
	f.change(func(tx *Tx) {
		if w.meta == nil {
			f.add(tx, maps.Clone(w.model))
			return
		}
		var src []Source
		for _, p := range slices.Sorted(mapKeys(w.meta)) {
			e := w.meta[p]
			e.LinkGroup = 0 // a link and an equal file take the same room
			src = append(src, source(e, squeeze(e.Sparse, w.model[p])))
		}
		f.addSources(tx, src, nil)
	})
	return int64(len(f.mem.Bytes(name)))
}

// tight fails unless the archive is within 5 % and 64 KiB of a fresh one, and compacting again does nothing.
func (w *world) tight(o CreateOptions) {
	w.t.Helper()
	w.check()
	got, want := int64(len(w.mem.Bytes(name))), w.fresh(o)
	w.t.Logf("%d bytes, a fresh archive has %d", got, want)
	if got > want+want/20+64<<10 {
		w.t.Errorf("%d bytes after compacting, a fresh archive has %d", got, want)
	}
	if sum := w.compact(CompactOptions{}); sum.Commits != 0 {
		w.t.Errorf("compacting again made %d commits", sum.Commits)
	}
}

func TestCompactAfterReplacements(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 1))
	files := map[string][]byte{}
	for i := range 500 {
		files[fmt.Sprintf("d%d/f%03d", i%7, i)] = textBytes(r, 200+r.IntN(2000))
	}
	w.change(func(tx *Tx) { w.add(tx, files) })
	for i := range 50 {
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"d1/one": {byte(i)}}) })
	}
	w.compact(CompactOptions{})
	w.tight(CreateOptions{Level: frames.LevelDefault})
}

func TestCompactAfterSingleAdds(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 200
	}
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	for i := range n {
		data := randomBytes(rand.New(rand.NewPCG(uint64(i), 9)), 1024)
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{fmt.Sprintf("f%04d", i): data}) })
	}
	sum := w.compact(CompactOptions{})
	if want := w.fresh(CreateOptions{Level: frames.LevelDefault}); sum.After > want+want/20 {
		t.Errorf("%d bytes, a fresh archive has %d", sum.After, want)
	}
	w.tight(CreateOptions{Level: frames.LevelDefault})
}

// Every second file of many is removed, of sizes that are packs, single frames and many frames.
func TestCompactAfterRemovals(t *testing.T) {
	for _, size := range []int{900, 20_000, 200_000, 1_500_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t, uint64(size), Options{})
			w.create(CreateOptions{Level: frames.LevelFast})
			r := rand.New(rand.NewPCG(2, uint64(size)))
			files := map[string][]byte{}
			for i := range min(2000, 24_000_000/size) {
				files[fmt.Sprintf("d%d/f%04d", i%5, i)] = randomBytes(r, size/2+r.IntN(size))
			}
			w.change(func(tx *Tx) { w.add(tx, files) })
			w.change(func(tx *Tx) {
				for i, p := range slices.Sorted(mapKeys(files)) {
					if i%2 == 0 {
						if err := tx.Remove(mustPath(p)); err != nil {
							t.Fatal(err)
						}
						delete(w.model, p)
					}
				}
			})
			w.compact(CompactOptions{})
			w.tight(CreateOptions{Level: frames.LevelFast})
		})
	}
}

// Holes that are a little shorter than every frame after them: nothing fits anywhere without making room.
func TestCompactAdversarial(t *testing.T) {
	for _, grow := range []bool{true, false} {
		w := newWorld(t, 5, Options{Jobs: 1})
		w.create(CreateOptions{Level: frames.LevelNone})
		r := rand.New(rand.NewPCG(5, 5))
		for i := range 60 {
			n := 140_000 + 600*i // a frame of its own each
			if !grow {
				n = 140_000 + 600*(60-i)
			}
			w.change(func(tx *Tx) { w.add(tx, map[string][]byte{fmt.Sprintf("f%02d", i): randomBytes(r, n)}) })
		}
		w.change(func(tx *Tx) { w.removeEverySecond(tx) })
		w.compact(CompactOptions{batch: 1 << 20})
		w.tight(CreateOptions{Level: frames.LevelNone})
	}
}

func (w *world) removeEverySecond(tx *Tx) {
	w.t.Helper()
	for i, p := range slices.Sorted(mapKeys(w.model)) {
		if i%2 == 0 {
			if err := tx.Remove(mustPath(p)); err != nil {
				w.t.Fatal(err)
			}
			delete(w.model, p)
			delete(w.meta, p)
		}
	}
}

// Packs that are four fifths full each are merged.
func TestCompactMergesPacks(t *testing.T) {
	w := newWorld(t, 6, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(6, 6))
	for i := range 40 {
		files := map[string][]byte{}
		for k := range packTarget(frames.LevelDefault, 0) * 4 / 5 / 500 {
			files[fmt.Sprintf("p%02d/f%02d", i, k)] = randomBytes(r, 500)
		}
		w.change(func(tx *Tx) { w.add(tx, files) })
	}
	sum := w.compact(CompactOptions{batch: 64 << 10})
	if sum.Merged != 40 {
		t.Errorf("%d packs merged, want 40", sum.Merged)
	}
	w.tight(CreateOptions{Level: frames.LevelDefault})
}

// The pack of a class that is still open is folded into the first one that a merging opens, although its turn would
// come in a later transaction.
func TestCompactMergesTheOpenPack(t *testing.T) {
	w := newWorld(t, 6, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(6, 7))
	for i := range 21 {
		files := map[string][]byte{}
		n := packTarget(frames.LevelDefault, 0) * 4 / 5 / 500
		if i == 20 {
			n = 2 // it stays open
		}
		for k := range n {
			files[fmt.Sprintf("p%02d/f%02d", i, k)] = randomBytes(r, 500)
		}
		w.change(func(tx *Tx) { w.add(tx, files) })
	}
	if sum := w.compact(CompactOptions{batch: 32 << 10}); sum.Merged < 20 {
		t.Errorf("%d packs merged, want 20", sum.Merged)
	}
	w.check()
}

// Compaction in the mix of random operations, with batches small enough for several of each kind.
func TestModelWithCompaction(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 77))
			w := newWorld(t, seed+200, Options{Jobs: 1 + int(seed%3)})
			w.meta = map[string]index.Entry{}
			o := CreateOptions{Level: frames.Level(seed % 4), Sector: []int64{512, 4096}[seed/4%2]}
			w.create(o)
			for range 12 {
				for range 1 + r.IntN(6) {
					w.change(func(tx *Tx) { w.randomOps(r, tx) })
				}
				if r.IntN(2) == 0 {
					w.change(func(tx *Tx) { w.removeEverySecond(tx) })
				}
				within := r.IntN(3) == 0
				sum := w.compact(CompactOptions{batch: 100_000 << r.IntN(6), Within: within})
				w.check()
				want := w.fresh(o)
				if sum.After > sum.Before {
					t.Errorf("within %v: the file grew from %d to %d bytes", within, sum.Before, sum.After)
				}
				if !within && sum.After > want+want/20+64<<10 {
					t.Errorf("%d bytes after compacting, a fresh archive has %d", sum.After, want)
				}
			}
			w.compact(CompactOptions{})
			w.tight(o)
		})
	}
}
