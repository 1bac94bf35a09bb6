package export

import (
	stdtar "archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
	"lockbox/internal/migrate/tar"
	"lockbox/internal/migrate/zip"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

func stored(s string) pathsafe.Path {
	p, err := pathsafe.Parse(s)
	if err != nil {
		panic(err)
	}
	return p
}

type memory struct{ *strings.Reader }

func (memory) Close() error { return nil }
func (memory) Check() error { return nil }

func file(e index.Entry, data string) store.Source {
	e.Kind, e.Size = index.File, int64(len(data))
	for _, r := range e.Sparse {
		e.Size += r.Hole
	}
	return store.Source{Entry: e, Linkable: true, Open: func() (store.Reader, index.Entry, error) { return memory{strings.NewReader(data)}, e, nil }}
}

// archive stores sources and opens the archive for reading.
func archive(t interface{ Fatal(...any) }, sources ...store.Source) *store.Archive {
	ctx, m := context.Background(), vfs.Mem()
	a, err := store.Create(ctx, "a", store.Options{FS: m, Jobs: 2}, store.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err == nil {
		err = tx.Add(ctx, slices.Values(sources), func(x store.Added) {
			if x.Err != nil {
				t.Fatal(x.Err)
			}
		})
	}
	if err == nil {
		_, err = tx.Commit(ctx)
	}
	if err = errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := store.Open(ctx, "a", store.Options{FS: m, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func run(t interface{ Fatal(...any) }, ar *store.Archive, format string) (b []byte, lost, left []string) {
	var out bytes.Buffer
	_, err := Run(context.Background(), ar, ar.List(pathsafe.Path{}), &out, Options{
		Format: format,
		Lost:   func(e *index.Entry, what string) { lost = append(lost, e.Path.String()+": "+what) },
		Left:   func(e *index.Entry, why string) { left = append(left, e.Path.String()+": "+why) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), lost, left
}

// draw makes entries of every kind, with everything that tar can hold.
func draw(t *rapid.T) []store.Source {
	var list []store.Source
	for i := range rapid.IntRange(1, 8).Draw(t, "entries") {
		e := index.Entry{
			Path: stored(fmt.Sprintf("%s/%d", rapid.SampledFrom([]string{"a", "ü/b", "c\xff", strings.Repeat("long/", 40) + "x", "new\nline"}).Draw(t, "dir"), i)),
			Mode: rapid.Uint32Range(0, 0o7777).Draw(t, "mode"), HasMtime: true,
			MtimeSec:  rapid.SampledFrom([]int64{0, 1, 1e9, 1 << 33, 1 << 40, -1, -5e9}).Draw(t, "time"),
			MtimeNsec: rapid.SampledFrom([]uint32{0, 1, 5e8, 999999999}).Draw(t, "ns"), HasOwner: true,
			UID: rapid.SampledFrom([]uint64{0, 1000, 1 << 21, 1<<32 - 2}).Draw(t, "uid"), GID: 7,
			User: rapid.SampledFrom([]string{"", "alice", "größe", strings.Repeat("u", 40)}).Draw(t, "user"), Group: "users",
		}
		if rapid.Bool().Draw(t, "xattrs") {
			e.Xattrs = []index.Xattr{{Name: "user.a", Value: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "value")}}
		}
		if rapid.Bool().Draw(t, "birth") {
			e.HasBirth, e.BirthSec, e.BirthNsec = true, 5, 25e7
		}
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			e.Kind = index.Dir
			list = append(list, store.Source{Entry: e})
		case 1:
			e.Kind, e.Target = index.Symlink, rapid.SampledFrom([]string{"x", "../ü", strings.Repeat("t", 150)}).Draw(t, "target")
			list = append(list, store.Source{Entry: e})
		case 2:
			e.Kind, e.HasDevice, e.Major, e.Minor = index.CharDevice, true, 5, 1<<20
			list = append(list, store.Source{Entry: e})
		case 3:
			e.Kind = index.FIFO
			list = append(list, store.Source{Entry: e})
		case 4:
			data := strings.Repeat("d", rapid.IntRange(2, 3000).Draw(t, "data"))
			hole := rapid.SampledFrom([]int64{1, 4096, 1 << 40}).Draw(t, "hole")
			e.Sparse = rapid.SampledFrom([][]index.SparseRun{
				{{Data: int64(len(data)), Hole: hole}}, {{Data: 0, Hole: hole}, {Data: int64(len(data))}}, {{Data: 1, Hole: hole}, {Data: int64(len(data)) - 1, Hole: 9}},
			}).Draw(t, "map")
			list = append(list, file(e, data))
		default:
			list = append(list, file(e, strings.Repeat("text ", rapid.IntRange(0, 5000).Draw(t, "data"))))
			if rapid.Bool().Draw(t, "link") {
				list = append(list, store.Source{Entry: index.Entry{Path: stored(e.Path.String() + "z"), Kind: index.File}, LinkTo: e.Path})
			}
		}
	}
	return list
}

// back reads a stream as a migration does.
func back(t *rapid.T, b []byte, open func(context.Context, source.Input, source.Options) (source.Archive, error)) iter.Seq[*source.Entry] {
	a, err := open(context.Background(), sourcetest.Input(b), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(*source.Entry) bool) {
		for e, err := range a.Entries(context.Background()) {
			if err != nil || e.Err != nil || len(e.Lost) > 0 {
				t.Fatalf("%+v, %v", e, err)
			}
			if !yield(e) {
				return
			}
		}
	}
}

func data(t *rapid.T, e *source.Entry) string {
	s, err := sourcetest.Content(e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What goes out as tar comes back with everything.
func TestTarAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ar := archive(t, draw(t)...)
		defer ar.Close()
		b, lost, left := run(t, ar, Tar)
		if len(lost)+len(left) > 0 {
			t.Fatal(lost, left)
		}
		n := 0
		for e := range back(t, b, tar.Open) {
			n++
			want, err := ar.Get(e.Entry.Path)
			if err != nil {
				t.Fatal(err)
			}
			if !e.LinkTo.IsZero() {
				if first, err := ar.Get(e.LinkTo); err != nil || first.LinkGroup != want.LinkGroup {
					t.Fatal(first, err)
				}
				continue
			}
			if want.Kind == index.File {
				f := want
				f.Size, f.Sparse = want.DataSize(), nil
				x, err := ar.Open(&f)
				if err != nil {
					t.Fatal(err)
				}
				var plain bytes.Buffer
				if _, err := x.CopyRange(context.Background(), &plain, 0, f.Size); err != nil || plain.String() != data(t, e) {
					t.Fatalf("%s: other bytes, %v", want.Path, err)
				}
			}
			want.Content, want.LinkGroup = 0, 0
			if !bytes.Equal(index.AppendEntry(nil, &want), index.AppendEntry(nil, &e.Entry)) {
				t.Fatalf("%+v\ncame back as %+v", want, e.Entry)
			}
		}
		in, err := ar.Info()
		if err != nil || uint64(n) != in.Entries {
			t.Fatal(n, in.Entries, err)
		}
		// Others read it, too; the standard library knows no records with its own sparse files' names.
		for r := stdtar.NewReader(bytes.NewReader(b)); ; n-- {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n != 0 {
			t.Fatalf("archive/tar finds %d entries less", n)
		}
	})
}

func TestZipAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := slices.DeleteFunc(draw(t), func(s store.Source) bool { return s.Entry.Sparse != nil }) // a terabyte of zeros
		list = append(list, file(index.Entry{Path: stored("always")}, "there"))
		ar := archive(t, list...)
		defer ar.Close()
		b, _, left := run(t, ar, Zip)
		n := len(left)
		for e := range back(t, b, zip.Open) {
			n++
			want, err := ar.Get(e.Entry.Path)
			if err != nil || want.Kind != e.Entry.Kind || want.Target != e.Entry.Target || want.UID != e.Entry.UID || want.Path != stored("always") && want.Mode != e.Entry.Mode {
				t.Fatalf("%+v came back as %+v, %v", want, e.Entry, err)
			}
			if inRange := want.MtimeSec >= -1<<31 && want.MtimeSec < 1<<31; inRange && want.HasMtime && want.MtimeSec != e.Entry.MtimeSec {
				t.Fatalf("%+v came back as %+v", want, e.Entry)
			}
			if want.Kind == index.File && int64(len(data(t, e))) != want.Size {
				t.Fatalf("%s: other length", want.Path)
			}
		}
		in, err := ar.Info()
		if err != nil || uint64(n) != in.Entries {
			t.Fatal(n, in.Entries, err)
		}
	})
}

// What ZIP cannot hold is said.
func TestZipLosses(t *testing.T) {
	f := index.Entry{Path: stored("f"), Xattrs: []index.Xattr{{Name: "user.x", Value: []byte("v")}}}
	ar := archive(t, file(f, "data"), store.Source{Entry: index.Entry{Path: stored("g"), Kind: index.File}, LinkTo: f.Path}, store.Source{Entry: index.Entry{Path: stored("p"), Kind: index.FIFO}})
	defer ar.Close()
	_, lost, left := run(t, ar, Zip)
	if len(lost) != 3 || !strings.Contains(strings.Join(lost, "\n"), "g: that it is another name of f") || len(left) != 1 {
		t.Errorf("lost %q, left %q", lost, left)
	}
}

// broken is a list that ends in an error behind its first entries.
func TestBroken(t *testing.T) {
	bad := errors.New("no more")
	for _, format := range []string{Tar, Zip} {
		ar := archive(t, file(index.Entry{Path: stored("a")}, "data"), file(index.Entry{Path: stored("b")}, "data"))
		var out bytes.Buffer
		_, err := Run(context.Background(), ar, func(yield func(index.Entry, error) bool) {
			for e, err := range ar.List(pathsafe.Path{}) {
				if !yield(e, err) {
					return
				}
				yield(index.Entry{}, bad)
				return
			}
		}, &out, Options{Format: format})
		if !errors.Is(err, bad) {
			t.Errorf("%s: %v", format, err)
		}
		in := sourcetest.Input(out.Bytes())
		open := tar.Open
		if format == Zip {
			open = zip.Open
		}
		a, err := open(context.Background(), in, source.Options{})
		if err == nil {
			for _, e := range a.Entries(context.Background()) {
				err = errors.Join(err, e)
			}
		}
		if err == nil {
			t.Errorf("%s: what is left of it is taken for whole", format)
		}
		if err := ar.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Other programs unpack it.
func TestRealPrograms(t *testing.T) {
	big := strings.Repeat("some text to compress; ", 100000)
	ar := archive(t, file(index.Entry{Path: stored("dir/f"), Mode: 0o640, HasMtime: true, MtimeSec: 1e9}, big), file(index.Entry{Path: stored("empty"), Mode: 0o600}, ""),
		file(index.Entry{Path: stored("sparse"), Mode: 0o600, Sparse: []index.SparseRun{{Data: 0, Hole: 1 << 20}, {Data: 4, Hole: 1 << 20}}}, "data"),
		store.Source{Entry: index.Entry{Path: stored("link"), Kind: index.Symlink, Target: "dir/f"}})
	defer ar.Close()
	dir := t.TempDir()
	for _, format := range []string{Tar, Zip} {
		b, _, _ := run(t, ar, format)
		if err := os.WriteFile(filepath.Join(dir, "x."+format), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"tar": {"tar", "xf", "../x.tar"}, "bsdtar": {"bsdtar", "xf", "../x.tar"}, "unzip": {"unzip", "-q", "../x.zip"}, "7z": {"7z", "x", "-bd", "../x.zip"},
		"tarfile": {"python3", "-c", "import tarfile; tarfile.open('../x.tar').extractall('.')"},
		"zipfile": {"python3", "-c", "import zipfile; zipfile.ZipFile('../x.zip').extractall('.')"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skipf("%s is not installed", args[0])
			}
			out := filepath.Join(dir, name)
			if err := os.Mkdir(out, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = out
			if b, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			for n, want := range map[string]string{"dir/f": big, "empty": "", "sparse": strings.Repeat("\x00", 1<<20) + "data" + strings.Repeat("\x00", 1<<20)} {
				if b, err := os.ReadFile(filepath.Join(out, n)); err != nil || string(b) != want {
					t.Errorf("%s: %d bytes, %v", n, len(b), err)
				}
			}
			if fi, err := os.Stat(filepath.Join(out, "dir/f")); err == nil && name != "zipfile" && fi.ModTime().Unix() != 1e9 {
				t.Errorf("its time is %v", fi.ModTime())
			}
		})
	}
}
