package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/index"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// A new archive can be read before it has its name, and refused; then nothing is left of it.
func TestCommitProven(t *testing.T) {
	ctx := context.Background()
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		m := vfs.Mem()
		a, err := Create(ctx, "a", Options{FS: m, Jobs: 2}, CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Add(ctx, slices.Values([]Source{memory("f", "proven content")}), nil); err != nil {
			t.Fatal(err)
		}
		asked := 0
		sum, err := tx.CommitProven(ctx, func() error {
			asked++
			if len(m.Names()) != 0 {
				t.Errorf("it has a name already: %q", m.Names())
			}
			e, err := a.Get(mustPath("f"))
			if err != nil {
				t.Fatal(err)
			}
			f, err := a.Open(&e)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 14)
			if _, err := f.ReadAt(b, 0); err != nil || string(b) != "proven content" {
				t.Errorf("%q, %v", b, err)
			}
			return want
		})
		if asked != 1 || !errors.Is(err, want) || (err == nil) != (want == nil) || want == nil && sum.Generation != 1 {
			t.Errorf("asked %d times, %+v, %v", asked, sum, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got := len(m.Names()); got != 1 && want == nil || got != 0 && want != nil {
			t.Errorf("%v: there are %q", want, m.Names())
		}
		if want != nil {
			if _, err := Open(ctx, "a", Options{FS: m}); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			continue
		}
		w, err := OpenWrite(ctx, "a", Options{FS: m})
		if err != nil {
			t.Fatal(err)
		}
		if tx, err = w.Begin(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.CommitProven(ctx, func() error { return nil }); err == nil {
			t.Error("an archive that has its name was to be proven before it has one")
		}
		if err := errors.Join(tx.Rollback(), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// memory is a source in memory that others may be links of.
func memory(path, data string) Source {
	e := index.Entry{Path: mustPath(path), Kind: index.File, Mode: 0o644, Size: int64(len(data))}
	return Source{Entry: e, Linkable: true, Open: func() (Reader, index.Entry, error) { return memoryReader{strings.NewReader(data)}, e, nil }}
}

type memoryReader struct{ *strings.Reader }

func (memoryReader) Close() error { return nil }
func (memoryReader) Check() error { return nil }

// A file that was stored without a link group gets one when the first link to it comes; one that was stored again, the
// later one; and what nothing links to gets none.
func TestLinkable(t *testing.T) {
	ctx := context.Background()
	m := vfs.Mem()
	a, err := Create(ctx, "a", Options{FS: m, Jobs: 2}, CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	link := func(path, to string) Source {
		return Source{Entry: index.Entry{Path: mustPath(path), Kind: index.File}, LinkTo: mustPath(to)}
	}
	err = tx.Add(ctx, slices.Values([]Source{
		memory("f", "first"), memory("alone", "alone"), memory("again", "old"), link("x", "f"), link("y", "f"), memory("again", "new"), link("z", "again"),
		memory("large", strings.Repeat("large ", 1<<20)), link("large2", "large"),
	}), func(x Added) {
		if x.Err != nil {
			t.Errorf("%s: %v", x.Path, x.Err)
		}
	})
	if err == nil {
		_, err = tx.Commit(ctx)
	}
	if err := errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := Open(ctx, "a", Options{FS: m})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	get := func(path string) index.Entry {
		e, err := r.Get(mustPath(path))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, pair := range [][2]string{{"f", "x"}, {"f", "y"}, {"again", "z"}, {"large", "large2"}} {
		x, y := get(pair[0]), get(pair[1])
		if x.LinkGroup == 0 || x.LinkGroup != y.LinkGroup || x.Content != y.Content || x.Size != y.Size {
			t.Errorf("%v: %+v, %+v", pair, x, y)
		}
	}
	if e := get("alone"); e.LinkGroup != 0 {
		t.Errorf("alone: %+v", e)
	}
	if e := get("z"); e.Size != 3 {
		t.Errorf("z: %+v", e)
	}
	b := m.Bytes("a")
	s, err := verify.Run(ctx, sized{bytes.NewReader(b)}, verify.Options{Full: true, Finding: func(x verify.Finding) { t.Errorf("%+v", x) }})
	if err != nil || !s.Complete {
		t.Errorf("%+v, %v", s, err)
	}
}
