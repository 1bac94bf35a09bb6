package store

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// Canaries: how much work reading takes. A change that makes lockbox slow makes one of these fail first.

// work is what fn has a handle do.
func work(a *Archive, fn func()) Counters {
	before := a.Counters()
	fn()
	after := a.Counters()
	return Counters{
		Reads: after.Reads - before.Reads, BytesRead: after.BytesRead - before.BytesRead,
		NodesDecoded: after.NodesDecoded - before.NodesDecoded, FramesDecoded: after.FramesDecoded - before.FramesDecoded,
		BlocksVerified: after.BlocksVerified - before.BlocksVerified, BytesCopied: after.BytesCopied - before.BytesCopied,
	}
}

func mustOpen(t testing.TB, o Options) *Archive {
	t.Helper()
	a, err := Open(ctx, name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func mustGet(t testing.TB, a *Archive, path string) index.Entry {
	t.Helper()
	e, err := a.Get(mustPath(path))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustFile(t testing.TB, a *Archive, path string) *File {
	t.Helper()
	e := mustGet(t, a, path)
	f, err := a.Open(&e)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (w *world) readAt(f *File, off, n int64) {
	w.t.Helper()
	buf := make([]byte, n)
	if _, err := f.ReadAt(buf, off); err != nil && err != io.EOF || !bytes.Equal(buf, w.model[f.path][off:off+n]) {
		w.t.Fatalf("%s at %d: %v", f.path, off, err)
	}
}

// mixedWorld has two large files, one that compresses and one that does not, and 40 small ones.
func mixedWorld(t testing.TB) *world {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 1))
	files := map[string][]byte{"text": textBytes(r, 3<<20), "raw": randomBytes(r, 3<<20)}
	for i := range 40 {
		files[fmt.Sprintf("small%02d", i)] = textBytes(r, 900)
	}
	w.change(func(tx *Tx) { w.add(tx, files) })
	return w
}

// framesOf counts a content's frames and what is stored of them, tag tables included.
func framesOf(t testing.TB, f *File) (number int, stored, blocks uint64) {
	t.Helper()
	for _, r := range f.content.Runs {
		for k := range r.Frames() {
			ref, err := f.a.frame(f.v, r.Frame+k)
			if err != nil {
				t.Fatal(err)
			}
			number++
			stored += uint64(ref.Stored) + uint64(ref.TableSize(f.a.suite.TagSize()))
			blocks += uint64(ref.Blocks())
		}
	}
	return number, stored, blocks
}

// All windows of a text decode each frame once, whatever the order within a frame.
func TestCanaryWindows(t *testing.T) {
	w := mixedWorld(t)
	a := mustOpen(t, w.opt)
	f := mustFile(t, a, "text")
	n, _, _ := framesOf(t, f)
	c := work(a, func() {
		for off := int64(0); off < f.Size(); off += 8192 {
			w.readAt(f, off, 8192)
		}
	})
	if c.FramesDecoded != uint64(n) || c.BytesCopied != uint64(f.Size()) {
		t.Errorf("%d frames decoded of %d, %d bytes copied of %d", c.FramesDecoded, n, c.BytesCopied, f.Size())
	}
	if c := work(a, func() { w.readAt(f, 100_000, 8192) }); c.FramesDecoded+c.NodesDecoded+c.BytesRead != 0 {
		t.Errorf("a window of before: %+v", c)
	}
}

// A range of a raw file reads its blocks, and once the frame's table.
func TestCanaryRanges(t *testing.T) {
	w := mixedWorld(t)
	a := mustOpen(t, w.opt)
	f := mustFile(t, a, "raw")
	ref, err := a.frame(f.v, f.content.Runs[0].Frame)
	if err != nil {
		t.Fatal(err)
	}
	table := uint64(ref.TableSize(16))
	c := work(a, func() { w.readAt(f, 10_000, 8192) })
	if c.BlocksVerified != 3 || c.BytesRead < 3<<12 || c.BytesRead > 3<<12+table {
		t.Errorf("cold: %d blocks verified, %d bytes read beside a table of %d", c.BlocksVerified, c.BytesRead, table)
	}
	for _, x := range []struct{ off, n, blocks int64 }{{10_000, 8192, 3}, {500_000, 1, 1}, {8192, 8192, 2}, {4095, 2, 2}, {100_000, 700_000, 172}} {
		c := work(a, func() { w.readAt(f, x.off, x.n) })
		if c.BlocksVerified != uint64(x.blocks) || c.BytesRead != uint64(x.blocks)<<12 || c.NodesDecoded != 0 {
			t.Errorf("%d bytes at %d: %d blocks verified of %d, %d bytes read", x.n, x.off, c.BlocksVerified, x.blocks, c.BytesRead)
		}
	}
}

// One file of a pack decodes that pack, a second one nothing.
func TestCanaryPacks(t *testing.T) {
	w := mixedWorld(t)
	a := mustOpen(t, w.opt)
	one, other := mustFile(t, a, "small03"), mustFile(t, a, "small04")
	if one.content.Runs[0].Frame != other.content.Runs[0].Frame {
		t.Fatal("the files are not in one pack")
	}
	if c := work(a, func() { w.readAt(one, 0, 900) }); c.FramesDecoded != 1 || c.BlocksVerified != 1 {
		t.Errorf("the first file: %+v", c)
	}
	if c := work(a, func() { w.readAt(other, 0, 900) }); c.FramesDecoded != 0 || c.BytesRead != 0 {
		t.Errorf("the second file: %+v", c)
	}
}

// A stream decodes each frame once and reads each stored byte once, by whatever way it is read.
func TestCanaryStreams(t *testing.T) {
	w := mixedWorld(t)
	for _, path := range []string{"text", "raw"} {
		for name, read := range map[string]func(f *File) error{
			"copied serially":    func(f *File) error { f.a.opt.Jobs = 1; _, err := f.CopyRange(ctx, io.Discard, 0, f.Size()); return err },
			"copied in parallel": func(f *File) error { f.a.opt.Jobs = 3; _, err := f.CopyRange(ctx, io.Discard, 0, f.Size()); return err },
			"at once":            func(f *File) error { _, err := f.ReadAt(make([]byte, f.Size()), 0); return err },
			"in bulk": func(f *File) error {
				return f.a.Bulk(ctx, one(mustGet(t, f.a, path)), func(p Piece) error { return p.Err })
			},
		} {
			a := mustOpen(t, w.opt)
			f := mustFile(t, a, path)
			n, stored, blocks := framesOf(t, f)
			c := work(a, func() {
				if err := read(f); err != nil {
					t.Fatal(err)
				}
			})
			// Beside that a bulk read fetches what stands between neighbouring frames: headers and fill.
			if c.BytesRead < stored || c.BytesRead > stored+uint64(n)*(64+1024) || c.BlocksVerified != blocks {
				t.Errorf("%s %s: %d bytes read of %d, %d blocks verified of %d", path, name, c.BytesRead, stored, c.BlocksVerified, blocks)
			}
			if path == "text" && c.FramesDecoded != uint64(n) {
				t.Errorf("%s %s: %d frames decoded of %d", path, name, c.FramesDecoded, n)
			}
		}
	}
}

// Opening reads as much of ten entries as of 20,000 and decodes nothing; a lookup decodes one node a level.
func TestCanaryOpening(t *testing.T) {
	var opened []int64
	var heights []int
	for _, n := range []int{10, 20_000} {
		w := newWorld(t, 1, Options{})
		w.fill(n, 40)
		before := w.count.Snapshot()
		a := mustOpen(t, w.opt)
		seen := w.count.Snapshot().Sub(before)
		opened = append(opened, seen.BytesRead, seen.Reads)
		c := a.Counters()
		if c.NodesDecoded+c.FramesDecoded+c.BlocksVerified != 0 || int64(c.Reads) != seen.Reads || int64(c.BytesRead) != seen.BytesRead {
			t.Errorf("opening %d entries: %+v, %+v", n, c, seen)
		}
		in, err := a.Info()
		if err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("dir%04d/file%07d.txt", n/2/1000, n/2)
		if c := work(a, func() { mustGet(t, a, path) }); c.NodesDecoded != uint64(in.Heights[0]) || c.Reads != c.NodesDecoded {
			t.Errorf("a lookup among %d entries decoded %d nodes of a tree of height %d", n, c.NodesDecoded, in.Heights[0])
		}
		if c := work(a, func() { mustGet(t, a, path) }); c.NodesDecoded+c.Reads != 0 {
			t.Errorf("the lookup, again: %+v", c)
		}
		heights = append(heights, in.Heights[0])
	}
	// The commit block names the open packs, which ten entries have fewer of.
	if opened[2]-opened[0] > 256 || opened[1] != opened[3] || opened[0] > 40<<10 {
		t.Errorf("opening 10 and 20,000 entries: bytes and reads %d", opened)
	}
	if heights[0] == heights[1] {
		t.Errorf("heights %v show nothing", heights)
	}
}

// Reading everything in bulk decodes each frame once, and reads each stored byte once, for every number of workers.
func TestCanaryBulk(t *testing.T) {
	w := mixedWorld(t)
	for _, jobs := range []int{1, 4} {
		o := w.opt
		o.Jobs = jobs
		a := mustOpen(t, o)
		in, err := a.Info()
		if err != nil {
			t.Fatal(err)
		}
		c := work(a, func() {
			if err := a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error { return p.Err }); err != nil {
				t.Fatal(err)
			}
		})
		raw, _, blocks := framesOf(t, mustFile(t, a, "raw"))
		if c.FramesDecoded != in.Frames-uint64(raw) || c.BlocksVerified != c.FramesDecoded+blocks || c.BytesRead > in.FrameBytes+in.NodeBytes {
			t.Errorf("jobs %d: %+v of %d frames and %d bytes", jobs, c, in.Frames, in.FrameBytes+in.NodeBytes)
		}
	}
}

// What a read allocates has nothing to do with the number of bytes that it reads.
func TestCanaryAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("its pools forget buffers at random")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pools of buffers
	w := mixedWorld(t)
	a := mustOpen(t, w.opt)
	for _, path := range []string{"raw", "text"} {
		f := mustFile(t, a, path)
		buf := make([]byte, f.Size())
		for name, read := range map[string]func(n int64) error{
			"ReadAt":    func(n int64) error { _, err := f.ReadAt(buf[:n], 1000); return err },
			"CopyRange": func(n int64) error { _, err := f.CopyRange(ctx, io.Discard, 0, n); return err },
		} {
			for _, n := range []int64{100, 8192, 300_000, 2_900_000} {
				run := func() {
					if err := read(n); err != nil {
						t.Fatal(err)
					}
				}
				run() // fills caches and pools
				// Pools hold buffers for each processor, and other goroutines allocate too: a read on a processor
				// whose pool is still empty takes more. What a read needs itself shows in every one of them.
				objects, bytes := uint64(math.MaxUint64), uint64(math.MaxUint64)
				for range 10 {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					run()
					runtime.ReadMemStats(&after)
					objects = min(objects, after.Mallocs-before.Mallocs)
					bytes = min(bytes, after.TotalAlloc-before.TotalAlloc)
				}
				// The record of a frame of a text, 256 KiB of it, takes a few objects; a raw frame's stays.
				frames := uint64(0)
				if path == "text" {
					frames = uint64(n)>>18 + 1
				}
				if objects > 4+3*frames || bytes > 512+512*frames {
					t.Errorf("%s of %d bytes of %s: %d allocations, %d bytes", name, n, path, objects, bytes)
				}
			}
		}
	}
}
