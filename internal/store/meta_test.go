package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// expand puts holes into data.
func expand(runs []index.SparseRun, data []byte) []byte {
	if runs == nil {
		return data
	}
	whole := []byte{}
	for _, r := range runs {
		whole = append(append(whole, data[:r.Data]...), make([]byte, r.Hole)...)
		data = data[r.Data:]
	}
	return whole
}

// squeeze takes the holes out of a file's bytes.
func squeeze(runs []index.SparseRun, whole []byte) []byte {
	if runs == nil {
		return whole
	}
	data := []byte{}
	for _, r := range runs {
		data = append(data, whole[:r.Data]...)
		whole = whole[r.Data+r.Hole:]
	}
	return data
}

// randomSparse makes, mostly, no sparse map, or one for data of the given size, to which it adds the holes.
func randomSparse(r *rand.Rand, size *int64) []index.SparseRun {
	if r.IntN(4) > 0 {
		return nil
	}
	var runs []index.SparseRun
	for left, k := *size, 1+r.IntN(5); left > 0 || len(runs) == 0; k-- {
		run := index.SparseRun{Data: left, Hole: 1 + r.Int64N(100_000)}
		if k > 0 && left > 0 {
			run.Data = r.Int64N(left + 1)
		}
		if left -= run.Data; left == 0 && len(runs) > 0 && r.IntN(2) == 0 {
			run.Hole = 0
		}
		runs = append(runs, run)
	}
	runs = index.FitSparse(runs, index.MaxSparse)
	for _, run := range runs {
		*size += run.Hole
	}
	return runs
}

// checkEntry compares an entry, extended attributes and all, with the model's.
func (w *world) checkEntry(a *Archive, e index.Entry) {
	w.t.Helper()
	xs, err := a.Xattrs(ctx, &e)
	if err != nil {
		w.t.Fatal(err)
	}
	e.Xattrs, e.XattrsContent = xs, 0
	m := w.meta[e.Path.String()]
	if m.Content = e.Content; !reflect.DeepEqual(e, m) {
		w.t.Fatalf("%v is\n%+v, want\n%+v", e.Path, e, m)
	}
}

// A file of a terabyte with little in it is stored, read and copied without anybody reading its holes, whichever way
// its data goes; and equal data is stored once, with and without holes.
func TestSparseFile(t *testing.T) {
	const tib = int64(1) << 40
	r := rand.New(rand.NewPCG(1, 4))
	for _, n := range []int{0, 3000, 300_000, 9_000_000} {
		for _, jobs := range []int{1, 3} {
			w := newWorld(t, 1, Options{Jobs: jobs})
			w.create(CreateOptions{Level: frames.LevelDefault})
			data := textBytes(r, n)
			e := index.Entry{Path: mustPath("disk.img"), Kind: index.File, Size: tib}
			half := int64(n / 2)
			e.Sparse = index.FitSparse([]index.SparseRun{{Hole: 1000}, {Data: half, Hole: tib/2 - half - 1000}, {Data: int64(n) - half, Hole: tib/2 - int64(n) + half}}, index.MaxSparse)
			w.change(func(tx *Tx) { w.addMeta(tx, source(e, data), fileSource("dense", data)) })
			a, err := Open(ctx, name, w.opt)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			in, err := a.Info()
			if err != nil || in.PlainBytes != uint64(n) {
				t.Fatalf("%d bytes stored, want %d: %v", in.PlainBytes, n, err)
			}
			got, err := a.Get(e.Path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := a.Open(&got)
			if err != nil || f.Size() != tib {
				t.Fatal(err)
			}
			// Across each border of hole and data, and in the middle of the holes.
			for _, at := range []int64{0, 1000, 1000 + half, tib / 2, tib/2 + int64(n) - half, tib - 10} {
				lo, hi := max(at-700, 0), min(at+700, tib)
				p := bytes.Repeat([]byte("?"), int(hi-lo))
				if _, err := f.ReadAt(p, lo); err != nil {
					t.Fatal(err)
				}
				var copied bytes.Buffer
				if k, err := f.CopyRange(ctx, &copied, lo, hi-lo); err != nil || k != hi-lo {
					t.Fatal(k, err)
				}
				for i := range p {
					pos, want := lo+int64(i), byte(0)
					switch {
					case pos >= 1000 && pos < 1000+half:
						want = data[pos-1000]
					case pos >= tib/2 && pos < tib/2+int64(n)-half:
						want = data[pos-tib/2+half]
					}
					if p[i] != want || copied.Bytes()[i] != want {
						t.Fatalf("byte %d is %d and %d, want %d", pos, p[i], copied.Bytes()[i], want)
					}
				}
			}
			zeros := int64(0)
			if k, err := f.CopyRange(ctx, writerFunc(func(p []byte) (int, error) { zeros += int64(len(p)); return len(p), nil }), tib/4, 1<<32); err != nil || k != 1<<32 || zeros != k {
				t.Fatal(k, zeros, err)
			}
			var mu sync.Mutex
			pieces, bytesGiven := 0, 0
			err = a.Bulk(ctx, a.List(e.Path), func(p Piece) error {
				mu.Lock()
				defer mu.Unlock()
				pieces++
				bytesGiven += len(p.Data)
				for k, b := range p.Data {
					at := p.Off + int64(k)
					if at >= tib/2 {
						at += half - tib/2
					} else {
						at -= 1000
					}
					if data[at] != b {
						return fmt.Errorf("byte %d", p.Off+int64(k))
					}
				}
				return p.Err
			})
			if err != nil || bytesGiven != n || (n == 0) != (pieces == 1) {
				t.Fatalf("%d pieces with %d bytes: %v", pieces, bytesGiven, err)
			}
			w.verify()
		}
	}
}

// addMeta adds sources, all of which must be stored.
func (w *world) addMeta(tx *Tx, src ...Source) {
	w.t.Helper()
	err := tx.Add(ctx, slices.Values(src), func(a Added) {
		if a.Err != nil {
			w.t.Errorf("%v: %v", a.Path, a.Err)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Names of one file share all that is stored, also when that changes, and go their own ways afterwards.
func TestLinks(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 2})
	w.create(CreateOptions{Level: frames.LevelDefault})
	link := func(path, to string) Source {
		return Source{Entry: index.Entry{Path: mustPath(path)}, LinkTo: mustPath(to)}
	}
	first := func(tx *Tx, data string) Source {
		s := fileSource("a", []byte(data))
		e := s.Entry
		e.LinkGroup, e.Xattrs = tx.NewLinkGroup(), []index.Xattr{{Name: "user.x", Value: make([]byte, 50<<10)}}
		return source(e, []byte(data))
	}
	get := func(paths ...string) (es []index.Entry) {
		t.Helper()
		a, err := Open(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		for _, p := range paths {
			e, err := a.Get(mustPath(p))
			if err != nil {
				t.Fatal(err)
			}
			e.Path = pathsafe.Path{}
			es = append(es, e)
		}
		w.verify()
		return es
	}
	sum := w.change(func(tx *Tx) { w.addMeta(tx, first(tx, "one"), link("b", "a"), link("c", "a")) })
	es := get("a", "b", "c")
	if es[0].LinkGroup == 0 || !reflect.DeepEqual(es[0], es[1]) || !reflect.DeepEqual(es[0], es[2]) {
		t.Fatalf("%+v", es)
	}
	again := w.change(func(tx *Tx) { w.addMeta(tx, first(tx, "one"), link("b", "a"), link("c", "a")) })
	if again.Generation != sum.Generation {
		t.Error("adding the same again has changed the archive")
	}
	// Kept, by a caller who has seen that nothing changed.
	kept := w.change(func(tx *Tx) {
		a := tx.a
		stored := func(p string) *index.Entry {
			e, err := a.Get(mustPath(p))
			if err != nil {
				t.Fatal(err)
			}
			return &e
		}
		s, l := first(tx, "one"), link("c", "a")
		s.Stored, l.Stored = stored("a"), stored("c")
		n := 0
		err := tx.Add(ctx, slices.Values([]Source{s, l, link("d", "a")}), func(a Added) {
			if a.Err != nil || a.Unchanged != (a.Path.String() != "d") {
				t.Errorf("%+v", a)
			}
			n++
		})
		if err != nil || n != 3 {
			t.Fatal(n, err)
		}
	})
	if kept.Added != 1 || kept.Replaced != 0 {
		t.Errorf("%+v", kept)
	}
	if es = get("a", "d"); !reflect.DeepEqual(es[0], es[1]) {
		t.Fatalf("%+v", es)
	}
	// One is replaced alone, one moved, one removed.
	w.change(func(tx *Tx) {
		w.addMeta(tx, first(tx, "two"))
		if err := errors.Join(tx.Move(mustPath("b"), mustPath("moved")), tx.Remove(mustPath("c"))); err != nil {
			t.Fatal(err)
		}
	})
	if es = get("a", "moved", "d"); es[0].LinkGroup == es[1].LinkGroup || !reflect.DeepEqual(es[1], es[2]) {
		t.Fatalf("%+v", es)
	}
	// What is not read has names as well.
	pipe := func(tx *Tx) {
		e := index.Entry{Path: mustPath("pipe"), Kind: index.FIFO, Mode: 0o600, LinkGroup: tx.NewLinkGroup()}
		w.addMeta(tx, Source{Entry: e}, link("other pipe", "pipe"))
	}
	if gen := w.change(pipe).Generation; w.change(pipe).Generation != gen {
		t.Error("adding the same pipes again has changed the archive")
	}
	if es = get("pipe", "other pipe"); es[0].Kind != index.FIFO || !reflect.DeepEqual(es[0], es[1]) {
		t.Fatalf("%+v", es)
	}
	// A link of what was left out is left out, for the same reason; so is one of what was never offered.
	w.change(func(tx *Tx) {
		bad := Source{Entry: index.Entry{Path: mustPath("gone"), Kind: index.File, LinkGroup: tx.NewLinkGroup()}}
		bad.Open = func() (Reader, index.Entry, error) { return nil, index.Entry{}, io.ErrNoProgress }
		var errs []error
		err := tx.Add(ctx, slices.Values([]Source{bad, link("x", "gone"), link("y", "nothing")}), func(a Added) { errs = append(errs, a.Err) })
		if err != nil || len(errs) != 3 || !errors.Is(errs[0], io.ErrNoProgress) || !errors.Is(errs[1], io.ErrNoProgress) || !errors.Is(errs[2], ErrUnstorable) {
			t.Fatal(errs, err)
		}
	})
	// If it can be read under that name, it is stored as a file of its own, however large; so are all names of which that is true.
	for _, size := range []int64{5, -1} {
		w.change(func(tx *Tx) {
			bad := Source{Entry: index.Entry{Path: mustPath("gone"), Kind: index.File, LinkGroup: tx.NewLinkGroup()}}
			bad.Open = func() (Reader, index.Entry, error) { return nil, index.Entry{}, io.ErrNoProgress }
			there := fileSource(fmt.Sprintf("there%d", size), []byte("there"))
			there.Entry.Size, there.Entry.LinkGroup, there.LinkTo = size, 12345, mustPath("gone")
			n := 0
			err := tx.Add(ctx, slices.Values([]Source{bad, there}), func(a Added) {
				if (a.Err == nil) != (a.Path == there.Entry.Path) {
					t.Error(a.Path, a.Err)
				}
				n++
			})
			if err != nil || n != 2 {
				t.Fatal(n, err)
			}
		})
		if es = get(fmt.Sprintf("there%d", size)); es[0].LinkGroup != 0 || es[0].Size != 5 || es[0].Content == 0 {
			t.Errorf("%+v", es[0])
		}
	}
	w.verify()
}

// Numbers of link groups are never given out again; when there are none left, that is said.
func TestLinkGroupNumbers(t *testing.T) {
	tx := &Tx{gen: 5}
	if a, b := tx.NewLinkGroup(), tx.NewLinkGroup(); a != 5<<28 || b != a+1 {
		t.Error(a, b)
	}
	tx.groups = 1<<28 - 1
	if a, b := tx.NewLinkGroup(), tx.NewLinkGroup(); a != 6<<28-1 || b != 0 {
		t.Error(a, b)
	}
	for gen, want := range map[uint64]uint64{1<<35 - 1: (1<<35 - 1) << 28, 1 << 35: 0, maxGen: 0} {
		if n := (&Tx{gen: gen}).NewLinkGroup(); n != want {
			t.Errorf("generation %d: %d", gen, n)
		}
	}
}

// What opening a file says of its bytes counts, not what it says of the archive: also of a file that is read in place.
func TestOpeningSaysNothingOfTheArchive(t *testing.T) {
	for _, size := range []int64{3, -1} {
		w := newWorld(t, 1, Options{Jobs: 2})
		w.create(CreateOptions{Level: frames.LevelDefault})
		w.change(func(tx *Tx) {
			s := fileSource("a", []byte("one"))
			s.Entry.Size, s.Entry.LinkGroup = size, tx.NewLinkGroup()
			open := s.Open
			s.Open = func() (Reader, index.Entry, error) {
				r, e, err := open()
				e.LinkGroup, e.XattrsContent = 0, 77
				return r, e, err
			}
			err := tx.Add(ctx, slices.Values([]Source{s, {Entry: index.Entry{Path: mustPath("b")}, LinkTo: mustPath("a")}}), func(a Added) {
				if a.Err != nil {
					t.Error(a.Path, a.Err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		a, err := Open(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		one, err := a.Get(mustPath("a"))
		if err != nil {
			t.Fatal(err)
		}
		two, err := a.Get(mustPath("b"))
		if err != nil || one.LinkGroup == 0 || one.LinkGroup != two.LinkGroup || one.XattrsContent != 0 {
			t.Errorf("size %d: %+v and %+v, %v", size, one, two, err)
		}
	}
}

// Files with long maps of holes do not fill a batch: a small record may take a megabyte while its file is read.
func TestBulkIsBoundedByMaps(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	const runs, files = 20_000, 2000
	e := index.Entry{Path: mustPath("f"), Kind: index.File, Size: 2 * runs}
	for range runs {
		e.Sparse = append(e.Sparse, index.SparseRun{Data: 1, Hole: 1})
	}
	w.change(func(tx *Tx) { w.addMeta(tx, source(e, make([]byte, runs))) })
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	stored, err := a.Get(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	given := 0
	enough := errors.New("enough")
	err = a.Bulk(ctx, func(yield func(index.Entry, error) bool) {
		for range files {
			if given++; !yield(stored, nil) {
				return
			}
		}
	}, func(Piece) error { return enough })
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if given > files/10 {
		t.Errorf("%d files of %d holes each were taken in before one was read", given, runs)
	}
}
