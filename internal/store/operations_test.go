package store

import (
	"fmt"
	"slices"
	"testing"
)

// Every operation on an archive of 200,000 entries costs by what it changes: syncs and bytes, counted below the
// engine, close and wiping included.
func TestWorkOfEachOperation(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	w := newWorld(t, 1, Options{})
	w.fill(n, 1024)
	last := w.count.Snapshot()
	report := func(what string, syncs, bytes int64) {
		t.Helper()
		now := w.count.Snapshot()
		d := now.Sub(last)
		t.Logf("%-34s %2d syncs, %d of directories, %7.1f KiB written", what, d.Syncs, d.DirSyncs, float64(d.BytesWritten)/1024)
		if d.Syncs+d.DirSyncs > syncs || d.BytesWritten > bytes {
			t.Errorf("%s: more than %d syncs or %d bytes", what, syncs, bytes)
		}
		last = w.count.Snapshot()
	}
	path := func(i int) string { return fmt.Sprintf("dir%04d/file%07d.txt", i/1000, i) }
	put := func(p string, size int) func(*Tx) {
		return func(tx *Tx) {
			src := fileSource(p, fmt.Appendf(nil, "%0*d", size, len(p)))
			if err := tx.Add(ctx, slices.Values([]Source{src}), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.change(put("dir0010/new.txt", 1024))
	report("add one of 1 KiB", 3, 256<<10)
	w.change(put(path(12_345), 1000))
	report("replace one", 9, 1<<20)
	w.change(func(tx *Tx) {
		if err := tx.Remove(mustPath(path(15_432))); err != nil {
			t.Fatal(err)
		}
	})
	report("remove one", 9, 1<<20)
	w.change(func(tx *Tx) {
		if err := tx.Move(mustPath(path(5_000)), mustPath("dir0000/moved.txt")); err != nil {
			t.Fatal(err)
		}
	})
	report("move one", 9, 1<<20)
	w.change(func(tx *Tx) {
		for i := 3000; i < 4000; i++ {
			if err := tx.Remove(mustPath(path(i))); err != nil {
				t.Fatal(err)
			}
		}
	})
	report("remove a directory of 1,000", 9, 16<<20) // digests have no order: each is in a node of its own
	w.change(func(tx *Tx) {
		for i := 7000; i < 8000; i++ {
			if err := tx.Move(mustPath(path(i)), mustPath("elsewhere/"+path(i))); err != nil {
				t.Fatal(err)
			}
		}
	})
	report("move a directory of 1,000", 9, 16<<20)
	w.verify()

	last = w.count.Snapshot()
	size := int64(len(w.mem.Bytes(name)))
	c := w.compact(CompactOptions{})
	report(fmt.Sprintf("compact %d → %d KiB", c.Before>>10, c.After>>10), 40, 3*size)
	w.compact(CompactOptions{})
	report("compact again", 0, 0)
	w.verify()

	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	size = int64(len(w.mem.Bytes(name)))
	last = w.count.Snapshot()
	if err := a.CopyTo(ctx, "copy.lbx", CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	report(fmt.Sprintf("copy %d KiB", size>>10), 2, size+64<<10)
}
