package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// A hundred readers of one handle, whose cache is too small for any of them, get the right bytes: windows,
// streams, bulk, lookups and listings, with trust coming and going.
func TestConcurrentReaders(t *testing.T) {
	w := newRawWorld(t)
	r := rand.New(rand.NewPCG(1, 1))
	more := map[string][]byte{"long": textBytes(r, 700_000)}
	for i := range 60 {
		more[fmt.Sprintf("dir/small%02d", i)] = textBytes(r, 200+i*40)
	}
	o := w.opt
	w.opt.Trust = EveryRead
	w.change(func(tx *Tx) { w.add(tx, more) })
	o.CacheBytes, o.Jobs = 64<<10, 2
	a := w.open(o)
	var paths []string
	for p := range w.model {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	fail := make(chan error, 100)
	var readers sync.WaitGroup
	for id := range 100 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(id), 7))
			for range rounds {
				if err := w.reader(a, r, id, paths[r.IntN(len(paths))]); err != nil {
					fail <- fmt.Errorf("reader %d: %w", id, err)
					return
				}
			}
		})
	}
	readers.Wait()
	close(fail)
	for err := range fail {
		t.Error(err)
	}
	a.cache.mu.Lock()
	defer a.cache.mu.Unlock()
	loading := 0
	for _, it := range a.cache.m {
		if it.loading {
			loading++
		}
	}
	if a.cache.used > o.CacheBytes || loading > 0 {
		t.Errorf("the cache holds %d bytes of %d, %d loads are under way", a.cache.used, o.CacheBytes, loading)
	}
}

// reader reads a file in the way that belongs to its number.
func (w *rawWorld) reader(a *Archive, r *rand.Rand, id int, path string) error {
	e, err := a.Get(mustPath(path))
	if err != nil {
		return err
	}
	f, err := a.Open(&e)
	if err != nil {
		return err
	}
	want := w.model[path]
	switch id % 5 {
	case 0, 1: // windows
		buf := make([]byte, 8192)
		for range 10 {
			off := r.Int64N(f.Size())
			n, err := f.ReadAt(buf, off)
			if err != nil && err != io.EOF {
				return err
			}
			if !bytes.Equal(buf[:n], want[off:off+int64(n)]) {
				return errors.New("other bytes in a window")
			}
		}
	case 2: // a stream
		var b bytes.Buffer
		if _, err := f.CopyRange(ctx, &b, 0, f.Size()); err != nil {
			return err
		}
		if !bytes.Equal(b.Bytes(), want) {
			return errors.New("other bytes in a stream")
		}
	case 3: // in bulk
		return a.Bulk(ctx, a.List(mustPath("dir")), func(p Piece) error {
			if p.Err != nil {
				return p.Err
			}
			if !bytes.HasPrefix(w.model[p.Entry.Path.String()][p.Off:], p.Data) {
				return errors.New("other bytes in bulk")
			}
			return nil
		})
	case 4:
		n := 0
		for _, err := range a.List(pathsafe.Path{}) {
			if err != nil {
				return err
			}
			n++
		}
		if n != len(w.model) {
			return fmt.Errorf("%d entries listed of %d", n, len(w.model))
		}
		a.DropTrust()
	}
	return nil
}

// goroutines counts what runs while somebody else is called.
type goroutines struct {
	before int
	most   atomic.Int64
}

func countGoroutines() *goroutines { return &goroutines{before: runtime.NumGoroutine()} }

func (g *goroutines) look() {
	n := int64(runtime.NumGoroutine() - g.before)
	for old := g.most.Load(); n > old && !g.most.CompareAndSwap(old, n); old = g.most.Load() {
	}
}

func (g *goroutines) Write(p []byte) (int, error) { g.look(); return len(p), nil }

// With one job everything happens in the caller's goroutine; with more there are others.
func TestOneJobIsOneGoroutine(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 1))
	files := map[string][]byte{"raw": randomBytes(r, 4<<20), "text": textBytes(r, 4<<20)}
	for i := range 30 {
		files[fmt.Sprintf("small%02d", i)] = textBytes(r, 3000)
	}
	w.change(func(tx *Tx) { w.add(tx, files) })
	for what, run := range map[string]func(a *Archive, g *goroutines) error{
		"Bulk": func(a *Archive, g *goroutines) error {
			return a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error { g.look(); return p.Err })
		},
		"CopyRange of a text": func(a *Archive, g *goroutines) error {
			_, err := mustFile(t, a, "text").CopyRange(ctx, g, 0, 4<<20)
			return err
		},
		"CopyRange of a raw file": func(a *Archive, g *goroutines) error {
			_, err := mustFile(t, a, "raw").CopyRange(ctx, g, 0, 4<<20)
			return err
		},
		"CopyTo": func(a *Archive, g *goroutines) error {
			err := a.CopyTo(ctx, "copy.lbx", CopyOptions{Progress: func(int64, int64) { g.look() }})
			return errors.Join(err, w.mem.Remove("copy.lbx"))
		},
	} {
		for _, jobs := range []int{1, 3} {
			o := w.opt
			o.Jobs = jobs
			a := mustOpen(t, o)
			g := countGoroutines()
			if err := run(a, g); err != nil {
				t.Fatal(err)
			}
			// A stream's workers may be through before its first bytes are written.
			others, sure := g.most.Load(), jobs == 1 || what == "Bulk" || what == "CopyTo"
			if sure && (others > 0) != (jobs > 1) {
				t.Errorf("%s with %d jobs: %d goroutines beside the caller's", what, jobs, others)
			}
		}
	}
	// Adding: looked at while sources are read, between them, and when each is done.
	for _, jobs := range []int{1, 3} {
		o := w.opt
		o.Jobs = jobs
		a, err := OpenWrite(ctx, name, o)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		g := countGoroutines()
		sources := func(yield func(Source) bool) {
			for i := range 50 {
				s := fileSource(fmt.Sprintf("new%03d", i), randomBytes(r, 20_000))
				open := s.Open
				s.Open = func() (Reader, index.Entry, error) { g.look(); return open() }
				if g.look(); !yield(s) {
					return
				}
			}
		}
		if err := tx.Add(ctx, sources, func(Added) { g.look() }); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if others := g.most.Load(); (others > 0) != (jobs > 1) {
			t.Errorf("Add with %d jobs: %d goroutines beside the caller's", jobs, others)
		}
	}
}
