package lockbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"lockbox"
)

var stamp = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

// create makes an archive in the test's directory, fills it in one transaction and closes it. At the end of the test
// it is checked whole.
func create(t testing.TB, o lockbox.Options, c lockbox.CreateOptions, fill func(*lockbox.Tx)) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.lbx")
	a, err := lockbox.Create(t.Context(), name, o, c)
	must(t, err)
	change(t, a, fill)
	must(t, a.Close())
	if c.Recipients == nil && c.Passphrase == nil {
		t.Cleanup(func() { sound(t, name, lockbox.Options{}) })
	}
	return name
}

func sound(t tb, name string, o lockbox.Options) {
	t.Helper()
	if _, err := lockbox.Verify(context.Background(), name, o, lockbox.VerifyOptions{}); err != nil {
		t.Error(err)
	}
}

func change(t tb, a *lockbox.Archive, fill func(*lockbox.Tx)) lockbox.Summary {
	t.Helper()
	tx, err := a.Begin(t.Context())
	must(t, err)
	fill(tx)
	sum, err := tx.Commit(t.Context())
	must(t, err)
	return sum
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t tb, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("the error is %v, due is %v", err, kind)
	}
}

func file(name string) lockbox.Entry {
	return lockbox.Entry{Path: name, Mode: 0o644, ModTime: stamp}
}

func put(t tb, tx *lockbox.Tx, name, text string) {
	t.Helper()
	must(t, tx.PutBytes(t.Context(), file(name), []byte(text)))
}

func link(t testing.TB, tx *lockbox.Tx, name, target string) {
	t.Helper()
	must(t, tx.Put(t.Context(), lockbox.Entry{Path: name, Mode: fs.ModeSymlink | 0o777, Target: target}, nil))
}

func open(t testing.TB, name string, o lockbox.Options) *lockbox.Archive {
	t.Helper()
	a, err := lockbox.Open(t.Context(), name, o)
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

func openWrite(t testing.TB, name string, o lockbox.Options) *lockbox.Archive {
	t.Helper()
	a, err := lockbox.OpenWrite(t.Context(), name, o)
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

// tb is what the helpers need of a test, or of a case of a property.
type tb interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// noise is data that does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// names returns what is stored.
func names(t tb, a *lockbox.Archive, under string) (list []string) {
	t.Helper()
	for e, err := range a.Entries(under) {
		must(t, err)
		list = append(list, e.Path)
	}
	return list
}

func TestFS(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		put(t, tx, "a", "alpha")
		put(t, tx, "d/e/f", "deep")
		put(t, tx, "d!", "sorts between d and what is below it")
		put(t, tx, "empty", "")
		put(t, tx, "ünicode/✓", "✓")
		must(t, tx.Put(t.Context(), lockbox.Entry{Path: "dir", Mode: fs.ModeDir | 0o755, ModTime: stamp}, nil))
		must(t, tx.Put(t.Context(), lockbox.Entry{Path: "hollow", Mode: fs.ModeDir | 0o700, ModTime: stamp}, nil))
		put(t, tx, "dir/big", string(noise(200_000)))
		link(t, tx, "dir/link", "../d/e/f")
		link(t, tx, "dirlink", "d")
	})
	a := open(t, name, lockbox.Options{})
	must(t, fstest.TestFS(a, "a", "d/e/f", "d!", "dir/big", "dir/link", "dirlink", "ünicode/✓", "empty", "hollow"))
	sub, err := fs.Sub(a, "dir")
	must(t, err)
	must(t, fstest.TestFS(sub, "big"))
}

func TestLinks(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		put(t, tx, "d/f", "found")
		link(t, tx, "to-d", "d")
		link(t, tx, "d/up", "../d/./f")
		link(t, tx, "twice", "to-d/up")
		link(t, tx, "loop", "loop")
		link(t, tx, "out", "../etc/passwd")
		link(t, tx, "abs", "/etc/passwd")
		link(t, tx, "dangling", "nothing")
		link(t, tx, "through", "d/f/x")
		link(t, tx, "in-and-out", "d/../../d/f")
	})
	a := open(t, name, lockbox.Options{})
	for _, n := range []string{"d/f", "to-d/f", "d/up", "to-d/up", "twice"} {
		b, err := a.ReadFile(n)
		if err != nil || string(b) != "found" {
			t.Errorf("%s: %q, %v", n, b, err)
		}
	}
	for _, n := range []string{"loop", "out", "abs", "dangling", "through", "in-and-out", "d/f/x", "to-d/x"} {
		if _, err := a.ReadFile(n); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", n, err)
		}
	}
	for _, n := range []string{"loop", "out", "abs", "dangling"} {
		fi, err := a.Lstat(n)
		must(t, err)
		if fi.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s is a %v", n, fi.Mode())
		}
	}
	target, err := a.ReadLink("to-d/up")
	if err != nil || target != "../d/./f" {
		t.Errorf("%q, %v", target, err)
	}
	_, err = a.ReadLink("d/f")
	is(t, err, fs.ErrInvalid)
	list, err := a.ReadDir("to-d")
	if err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestRawNames shows that names the file system cannot have are reachable as they are.
func TestRawNames(t *testing.T) {
	raw := "d/\xff\xfe"
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) { put(t, tx, raw, "bytes") })
	a := open(t, name, lockbox.Options{})
	if got := names(t, a, "d"); !slices.Equal(got, []string{raw}) {
		t.Errorf("%q", got)
	}
	list, err := a.ReadDir("d")
	must(t, err)
	if len(list) != 1 || list[0].Name() != "\xff\xfe" {
		t.Errorf("a listing passes it over: %v", list)
	}
	_, err = a.Open(raw)
	is(t, err, fs.ErrInvalid)
	e, err := a.Lookup(raw)
	must(t, err)
	f, err := a.OpenEntry(e)
	must(t, err)
	b, err := io.ReadAll(f)
	if err != nil || string(b) != "bytes" {
		t.Errorf("%q, %v", b, err)
	}
	_, err = a.Open(strings.Repeat("x", 2000))
	is(t, err, fs.ErrNotExist)
	for _, bad := range []string{"", "/a", "a/../b", "a//b", "."} {
		if _, err := a.Lookup(bad); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFile(t *testing.T) {
	data := noise(2<<20 + 17)
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		must(t, tx.PutBytes(t.Context(), file("f"), data))
	})
	a := open(t, name, lockbox.Options{})
	f, err := a.Open("f")
	must(t, err)
	r := f.(*lockbox.File)
	if r.Size() != int64(len(data)) {
		t.Fatal(r.Size())
	}
	p := make([]byte, 1000)
	n, err := r.ReadAt(p, 1<<20-3)
	if err != nil || !bytes.Equal(p[:n], data[1<<20-3:][:1000]) {
		t.Fatal(n, err)
	}
	n, err = r.ReadAt(p, int64(len(data))-10)
	if n != 10 || !errors.Is(err, io.EOF) {
		t.Fatal(n, err)
	}
	pos, err := r.Seek(-7, io.SeekEnd)
	must(t, err)
	rest, err := io.ReadAll(r)
	if pos != int64(len(data))-7 || err != nil || !bytes.Equal(rest, data[len(data)-7:]) {
		t.Fatal(pos, len(rest), err)
	}
	for _, s := range []struct {
		off    int64
		whence int
	}{{-1, io.SeekStart}, {-8, io.SeekCurrent - 1}, {1 << 62, 9}, {-int64(len(data)) - 1, io.SeekEnd}} {
		if _, err := r.Seek(s.off, s.whence); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("seek %v: %v", s, err)
		}
	}
	_, err = r.Seek(5, io.SeekStart)
	must(t, err)
	_, err = r.Seek(1<<63-1, io.SeekCurrent)
	is(t, err, fs.ErrInvalid)
	var all bytes.Buffer
	if n, err := r.WriteTo(&all); err != nil || n != int64(len(data))-5 || !bytes.Equal(all.Bytes(), data[5:]) {
		t.Fatal(n, err)
	}
	if n, err := r.WriteTo(&all); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	full := errors.New("full")
	_, err = r.WriteRange(t.Context(), failingWriter{full}, 0, 10)
	if err != full {
		t.Errorf("the writer's error came back as %v", err)
	}
	b, err := a.ReadFile("f")
	if err != nil || !bytes.Equal(b, data) {
		t.Fatal(len(b), err)
	}
	must(t, r.Close())
	_, err = r.ReadAt(p, 0)
	is(t, err, fs.ErrClosed)
	is(t, r.Close(), fs.ErrClosed)
}
