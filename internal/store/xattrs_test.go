package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

func largeSet(r *rand.Rand, n int) []index.Xattr {
	return []index.Xattr{{Name: "user.large", Value: randomBytes(r, n)}}
}

// withReader calls fn with the archive open for reading, and verifies it.
func (w *world) withReader(fn func(a *Archive)) {
	w.t.Helper()
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	defer a.Close()
	fn(a)
	w.verify()
}

// contents is the number of contents in the archive.
func (w *world) contents() (n uint64) {
	w.t.Helper()
	w.withReader(func(a *Archive) { n = a.cur.tree(index.Contents).Count })
	return n
}

// A large set of extended attributes is stored once for all who have it, and goes with the last of them, whatever
// becomes of the entries.
func TestLargeXattrs(t *testing.T) {
	for _, size := range []int{33 << 10, 200 << 10, 1<<20 - 100} {
		r := rand.New(rand.NewPCG(1, uint64(size)))
		w := newWorld(t, 1, Options{Jobs: 2})
		w.create(CreateOptions{Level: frames.LevelDefault})
		set, other := largeSet(r, size), largeSet(r, size)
		put := func(path string, xs []index.Xattr, stored bool) (s Summary) {
			return w.change(func(tx *Tx) {
				src := fileSource(path, []byte("data of "+path))
				e := src.Entry
				e.Xattrs = xs
				src = source(e, []byte("data of "+path))
				if stored {
					old, err := tx.a.Get(e.Path)
					if err != nil {
						t.Fatal(err)
					}
					src.Stored = &old
				}
				w.addMeta(tx, src)
			})
		}
		has := func(path string, want []index.Xattr) {
			t.Helper()
			w.withReader(func(a *Archive) {
				e, err := a.Get(mustPath(path))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := a.Xattrs(ctx, &e); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %d attributes, %v", path, len(got), err)
				}
			})
		}
		put("a", set, false)
		put("b", set, false)
		if n := w.contents(); n != 3 {
			t.Errorf("%d contents, of two files and one set", n)
		}
		gen := put("c", set, false).Generation
		if kept := put("c", set, true); kept.Generation != gen {
			t.Error("keeping what is there changes the archive")
		}
		if again := put("c", set, false); again.Generation != gen {
			t.Error("adding the same again changes the archive")
		}
		put("c", other, true)
		has("c", other)
		has("a", set)
		put("c", set, true)
		put("a", nil, true)
		has("a", nil)
		w.change(func(tx *Tx) {
			if err := errors.Join(tx.Move(mustPath("b"), mustPath("d")), tx.Remove(mustPath("a"))); err != nil {
				t.Fatal(err)
			}
		})
		has("d", set)
		if sum := w.change(func(tx *Tx) { w.remove(tx, "d") }); sum.SharedBytes < int64(size) {
			t.Errorf("%d bytes are said to be shared", sum.SharedBytes)
		}
		if has("c", set); w.contents() != 2 {
			t.Errorf("%d contents, of a file and a set", w.contents())
		}
		w.change(func(tx *Tx) { w.remove(tx, "c") })
		if n := w.contents(); n != 0 || bytes.Contains(w.mem.Bytes(name), set[0].Value[1000:1032]) {
			t.Errorf("%d contents are left of nothing, or bytes of one", n)
		}
	}
}

// What cannot be stored leaves nothing behind that nobody refers to.
func TestUnstorable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	w := newWorld(t, 1, Options{Jobs: 2})
	w.create(CreateOptions{Level: frames.LevelDefault})
	file := func(path string, change func(*index.Entry)) Source {
		data := randomBytes(r, 3000)
		e := index.Entry{Path: mustPath(path), Kind: index.File, Size: 3000}
		change(&e)
		return source(e, data)
	}
	many := make([]index.SparseRun, 0, 20_000)
	for range 19_000 {
		many = append(many, index.SparseRun{Data: 200, Hole: 200})
	}
	sources := []Source{
		file("user", func(e *index.Entry) { e.User = strings.Repeat("u", 2000); e.Xattrs = largeSet(r, 40<<10) }),
		file("map", func(e *index.Entry) { e.Size, e.Sparse = 4000, []index.SparseRun{{Data: 3000, Hole: 2000}} }),
		file("negative", func(e *index.Entry) { e.Sparse = []index.SparseRun{{Data: 3000, Hole: -1}, {Data: 0, Hole: 1}} }),
		file("beyond", func(e *index.Entry) { e.Sparse = []index.SparseRun{{Data: 0, Hole: 5000}} }),
		file("long map", func(e *index.Entry) { e.Size, e.Sparse = 19_000*400, many }),
		file("attributes", func(e *index.Entry) { e.Xattrs = largeSet(r, 1<<20) }),
		file("order", func(e *index.Entry) {
			e.Xattrs = append(largeSet(r, 40<<10), index.Xattr{Name: "a", Value: []byte("x")})
		}),
		file("record", func(e *index.Entry) {
			e.Xattrs = largeSet(r, 30<<10)
			e.Unknown = append([]byte{200, 0x80, 0x80, 6}, make([]byte, 96<<10)...)
		}),
		{Entry: index.Entry{Path: mustPath("socket"), Kind: index.Socket}},
		{Entry: index.Entry{Path: mustPath("target"), Kind: index.Symlink, Target: strings.Repeat("t", 20<<10), Xattrs: largeSet(r, 40<<10)}},
	}
	left := 0
	w.change(func(tx *Tx) {
		err := tx.Add(ctx, slices.Values(sources), func(a Added) {
			// A map that disagrees with what was read may also look like a file that has changed.
			if errors.Is(a.Err, ErrUnstorable) || errors.Is(a.Err, ErrSourceChanged) {
				left++
				return
			}
			t.Errorf("%v: %v", a.Path, a.Err)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if n := w.contents(); left != len(sources) || n != 0 {
		t.Errorf("%d of %d were left out, and %d contents are left", left, len(sources), n)
	}
}

// Numbers of contents are the store's to give out; and what a record names is checked before it is believed.
func TestForgedXattrs(t *testing.T) {
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	w.change(func(tx *Tx) {
		w.addMeta(tx, fileSource("short", []byte("no attributes")), fileSource("long", make([]byte, index.MaxXattrsContent+1)),
			Source{Entry: index.Entry{Path: mustPath("claims"), Kind: index.Dir, Content: 1, XattrsContent: 1}})
	})
	w.withReader(func(a *Archive) {
		if e, err := a.Get(mustPath("claims")); err != nil || e.Content != 0 || e.XattrsContent != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		for path, want := range map[string]string{"short": "cut short", "long": "more than there may be"} {
			e, err := a.Get(mustPath(path))
			if err != nil {
				t.Fatal(err)
			}
			forged := index.Entry{Path: mustPath("forged"), Kind: index.Dir, XattrsContent: e.Content}
			if xs, err := a.Xattrs(ctx, &forged); xs != nil || !errors.Is(err, format.ErrCorrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", path, err)
			}
		}
		forged := index.Entry{Path: mustPath("forged"), Kind: index.Dir, XattrsContent: 99}
		if _, err := a.Xattrs(ctx, &forged); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("a content that does not exist: %v", err)
		}
	})
}
