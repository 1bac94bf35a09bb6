package migrate

import (
	stdtar "archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

func path(s string) pathsafe.Path {
	p, err := pathsafe.Parse(s)
	if err != nil {
		panic(err)
	}
	return p
}

// fake is an old archive of entries that a test makes.
type fake struct {
	info  source.Info
	reads int
	read  func(reading int, yield func(*source.Entry, error) bool)
}

func (f *fake) Info() source.Info { return f.info }
func (f *fake) Close() error      { return nil }
func (f *fake) Entries(context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) { f.reads++; f.read(f.reads, yield) }
}

// use makes a fake the format of every input.
func use(t *testing.T, f *fake) {
	was := formats
	t.Cleanup(func() { formats = was })
	formats = formats[:0:0]
	formats = append(formats, was[0])
	formats[0].probe = func(source.Input) source.Verdict { return source.Verdict{Format: "fake", Supported: true} }
	formats[0].open = func(context.Context, source.Input, source.Options) (source.Archive, error) { return f, nil }
}

func file(name, data string) *source.Entry {
	return &source.Entry{Name: name, Entry: index.Entry{Path: path(name), Kind: index.File, Mode: 0o644, Size: int64(len(data))},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }}
}

// list yields entries, the same in every reading.
func list(entries ...*source.Entry) func(int, func(*source.Entry, error) bool) {
	return func(_ int, yield func(*source.Entry, error) bool) {
		for _, e := range entries {
			c := *e
			if !yield(&c, nil) {
				return
			}
		}
	}
}

const (
	oldName = "old"
	newName = "new.lbx"
)

// migrateOn migrates the file old of a file system.
func migrateOn(fsys vfs.FS, from, to string, o Options) (Report, error) {
	ctx := context.Background()
	in, err := OpenInput(fsys, from)
	if err != nil {
		return Report{}, err
	}
	var ar *store.Archive
	o.Create = func(ctx context.Context, _ source.Info) (*store.Archive, error) {
		var err error
		ar, err = store.Create(ctx, to, store.Options{FS: fsys, Jobs: o.Jobs}, store.CreateOptions{})
		return ar, err
	}
	rep, err := Run(ctx, in, o)
	if ar != nil {
		err = errors.Join(err, ar.Close())
	}
	return rep, errors.Join(err, in.Close())
}

// run migrates whatever formats makes of a file.
func migrateFake(t *testing.T, f *fake, o Options) (*vfs.MemFS, Report, error) {
	t.Helper()
	use(t, f)
	m := vfs.Mem()
	m.Put(oldName, make([]byte, 1000))
	rep, err := migrateOn(m, oldName, newName, o)
	if err != nil && slices.Contains(m.Names(), newName) {
		t.Errorf("a migration that failed (%v) has left an archive", err)
	}
	return m, rep, err
}

// whole checks all of an archive.
func whole(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.Open(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum, err := verify.Run(context.Background(), f, verify.Options{Full: true, Finding: func(x verify.Finding) { t.Errorf("finding: %+v", x) }})
	if err != nil || !sum.Complete {
		t.Fatalf("verify: %+v, %v", sum, err)
	}
}

// contents reads an archive and checks all of it.
func contents(t *testing.T, fsys vfs.FS, name string) map[string]string {
	t.Helper()
	ctx := context.Background()
	whole(t, fsys, name)
	ar, err := store.Open(ctx, name, store.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	defer ar.Close()
	got := map[string]string{}
	for e, err := range ar.List(pathsafe.Path{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Path.String()] = e.Kind.String() + " " + e.Target
		if e.Kind == index.File {
			x, err := ar.Open(&e)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if _, err := x.CopyRange(ctx, &b, 0, x.Size()); err != nil {
				t.Fatal(err)
			}
			got[e.Path.String()] = b.String()
		}
	}
	return got
}

// Contents short and long, of known and unknown length, from archives that are read in order and in any.
func TestRun(t *testing.T) {
	long := strings.Repeat("long enough to be read as it comes; ", 90000)
	for _, random := range []bool{false, true} {
		for _, jobs := range []int{1, 3} {
			unknown := file("dir/unknown", long+"!")
			unknown.Entry.Size = -1
			short := file("dir/short", "short")
			short.Entry.Size = -1
			link := &source.Entry{Name: "other", Entry: index.Entry{Path: path("other"), Kind: index.File}, LinkTo: path("dir/known")}
			sym := &source.Entry{Name: "sym", Entry: index.Entry{Path: path("sym"), Kind: index.Symlink, Target: "x"}}
			dir := &source.Entry{Name: "dir/", Entry: index.Entry{Path: path("dir"), Kind: index.Dir, Mode: 0o700}}
			known := file("dir/known", long)
			sparse := file("sparse", "data")
			sparse.Entry.Size, sparse.Entry.Sparse = 1<<20, []index.SparseRun{{Data: 0, Hole: 1<<20 - 4}, {Data: 4}}
			f := &fake{info: source.Info{Format: "fake", Links: true, Random: random, Entries: -1, Bytes: -1}}
			entries := []*source.Entry{file("a", "1"), known, file("empty", ""), link, sym, dir, sparse}
			if !random {
				entries = append(entries, unknown, short, file("last", "z"))
			}
			f.read = list(entries...)
			m, rep, err := migrateFake(t, f, Options{Jobs: jobs})
			if err != nil || rep.Entries != int64(len(entries)) || f.reads != 2 {
				t.Fatalf("random %v, %d jobs: %+v, %d readings, %v", random, jobs, rep, f.reads, err)
			}
			got := contents(t, m, newName)
			if got["dir/known"] != long || got["other"] != long || got["empty"] != "" || got["sym"] != "symlink x" || got["sparse"] != strings.Repeat("\x00", 1<<20-4)+"data" {
				t.Errorf("random %v: other contents", random)
			}
			if !random && (got["dir/unknown"] != long+"!" || got["dir/short"] != "short" || got["last"] != "z") {
				t.Error("other contents")
			}
		}
	}
}

// brokenReader gives some bytes and then an error.
func brokenEntry(name string, err error) *source.Entry {
	e := file(name, "12345")
	e.Open = func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("123"), iotest{err})), nil
	}
	return e
}

type iotest struct{ err error }

func (i iotest) Read([]byte) (int, error) {
	if i.err == nil {
		panic("a decoder gave up")
	}
	return 0, i.err
}

// What cannot be carried over makes it fail, and with AllowLoss is in the report.
func TestLosses(t *testing.T) {
	damage := format.Corrupt("x", -1, "gone")
	long := file("long", strings.Repeat("x", 3<<20))
	cut := *long
	cut.Name, cut.Entry.Path = "cut", path("cut")
	cut.Open = func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("y", 2<<20)), iotest{io.ErrUnexpectedEOF})), nil
	}
	below := file("a/below", "x")
	for _, c := range []struct {
		what    string
		entries []*source.Entry
		lost    string // a part of the reason
		damaged bool
		stored  []string
	}{
		{"damaged", []*source.Entry{file("a", "1"), brokenEntry("b", damage), file("c", "3")}, "gone", true, []string{"a", "c"}},
		{"ends early", []*source.Entry{file("a", "1"), brokenEntry("b", io.ErrUnexpectedEOF)}, "end too early", true, []string{"a"}},
		{"long, ends early", []*source.Entry{file("a", "1"), &cut, long}, "end too early", true, []string{"a", "long"}},
		{"panics", []*source.Entry{brokenEntry("b", nil), file("c", "3")}, "gave up", true, []string{"c"}},
		{"an attribute", []*source.Entry{{Name: "d", Entry: index.Entry{Path: path("d"), Kind: index.Dir}, Lost: []string{"its soul"}}}, "its soul", false, []string{"d"}},
		{"an entry", []*source.Entry{{Name: "..", Err: errors.New("a bad name")}, file("c", "3")}, "a bad name", false, []string{"c"}},
		{"twice", []*source.Entry{file("a", "1"), file("a", "2")}, "same name", false, []string{"a"}},
		{"below a file", []*source.Entry{file("a", "1"), below}, "no directory", false, []string{"a"}},
		{"over a directory", []*source.Entry{below, file("a", "1")}, "a directory has the same name", false, []string{"a/below"}},
		{"a link of nothing", []*source.Entry{{Name: "l", Entry: index.Entry{Path: path("l"), Kind: index.File}, LinkTo: path("none")}, file("a", "1")}, "not among the files", false, []string{"a"}},
		{"a link of a directory", []*source.Entry{{Name: "d", Entry: index.Entry{Path: path("d"), Kind: index.Dir}}, {Name: "l", Entry: index.Entry{Path: path("l"), Kind: index.File}, LinkTo: path("d")}}, "not among the files", false, []string{"d"}},
		{"a socket", []*source.Entry{{Name: "s", Entry: index.Entry{Path: path("s"), Kind: index.Socket}}, file("a", "1")}, "socket", false, []string{"a"}},
	} {
		for _, random := range []bool{false, true} {
			for _, allow := range []bool{false, true} {
				f := &fake{info: source.Info{Format: "fake", Links: true, Random: random, Entries: -1, Bytes: -1}, read: list(c.entries...)}
				told := 0
				m, rep, err := migrateFake(t, f, Options{AllowLoss: allow, Jobs: 2, Lost: func(Loss) { told++ }})
				if len(rep.Lost) != 1 || told != 1 || !strings.Contains(rep.Lost[0].Reason, c.lost) || rep.Lost[0].Damage != c.damaged {
					t.Errorf("%s, random %v: lost %+v, %v", c.what, random, rep.Lost, err)
				}
				var loss *LossError
				if !allow {
					if !errors.As(err, &loss) || errors.Is(err, format.ErrCorrupt) != c.damaged || f.reads != 1 {
						t.Errorf("%s: %v after %d readings", c.what, err, f.reads)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s, random %v: %v", c.what, random, err)
					continue
				}
				got := contents(t, m, newName)
				for _, n := range c.stored {
					if _, ok := got[n]; !ok {
						t.Errorf("%s: %s is not there", c.what, n)
					}
				}
				if len(got) != len(c.stored) {
					t.Errorf("%s: %v", c.what, got)
				}
			}
		}
	}
}

// Whatever is no directory can have further names, as in a tree that cp -al copied.
func TestLinksOfOtherKinds(t *testing.T) {
	other := func(name, to string) *source.Entry {
		return &source.Entry{Name: name, Entry: index.Entry{Path: path(name), Kind: index.File}, LinkTo: path(to)}
	}
	for _, random := range []bool{false, true} {
		f := &fake{info: source.Info{Format: "fake", Random: random, Repeats: true, Links: true, Entries: -1, Bytes: -1}, read: list(
			&source.Entry{Name: "s", Entry: index.Entry{Path: path("s"), Kind: index.Symlink, Target: "to"}}, other("s2", "s"), other("s3", "s"),
			&source.Entry{Name: "p", Entry: index.Entry{Path: path("p"), Kind: index.FIFO}}, other("p2", "p"),
			file("below/f", "1"))}
		m, rep, err := migrateFake(t, f, Options{})
		if err != nil || rep.Entries != 6 {
			t.Fatalf("%v, %+v", err, rep)
		}
		got := contents(t, m, newName)
		for name, want := range map[string]string{"s": "symlink to", "s2": "symlink to", "s3": "symlink to", "p": "fifo ", "p2": "fifo "} {
			if got[name] != want {
				t.Errorf("%s is %q", name, got[name])
			}
		}
		// Nothing can lie below another name of a symbolic link.
		f.read = list(&source.Entry{Name: "s", Entry: index.Entry{Path: path("s"), Kind: index.Symlink, Target: "/"}}, other("s2", "s"), file("s2/x", "1"))
		var loss *LossError
		if _, _, err := migrateFake(t, f, Options{}); !errors.As(err, &loss) {
			t.Errorf("a file below a link: %v", err)
		}
	}
}

// A key that opens nothing is no loss that could be allowed; where it opens some of the archive, the rest is one.
func TestWrongKey(t *testing.T) {
	closed := brokenEntry("closed", &format.Error{Kind: format.ErrAuth, Record: "x", Offset: -1})
	dir := &source.Entry{Name: "d", Entry: index.Entry{Path: path("d"), Kind: index.Dir}}
	for _, random := range []bool{false, true} {
		for _, allow := range []bool{false, true} {
			info := source.Info{Format: "fake", Random: random, Encrypted: true, Entries: -1, Bytes: -1}
			_, _, err := migrateFake(t, &fake{info: info, read: list(dir, closed)}, Options{AllowLoss: allow})
			var loss *LossError
			if !errors.Is(err, format.ErrAuth) || errors.As(err, &loss) {
				t.Errorf("random %v, allow %v, nothing opens: %v", random, allow, err)
			}
			_, rep, err := migrateFake(t, &fake{info: info, read: list(dir, closed, file("open", "1"))}, Options{AllowLoss: allow})
			if allow && (err != nil || rep.Entries != 2 || len(rep.Lost) != 1) || !allow && (!errors.Is(err, format.ErrAuth) || !errors.As(err, &loss)) {
				t.Errorf("random %v, allow %v, one opens: %v, %+v", random, allow, err, rep)
			}
		}
	}
}

// The lists of a report have a bound, whatever an old archive says; the losses are counted and told all the same.
func TestManyLosses(t *testing.T) {
	name, n := strings.Repeat("n", 16<<20), 20
	told := 0
	f := &fake{info: source.Info{Format: "fake", Entries: -1, Bytes: -1}, read: func(_ int, yield func(*source.Entry, error) bool) {
		for range n {
			if !yield(&source.Entry{Name: name, Err: errors.New("bad")}, nil) {
				return
			}
		}
	}}
	_, rep, err := migrateFake(t, f, Options{Lost: func(Loss) { told++ }})
	var loss *LossError
	if !errors.As(err, &loss) || loss.Count != n || told != n || len(rep.Lost)+rep.Unlisted != n || len(rep.Lost) != listMax/(16<<20)-1 {
		t.Errorf("%v: %d told, %d listed, %d not", err, told, len(rep.Lost), rep.Unlisted)
	}
}

// In tar a path that comes again stands for a newer state.
func TestRepeats(t *testing.T) {
	f := &fake{info: source.Info{Format: "fake", Links: true, Repeats: true, Entries: -1, Bytes: -1}, read: list(file("a", "1"), file("b", "x"), file("a", "two"))}
	m, rep, err := migrateFake(t, f, Options{})
	if err != nil || !slices.Equal(rep.Repeated, []string{"a"}) || rep.Entries != 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if got := contents(t, m, newName); got["a"] != "two" {
		t.Errorf("a is %q", got["a"])
	}
}

// An archive that does not say the same twice never becomes a new one.
func TestSecondReading(t *testing.T) {
	second := func(e *source.Entry, change func(*source.Entry)) func(int, func(*source.Entry, error) bool) {
		return func(reading int, yield func(*source.Entry, error) bool) {
			c := *e
			if reading == 2 {
				change(&c)
			}
			if yield(file("before", "x"), nil) {
				yield(&c, nil)
			}
		}
	}
	e := file("f", "data")
	for what, read := range map[string]func(int, func(*source.Entry, error) bool){
		"bytes":   second(e, func(c *source.Entry) { *c = *file("f", "dat4") }),
		"length":  second(e, func(c *source.Entry) { *c = *file("f", "data longer") }),
		"mode":    second(e, func(c *source.Entry) { c.Entry.Mode = 0o600 }),
		"time":    second(e, func(c *source.Entry) { c.Entry.HasMtime = true }),
		"name":    second(e, func(c *source.Entry) { c.Entry.Path = path("g") }),
		"unread":  second(e, func(c *source.Entry) { c.Open = brokenEntry("f", errors.New("io")).Open }),
		"refused": second(e, func(c *source.Entry) { c.Err = errors.New("no more") }),
		"kind":    second(e, func(c *source.Entry) { c.Entry.Kind, c.Entry.Size, c.Open = index.Dir, 0, nil }),
		"one more": func(n int, yield func(*source.Entry, error) bool) {
			list(append([]*source.Entry{e}, extra(n)...)...)(n, yield)
		},
		"one less": func(n int, yield func(*source.Entry, error) bool) {
			list(append([]*source.Entry{e}, extra(3-n)...)...)(n, yield)
		},
	} {
		for _, random := range []bool{false, true} {
			f := &fake{info: source.Info{Format: "fake", Links: true, Random: random, Entries: -1, Bytes: -1}, read: read}
			if _, _, err := migrateFake(t, f, Options{Jobs: 2}); err == nil || f.reads != 2 {
				t.Errorf("%s, random %v: %v after %d readings", what, random, err, f.reads)
			}
		}
	}
}

func extra(reading int) []*source.Entry {
	if reading == 2 {
		return []*source.Entry{file("extra", "x")}
	}
	return nil
}

func TestLimits(t *testing.T) {
	zeros := func(n int64) *source.Entry {
		e := file("z", "")
		e.Entry.Size = -1
		e.Open = func() (io.ReadCloser, error) { return io.NopCloser(io.LimitReader(zeroReader{}, n)), nil }
		return e
	}
	info := source.Info{Format: "fake", Links: true, Entries: -1, Bytes: -1}
	for _, c := range []struct {
		what string
		f    *fake
		l    Limits
		ok   bool
	}{
		{"size", &fake{info: info, read: list(file("a", "12345"), file("b", "12345"))}, Limits{Size: 9}, false},
		{"just so", &fake{info: info, read: list(file("a", "12345"), file("b", "1234"))}, Limits{Size: 9}, true},
		{"entries", &fake{info: info, read: list(file("a", ""), file("b", ""))}, Limits{Entries: 1}, false},
		{"ratio", &fake{info: info, read: list(zeros(RatioFrom + 1))}, Limits{Ratio: 3}, false},
		{"what it says of itself", &fake{info: source.Info{Entries: 1, Bytes: 1 << 40}, read: list(file("a", ""))}, Limits{}, false},
		{"how many it says", &fake{info: source.Info{Entries: 1 << 40, Bytes: 1}, read: list(file("a", ""))}, Limits{}, false},
	} {
		// AllowLoss makes no difference.
		_, _, err := migrateFake(t, c.f, Options{Limits: c.l, AllowLoss: true, Jobs: 2})
		if c.ok && err != nil || !c.ok && !errors.Is(err, source.ErrLimit) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A file that is written to while it is read is noticed, and nobody's archive is overwritten.
func TestInputAndOutput(t *testing.T) {
	var m *vfs.MemFS
	f := &fake{info: source.Info{Format: "fake", Links: true, Entries: -1, Bytes: -1}}
	f.read = func(n int, yield func(*source.Entry, error) bool) {
		if n == 2 {
			m.Put(oldName, make([]byte, 999))
		}
		yield(file("a", "1"), nil)
	}
	use(t, f)
	m = vfs.Mem()
	m.Put(oldName, make([]byte, 1000))
	if _, err := migrateOn(m, oldName, newName, Options{}); !errors.Is(err, ErrChanged) {
		t.Errorf("changed: %v", err)
	}
	f.read = list(file("a", "1"))
	m.Put(newName, []byte("mine"))
	if _, err := migrateOn(m, oldName, newName, Options{}); !errors.Is(err, fs.ErrExist) || string(m.Bytes(newName)) != "mine" {
		t.Errorf("taken: %v", err)
	}
}

// tarOf is a real archive with some files.
func tarOf(t *testing.T) []byte {
	var b bytes.Buffer
	w := stdtar.NewWriter(&b)
	for i := range 5 {
		data := fmt.Appendf(nil, "content %d", i)
		err := w.WriteHeader(&stdtar.Header{Name: fmt.Sprintf("dir/%d", i), Mode: 0o600, Size: int64(len(data)), ModTime: time.Unix(int64(i), 0), Typeflag: stdtar.TypeReg})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestProbe(t *testing.T) {
	for want, b := range map[string][]byte{"tar": tarOf(t), "zip": []byte("PK\x05\x06" + strings.Repeat("\x00", 18)), "": []byte("some text"), "gzip": []byte("\x1f\x8b\x08\x00 no archive")} {
		if v := Probe(sourcetest.Input(b)); v.Format != want || v.Supported != (want == "tar" || want == "zip") {
			t.Errorf("%q: %+v", want, v)
		}
	}
}

// Whatever the bytes are: a new archive that is whole, or none.
func FuzzRun(f *testing.F) {
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	for _, name := range []string{"zip/testdata/infozip.zip", "zip/testdata/7z-deflate64.zip", "tar/testdata/pax-sparse-1.0.tar.gz", "tar/testdata/gnu.tar.gz"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, allow := range []bool{false, true} {
			m := vfs.Mem()
			m.Put(oldName, b)
			_, err := migrateOn(m, oldName, newName, Options{Jobs: 1, AllowLoss: allow, Limits: Limits{Size: 1 << 20, Entries: 100}})
			if there := slices.Contains(m.Names(), newName); there != (err == nil) {
				t.Fatalf("there is an archive: %v; %v", there, err)
			}
			if !bytes.Equal(m.Bytes(oldName), b) {
				t.Fatal("the old archive was changed")
			}
			if err == nil {
				whole(t, m, newName)
			}
		}
	})
}
