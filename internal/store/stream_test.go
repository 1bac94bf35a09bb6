package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// hexText is text that compresses about twofold, in every part alike.
func hexText(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "%x %d of some words\n", r.Uint32(), r.IntN(1000))
	}
	return b.Bytes()[:n]
}

// smallFiles are files of several size classes, mixed, of which every third does not compress.
func smallFiles(n int) map[string][]byte {
	r := rand.New(rand.NewPCG(8, 8))
	files := map[string][]byte{}
	for i := range n {
		size := []int{700, 1500, 4096, 6000, 20_000}[i%5]
		if i/5%3 == 0 {
			files[fmt.Sprintf("dir/%04d", i)] = randomBytes(r, size)
		} else {
			files[fmt.Sprintf("dir/%04d", i)] = hexText(r, size)
		}
	}
	return files
}

func (w *world) copies(a *Archive, path string) {
	w.t.Helper()
	var b bytes.Buffer
	f := mustFile(w.t, a, path)
	if n, err := f.CopyRange(ctx, &b, 0, f.Size()); err != nil || n != f.Size() || !bytes.Equal(b.Bytes(), w.model[path]) {
		w.t.Fatalf("%s: %d bytes, %v", path, n, err)
	}
}

// Small files of raw packs, read one after the other, cost one read a pack once the first has shown that they are;
// read in any order they cost their own blocks. Either way every byte is right.
func TestStreamsThroughRawPacks(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(2, 2))
	files := map[string][]byte{}
	for i := range 128 {
		files[fmt.Sprintf("f%03d", i)] = randomBytes(r, 4096)
	}
	w.change(func(tx *Tx) { w.add(tx, files) })
	paths := slices.Sorted(mapKeys(files))
	a := mustOpen(t, w.opt)
	in, err := a.Info()
	if err != nil {
		t.Fatal(err)
	}
	if in.Frames < 4 || in.Frames > 16 {
		t.Fatalf("%d packs", in.Frames)
	}
	w.copies(a, paths[0]) // reads the nodes
	c := work(a, func() {
		for _, p := range paths {
			w.copies(a, p)
		}
	})
	if most := in.Frames + 4; c.Reads-c.NodesDecoded > most || c.BytesRead > in.FrameBytes+in.NodeBytes+16<<10 {
		t.Errorf("%d reads of %d bytes for %d packs of %d bytes", c.Reads-c.NodesDecoded, c.BytesRead, in.Frames, in.FrameBytes)
	}

	a = mustOpen(t, w.opt)
	slices.Reverse(paths)
	c = work(a, func() {
		for _, p := range paths {
			w.copies(a, p)
		}
	})
	if c.BytesRead > in.FrameBytes+in.NodeBytes+in.Frames*1024 {
		t.Errorf("backwards: %d bytes read of %d", c.BytesRead, in.FrameBytes)
	}
}

// Streams through several size classes, in order and in none, from one reader and from several, give the right
// bytes, and while a writer is slow the others go on.
func TestStreamsOfSmallFiles(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	w.change(func(tx *Tx) { w.add(tx, smallFiles(300)) })
	var paths []string
	for p, d := range w.model {
		if len(d) > 0 {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, cache := range []int64{1, 1 << 20} {
		o := w.opt
		o.CacheBytes = cache
		a := mustOpen(t, o)
		for _, p := range paths {
			w.copies(a, p)
		}
		r := rand.New(rand.NewPCG(uint64(cache), 1))
		for _, i := range r.Perm(len(paths)) {
			w.copies(a, paths[i])
		}
		// A stream into a pipe stands still in the middle of a pack that it has for itself.
		w.copies(a, paths[0])
		w.copies(a, paths[5])
		pr, pw := io.Pipe()
		done := make(chan error, 1)
		f := mustFile(t, a, paths[10])
		go func() {
			_, err := f.CopyRange(ctx, pw, 0, f.Size())
			done <- errors.Join(err, pw.Close())
		}()
		first := make([]byte, 1)
		if _, err := io.ReadFull(pr, first); err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			w.copies(a, p)
		}
		rest, err := io.ReadAll(pr)
		if err = errors.Join(err, <-done); err != nil || !bytes.Equal(append(first, rest...), w.model[paths[10]]) {
			t.Fatalf("the slow stream: %v", err)
		}
	}
}

// Windows far apart decode the heads of their frames; whatever is read afterwards, and in whatever order, is right.
func TestHeads(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(4, 4))
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"text": hexText(r, 3<<20)}) })
	unit := int64(unit(frames.LevelDefault))

	a := mustOpen(t, w.opt)
	f := mustFile(t, a, "text")
	n, _, _ := framesOf(t, f)
	at := 5*unit + 1000
	if c := work(a, func() { w.readAt(f, at, 8192) }); c.FramesDecoded != 1 {
		t.Errorf("a window: %+v", c)
	}
	of := f.last.Load()
	if len(of.plain) != frames.HeadSize {
		t.Fatalf("%d bytes decoded", len(of.plain))
	}
	for _, off := range []int64{at, 5 * unit, 5*unit + frames.HeadSize - 8192} {
		if c := work(a, func() { w.readAt(f, off, 8192) }); c.FramesDecoded+c.BytesRead != 0 {
			t.Errorf("in the head again, at %d: %+v", off, c)
		}
	}
	if c := work(a, func() { w.readAt(f, 5*unit+frames.HeadSize-1, 2) }); c.FramesDecoded != 1 {
		t.Errorf("past the head: %+v", c)
	}
	if c := work(a, func() { w.readAt(mustFile(t, a, "text"), at, 8192) }); c.FramesDecoded+c.BytesRead != 0 {
		t.Errorf("another reader, when all of the frame is there: %+v", c)
	}

	a = mustOpen(t, w.opt)
	f = mustFile(t, a, "text")
	c := work(a, func() {
		for off := int64(0); off < f.Size(); off += 8192 {
			w.readAt(f, off, 8192)
		}
	})
	if c.FramesDecoded != uint64(n) {
		t.Errorf("windows in a row decoded %d frames of %d", c.FramesDecoded, n)
	}
	for _, cache := range []int64{1, 300 << 10, 32 << 20} {
		o := w.opt
		o.CacheBytes = cache
		f := mustFile(t, mustOpen(t, o), "text")
		for range 300 {
			off := r.Int64N(f.Size())
			w.readAt(f, off, min(r.Int64N(20_000)+1, f.Size()-off))
		}
	}
}

// failing fails after n bytes.
type failing struct {
	n   int
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// A stream that many workers read ahead is in order, ends with the writer's error, with the context's, and at damage.
func TestParallelStreams(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 4})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(5, 5))
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"text": hexText(r, 12<<20), "raw": randomBytes(r, 12<<20)})
	})
	for _, path := range []string{"text", "raw"} {
		a := mustOpen(t, w.opt)
		w.copies(a, path)
		f := mustFile(t, a, path)
		var b bytes.Buffer
		if n, err := f.CopyRange(ctx, &b, 1_000_001, 9<<20); err != nil || n != 9<<20 || !bytes.Equal(b.Bytes(), w.model[path][1_000_001:1_000_001+9<<20]) {
			t.Errorf("%s: a range: %d bytes, %v", path, n, err)
		}
		if n, err := f.CopyRange(ctx, &b, f.Size()-10, 1<<40); err != nil || n != 10 {
			t.Errorf("%s: past the end: %d bytes, %v", path, n, err)
		}
		full := errors.New("full")
		if n, err := f.CopyRange(ctx, &failing{5 << 20, full}, 0, f.Size()); !errors.Is(err, full) || n > 5<<20 || n < 3<<20 {
			t.Errorf("%s: a writer that fails: %d bytes, %v", path, n, err)
		}
		stopped, cancel := context.WithCancel(ctx)
		n, err := f.CopyRange(stopped, writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }), 0, f.Size())
		if !errors.Is(err, context.Canceled) || n == 0 || n > rawUnit { // nothing is written after the chunk that ended it
			t.Errorf("%s: cancelled: %d bytes, %v", path, n, err)
		}
	}

	ref, err := mustOpen(t, w.opt).frame(mustOpen(t, w.opt).view(), mustFile(t, mustOpen(t, w.opt), "text").content.Runs[0].Frame+20)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(w.mem.Bytes(name))
	bad[ref.storedOff(16)+5000] ^= 1
	w.mem.Put(name, bad)
	for _, jobs := range []int{1, 2, 7} {
		o := w.opt
		o.Jobs = jobs
		f := mustFile(t, mustOpen(t, o), "text")
		var b bytes.Buffer
		n, err := f.CopyRange(ctx, &b, 0, f.Size())
		if !errors.Is(err, format.ErrCorrupt) || n != int64(b.Len()) || n > 20*256<<10 || !bytes.HasPrefix(w.model["text"], b.Bytes()) {
			t.Errorf("damage, %d jobs: %d bytes written, %v", jobs, n, err)
		}
		if jobs == 1 && n != 20*256<<10 {
			t.Errorf("%d bytes before the damage", n)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// In bulk a large raw file comes in parts; a damaged block costs the part that it lies in.
func TestBulkInParts(t *testing.T) {
	for _, jobs := range []int{1, 3} {
		w := newWorld(t, 1, Options{Jobs: jobs})
		w.create(CreateOptions{Level: frames.LevelDefault})
		raw := randomBytes(rand.New(rand.NewPCG(6, 6)), 3<<20+12_345)
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"one": raw, "same": raw}) })
		at := 1_500_000
		b := w.mem.Bytes(name)
		b[bytes.Index(b, raw[at:at+100])] ^= 1
		w.mem.Put(name, b)
		type part struct {
			path   string
			off, n int64
			bad    bool
		}
		parts := make(chan part, 1000)
		a := mustOpen(t, w.opt)
		err := a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error {
			if !bytes.HasPrefix(raw[p.Off:], p.Data) || p.Err != nil && !errors.Is(p.Err, format.ErrCorrupt) {
				t.Errorf("at %d: other bytes, or %v", p.Off, p.Err)
			}
			parts <- part{p.Entry.Path.String(), p.Off, int64(len(p.Data)), p.Err != nil}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		close(parts)
		got := map[string]int64{}
		for p := range parts {
			got[p.path] += p.n
			if p.bad && (int64(at) < p.off || int64(at) >= p.off+rawPiece) {
				t.Errorf("jobs %d: the part at %d is said to be damaged", jobs, p.off)
			}
		}
		for _, path := range []string{"one", "same"} {
			if lost := int64(len(raw)) - got[path]; lost <= 0 || lost > rawPiece {
				t.Errorf("jobs %d: %s has lost %d bytes", jobs, path, lost)
			}
		}
	}
}

// A leaf that does not verify costs the records in it; those in other leaves are found, before and after.
func TestRecordsGoOnPastDamage(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.fill(3000, 40)
	a := mustOpen(t, w.opt)
	var leaves []index.Ref
	var items []int
	err := index.Walk(a, index.Contents, a.view().tree(index.Contents), func(level int, ref index.Ref, n *index.Node, _, _ []byte) error {
		if level == 0 {
			leaves, items = append(leaves, ref), append(items, n.Len())
		}
		return nil
	})
	if err != nil || len(leaves) < 3 {
		t.Fatalf("%d leaves: %v", len(leaves), err)
	}
	b := w.mem.Bytes(name)
	b[leaves[1].Off+100] ^= 1
	w.mem.Put(name, b)

	a = mustOpen(t, w.opt)
	bad := 0
	for n := uint64(1); n <= 3000; n++ {
		if _, err := a.content(a.view(), n); errors.Is(err, format.ErrCorrupt) {
			bad++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if bad != items[1] {
		t.Errorf("%d records lost, %d stand in the leaf", bad, items[1])
	}
	bad = 0
	err = a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error {
		if p.Err != nil {
			bad++
		}
		return nil
	})
	if err != nil || bad != items[1] {
		t.Errorf("in bulk %d files lost, %d stand in the leaf: %v", bad, items[1], err)
	}
}
