package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// What was verified is read from the file again and not hashed again; what was not is hashed.
func TestEarnedTrust(t *testing.T) {
	w := newRawWorld(t)
	a := w.open(w.opt)
	f := w.file(a, "raw")
	for _, c := range []struct{ off, n, first int64 }{
		{0, 4096, 1},            // one block
		{4096, 8192, 2},         // whole ones
		{4000, 9000, 1},         // of four blocks, the last is new
		{20_000, 8192, 3},       // in part
		{24_000, 200_000, 48},   // of 50, the first two are known
		{1<<20 - 100, 200, 2},   // two frames
		{0, 2<<20 + 5000, 457},  // everything: 514 blocks
		{2 << 20, 5000, 0},      // the last frame
		{2<<20 + 4990, 10, 0},   // its end
		{12_345, 1_500_000, 0},  // most of two frames
		{0, 2<<20 + 5000, 0},    // all of it
		{1<<20 - 4096, 8192, 0}, // whole blocks of two frames
	} {
		if got, _ := w.read(f, c.off, c.n); int64(got) != c.first {
			t.Errorf("%d bytes at %d: %d blocks hashed, want %d", c.n, c.off, got, c.first)
		}
		if again, read := w.read(f, c.off, c.n); again != 0 || read != uint64(c.n) {
			t.Errorf("%d bytes at %d, again: %d blocks hashed and %d bytes read", c.n, c.off, again, read)
		}
	}
	small := w.file(a, "small")
	if n, _ := w.read(small, 100, 50); n != 1 {
		t.Errorf("a small frame: %d blocks hashed", n)
	}
	if n, read := w.read(small, 1000, 50); n != 0 || read != 50 {
		t.Errorf("a small frame, again: %d blocks hashed and %d bytes read", n, read)
	}
	before := a.Counters().BlocksVerified
	if n, err := f.CopyRange(ctx, io.Discard, 0, f.Size()); err != nil || n != f.Size() {
		t.Fatal(n, err)
	}
	if n := a.Counters().BlocksVerified - before; n != 0 {
		t.Errorf("a stream of what was read: %d blocks hashed", n)
	}
	// Another handle has verified nothing yet.
	if n, _ := w.read(w.file(w.open(w.opt), "raw"), 0, 1<<20); n != 256 {
		t.Errorf("another handle: %d blocks hashed of 256", n)
	}
}

// Where there is no trust, every read hashes what it touches.
func TestEveryReadVerifies(t *testing.T) {
	for name, o := range map[string]func(w *rawWorld){
		"by default":            func(w *rawWorld) { w.opt.Trust = Options{}.Trust },
		"without locks":         func(w *rawWorld) { w.opt.FS = dated{FS: w.opt.FS, at: &w.at, reading: &w.reading, noLocks: true} },
		"a file just changed":   func(w *rawWorld) { w.at.Store(time.Now().UnixNano()) },
		"a clock that is ahead": func(w *rawWorld) { w.at.Store(time.Now().Add(time.Hour).UnixNano()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRawWorld(t)
			o(w)
			f := w.file(w.open(w.opt), "raw")
			for range 3 {
				if n, _ := w.read(f, 10_000, 8192); n != 3 {
					t.Errorf("%d blocks hashed of 3", n)
				}
			}
		})
	}
}

// Rot is what a trusting handle does not see; it sees it as soon as trust is gone, whatever ends it.
func TestWhatEndsTrust(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(w *rawWorld, a *Archive)
		never bool // and it cannot be earned again
	}{
		"asked to": {end: func(w *rawWorld, a *Archive) { a.DropTrust() }},
		"time of change": {end: func(w *rawWorld, a *Archive) {
			w.at.Add(1)
			time.Sleep(2 * trustLook)
		}},
		"asked to while it is read": {end: func(w *rawWorld, a *Archive) {
			w.reading = func() {
				w.reading = nil
				a.DropTrust()
			}
		}},
		"size": {end: func(w *rawWorld, a *Archive) {
			f, _ := w.mem.Open("a.lbx", true)
			if _, err := f.WriteAt([]byte{0}, int64(len(w.mem.Bytes("a.lbx")))); err != nil {
				w.t.Fatal(err)
			}
			f.Close()
			time.Sleep(2 * trustLook)
		}},
		"another writer's commit": {never: true, end: func(w *rawWorld, a *Archive) {
			w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"new": []byte("new")}) })
			w.at.Add(1)
			time.Sleep(2 * trustLook)
		}},
		"damage found elsewhere": {end: func(w *rawWorld, a *Archive) {
			w.rot("raw2", 100_000)
			if _, err := w.file(a, "raw2").ReadAt(make([]byte, 10), 100_000); !errors.Is(err, format.ErrCorrupt) {
				w.t.Fatalf("damage: %v", err)
			}
		}},
		"damage found in bulk": {end: func(w *rawWorld, a *Archive) {
			w.rot("raw2", 100_000)
			e, err := a.Get(mustPath("raw2"))
			if err != nil {
				w.t.Fatal(err)
			}
			bad := 0
			err = a.Bulk(ctx, one(e), func(p Piece) error {
				if p.Err != nil {
					bad++
				}
				return nil
			})
			if err != nil || bad == 0 {
				w.t.Fatalf("%v, %d bad pieces", err, bad)
			}
		}},
		"a read that fails": {end: func(w *rawWorld, a *Archive) {
			if err := a.pread(make([]byte, 10), 1<<40, "test"); err == nil {
				w.t.Fatal("read past the end")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRawWorld(t)
			a := w.open(w.opt)
			f := w.file(a, "raw")
			w.read(f, 50_000, 8192)
			want := w.model["raw"][50_000:][:8192]
			w.rot("raw", 53_000)
			buf := make([]byte, 8192)
			if _, err := f.ReadAt(buf, 50_000); err != nil || bytes.Equal(buf, want) {
				t.Fatalf("%v: the block was verified or not read again", err)
			}
			c.end(w, a)
			for i := range buf {
				buf[i] = 0xAA
			}
			if n, err := f.ReadAt(buf, 50_000); !errors.Is(err, format.ErrCorrupt) || n != 0 {
				t.Fatalf("%d bytes read of a damaged block, %v", n, err)
			}
			if !bytes.Equal(buf, make([]byte, len(buf))) {
				t.Fatal("unverified bytes in the buffer")
			}
			// What is whole can be trusted anew, except by a handle of an older generation.
			w.read(f, 100_000, 8192)
			if n, _ := w.read(f, 100_000, 8192); (n != 0) != c.never {
				t.Errorf("%d blocks hashed, never again is %v", n, c.never)
			}
		})
	}
}

// Of a trusted block that is cut off nothing stays in the buffer.
func TestTrustedReadOfACutFile(t *testing.T) {
	w := newRawWorld(t)
	a := w.open(w.opt)
	f := w.file(a, "raw")
	w.read(f, 50_000, 8192)
	at := bytes.Index(w.mem.Bytes(name), w.model["raw"][53_000:53_100])
	w.reading = func() {
		w.reading = nil
		disk, err := w.mem.Open(name, true)
		if err != nil {
			t.Fatal(err)
		}
		defer disk.Close()
		if err := disk.Truncate(int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	buf := bytes.Repeat([]byte{0xAA}, 8192)
	if n, err := f.ReadAt(buf, 50_000); n != 0 || !errors.Is(err, format.ErrCorrupt) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if !bytes.Equal(buf, make([]byte, len(buf))) {
		t.Error("what was read before the end is in the buffer")
	}
}

// A scrub beside a handle bounds how long it can hand out what has rotted.
func TestScrubEndsTrust(t *testing.T) {
	w := newRawWorld(t)
	a := w.open(w.opt)
	f := w.file(a, "raw")
	w.read(f, 50_000, 8192)
	w.rot("raw", 53_000)
	buf := make([]byte, 8192)
	if _, err := f.ReadAt(buf, 50_000); err != nil {
		t.Fatalf("the block was verified again: %v", err)
	}
	disk, err := w.mem.Open(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	ctx, cancel := context.WithCancel(ctx)
	found := 0
	err = verify.Scrub(ctx, disk, verify.ScrubOptions{
		MaxAge: time.Hour,
		Damage: func(verify.Finding) { found++; a.DropTrust() },
		Pass:   func(verify.Pass) { cancel() },
		Hold:   func(ctx context.Context) (verify.Holder, error) { return Open(ctx, name, w.opt) },
	})
	if !errors.Is(err, context.Canceled) || found == 0 {
		t.Fatalf("%v, %d findings", err, found)
	}
	if _, err := f.ReadAt(buf, 50_000); !errors.Is(err, format.ErrCorrupt) || !bytes.Equal(buf, make([]byte, len(buf))) {
		t.Fatalf("after the scrub: %v", err)
	}
}

// A writer that moves on drops its trust. A File of the older generation trusts nothing: its frames may be
// wiped and written again while it reads.
func TestTrustEndsWithTheGeneration(t *testing.T) {
	w := newRawWorld(t)
	a, err := OpenWrite(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	commit := func(fn func(tx *Tx)) {
		t.Helper()
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		fn(tx)
		if _, err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	old, gone := w.file(a, "raw"), w.file(a, "raw2")
	for range 2 {
		w.read(old, 0, 8192)
		w.read(gone, 0, 8192)
	}
	if n, _ := w.read(gone, 0, 8192); n != 0 {
		t.Fatalf("a writer's second read hashed %d blocks", n)
	}
	commit(func(tx *Tx) { w.remove(tx, "raw2") })
	if n, _ := w.read(old, 0, 8192); n != 2 {
		t.Errorf("an older generation's file: %d blocks hashed of 2", n)
	}
	f := w.file(a, "raw")
	if n, _ := w.read(f, 0, 8192); n != 2 {
		t.Errorf("the first read in the new generation hashed %d blocks of 2", n)
	}
	if n, _ := w.read(f, 0, 8192); n != 0 {
		t.Errorf("the second read in the new generation hashed %d blocks", n)
	}
	if err := a.Tidy(); err != nil { // wipes what the removed file had
		t.Fatal(err)
	}
	buf := make([]byte, 8192)
	if _, err := gone.ReadAt(buf, 0); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("reading what was wiped: %v", err)
	}
}

// The handle reads the file that it opened, whatever becomes of its name; on the real system a change is seen.
func TestTrustOnTheRealSystem(t *testing.T) {
	t.Parallel()
	w := newRawWorld(t)
	file := t.TempDir() + "/a.lbx"
	a, err := Create(ctx, file, Options{}, CreateOptions{Level: frames.LevelNone})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.add(tx, map[string][]byte{"raw": w.model["raw"]})
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err = Open(ctx, file, Options{Trust: Earned}); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	f := w.file(a, "raw")
	w.read(f, 0, 8192)
	if n, _ := w.read(f, 0, 8192); n != 2 {
		t.Errorf("a file that was written just now is trusted: %d blocks hashed", n)
	}
	time.Sleep(trustSettle + 2*trustLook)
	w.read(f, 0, 8192)
	if n, _ := w.read(f, 0, 8192); n != 0 {
		t.Errorf("%d blocks hashed", n)
	}
	o, err := vfs.OS().Open(file, true)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.WriteAt([]byte{0}, 8000); err != nil { // in a page of a superblock copy that nothing reads
		t.Fatal(err)
	}
	time.Sleep(2 * trustLook)
	if n, _ := w.read(f, 0, 8192); n != 2 {
		t.Errorf("after a change %d blocks hashed of 2", n)
	}
}

func TestTrustIsBounded(t *testing.T) {
	tr := &trust{blocks: map[trustKey][]uint64{}}
	ref := func(n uint64) *frameRef {
		return &frameRef{Info: frames.Info{Number: n, BlockShift: 12, Stored: 1 << 20, Plain: 1 << 20}}
	}
	most := 0
	for n := range uint64(60_000) {
		tr.earn(ref(n), 0, 1<<20)
		if known, k := tr.next(ref(n), 0, 1<<20); !known || k != 1<<20 {
			t.Fatalf("frame %d was forgotten at once", n)
		}
		if most = max(most, len(tr.blocks)); tr.used > trustBytes || tr.used != len(tr.blocks)*(trustedFrame+32) {
			t.Fatalf("%d frames take %d bytes", len(tr.blocks), tr.used)
		}
	}
	if most < trustBytes/(trustedFrame+32)-1 || most == 60_000 {
		t.Errorf("at most %d frames were remembered", most)
	}
	if known, k := tr.next(ref(0), 5000, 10_000); known || k != 10_000 {
		t.Error("a frame of before it was full is remembered")
	}
}

// A trusted read allocates nothing, whatever its size.
func TestTrustedReadsAllocateNothing(t *testing.T) {
	w := newRawWorld(t)
	f := w.file(w.open(w.opt), "raw")
	for _, n := range []int{100, 8192, 1 << 20, 2 << 20} {
		buf := make([]byte, n)
		read := func() {
			if _, err := f.ReadAt(buf, 1000); err != nil {
				t.Fatal(err)
			}
		}
		read()
		if got := testing.AllocsPerRun(20, read); got >= 1 { // a look at the stamp now and then takes one
			t.Errorf("%v allocations for %d bytes", got, n)
		}
	}
}

// BenchmarkTrust compares the policies on blocks that were read before.
func BenchmarkTrust(b *testing.B) {
	file, _ := benchArchive(b, 1, 64<<20, false)
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		b.Fatal(err)
	}
	time.Sleep(trustSettle)
	for _, n := range []int{4096, 8192, 64 << 10, 1 << 20} {
		for _, policy := range []Trust{EveryRead, Earned} {
			b.Run(fmt.Sprintf("%d/%v", n, policy == Earned), func(b *testing.B) {
				a, err := Open(ctx, file, Options{Trust: policy})
				if err != nil {
					b.Fatal(err)
				}
				defer a.Close()
				e, err := a.Get(mustPath("dir000/file000000.go"))
				if err != nil {
					b.Fatal(err)
				}
				f, err := a.Open(&e)
				if err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, n)
				if _, err := f.CopyRange(ctx, io.Discard, 0, f.Size()); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
				for i := 0; b.Loop(); i++ {
					if _, err := f.ReadAt(buf, int64(i)*7919*4099%(f.Size()-int64(n))); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
