package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

var ctx = context.Background()

// world is a file system with one archive in it, and a model of what the archive must hold. Its clean-up
// verifies the archive with the independent checker: every test is a test of integrity.
type world struct {
	t     testing.TB
	mem   *vfs.MemFS
	count *vfs.Counts
	opt   Options
	suite format.Suite
	model map[string][]byte      // nil: not a file
	meta  map[string]index.Entry // nil, or every entry of the model, but for the number of its content
}

const name = "a.lbx"

func newWorld(t testing.TB, seed uint64, o Options) *world {
	w := &world{t: t, mem: vfs.Mem(), opt: o, model: map[string][]byte{}}
	fsys, count := vfs.Counting(w.mem)
	w.opt.FS, w.count = fsys, count
	if w.opt.Entropy == nil {
		w.opt.Entropy = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	}
	return w
}

func mustPath(s string) pathsafe.Path {
	p, err := pathsafe.Parse(s)
	if err != nil {
		panic(err)
	}
	return p
}

type memSource struct {
	*bytes.Reader
	check func() error
}

func (m memSource) Close() error { return nil }
func (m memSource) Check() error {
	if m.check != nil {
		return m.check()
	}
	return nil
}

func fileSource(path string, data []byte) Source {
	return source(index.Entry{Path: mustPath(path), Kind: index.File, Mode: 0o644, HasMtime: true, MtimeSec: 1e9, MtimeNsec: 7, Size: int64(len(data))}, data)
}

// source offers an entry, and data when it is a file.
func source(e index.Entry, data []byte) Source {
	if e.Kind != index.File {
		return Source{Entry: e}
	}
	return Source{Entry: e, Open: func() (Reader, index.Entry, error) { return memSource{Reader: bytes.NewReader(data)}, e, nil }}
}

func dirSource(path string) Source {
	return Source{Entry: index.Entry{Path: mustPath(path), Kind: index.Dir, Mode: 0o755}}
}

// createWith makes an archive of some sources in one transaction.
func createWith(t testing.TB, o Options, c CreateOptions, sources iter.Seq[Source]) {
	t.Helper()
	a, err := Create(ctx, name, o, c)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err == nil {
		err = tx.Add(ctx, sources, nil)
	}
	if err == nil {
		_, err = tx.Commit(ctx)
	}
	if err := errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
}

func (w *world) create(c CreateOptions) {
	w.t.Helper()
	Protect(&w.opt, &c, w.suite)
	a, err := Create(ctx, name, w.opt, c)
	if err != nil {
		w.t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		w.t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// change runs one transaction in a handle of its own.
func (w *world) change(fn func(*Tx)) Summary {
	w.t.Helper()
	a, err := OpenWrite(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	fn(tx)
	s, err := tx.Commit(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) add(tx *Tx, files map[string][]byte) {
	w.t.Helper()
	var src []Source
	for _, p := range slices.Sorted(mapKeys(files)) {
		if files[p] == nil {
			src = append(src, dirSource(p))
		} else {
			src = append(src, fileSource(p, files[p]))
		}
	}
	w.addSources(tx, src, files)
}

// addSources adds sources whose bytes, where they are files, are data's.
func (w *world) addSources(tx *Tx, src []Source, data map[string][]byte) {
	w.t.Helper()
	err := tx.Add(ctx, slices.Values(src), func(a Added) {
		if a.Err != nil {
			w.t.Errorf("%v: %v", a.Path, a.Err)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range src {
		p := s.Entry.Path.String()
		if to := s.LinkTo.String(); to != "" {
			e := w.meta[to]
			e.Path = s.Entry.Path
			if w.model[p] = w.model[to]; w.meta != nil {
				w.meta[p] = e
			}
			continue
		}
		w.model[p] = data[p]
		if w.meta != nil {
			w.meta[p] = s.Entry
		}
	}
}

func (w *world) remove(tx *Tx, p string) {
	w.t.Helper()
	if err := tx.Remove(mustPath(p)); err != nil {
		w.t.Fatal(err)
	}
	delete(w.model, p)
	delete(w.meta, p)
}

func (w *world) move(tx *Tx, from, to string) {
	w.t.Helper()
	if err := tx.Move(mustPath(from), mustPath(to)); err != nil {
		w.t.Fatal(err)
	}
	w.model[to] = w.model[from]
	delete(w.model, from)
	if w.meta != nil {
		e := w.meta[from]
		e.Path = mustPath(to)
		w.meta[to] = e
		delete(w.meta, from)
	}
}

func mapKeys[K comparable, V any](m map[K]V) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// check compares the archive with the model, through every way of reading, and verifies it.
func (w *world) check() {
	w.t.Helper()
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	defer a.Close()
	seen := 0
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		seen++
		want, ok := w.model[e.Path.String()]
		if !ok {
			w.t.Fatalf("%v is in the archive, not in the model", e.Path)
		}
		if w.meta != nil {
			w.checkEntry(a, e)
		} else if (want == nil) != (e.Kind != index.File) {
			w.t.Fatalf("%v: %v", e.Path, e.Kind)
		}
		if want == nil {
			continue
		}
		f, err := a.Open(&e)
		if err != nil {
			w.t.Fatal(err)
		}
		got := make([]byte, f.Size())
		if _, err := f.ReadAt(got, 0); err != nil && err != io.EOF || !bytes.Equal(got, want) {
			w.t.Fatalf("%v: read %d bytes, want %d: %v", e.Path, len(got), len(want), err)
		}
	}
	if seen != len(w.model) || w.meta != nil && seen != len(w.meta) {
		w.t.Fatalf("%d entries, want %d, %d", seen, len(w.model), len(w.meta))
	}
	got := map[string][]byte{}
	var mu = make(chan struct{}, 1)
	err = a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error {
		mu <- struct{}{}
		defer func() { <-mu }()
		if p.Err != nil {
			return p.Err
		}
		b := got[p.Entry.Path.String()]
		if b == nil {
			b = make([]byte, p.Entry.Size)
			got[p.Entry.Path.String()] = b
		}
		copy(b[p.Off:], p.Data)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for p, want := range w.model {
		if want != nil && !bytes.Equal(got[p], want) {
			w.t.Fatalf("%s: bulk reading gave other bytes", p)
		}
	}
	w.verify()
}

func (w *world) verify() {
	w.t.Helper()
	b := w.mem.Bytes(name)
	s, err := verify.Run(ctx, sized{bytes.NewReader(b)}, verify.Options{Full: true, Jobs: 1, Unlock: w.opt.Unlock, Signers: w.opt.Signers, Finding: func(f verify.Finding) {
		w.t.Errorf("verify: %+v", f)
	}})
	if err != nil || s.Damaged > 0 {
		w.t.Fatalf("verify: %+v, %v", s, err)
	}
}

type sized struct{ *bytes.Reader }

func (s sized) Size() (int64, error) { return s.Reader.Size(), nil }

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func textBytes(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "line %d of some text that repeats itself, %d\n", r.IntN(100), r.IntN(1000))
	}
	return b.Bytes()[:n]
}

// TestModel runs random operations, with reopening, against a map: of the bytes of files and of all else that an
// entry says.
func TestModel(t *testing.T) {
	for i, k := range sixteen() {
		seed := uint64(i)
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("seed=%d, %v", seed, k), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			w := newWorld(t, seed, Options{Jobs: 1 + int(seed%3)})
			w.suite = k.suite
			w.meta = map[string]index.Entry{}
			sector := int64(512)
			if seed%3 == 2 {
				sector = 4096
			}
			w.create(CreateOptions{Level: k.level, Sector: sector, Padding: k.padding})
			kinds := map[index.Kind]bool{}
			for range 25 {
				w.change(func(tx *Tx) { w.randomOps(r, tx) })
				w.check()
				if size := int64(len(w.mem.Bytes(name))); size != k.padding.Size(size, sector) {
					t.Fatalf("the file has %d bytes with padding %v", size, k.padding)
				}
				for _, e := range w.meta {
					kinds[e.Kind] = true
				}
			}
			if len(kinds) != 6 {
				t.Errorf("not every kind of entry was stored: %v", kinds)
			}
		})
	}
}

func (w *world) randomOps(r *rand.Rand, tx *Tx) {
	w.t.Helper()
	data := map[string][]byte{}
	sources := map[string]Source{}
	for range 1 + r.IntN(14) {
		e := randomEntry(r)
		p := e.Path.String()
		delete(data, p)
		if e.Kind != index.File {
			sources[p] = source(e, nil)
			continue
		}
		d := randomData(r)
		e.Size = int64(len(d))
		e.Sparse = randomSparse(r, &e.Size)
		data[p] = expand(e.Sparse, d)
		sources[p] = source(e, d)
		if r.IntN(4) == 0 {
			e.LinkGroup = tx.NewLinkGroup()
			sources[p] = source(e, d)
			for range r.IntN(3) {
				// Its path comes after that of every other file.
				link := Source{Entry: index.Entry{Path: mustPath(fmt.Sprintf("l%d", r.IntN(8)))}, LinkTo: e.Path}
				sources[link.Entry.Path.String()] = link
			}
		}
	}
	for p, s := range sources {
		if to, ok := sources[s.LinkTo.String()]; !s.LinkTo.IsZero() && (!ok || to.Entry.LinkGroup == 0) {
			delete(sources, p) // what it was to be a link of was given another entry
		}
	}
	var old []string
	for p := range w.model {
		if _, touched := sources[p]; !touched {
			old = append(old, p)
		}
	}
	slices.Sort(old)
	var src []Source
	for _, p := range slices.Sorted(mapKeys(sources)) {
		src = append(src, sources[p])
	}
	w.addSources(tx, src, data)
	r.Shuffle(len(old), func(i, j int) { old[i], old[j] = old[j], old[i] })
	for i, p := range old[:min(len(old), r.IntN(8))] {
		if i%2 == 0 {
			w.remove(tx, p)
		} else {
			w.move(tx, p, fmt.Sprintf("m%d/%x", r.IntN(3), r.Uint32()))
		}
	}
}

// randomEntry makes an entry at one of few paths, one to five components deep. Only names that start with d are
// above others, and those are directories.
func randomEntry(r *rand.Rand) index.Entry {
	path := ""
	for range r.IntN(5) {
		path += fmt.Sprintf("d%d/", r.IntN(2))
	}
	e := index.Entry{Mode: uint32(r.IntN(0o10000)), MtimeSec: r.Int64() >> r.IntN(64), MtimeNsec: uint32(r.IntN(1e9))}
	if e.HasMtime = r.IntN(8) > 0; !e.HasMtime {
		e.MtimeSec, e.MtimeNsec = 0, 0
	}
	if e.HasOwner = r.IntN(2) == 0; e.HasOwner {
		e.UID, e.GID, e.User = uint64(r.IntN(70000)), uint64(r.IntN(200)), []string{"", "alice"}[r.IntN(2)]
	}
	switch k := r.IntN(14); {
	case k == 0:
		e.Kind = index.Symlink
		e.Target = []string{"f1", "../d0", "/abs/olute", "a \xff\n b"}[r.IntN(4)]
	case k == 1:
		e.Kind = index.FIFO
	case k == 2:
		e.Kind, e.HasDevice, e.Major, e.Minor = index.CharDevice, true, uint64(r.IntN(300)), uint64(r.IntN(3))
	case k == 3:
		e.Kind, e.HasDevice, e.Minor = index.BlockDevice, true, r.Uint64()>>1
	case k < 6:
		e.Kind = index.Dir
		e.Path = mustPath(path + fmt.Sprintf("d%d", r.IntN(2)))
		return e
	default:
		e.Kind = index.File
	}
	if r.IntN(6) == 0 {
		n := 1 + []int{20, 2000, r.IntN(32 << 10), 33 << 10, 150 << 10}[r.IntN(5)]
		e.Xattrs = []index.Xattr{{Name: "user.a", Value: randomBytes(r, n)}, {Name: "user.b\xff"}}
	}
	e.Path = mustPath(path + fmt.Sprintf("f%d", r.IntN(12)))
	return e
}

// randomData makes the bytes of a file: of every size that is stored in another way, with some contents equal.
func randomData(r *rand.Rand) []byte {
	n := []int{0, 1, 100, 1000, 3000, 20000, 100000, 200000, 700000}[r.IntN(9)]
	if n == 0 {
		return []byte{}
	}
	switch r.IntN(4) {
	case 0:
		return randomBytes(r, n)
	case 1:
		return bytes.Repeat([]byte("x"), n)
	}
	return textBytes(r, n)
}

func TestConflict(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.create(CreateOptions{Level: frames.LevelDefault})
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"a/b": []byte("x"), "c": []byte("y")}) })
	for _, bad := range []string{"a", "c/d", "a/b/e"} {
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Add(ctx, slices.Values([]Source{fileSource(bad, []byte("z"))}), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Commit(ctx); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", bad, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		w.check()
	}
}

func TestCreateRefusesExisting(t *testing.T) {
	w := newWorld(t, 1, Options{})
	w.create(CreateOptions{})
	if _, err := Create(ctx, name, w.opt, CreateOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

var _ = format.ErrCorrupt
