package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
)

// The golden archives of format version 1, one for each suite and cipher, and what they hold. The encrypted ones are opened
// with testIdentity, and the suites signed and both are padded. Until the first release it may be
// written anew when the format changes; from then on it never is, and every later version has to read it.

var updateGolden = flag.Bool("update", false, "write testdata/golden anew; not after the first release")

// golden is one of them.
type golden struct {
	name   string
	suite  format.Suite
	cipher seal.Algorithm
}

var goldens = []golden{
	{"v1-none", format.SuiteNone, 0}, {"v1-signed", format.SuiteSigned, 0}, {"v1-encrypted", format.SuiteEncrypted, seal.AESGCM},
	{"v1-encrypted-xchacha20", format.SuiteEncrypted, seal.XChaCha20}, {"v1-both", format.SuiteBoth, seal.AESGCM},
}

// goldenFile is a file of the golden archive of suite none.
func goldenFile(t testing.TB, ext string) []byte { return goldens[0].file(t, ext) }

func (g golden) path(ext string) string { return filepath.Join("testdata", "golden", g.name+ext) }

func (g golden) file(t testing.TB, ext string) []byte {
	t.Helper()
	b, err := os.ReadFile(g.path(ext))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenSources are two additions that together have entries of every kind that is stored, a pack, a raw frame
// with a tag table, equal contents, and fields of every sort.
func goldenSources() (first, second []Source) {
	r := rand.New(rand.NewPCG(1, 2))
	text, noise := bytes.Repeat([]byte("a line of text that repeats itself\n"), 40), randomBytes(r, 4200)
	file := func(path string, data []byte, change func(*index.Entry)) Source {
		e := index.Entry{Path: mustPath(path), Kind: index.File, Mode: 0o644, HasMtime: true, MtimeSec: 1764511980, MtimeNsec: 123456789, Size: int64(len(data))}
		if change != nil {
			change(&e)
		}
		return source(e, data)
	}
	other := func(e index.Entry, path string) Source {
		e.Path = mustPath(path)
		return source(e, nil)
	}
	first = []Source{
		other(index.Entry{Kind: index.Dir, Mode: 0o755, HasMtime: true, MtimeSec: 1764511980}, "docs"),
		file("docs/gone", text[:700], nil),
		file("docs/readme", text, func(e *index.Entry) { e.HasOwner, e.UID, e.GID, e.User, e.Group = true, 1000, 100, "alice", "staff" }),
		file("docs/same", text, func(e *index.Entry) { e.MtimeSec = -1 }),
	}
	second = []Source{
		other(index.Entry{Kind: index.Dir, Mode: 0o1777}, "a/b/empty"),
		file("a/b/noise", noise, func(e *index.Entry) {
			e.Mode, e.LinkGroup, e.HasBirth, e.BirthSec = 0o4755, 1, true, 5
			e.Xattrs = []index.Xattr{{Name: "user.a", Value: []byte("1")}}
		}),
		other(index.Entry{Kind: index.CharDevice, Mode: 0o666, HasDevice: true, Major: 1, Minor: 3}, "dev/null"),
		other(index.Entry{Kind: index.FIFO, Mode: 0o600}, "dev/pipe"),
		file("docs/nothing", nil, nil),
		other(index.Entry{Kind: index.Symlink, Mode: 0o777, HasMtime: true, MtimeSec: 7, Target: "../docs/readme"}, "links/up"),
		file("strange \xff\u202e\n name", text[:100], func(e *index.Entry) { e.HasMtime, e.MtimeSec, e.MtimeNsec = false, 0, 0 }),
	}
	return first, second
}

// make writes the archive: two transactions, so that superseded nodes and the pack of a removed entry have
// left their traces.
func (g golden) make(t *testing.T) []byte {
	cryptotest.SetGlobalRandom(t, 77) // of key slots
	w := newWorld(t, 77, Options{Jobs: 1, cipher: g.cipher})
	first, second := goldenSources()
	c := CreateOptions{Level: frames.LevelDefault}
	w.goldenKeys(g.suite)
	if g.suite.Encrypted() {
		c.Slots = x25519
	}
	if g.suite.Signed() {
		c.Padding = format.PadPadme
	}
	createWith(t, w.opt, c, slices.Values(first))
	w.change(func(tx *Tx) {
		if err := errors.Join(tx.Remove(mustPath("docs/gone")), tx.Add(ctx, slices.Values(second), nil)); err != nil {
			t.Fatal(err)
		}
	})
	w.verify()
	return w.mem.Bytes(name)
}

// goldenKeys gives a world the keys of the golden archives.
func (w *world) goldenKeys(suite format.Suite) {
	Protect(&w.opt, nil, suite)
	if suite.Encrypted() {
		w.opt.Unlock = unlockWith(testIdentity)
	}
}

// goldenManifest describes an archive as read: what it says of itself, every entry, the digest of every file.
func goldenManifest(t *testing.T, a *Archive) string {
	t.Helper()
	var b strings.Builder
	in, err := a.Info()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "# Pre-release: may be written anew until the first release.\nid %v\ngeneration %d\nroot %v\nsuite %v\nlevel %d\nsector %d\nentries %d\ncontents %d\nframes %d\nplain bytes %d\n",
		in.ID, in.Generation, in.Root, in.Suite, in.Level, in.Sector, in.Entries, in.Contents, in.Frames, in.PlainBytes)
	if in.Suite != format.SuiteNone {
		fmt.Fprintf(&b, "padding %v\n", in.Padding)
	}
	if in.Suite.Signed() {
		fmt.Fprintf(&b, "signer %v\n", in.Signer)
	}
	if in.Suite.Encrypted() {
		fmt.Fprintf(&b, "cipher %s\n", in.Cipher)
		for _, s := range in.Slots {
			fmt.Fprintf(&b, "slot %d %q %s\n", s.Number, s.Kinds, s.Label)
		}
	}
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n%v %s\n  mode %04o\n", e.Kind, pathsafe.Quote(e.Path.String()), e.Mode)
		field := func(has bool, format string, args ...any) {
			if has {
				fmt.Fprintf(&b, "  "+format+"\n", args...)
			}
		}
		field(e.HasMtime, "mtime %d %09d", e.MtimeSec, e.MtimeNsec)
		field(e.HasBirth, "birth time %d %09d", e.BirthSec, e.BirthNsec)
		field(e.HasOwner, "owner %d %d %q %q", e.UID, e.GID, e.User, e.Group)
		field(e.LinkGroup > 0, "link group %d", e.LinkGroup)
		field(e.HasDevice, "device %d %d", e.Major, e.Minor)
		field(e.Target != "", "target %q", e.Target)
		for _, x := range e.Xattrs {
			field(true, "xattr %q %q", x.Name, x.Value)
		}
		if e.Kind != index.File {
			continue
		}
		sum := blake3.Sum256(readFile(t, a, &e))
		field(true, "size %d\n  content %d\n  blake3 %x", e.Size, e.Content, sum)
		if d, err := a.Digest(&e); err != nil || d != sum {
			t.Errorf("%v: digest %v: %v", e.Path, d, err)
		}
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, g.test)
	}
}

func (g golden) test(t *testing.T) {
	if *updateGolden {
		b := g.make(t)
		w := newWorld(t, 1, Options{})
		w.goldenKeys(g.suite)
		w.mem.Put(name, b)
		a, err := Open(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		for ext, b := range map[string][]byte{".lbx": b, ".txt": []byte(goldenManifest(t, a))} {
			if err := os.WriteFile(g.path(ext), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	golden := g.file(t, ".lbx")
	if len(golden) > 40<<10 {
		t.Errorf("%d bytes", len(golden))
	}
	w := newWorld(t, 1, Options{Jobs: 2})
	w.goldenKeys(g.suite)
	w.mem.Put(name, bytes.Clone(golden))
	w.verify()
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(string(g.file(t, ".txt")), "\r\n", "\n")
	if got := goldenManifest(t, a); got != want {
		t.Errorf("the golden archive is read as\n%s\nwant\n%s", got, want)
	}
	if in, err := a.Info(); err != nil || !in.Clean || in.CopiesDamaged != 0 || in.PendingWipe != 0 {
		t.Errorf("%+v, %v", in, err)
	}
	w.learn(a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.check()
	if !bytes.Equal(w.mem.Bytes(name), golden) {
		t.Fatal("reading changed the file")
	}

	// It can be changed, too.
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"docs/new": []byte("new"), "docs/same": []byte("other"), "a/b/noise": {}})
		w.remove(tx, "docs/readme")
	})
	w.check()
}

// learn makes what an archive holds the model.
func (w *world) learn(a *Archive) {
	w.t.Helper()
	w.model, w.meta = map[string][]byte{}, map[string]index.Entry{}
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		p := e.Path.String()
		w.model[p], w.meta[p] = nil, e
		if e.Kind == index.File {
			w.model[p] = readFile(w.t, a, &e)
		}
	}
}

func readFile(t testing.TB, a *Archive, e *index.Entry) []byte {
	t.Helper()
	f, err := a.Open(e)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, f.Size())
	if n, err := f.ReadAt(data, 0); n != len(data) || err != nil && err != io.EOF {
		t.Fatalf("%v: %d bytes of %d: %v", e.Path, n, len(data), err)
	}
	return data
}
