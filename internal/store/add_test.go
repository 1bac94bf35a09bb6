package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// reader gives a source's bytes in pieces of odd sizes, as pipes do.
type reader struct {
	io.Reader
	check error
	close func()
}

func (r *reader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 70_001)]) }
func (r *reader) Check() error               { return r.check }
func (r *reader) Close() error {
	if r.close != nil {
		r.close()
	}
	return nil
}

// mixedSources has files of every way through the pipeline: packed, read whole by a worker, read in parts, of
// unknown size, equal to others, of another size than was said, changing once or always, unreadable.
func mixedSources(r *rand.Rand) []Source {
	var all []Source
	add := func(said int64, open func(try int) (*reader, int64, error)) {
		e := index.Entry{Path: mustPath(fmt.Sprintf("f%04d", len(all))), Kind: index.File, Mode: 0o644, Size: said}
		var tries atomic.Int32
		all = append(all, Source{Entry: e, NoDedup: len(all)%7 == 3, Open: func() (Reader, index.Entry, error) {
			rd, size, err := open(int(tries.Add(1)))
			now := e
			now.Size = size
			return rd, now, err
		}})
	}
	plain := func(b []byte, said int64) {
		add(said, func(int) (*reader, int64, error) {
			return &reader{Reader: bytes.NewReader(b)}, int64(len(b)), nil
		})
	}
	sizes := []int{0, 1, 1000, 1000, 9000, smallMax, smallMax + 1, baseUnit, baseUnit + 1, rawUnit, 3*rawUnit + 5, wholeMax, wholeMax + 1}
	for _, n := range sizes {
		random, text := randomBytes(r, n), textBytes(r, n)
		mixed := slices.Concat(random[:n/2], text[n/2:])
		plain(random, int64(n))
		plain(text, int64(n))
		plain(mixed, int64(n))
		plain(text, int64(n))           // equal to another one
		plain(random, int64(max(n, 1))) // and one that takes another way
		plain(mixed, -1)
		add(int64(n), func(try int) (*reader, int64, error) { // holds still when it is read again
			rd := &reader{Reader: bytes.NewReader(mixed)}
			if try == 1 {
				rd.check = errors.New("not yet")
			}
			return rd, int64(n), nil
		})
		add(int64(n), func(try int) (*reader, int64, error) { // always ends early
			return &reader{Reader: bytes.NewReader(text[:n-n/3])}, int64(n + 1), nil
		})
		add(int64(n), func(int) (*reader, int64, error) { return nil, 0, errors.New("cannot be opened") })
	}
	// Those whose size was said wrong change their way when they are opened.
	for _, n := range []int{500, smallMax * 2, wholeMax + 77} {
		b := textBytes(r, n)
		plain(b, 10)
		plain(b, smallMax*3)
		plain(b, wholeMax*2)
	}
	return all
}

// The archive's bytes and what is said of each source are the same for every number of workers.
func TestSameBytesForEverySource(t *testing.T) {
	levels := []frames.Level{frames.LevelNone, frames.LevelDefault, frames.LevelBest}
	if testing.Short() {
		levels = levels[1:2]
	}
	for _, level := range levels {
		var want []byte
		var wantSaid []string
		for _, jobs := range []int{1, 2, 5} {
			w := newWorld(t, 7, Options{Jobs: jobs})
			w.create(CreateOptions{Level: level})
			var said []string
			for range 2 { // the second time against what is stored
				w.change(func(tx *Tx) {
					err := tx.Add(ctx, slices.Values(mixedSources(rand.New(rand.NewPCG(3, 3)))), func(a Added) {
						said = append(said, fmt.Sprint(a.Path, a.Bytes, a.Deduplicated, a.Err))
					})
					if err != nil {
						t.Fatal(err)
					}
				})
			}
			w.verify()
			got := w.mem.Bytes(name)
			if want == nil {
				want, wantSaid = got, said
			}
			if !bytes.Equal(got, want) {
				t.Errorf("level %d: %d workers gave other bytes", level, jobs)
			}
			if !slices.Equal(said, wantSaid) {
				t.Errorf("level %d: %d workers: %q, want %q", level, jobs, said, wantSaid)
			}
		}
	}
}

// No more bytes are read ahead of the one who places them than the budget allows.
func TestBytesInFlight(t *testing.T) {
	const jobs = 2
	w := newWorld(t, 1, Options{Jobs: jobs})
	w.create(CreateOptions{Level: frames.LevelNone})
	var mu sync.Mutex
	var now, most int64
	data := randomBytes(rand.New(rand.NewPCG(1, 1)), 3<<20)
	var src []Source
	for i := range 40 {
		s := fileSource(fmt.Sprintf("f%02d", i), append(data[:len(data)-1:len(data)-1], byte(i)))
		open := s.Open
		s.Open = func() (Reader, index.Entry, error) {
			mu.Lock()
			defer mu.Unlock()
			now += int64(len(data))
			most = max(most, now)
			return open()
		}
		src = append(src, s)
	}
	w.change(func(tx *Tx) {
		err := tx.Add(ctx, slices.Values(src), func(a Added) {
			mu.Lock()
			defer mu.Unlock()
			now -= a.Bytes
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d bytes were in flight", most)
	if most > inFlight(jobs) {
		t.Errorf("%d bytes were in flight, %d are allowed", most, inFlight(jobs))
	}
	if most < 2*int64(len(data)) {
		t.Errorf("%d bytes were in flight: nothing was read ahead", most)
	}
	w.verify()
}

// A source whose content stays is not opened; what else is new of it is stored.
func TestContentStays(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 2})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 1))
	same := textBytes(r, 900)
	files := map[string][]byte{"a": same, "b": same, "c": {}, "d": randomBytes(r, 400_000), "e": textBytes(r, 800)}
	w.change(func(tx *Tx) { w.add(tx, files) })
	again := func(mode uint32) (said []Added, sum Summary) {
		t.Helper()
		a, err := Open(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		var src []Source
		for _, p := range slices.Sorted(mapKeys(files)) {
			old, err := a.Get(mustPath(p))
			if err != nil {
				t.Fatal(err)
			}
			s := Source{Entry: fileSource(p, files[p]).Entry, Stored: &old,
				Open: func() (Reader, index.Entry, error) { return nil, index.Entry{}, errors.New("it was opened") }}
			s.Entry.Mode, s.Entry.Size = mode, 12345
			src = append(src, s)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		sum = w.change(func(tx *Tx) {
			if err := tx.Add(ctx, slices.Values(src), func(a Added) { said = append(said, a) }); err != nil {
				t.Fatal(err)
			}
		})
		return said, sum
	}
	gen := w.change(func(*Tx) {}).Generation
	said, sum := again(0o644)
	for _, a := range said {
		if !a.Unchanged || a.Err != nil || a.Bytes != int64(len(files[a.Path.String()])) {
			t.Errorf("%+v: want unchanged", a)
		}
	}
	if len(said) != len(files) || sum.Generation != gen || sum.Replaced != 0 || sum.PlainBytes != 0 {
		t.Errorf("nothing differs, but %+v, %v", sum, said)
	}
	said, sum = again(0o600)
	for _, a := range said {
		if a.Unchanged || a.Err != nil {
			t.Errorf("%+v: want changed", a)
		}
	}
	if sum.Replaced != len(files) || sum.PlainBytes != 0 || sum.StoredBytes != 0 {
		t.Errorf("the modes differ, but %+v", sum)
	}
	w.check()
	// The references are right: what is shared stays while one entry has it.
	w.change(func(tx *Tx) {
		for _, p := range []string{"a", "d"} {
			w.remove(tx, p)
		}
	})
	w.check()
	w.change(func(tx *Tx) { w.remove(tx, "b") })
	w.check()
}

// A replaced or removed file in a large archive costs by what it shares its pack with, not by the archive.
func TestChangingOneOfMany(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	w := newWorld(t, 1, Options{})
	w.fill(n, 100)
	path := func(k int) string { i := n / 7 * k; return fmt.Sprintf("dir%04d/file%07d.txt", i/1000, i) }
	cost := func(what string, fn func(*Tx)) {
		t.Helper()
		before := w.count.Snapshot()
		w.change(fn)
		got := w.count.Snapshot().Sub(before)
		t.Logf("%s: %d syncs, %d bytes written, %d read", what, got.Syncs, got.BytesWritten, got.BytesRead)
		if got.Syncs > 9 || got.BytesWritten > 768<<10 || got.BytesRead > 1<<20 {
			t.Errorf("%s: %d syncs, %d bytes written, %d read", what, got.Syncs, got.BytesWritten, got.BytesRead)
		}
	}
	for k := range 5 {
		cost("replace", func(tx *Tx) {
			if err := tx.Add(ctx, slices.Values([]Source{fileSource(path(k), []byte(fmt.Sprint("new ", k)))}), nil); err != nil {
				t.Fatal(err)
			}
		})
		cost("remove", func(tx *Tx) {
			if err := tx.Remove(mustPath(path(k + 1))); err != nil {
				t.Fatal(err)
			}
		})
	}
	w.verify()
}

// What a transaction remembers of each entry is bounded: a million of them must fit into 256 MiB together with
// everything else.
func TestMemoryOfManyEntries(t *testing.T) {
	const n = 200_000
	w := newWorld(t, 1, Options{Jobs: 2})
	w.create(CreateOptions{Level: frames.LevelDefault})
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var before, after int64
	w.change(func(tx *Tx) {
		before = live()
		if err := tx.Add(ctx, manyFiles(n, 40), nil); err != nil {
			t.Fatal(err)
		}
		if err := tx.drain(); err != nil {
			t.Fatal(err)
		}
		after = live() - int64(len(w.mem.Bytes(name)))
	})
	each := (after - before) / n
	t.Logf("%d bytes for an entry", each)
	if each > 220 {
		t.Errorf("%d bytes are kept for each entry", each)
	}
	w.verify()
}

func TestChunked(t *testing.T) {
	var l chunked[int]
	for i := range 3<<chunkShift + 5 {
		if l.len() != i {
			t.Fatalf("length %d, want %d", l.len(), i)
		}
		l.add(i)
	}
	*l.at(7)++
	sum := 0
	for i, v := range l.all() {
		if want := i; *v != want && !(i == 7 && *v == 8) {
			t.Fatalf("element %d is %d", i, *v)
		}
		sum++
	}
	if sum != l.len() {
		t.Fatalf("%d elements, want %d", sum, l.len())
	}
	var a arena
	var at []uint64
	for i := range 5000 {
		at = append(at, a.add(bytes.Repeat([]byte{byte(i)}, i*37%9000)))
	}
	at = append(at, a.add(make([]byte, 2*arenaChunk)))
	for i := range 5000 {
		if got := a.at(at[i], i*37%9000); !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, i*37%9000)) {
			t.Fatalf("piece %d has changed", i)
		}
	}
	if len(a.at(at[5000], 2*arenaChunk)) != 2*arenaChunk {
		t.Fatal("a large piece was cut")
	}
}

// Contents are found by their digests, whichever share a slot, and not when nothing refers to them.
func TestDuplicates(t *testing.T) {
	var l chunked[newContent]
	var d duplicates
	r := rand.New(rand.NewPCG(1, 1))
	digest := func(i int) (h format.Digest) {
		h[0], h[20], h[21] = byte(i%5), byte(i), byte(i>>8) // few slots for many
		return h
	}
	for i := range 3000 {
		h := digest(i)
		if at, ok := d.find(&l, &h, 9); ok {
			t.Fatalf("content %d was found at %d before it was there", i, at)
		}
		l.add(newContent{digest: h, size: 9, refs: uint32(r.IntN(2))})
		d.add(&l, i)
	}
	for i := range 3000 {
		h := digest(i)
		at, ok := d.find(&l, &h, 9)
		if want := l.at(i).refs > 0; ok != want || ok && at != i {
			t.Fatalf("content %d: %d, %v", i, at, ok)
		}
		if _, ok := d.find(&l, &h, 10); ok {
			t.Fatal("found with another size")
		}
	}
}

// Sources that end because the context has ended are not all that was to be stored.
func TestAddSaysThatItWasCutShort(t *testing.T) {
	for _, jobs := range []int{1, 2} {
		w := newWorld(t, 1, Options{Jobs: jobs})
		w.create(CreateOptions{})
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithCancel(ctx)
		placed := make(chan struct{}, 1)
		err = tx.Add(short, func(yield func(Source) bool) {
			if yield(dirSource("first")) {
				if jobs > 1 {
					<-placed
				}
				cancel()
			}
		}, func(Added) { placed <- struct{}{} })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%d jobs: %v", jobs, err)
		}
		if _, err := tx.Commit(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%d jobs: a part of the sources was committed: %v", jobs, err)
		}
		if err := errors.Join(tx.Rollback(), a.Close()); err != nil {
			t.Fatal(err)
		}
		w.check()
	}
}
