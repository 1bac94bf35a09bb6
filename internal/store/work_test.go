package store

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockbox/internal/frames"
	"lockbox/internal/pathsafe"
)

// What these tests assert is work: nodes, frames, bytes, syncs; never time.

// manyFiles yields n small files in 1,000s to a directory.
func manyFiles(n, size int) iter.Seq[Source] {
	return func(yield func(Source) bool) {
		for i := range n {
			if !yield(fileSource(fmt.Sprintf("dir%04d/file%07d.txt", i/1000, i), fmt.Appendf(nil, "%0*d", size, i))) {
				return
			}
		}
	}
}

func (w *world) fill(n, size int) {
	w.t.Helper()
	createWith(w.t, w.opt, CreateOptions{Level: frames.LevelDefault}, manyFiles(n, size))
}

// opening asserts that opening decodes no node and that finding and reading one file decodes at most the
// three trees' heights and one frame.
func (w *world) opening(n int) {
	w.t.Helper()
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	defer a.Close()
	in, err := a.Info()
	if err != nil {
		w.t.Fatal(err)
	}
	if c := a.Counters(); c.NodesDecoded != 0 || c.FramesDecoded != 0 {
		w.t.Fatalf("opening %d entries decoded %d nodes and %d frames", n, c.NodesDecoded, c.FramesDecoded)
	}
	if int(in.Entries) != n {
		w.t.Fatalf("%d entries, want %d", in.Entries, n)
	}
	i := n * 2 / 3
	e, err := a.Get(mustPath(fmt.Sprintf("dir%04d/file%07d.txt", i/1000, i)))
	if err != nil {
		w.t.Fatal(err)
	}
	if c := a.Counters(); c.NodesDecoded > uint64(in.Heights[0]) {
		w.t.Fatalf("a lookup decoded %d nodes of a tree of height %d", c.NodesDecoded, in.Heights[0])
	}
	f, err := a.Open(&e)
	if err != nil {
		w.t.Fatal(err)
	}
	buf := make([]byte, f.Size())
	if _, err := f.ReadAt(buf, 0); err != nil {
		w.t.Fatal(err)
	}
	c := a.Counters()
	if c.NodesDecoded > uint64(in.Heights[0]+in.Heights[1]+in.Heights[3]) || c.FramesDecoded != 1 {
		w.t.Fatalf("reading one file decoded %d nodes (heights %v) and %d frames", c.NodesDecoded, in.Heights, c.FramesDecoded)
	}
	w.t.Logf("%d entries: heights %v, %d nodes and %d frame decoded for one file, %d bytes read after opening included", n, in.Heights, c.NodesDecoded, c.FramesDecoded, c.BytesRead)
	if _, err := f.ReadAt(buf, 0); err != nil {
		w.t.Fatal(err)
	}
	if d := a.Counters(); d.FramesDecoded != 1 || d.NodesDecoded != c.NodesDecoded {
		w.t.Fatal("a repeated read decoded again")
	}
}

func TestOpeningDecodesNothing(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.fill(2000, 100)
	w.opening(2000)
}

// BenchmarkMillion makes 1,000,000 entries and asserts the same on them.
func BenchmarkMillion(b *testing.B) {
	w := newWorld(b, 1, Options{})
	for b.Loop() {
		start := time.Now()
		w.fill(1_000_000, 40)
		b.ReportMetric(time.Since(start).Seconds(), "s-to-make")
		w.opening(1_000_000)
		w.mem.Remove(name)
	}
}

// A file added to 200,000 entries costs two syncs up to the acknowledgement, one at close, and a bounded
// number of bytes.
func TestAddingOneFile(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	w := newWorld(t, 1, Options{})
	w.fill(n, 100)
	for round := range 5 {
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		before := w.count.Snapshot()
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(round), 1))
		if err := tx.Add(ctx, slices.Values([]Source{fileSource(fmt.Sprintf("dir0100/new%d", round), randomBytes(r, 1024))}), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		ack := w.count.Snapshot().Sub(before)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		all := w.count.Snapshot().Sub(before)
		t.Logf("round %d: %d syncs to the acknowledgement, %d with close, %d bytes in %d writes", round, ack.Syncs, all.Syncs, all.BytesWritten, all.Writes)
		if ack.Syncs != 2 || all.Syncs != 3 {
			t.Errorf("%d syncs to the acknowledgement and %d with close, want 2 and 3", ack.Syncs, all.Syncs)
		}
		if all.BytesWritten > 256<<10 {
			t.Errorf("%d bytes written for one file of 1 KiB", all.BytesWritten)
		}
	}
	w.verify()
}

// Removing one file rewrites what shares its pack and needs at most nine syncs.
func TestRemovingOneFile(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.fill(20_000, 1000)
	before := w.count.Snapshot()
	w.change(func(tx *Tx) {
		if err := tx.Remove(mustPath("dir0007/file0007123.txt")); err != nil {
			t.Fatal(err)
		}
	})
	got := w.count.Snapshot().Sub(before)
	t.Logf("%d syncs, %d bytes written", got.Syncs, got.BytesWritten)
	if got.Syncs > 9 {
		t.Errorf("%d syncs to remove one file", got.Syncs)
	}
	if got.BytesWritten > 2<<20 {
		t.Errorf("%d bytes written to remove one file", got.BytesWritten)
	}
	w.verify()
	if bytes.Contains(w.mem.Bytes(name), []byte("file0007123")) {
		t.Error("the removed name is still in the file")
	}
}

// Replacing one byte again and again leaves the file's size flat, once the free space has pieces of the sizes that
// it takes.
func TestReplacingKeepsTheSizeFlat(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.fill(2000, 200)
	var sizes []int
	for i := range 200 {
		w.change(func(tx *Tx) {
			if err := tx.Add(ctx, slices.Values([]Source{fileSource("dir0001/file0001500.txt", []byte{byte(i)})}), nil); err != nil {
				t.Fatal(err)
			}
		})
		sizes = append(sizes, len(w.mem.Bytes(name)))
	}
	settled, last := sizes[29], sizes[199]
	t.Logf("file size after 1, 30, 200 replacements: %d, %d, %d", sizes[0], settled, last)
	if last > settled || last > sizes[0]+32<<10 {
		t.Errorf("the file grew: %d", sizes)
	}
	w.verify()
}

// So does replacing one byte of a file that does not compress and fills a frame of its own.
func TestReplacingALargeFileKeepsTheSizeFlat(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.create(CreateOptions{Level: frames.LevelDefault})
	d := randomBytes(rand.New(rand.NewPCG(1, 1)), 1<<20)
	var sizes []int
	for i := range 50 {
		d[5000*i]++
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"f": d}) })
		sizes = append(sizes, len(w.mem.Bytes(name)))
	}
	t.Logf("file size after 1, 20, 50 replacements: %d, %d, %d", sizes[0], sizes[19], sizes[49])
	if sizes[49] > sizes[19] || sizes[49] > 4*sizes[0] {
		t.Errorf("the file grew: %d", sizes)
	}
	w.check()
}

// A thousand transactions of one small file each end within twice the size of one transaction.
func TestManySmallTransactions(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 200
	}
	data := func(i int) []byte { return randomBytes(rand.New(rand.NewPCG(uint64(i), 9)), 1024) }
	one := newWorld(t, 1, Options{})
	one.create(CreateOptions{Level: frames.LevelDefault})
	all := map[string][]byte{}
	for i := range n {
		all[fmt.Sprintf("f%04d", i)] = data(i)
	}
	one.change(func(tx *Tx) { one.add(tx, all) })
	many := newWorld(t, 2, Options{})
	many.create(CreateOptions{Level: frames.LevelDefault})
	for i := range n {
		many.change(func(tx *Tx) { many.add(tx, map[string][]byte{fmt.Sprintf("f%04d", i): data(i)}) })
	}
	a, b := len(one.mem.Bytes(name)), len(many.mem.Bytes(name))
	t.Logf("%d files: %d bytes in one transaction, %d in %d", n, a, b, n)
	if b > 2*a {
		t.Errorf("%d bytes after %d transactions, %d after one", b, n, a)
	}
	many.check()
}

// The bytes of an archive do not depend on the number of workers.
func TestSameBytesForEveryJobs(t *testing.T) {
	var want []byte
	for _, jobs := range []int{1, 2, 3, 8} {
		w := newWorld(t, 7, Options{Jobs: jobs})
		w.create(CreateOptions{Level: frames.LevelDefault})
		r := rand.New(rand.NewPCG(3, 3))
		for range 6 {
			w.change(func(tx *Tx) { w.randomOps(r, tx) })
		}
		got := w.mem.Bytes(name)
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("--jobs %d gave other bytes", jobs)
		}
	}
}

// A cold window decodes the frame that covers it, a repeat none; a range of a raw file reads its blocks.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	text, raw := textBytes(r, 3<<20), randomBytes(r, 3<<20)
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"text": text, "raw": raw}) })
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	window := func(path string, want []byte, off int64) (c Counters) {
		e, err := a.Get(mustPath(path))
		if err != nil {
			t.Fatal(err)
		}
		f, err := a.Open(&e)
		if err != nil {
			t.Fatal(err)
		}
		before := a.Counters()
		buf := make([]byte, 8192)
		if _, err := f.ReadAt(buf, off); err != nil || !bytes.Equal(buf, want[off:off+8192]) {
			t.Fatalf("%s at %d: %v", path, off, err)
		}
		c = a.Counters()
		c.FramesDecoded -= before.FramesDecoded
		c.BytesRead -= before.BytesRead
		c.BlocksVerified -= before.BlocksVerified
		return c
	}
	if c := window("text", text, 1_000_000); c.FramesDecoded != 1 {
		t.Errorf("a cold window decoded %d frames", c.FramesDecoded)
	}
	if c := window("text", text, 1_000_100); c.FramesDecoded != 0 {
		t.Errorf("a repeated window decoded %d frames", c.FramesDecoded)
	}
	window("raw", raw, 1_000_000)
	if c := window("raw", raw, 1_001_000); c.BlocksVerified != 3 || c.BytesRead != 3<<12 {
		t.Errorf("8 KiB of a raw file: %d blocks verified, %d bytes read", c.BlocksVerified, c.BytesRead)
	}
}

// Reading everything decodes every frame once and reads every stored byte once.
func TestBulkReadsOnce(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 2})
	w.fill(5000, 900)
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error { return p.Err }); err != nil {
		t.Fatal(err)
	}
	in, err := a.Info()
	if err != nil {
		t.Fatal(err)
	}
	c := a.Counters()
	if c.FramesDecoded != in.Frames {
		t.Errorf("%d frames decoded of %d", c.FramesDecoded, in.Frames)
	}
	if limit := in.FrameBytes + in.NodeBytes + 64<<10; c.BytesRead > limit {
		t.Errorf("%d bytes read of %d", c.BytesRead, limit)
	}
}

// What a large removal has to overwrite is overwritten in batches, each recorded.
func TestWipeInBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 150 MB")
	}
	w := newWorld(t, 1, Options{})
	w.create(CreateOptions{Level: frames.LevelNone})
	big := bytes.Repeat([]byte("secret marker "), 150<<20/14)
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"a": []byte("stays"), "big": big}) })
	before := w.count.Snapshot()
	w.change(func(tx *Tx) {
		if err := tx.Remove(mustPath("big")); err != nil {
			t.Fatal(err)
		}
		delete(w.model, "big")
	})
	got := w.count.Snapshot().Sub(before)
	b := w.mem.Bytes(name)
	t.Logf("%d syncs; the file has %d bytes", got.Syncs, len(b))
	if got.Syncs < 3+3*4 {
		t.Errorf("%d syncs: not in batches", got.Syncs)
	}
	if bytes.Contains(b, []byte("secret marker")) {
		t.Error("the removed content is still there")
	}
	w.check()
}

// What entries that stay share with removed ones is said in the summary.
func TestRemovingSharedContents(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	same := bytes.Repeat([]byte("s"), 1000)
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"a": same, "b": same, "c": same, "d": []byte("only here"), "e": {}})
	})
	remove := func(want int64, paths ...string) {
		t.Helper()
		s := w.change(func(tx *Tx) {
			for _, p := range paths {
				if err := tx.Remove(mustPath(p)); err != nil {
					t.Fatal(err)
				}
				delete(w.model, p)
			}
		})
		if s.SharedBytes != want {
			t.Errorf("removing %v: %d bytes are shared, want %d", paths, s.SharedBytes, want)
		}
		w.check()
	}
	remove(0, "d", "e")
	remove(1000, "a")
	remove(0, "b", "c")
}
