package lockbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"lockbox"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// TestPutReaders stores readers of all lengths around the bounds at which they are handled differently.
func TestPutReaders(t *testing.T) {
	data := noise(5 << 20)
	sizes := []int{0, 1, 1000, 128<<10 - 1, 128 << 10, 128<<10 + 1, 4 << 20, 4<<20 + 1, len(data)}
	kinds := map[string]func([]byte) io.Reader{
		"seeker": func(b []byte) io.Reader { return bytes.NewReader(b) },
		"buffer": func(b []byte) io.Reader { return bytes.NewBuffer(b) },
		"stream": func(b []byte) io.Reader { return io.MultiReader(bytes.NewReader(b)) },
		"sized":  func(b []byte) io.Reader { return io.MultiReader(bytes.NewReader(b)) },
	}
	dir := t.TempDir()
	kinds["file"] = func(b []byte) io.Reader {
		name := filepath.Join(dir, fmt.Sprint(len(b)))
		must(t, os.WriteFile(name, append([]byte("head"), b...), 0o600))
		f, err := os.Open(name)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		_, err = f.Seek(4, io.SeekStart)
		must(t, err)
		return f
	}
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{Compression: lockbox.CompressNone}, func(tx *lockbox.Tx) {
		for kind, r := range kinds {
			for _, n := range sizes {
				e := file(fmt.Sprintf("%s/%d", kind, n))
				if kind == "sized" {
					e.Size = int64(n)
				}
				must(t, tx.Put(t.Context(), e, r(data[:n])))
			}
		}
	})
	a := open(t, name, lockbox.Options{})
	for kind := range kinds {
		for _, n := range sizes {
			b, err := a.ReadFile(fmt.Sprintf("%s/%d", kind, n))
			if err != nil || !bytes.Equal(b, data[:n]) {
				t.Errorf("%s of %d bytes: %d, %v", kind, n, len(b), err)
			}
		}
	}
	in, err := a.Info()
	must(t, err)
	var total uint64
	for _, n := range sizes {
		total += uint64(n)
	}
	if in.PlainBytes != total || in.Compression != lockbox.CompressNone {
		t.Errorf("of %d bytes there are %+v", total, in)
	}
}

func TestMetadata(t *testing.T) {
	entries := []lockbox.Entry{
		{Path: "attributes", Mode: 0o600, Xattrs: []lockbox.Xattr{{"user.a", []byte("1")}, {"user.b", nil}}},
		{Path: "device", Mode: fs.ModeDevice | fs.ModeCharDevice | 0o620, Device: &lockbox.Device{Major: 4, Minor: 1 << 33}},
		{Path: "dir", Mode: fs.ModeDir | 0o750 | fs.ModeSetgid | fs.ModeSticky, ModTime: stamp},
		{Path: "file", Mode: 0o640 | fs.ModeSetuid, ModTime: time.Unix(-5, 7), Owner: &lockbox.Owner{UID: 7, GID: 1 << 40, User: "ann", Group: "staff"}},
		{Path: "link", Mode: fs.ModeSymlink | 0o777, Target: "dir", ModTime: stamp.Add(200 * 365 * 24 * time.Hour)},
		{Path: "many-attributes", Mode: 0o600, Xattrs: []lockbox.Xattr{{"user.large", noise(100 << 10)}}},
		{Path: "pipe", Mode: fs.ModeNamedPipe | 0o600},
		{Path: "timeless", Mode: 0},
	}
	fill := func(tx *lockbox.Tx, entries []lockbox.Entry) {
		for _, e := range entries {
			var r io.Reader
			if e.Mode.IsRegular() {
				r = strings.NewReader("")
			}
			must(t, tx.Put(t.Context(), e, r))
		}
	}
	check := func(a *lockbox.Archive) (list []lockbox.Entry) {
		for e, err := range a.Entries("") {
			must(t, err)
			list = append(list, e)
			want := entries[len(list)-1]
			if e.Path != want.Path || e.Mode != want.Mode || !e.ModTime.Equal(want.ModTime) || e.Target != want.Target ||
				!reflect.DeepEqual(e.Owner, want.Owner) || !reflect.DeepEqual(e.Device, want.Device) {
				t.Errorf("%+v became %+v", want, e)
			}
			xs, err := a.Xattrs(t.Context(), e)
			must(t, err)
			if !slices.EqualFunc(xs, want.Xattrs, func(x, y lockbox.Xattr) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) }) {
				t.Errorf("%s has the attributes %v", e.Path, xs)
			}
		}
		return list
	}
	a := open(t, create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) { fill(tx, entries) }), lockbox.Options{})
	list := check(a)
	// What one archive gives another takes.
	check(open(t, create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) { fill(tx, list) }), lockbox.Options{}))
	check(open(t, create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.PutFS(t.Context(), "", a, lockbox.PutFSOptions{}))
	}), lockbox.Options{}))
	fi, err := a.Stat("file")
	must(t, err)
	if e, ok := fi.Sys().(lockbox.Entry); !ok || e.Owner.User != "ann" {
		t.Errorf("%+v", fi.Sys())
	}
}

func TestHardLinks(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.Put(t.Context(), file("b"), strings.NewReader("one file"), "a", "d/c"))
		put(t, tx, "alone", "one file")
		is(t, tx.Put(t.Context(), file("x"), strings.NewReader(""), "y", "y"), fs.ErrInvalid)
		is(t, tx.Put(t.Context(), file("x"), strings.NewReader(""), "../y"), fs.ErrInvalid)
		is(t, tx.Put(t.Context(), lockbox.Entry{Path: "x", Mode: fs.ModeDir}, nil, "y"), fs.ErrInvalid)
		broken := errors.New("broken")
		is(t, tx.Put(t.Context(), file("x"), &brokenReader{err: broken}, "y"), broken)
		is(t, tx.Remove(t.Context(), "d"), lockbox.ErrUncommitted)
	})
	a := openWrite(t, name, lockbox.Options{})
	groups := map[uint64][]string{}
	for e, err := range a.Entries("") {
		must(t, err)
		groups[e.Links] = append(groups[e.Links], e.Path)
		if b, err := a.ReadFile(e.Path); err != nil || string(b) != "one file" {
			t.Errorf("%s: %q, %v", e.Path, b, err)
		}
	}
	delete(groups, 0)
	if got := slices.Collect(maps.Values(groups)); len(got) != 1 || !slices.Equal(got[0], []string{"a", "b", "d/c"}) {
		t.Errorf("%v", got)
	}
	change(t, a, func(tx *lockbox.Tx) {
		must(t, tx.Remove(t.Context(), "b"))
		must(t, tx.Rename(t.Context(), "d", "e"))
	})
	if b, err := a.ReadFile("e/c"); err != nil || string(b) != "one file" {
		t.Errorf("%q, %v", b, err)
	}
}

// sparse is a source of the engine for a file whose only data stands in the middle.
type sparse struct{ io.Reader }

func (sparse) Check() error { return nil }
func (sparse) Close() error { return nil }

// TestSparse reads a file with holes, which only the command stores, and stores it again.
func TestSparse(t *testing.T) {
	const hole = 300 << 10
	data := []byte("in the middle of nothing")
	want := slices.Concat(make([]byte, hole), data, make([]byte, hole))
	name := filepath.Join(t.TempDir(), "a.lbx")
	s, err := store.Create(t.Context(), name, store.Options{}, store.CreateOptions{})
	must(t, err)
	p, err := pathsafe.Parse("f")
	must(t, err)
	e := index.Entry{Path: p, Kind: index.File, Size: int64(len(want)), Sparse: []index.SparseRun{{Hole: hole}, {Data: int64(len(data)), Hole: hole}}}
	tx, err := s.Begin(t.Context())
	must(t, err)
	must(t, tx.Add(t.Context(), slices.Values([]store.Source{{Entry: e, Open: func() (store.Reader, index.Entry, error) {
		return sparse{bytes.NewReader(data)}, e, nil
	}}}), nil))
	_, err = tx.Commit(t.Context())
	must(t, err)
	must(t, s.Close())

	a := open(t, name, lockbox.Options{})
	if b, err := a.ReadFile("f"); err != nil || !bytes.Equal(b, want) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	must(t, a.Bulk(t.Context(), a.Entries(""), func(p lockbox.Piece) error {
		if p.Off != hole || !bytes.Equal(p.Data, data) {
			t.Errorf("%d bytes at %d", len(p.Data), p.Off)
		}
		return p.Err
	}))
	copied := open(t, create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.PutFS(t.Context(), "", a, lockbox.PutFSOptions{}))
	}), lockbox.Options{})
	if b, err := copied.ReadFile("f"); err != nil || !bytes.Equal(b, want) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestPutFS(t *testing.T) {
	tree := fstest.MapFS{
		"a":         {Data: []byte("alpha"), Mode: 0o600, ModTime: stamp},
		"d/x":       {Data: noise(300 << 10), Mode: 0o644, ModTime: stamp},
		"d/y":       {Data: []byte("why"), Mode: 0o755, ModTime: stamp},
		"d/skip/z":  {Data: []byte("zzz"), Mode: 0o644},
		"link":      {Data: []byte("d/y"), Mode: fs.ModeSymlink | 0o777, ModTime: stamp},
		"socket":    {Mode: fs.ModeSocket},
		"pipe":      {Mode: fs.ModeNamedPipe, ModTime: stamp},
		"empty-dir": {Mode: fs.ModeDir | 0o700, ModTime: stamp},
	}
	var failed []string
	o := lockbox.PutFSOptions{
		Select: func(e *lockbox.Entry) bool {
			e.ModTime = time.Time{}
			return !strings.HasSuffix(e.Path, "skip")
		},
		Failed: func(name string, err error) error {
			if !errors.Is(err, lockbox.ErrUnstorable) {
				return err
			}
			failed = append(failed, name)
			return nil
		},
	}
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.PutFS(t.Context(), "top/of", tree, o))
	})
	if !slices.Equal(failed, []string{"top/of/socket"}) {
		t.Errorf("%v", failed)
	}
	a := open(t, name, lockbox.Options{})
	want := []string{"top/of", "top/of/a", "top/of/d", "top/of/d/x", "top/of/d/y", "top/of/empty-dir", "top/of/link", "top/of/pipe"}
	if got := names(t, a, ""); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	e, err := a.Lookup("top/of/d/y")
	must(t, err)
	if !e.ModTime.IsZero() || e.Mode != 0o755 {
		t.Errorf("%+v", e)
	}
	for _, n := range []string{"a", "d/x", "d/y"} {
		b, err := a.ReadFile("top/of/" + n)
		if err != nil || !bytes.Equal(b, tree[n].Data) {
			t.Errorf("%s: %v", n, err)
		}
	}
	w := openWrite(t, name, lockbox.Options{})
	tx, err := w.Begin(t.Context())
	must(t, err)
	err = tx.PutFS(t.Context(), "", tree, lockbox.PutFSOptions{})
	is(t, err, lockbox.ErrUnstorable)
	var where *lockbox.Error
	if !errors.As(err, &where) || where.Entry != "socket" {
		t.Errorf("%v", err)
	}
	_, err = tx.Commit(t.Context())
	is(t, err, lockbox.ErrUnstorable)
	must(t, tx.Rollback())
	change(t, w, func(tx *lockbox.Tx) {
		must(t, tx.PutFS(t.Context(), "", restless{tree}, lockbox.PutFSOptions{Failed: func(name string, err error) error {
			failed = append(failed, name)
			if name == "a" {
				is(t, err, lockbox.ErrSourceChanged)
			}
			return nil
		}}))
	})
	if !slices.Equal(failed, []string{"top/of/socket", "a", "socket"}) {
		t.Errorf("%v", failed)
	}
	// An archive is a file system like any other.
	copied := create(t, lockbox.Options{Jobs: 1}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.PutFS(t.Context(), "", a, lockbox.PutFSOptions{}))
	})
	if got := names(t, open(t, copied, lockbox.Options{}), "top/of"); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("of the host"), 0o600))
	host := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.PutFS(t.Context(), "", os.DirFS(dir), lockbox.PutFSOptions{}))
	})
	if b, err := open(t, host, lockbox.Options{}).ReadFile("f"); err != nil || string(b) != "of the host" {
		t.Error(err)
	}
}

// restless is a file system whose file "a" is never the same.
type restless struct{ fstest.MapFS }

func (r restless) Open(name string) (fs.File, error) {
	f, err := r.MapFS.Open(name)
	if err == nil && name == "a" {
		return &restlessFile{File: f}, nil
	}
	return f, err
}

type restlessFile struct {
	fs.File
	asked int
}

func (f *restlessFile) Stat() (fs.FileInfo, error) {
	fi, err := f.File.Stat()
	f.asked++
	return later{fi, time.Duration(f.asked)}, err
}

type later struct {
	fs.FileInfo
	by time.Duration
}

func (l later) ModTime() time.Time { return l.FileInfo.ModTime().Add(l.by) }
