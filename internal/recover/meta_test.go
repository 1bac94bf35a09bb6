package recover

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// withMetadata adds a sparse file, names of one file, special files and large sets of extended attributes.
func withMetadata(t *testing.T, w *world) {
	a, err := store.OpenWrite(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	w.commit(a, func(tx *store.Tx) {
		file := func(e index.Entry, p string, data []byte) store.Source {
			e.Path, e.Kind = path(t, p), index.File
			if e.Sparse == nil {
				e.Size = int64(len(data))
			}
			return store.Source{Entry: e, Open: func() (store.Reader, index.Entry, error) {
				return plainReader{bytes.NewReader(data)}, e, nil
			}}
		}
		set := func(n int) []index.Xattr {
			return []index.Xattr{{Name: "user.a", Value: text(n, uint64(n))}, {Name: "user.b", Value: []byte{0xff}}}
		}
		link := func(p, to string) store.Source {
			return store.Source{Entry: index.Entry{Path: path(t, p)}, LinkTo: path(t, to)}
		}
		holes := index.Entry{Size: 1 << 40, Sparse: []index.SparseRun{{Data: 100_000, Hole: 1<<40 - 200_000}, {Data: 100_000}}}
		err := tx.Add(ctx, slices.Values([]store.Source{
			{Entry: index.Entry{Path: path(t, "m"), Kind: index.Dir, Mode: 0o755, Xattrs: set(40_000)}},
			{Entry: index.Entry{Path: path(t, "m/char"), Kind: index.CharDevice, HasDevice: true, Major: 1, Minor: 3}},
			{Entry: index.Entry{Path: path(t, "m/fifo"), Kind: index.FIFO, Mode: 0o600, HasMtime: true, MtimeSec: -1 << 40}},
			file(holes, "m/holes", random(200_000, 7)),
			file(index.Entry{Mode: 0o4674, LinkGroup: tx.NewLinkGroup(), Xattrs: set(200_000)}, "m/name1", text(5000, 8)),
			link("m/name2", "m/name1"),
			link("name3", "m/name1"),
			file(index.Entry{Xattrs: set(10)}, "m/small", text(50, 9)),
			file(index.Entry{LinkGroup: tx.NewLinkGroup()}, "m/x1", random(3000, 10)),
			link("m/x2", "m/x1"),
		}), func(a store.Added) {
			if a.Err != nil {
				t.Errorf("%v: %v", a.Path, a.Err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// described lists what an archive's entries say, with extended attributes and digests in place of the numbers of
// contents, and small numbers in place of those of link groups.
func described(t *testing.T, o store.Options) (all []string) {
	t.Helper()
	a, err := store.Open(ctx, name, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	groups := map[uint64]uint64{0: 0}
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			t.Fatal(err)
		}
		d, err := a.Digest(&e)
		if err != nil {
			t.Fatal(err)
		}
		if e.Xattrs, err = a.Xattrs(ctx, &e); err != nil {
			t.Fatal(err)
		}
		if _, ok := groups[e.LinkGroup]; !ok {
			groups[e.LinkGroup] = uint64(len(groups))
		}
		e.Content, e.XattrsContent, e.LinkGroup = 0, 0, groups[e.LinkGroup]
		all = append(all, fmt.Sprintf("%x %+v", d, e))
	}
	return all
}

// Everything that an entry says is recovered, in the archive that it is recovered into with numbers of its own.
func TestMetadata(t *testing.T) {
	w := sample(t, 512)
	withMetadata(t, w)
	want := described(t, w.opt)
	for _, jobs := range []int{1, 3} {
		rep, mem, _ := intoArchive(t, memFile{b: w.bytes()}, jobs)
		if !rep.Complete {
			t.Errorf("%+v", rep)
		}
		o := w.opt
		o.FS = mem
		if got := described(t, o); !reflect.DeepEqual(got, want) {
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("recovered\n%.300s, want\n%.300s", got[i], want[i])
				}
			}
		}
	}
	if o, err := salvageOf(memFile{b: w.bytes()}); err != nil || !o.rep.Complete {
		t.Errorf("%v\n%s", err, o)
	}
	if rep, err := Run(ctx, memFile{b: w.bytes()}, Options{Jobs: 2}); err != nil || !rep.Complete {
		t.Errorf("%v %+v", err, rep)
	}
}

// Where what an entry refers to is damaged, it is said what is left of it.
func TestDamagedMetadata(t *testing.T) {
	w := sample(t, 512)
	withMetadata(t, w)
	a, err := store.Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	entry := func(p string) index.Entry {
		e, err := a.Get(path(t, p))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	parts, _ := w.parts()
	// hit damages the first frame of a content in its middle.
	hit := func(content uint64) []byte {
		b := w.bytes()
		for _, p := range parts {
			if slices.Contains(p.f.Contents, content) {
				b[p.ext.Off+p.ext.Len/2] ^= 1
				return b
			}
		}
		t.Fatalf("content %d has no frame", content)
		return nil
	}
	xattrs := hit(entry("m/name1").XattrsContent)
	for what, c := range map[string]struct {
		b         []byte
		recovered []string // and not said to be lost in part
		partial   []string
	}{
		"attributes of three names": {xattrs, []string{"m/x2", "m/holes", "m"}, []string{"m/name1", "m/name2", "name3"}},
		"attributes of a directory": {hit(entry("m").XattrsContent), []string{"m/name1", "name3"}, []string{"m"}},
		"data between holes":        {hit(entry("m/holes").Content), []string{"m/name1"}, []string{"m/holes"}},
	} {
		o, err := salvageOf(memFile{b: c.b})
		if err != nil {
			t.Fatal(err)
		}
		var partial []string
		for _, l := range o.lost {
			partial = append(partial, l.Path)
			if l.Status != StatusPartial {
				t.Errorf("%s: %+v", what, l)
			}
			for _, r := range l.Intact {
				if r.From >= 100_000 && r.To <= 1<<40-100_000 || r.To-r.From > 100_000 {
					t.Errorf("%s: %+v", what, l)
				}
			}
		}
		if !slices.Equal(partial, c.partial) {
			t.Errorf("%s: partial are %q, want %q\n%s", what, partial, c.partial, o)
		}
		// Whose attributes are lost may have had an access control list, without which the mode grants too much.
		for p, e := range o.got.all {
			was := entry(p)
			want := was.Mode
			if was.XattrsContent != 0 && slices.Contains(c.partial, p) {
				want &^= 0o077
			}
			if e.Mode != want {
				t.Errorf("%s: the mode of %s is %#o, was %#o", what, p, e.Mode, was.Mode)
			}
		}
		for _, p := range c.recovered {
			if _, ok := o.got.all[p]; !ok {
				t.Errorf("%s: %s is not recovered", what, p)
			}
		}
	}
}

// Names that are said to be of one file and differ become files of their own.
func TestLinksThatDiffer(t *testing.T) {
	s := &salvage{sink: &rehearsal{}}
	e := func(p string, mode uint32) index.Entry {
		return index.Entry{Path: path(t, p), Kind: index.File, Mode: mode, LinkGroup: 77}
	}
	first, same, other := e("a", 1), e("b", 1), e("c", 2)
	same.Unknown = []byte{200, 1, 1}
	for _, c := range []struct {
		e    index.Entry
		to   string
		note bool
	}{{first, "", false}, {same, "a", false}, {other, "", true}, {same, "a", false}} {
		got := c.e
		to, note := s.link(&got, &c.e)
		if to.String() != c.to || (note != "") != c.note || (got.LinkGroup == 0) != c.note {
			t.Errorf("%v: %v, %q, group %d", c.e.Path, to, note, got.LinkGroup)
		}
	}
}
