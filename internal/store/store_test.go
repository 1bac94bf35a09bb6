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
	model map[string][]byte // nil: a directory
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
	e := index.Entry{Path: mustPath(path), Kind: index.File, Mode: 0o644, HasMtime: true, MtimeSec: 1e9, MtimeNsec: 7, Size: int64(len(data))}
	return Source{Entry: e, Open: func() (Reader, index.Entry, error) { return memSource{Reader: bytes.NewReader(data)}, e, nil }}
}

func dirSource(path string) Source {
	return Source{Entry: index.Entry{Path: mustPath(path), Kind: index.Dir, Mode: 0o755}}
}

func (w *world) create(c CreateOptions) {
	w.t.Helper()
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
	err := tx.Add(ctx, slices.Values(src), func(a Added) {
		if a.Err != nil {
			w.t.Errorf("%v: %v", a.Path, a.Err)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for p, d := range files {
		w.model[p] = d
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
		if want == nil {
			if e.Kind != index.Dir {
				w.t.Fatalf("%v: %v", e.Path, e.Kind)
			}
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
	if seen != len(w.model) {
		w.t.Fatalf("%d entries, want %d", seen, len(w.model))
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
	s, err := verify.Run(ctx, sized{bytes.NewReader(b)}, verify.Options{Full: true, Jobs: 1, Finding: func(f verify.Finding) {
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

// TestModel runs random operations, with reopening, against a map.
func TestModel(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			w := newWorld(t, seed, Options{Jobs: 1 + int(seed%3)})
			sector := int64(512)
			if seed%4 == 3 {
				sector = 4096
			}
			w.create(CreateOptions{Level: frames.Level(seed % 4), Sector: sector})
			for range 25 {
				w.change(func(tx *Tx) { w.randomOps(r, tx) })
				w.check()
			}
		})
	}
}

func (w *world) randomOps(r *rand.Rand, tx *Tx) {
	w.t.Helper()
	files := map[string][]byte{}
	touched := map[string]bool{}
	for range 1 + r.IntN(12) {
		p := fmt.Sprintf("d%d/f%d", r.IntN(4), r.IntN(30))
		n := []int{0, 1, 100, 1000, 3000, 20000, 100000, 200000, 700000}[r.IntN(9)]
		var d []byte
		switch r.IntN(4) {
		case 0:
			d = randomBytes(r, n)
		case 1:
			d = bytes.Repeat([]byte("x"), n) // equal contents
		default:
			d = textBytes(r, n)
		}
		files[p] = d
		touched[p] = true
	}
	var old []string
	for p := range w.model {
		if !touched[p] && w.model[p] != nil {
			old = append(old, p)
		}
	}
	slices.Sort(old)
	w.add(tx, files)
	r.Shuffle(len(old), func(i, j int) { old[i], old[j] = old[j], old[i] })
	for i, p := range old[:min(len(old), r.IntN(8))] {
		if i%2 == 0 {
			if err := tx.Remove(mustPath(p)); err != nil {
				w.t.Fatal(err)
			}
		} else {
			to := fmt.Sprintf("m%d/%x", r.IntN(3), r.Uint32())
			if err := tx.Move(mustPath(p), mustPath(to)); err != nil {
				w.t.Fatal(err)
			}
			w.model[to] = w.model[p]
		}
		delete(w.model, p)
	}
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
