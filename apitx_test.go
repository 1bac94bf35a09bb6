package lockbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"lockbox"
)

func TestTransaction(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		put(t, tx, "a", "first")
		put(t, tx, "a", "second")
		put(t, tx, "d/x", "x")
		put(t, tx, "d/y", "y")
	})
	a := openWrite(t, name, lockbox.Options{})
	before, err := a.Root()
	must(t, err)

	tx, err := a.Begin(t.Context())
	must(t, err)
	_, err = a.Begin(t.Context())
	is(t, err, lockbox.ErrTransaction)
	put(t, tx, "new", "n")
	must(t, tx.Remove(t.Context(), "d"))
	if got := names(t, a, ""); !slices.Equal(got, []string{"a", "d/x", "d/y"}) {
		t.Errorf("what is not committed shows: %v", got)
	}
	must(t, tx.Rollback())
	must(t, tx.Rollback())
	if err := tx.PutBytes(t.Context(), file("late"), nil); err == nil {
		t.Error("a transaction that has ended takes a file")
	}
	after, err := a.Root()
	must(t, err)
	if before != after {
		t.Error("a rollback has changed the root")
	}
	sum := change(t, a, func(tx *lockbox.Tx) {
		put(t, tx, "new", "n")
		must(t, tx.Remove(t.Context(), "a"))
		must(t, tx.Rename(t.Context(), "d", "e/f"))
	})
	if got := names(t, a, ""); !slices.Equal(got, []string{"e/f/x", "e/f/y", "new"}) {
		t.Errorf("%v", got)
	}
	if in, err := a.Info(); err != nil || in.Root != sum.Root || in.Generation != sum.Generation {
		t.Errorf("%+v, %+v, %v", in, sum, err)
	}
	must(t, a.Tidy())
	// Close rolls back.
	tx, err = a.Begin(t.Context())
	must(t, err)
	put(t, tx, "lost", "l")
	must(t, a.Close())
	must(t, tx.Rollback())
	_, err = tx.Commit(t.Context())
	is(t, err, fs.ErrClosed)
	r := open(t, name, lockbox.Options{})
	if got := names(t, r, ""); len(got) != 3 {
		t.Errorf("%v", got)
	}
	_, err = r.Begin(t.Context())
	is(t, err, lockbox.ErrReadOnly)
}

func TestTransactionRefuses(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		put(t, tx, "a", "1")
		put(t, tx, "b", "2")
		put(t, tx, "d/x", "3")
	})
	a := openWrite(t, name, lockbox.Options{})
	ctx := t.Context()
	change(t, a, func(tx *lockbox.Tx) {
		is(t, tx.Remove(ctx, "c"), fs.ErrNotExist)
		is(t, tx.Rename(ctx, "c", "e"), fs.ErrNotExist)
		is(t, tx.Rename(ctx, "a", "b"), fs.ErrExist)
		is(t, tx.Rename(ctx, "a", "d"), fs.ErrExist)
		is(t, tx.Rename(ctx, "d", "d/y"), fs.ErrInvalid)
		is(t, tx.Rename(ctx, "a", "a"), fs.ErrInvalid)
		is(t, tx.Rename(ctx, "a", "../a"), fs.ErrInvalid)
		is(t, tx.Remove(ctx, ""), fs.ErrInvalid)
		put(t, tx, "n/m", "4")
		is(t, tx.Remove(ctx, "n"), lockbox.ErrUncommitted)
		is(t, tx.Rename(ctx, "n/m", "k"), lockbox.ErrUncommitted)
		is(t, tx.Rename(ctx, "a", "n"), fs.ErrExist)
		must(t, tx.Remove(ctx, "b"))
		is(t, tx.Remove(ctx, "b"), fs.ErrNotExist)
		must(t, tx.Rename(ctx, "a", "b"))
		is(t, tx.Rename(ctx, "a", "e"), fs.ErrNotExist)
		is(t, tx.Rename(ctx, "b", "e"), lockbox.ErrUncommitted)

		for _, bad := range []lockbox.Entry{
			file(""), file("/x"), file("x/../y"), {Path: "x", Mode: fs.ModeSymlink}, {Path: "x", Target: "y"}, {Path: "x", Size: -1},
		} {
			is(t, tx.Put(ctx, bad, nil), fs.ErrInvalid)
		}
		is(t, tx.Put(ctx, file("x"), nil), fs.ErrInvalid)
		is(t, tx.Put(ctx, lockbox.Entry{Path: "x", Mode: fs.ModeDir}, strings.NewReader("")), fs.ErrInvalid)
		is(t, tx.Put(ctx, lockbox.Entry{Path: "x", Mode: fs.ModeSocket}, nil), lockbox.ErrUnstorable)
		is(t, tx.Put(ctx, lockbox.Entry{Path: "x", Mode: fs.ModeSymlink, Target: strings.Repeat("t", 1<<20)}, nil), lockbox.ErrUnstorable)
		short := file("x")
		short.Size = 10
		is(t, tx.PutBytes(ctx, short, []byte("five!")), lockbox.ErrSourceChanged)
		is(t, tx.Put(ctx, short, io.MultiReader(strings.NewReader("five!"))), lockbox.ErrSourceChanged)
		is(t, tx.Put(ctx, short, io.MultiReader(strings.NewReader("more than ten"))), lockbox.ErrSourceChanged)
		short.Size = 8 << 20
		is(t, tx.Put(ctx, short, io.MultiReader(bytes.NewReader(noise(6<<20)))), lockbox.ErrSourceChanged)
		broken := errors.New("broken")
		is(t, tx.Put(ctx, file("x"), &brokenReader{left: 10, err: broken}), broken)
		is(t, tx.Put(ctx, file("x"), &brokenReader{left: 1 << 20, err: broken}), broken)
	})
	if got := names(t, a, ""); !slices.Equal(got, []string{"b", "d/x", "n/m"}) {
		t.Errorf("%v", got)
	}
	tx, err := a.Begin(ctx)
	must(t, err)
	put(t, tx, "b/below", "a file")
	_, err = tx.Commit(ctx)
	is(t, err, lockbox.ErrConflict)
	must(t, tx.Rollback())

	gone, cancel := context.WithCancel(ctx)
	tx, err = a.Begin(ctx)
	must(t, err)
	put(t, tx, "c", "5")
	cancel()
	is(t, tx.PutBytes(gone, file("e"), nil), context.Canceled)
	_, err = tx.Commit(ctx)
	is(t, err, context.Canceled)
	must(t, tx.Rollback())
}

type brokenReader struct {
	left int
	err  error
}

func (r *brokenReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.err
	}
	n := min(len(p), r.left)
	r.left -= n
	return n, nil
}

// TestSuperseded shows what becomes of what a handle opened before it committed.
func TestSuperseded(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.PutBytes(t.Context(), file("f"), noise(3<<20)))
	})
	r := open(t, name, lockbox.Options{})
	w := openWrite(t, name, lockbox.Options{CacheBytes: 1})
	f, err := w.Open("f")
	must(t, err)
	d, err := w.Open(".")
	must(t, err)
	change(t, w, func(tx *lockbox.Tx) { must(t, tx.Remove(t.Context(), "f")) })
	must(t, w.Tidy())
	_, err = d.(fs.ReadDirFile).ReadDir(1)
	is(t, err, lockbox.ErrChanged)
	// The other reader keeps its state, and with it the bytes.
	if b, err := r.ReadFile("f"); err != nil || !bytes.Equal(b, noise(3<<20)) {
		t.Fatal(err)
	}
	must(t, r.Close())
	must(t, w.Tidy())
	change(t, w, func(tx *lockbox.Tx) { must(t, tx.PutBytes(t.Context(), file("g"), bytes.Repeat([]byte("g"), 1<<20))) })
	must(t, w.Tidy())
	_, err = io.Copy(io.Discard, f)
	is(t, err, lockbox.ErrChanged)
	if errors.Is(err, lockbox.ErrCorrupt) {
		t.Errorf("it looks like damage: %v", err)
	}
}

// TestReproducible shows that the same calls with a seed give the same bytes, whatever the number of workers.
func TestReproducible(t *testing.T) {
	build := func(seed string, jobs int) []byte {
		o := lockbox.Options{Seed: []byte(seed), Jobs: jobs}
		name := create(t, o, lockbox.CreateOptions{Sector: 4096}, func(tx *lockbox.Tx) {
			must(t, tx.PutFS(t.Context(), "", fstest.MapFS{"x": {Data: noise(1 << 20)}, "y": {Data: []byte("y")}}, lockbox.PutFSOptions{}))
		})
		a := openWrite(t, name, o)
		change(t, a, func(tx *lockbox.Tx) { put(t, tx, "z", "z") })
		in, err := a.Info()
		must(t, err)
		if !in.Reproducible || in.Sector != 4096 {
			t.Errorf("%+v", in)
		}
		must(t, a.Close())
		b, err := os.ReadFile(name)
		must(t, err)
		return b
	}
	one := build("s", 1)
	if !bytes.Equal(one, build("s", 3)) {
		t.Error("the same calls give other bytes")
	}
	if bytes.Equal(one, build("other", 1)) {
		t.Error("the seed has no effect")
	}
}

// TestModel does random changes to an archive and to a map.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		name := filepath.Join(dir, fmt.Sprintf("%d.lbx", run))
		a, err := lockbox.Create(t.Context(), name, lockbox.Options{Jobs: rapid.IntRange(1, 3).Draw(rt, "jobs")}, lockbox.CreateOptions{})
		must(rt, err)
		state := map[string]string{}
		path := rapid.SampledFrom([]string{"a", "a!", "b", "c/a", "c/b", "c/d/a", "e/a", "e/f/b", "g"})
		under := func(p, top string) bool { return p == top || strings.HasPrefix(p, top+"/") }
		any := func(m map[string]string, top string) bool {
			for p := range m {
				if under(p, top) {
					return true
				}
			}
			return false
		}
		for range rapid.IntRange(1, 4).Draw(rt, "transactions") {
			tx, err := a.Begin(t.Context())
			must(rt, err)
			next, mine := maps.Clone(state), map[string]string{}
			for range rapid.IntRange(0, 6).Draw(rt, "changes") {
				p, q := path.Draw(rt, "path"), path.Draw(rt, "other")
				switch rapid.IntRange(0, 2).Draw(rt, "what") {
				case 0:
					text := rapid.StringN(0, 50, -1).Draw(rt, "text")
					must(rt, tx.PutBytes(t.Context(), file(p), []byte(text)))
					next[p], mine[p] = text, text
				case 1:
					top := p
					if rapid.Bool().Draw(rt, "top") {
						top = strings.Split(p, "/")[0]
					}
					err := tx.Remove(t.Context(), top)
					switch {
					case any(mine, top):
						is(rt, err, lockbox.ErrUncommitted)
					case !any(next, top):
						is(rt, err, fs.ErrNotExist)
					default:
						must(rt, err)
						maps.DeleteFunc(next, func(k, _ string) bool { return under(k, top) })
					}
				case 2:
					to := q + "!"
					err := tx.Rename(t.Context(), p, to)
					switch {
					case any(mine, p):
						is(rt, err, lockbox.ErrUncommitted)
					case under(to, p):
						is(rt, err, fs.ErrInvalid)
					case any(next, to):
						is(rt, err, fs.ErrExist)
					case !any(next, p):
						is(rt, err, fs.ErrNotExist)
					default:
						must(rt, err)
						for k, v := range maps.Clone(next) {
							if under(k, p) {
								delete(next, k)
								next[to+k[len(p):]], mine[to+k[len(p):]] = v, v
							}
						}
					}
				}
			}
			if rapid.Bool().Draw(rt, "commit") {
				_, err := tx.Commit(t.Context())
				must(rt, err)
				state = next
			} else {
				must(rt, tx.Rollback())
			}
			got, want := names(rt, a, ""), slices.Sorted(maps.Keys(state))
			if slices.Sort(got); !slices.Equal(got, want) {
				rt.Fatalf("stored are %v, should be %v", got, want)
			}
			for p, text := range state {
				if b, err := a.ReadFile(p); err != nil || string(b) != text {
					rt.Fatalf("%s: %q, %v", p, b, err)
				}
			}
		}
		must(rt, a.Close())
		if _, err := os.Stat(name); err == nil {
			sound(rt, name, lockbox.Options{})
		} else if len(state) > 0 {
			rt.Fatal(err)
		}
	})
}
