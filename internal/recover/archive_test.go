package recover

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/store"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

var ctx = context.Background()

const name = "a.lbx"

// memFile is a damaged file. Reads that touch broken fail.
type memFile struct {
	b      []byte
	broken func(off int64, n int) bool
}

var errBroken = errors.New("input/output error")

func (f memFile) Size() (int64, error) { return int64(len(f.b)), nil }
func (f memFile) ReadAt(p []byte, off int64) (int, error) {
	if f.broken != nil && f.broken(off, len(p)) {
		return 0, errBroken
	}
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// world is an archive and what it holds.
type world struct {
	t     testing.TB
	mem   *vfs.MemFS
	opt   store.Options
	suite format.Suite
	model map[string]index.Entry
	data  map[string][]byte
}

func newWorld(t testing.TB, c store.CreateOptions) *world { return newWorldOf(t, c, format.SuiteNone) }

func newWorldOf(t testing.TB, c store.CreateOptions, suite format.Suite) *world {
	w := &world{t: t, suite: suite, mem: vfs.Mem(), model: map[string]index.Entry{}, data: map[string][]byte{}}
	w.opt = store.Options{FS: w.mem, Jobs: 1, Entropy: rand.NewChaCha8([32]byte{9}), CacheBytes: 1 << 20}
	protect(&w.opt, &c, suite)
	a, err := store.Create(ctx, name, w.opt, c)
	if err != nil {
		t.Fatal(err)
	}
	w.commit(a, func(*store.Tx) {})
	return w
}

func (w *world) commit(a *store.Archive, fn func(*store.Tx)) {
	w.t.Helper()
	tx, err := a.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	fn(tx)
	if _, err := tx.Commit(ctx); err != nil {
		w.t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// change runs one transaction that stores and removes.
func (w *world) change(add map[string]any, remove ...string) {
	w.t.Helper()
	a, err := store.OpenWrite(ctx, name, w.opt)
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(a, func(tx *store.Tx) {
		var src []store.Source
		for _, p := range slices.Sorted(maps.Keys(add)) {
			e := index.Entry{Path: path(w.t, p), Kind: index.Dir, Mode: 0o755, HasMtime: true, MtimeSec: 1e9}
			switch v := add[p].(type) {
			case []byte:
				e.Kind, e.Mode, e.Size = index.File, 0o640, int64(len(v))
				w.data[p] = v
			case string:
				e.Kind, e.Target = index.Symlink, v
			}
			s := store.Source{Entry: e}
			if e.Kind == index.File {
				s.Open = func() (store.Reader, index.Entry, error) {
					return plainReader{bytes.NewReader(w.data[p])}, e, nil
				}
			}
			src = append(src, s)
			w.model[p] = e
		}
		err := tx.Add(ctx, slices.Values(src), func(a store.Added) {
			if a.Err != nil {
				w.t.Errorf("%v: %v", a.Path, a.Err)
			}
		})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, p := range remove {
			if err := tx.Remove(path(w.t, p)); err != nil {
				w.t.Fatal(err)
			}
			delete(w.model, p)
			delete(w.data, p)
		}
	})
}

func (w *world) bytes() []byte { return w.mem.Bytes(name) }

type plainReader struct{ *bytes.Reader }

func (plainReader) Close() error { return nil }
func (plainReader) Check() error { return nil }

func path(t testing.TB, s string) pathsafe.Path {
	t.Helper()
	p, err := pathsafe.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	line := make([]byte, 0, 64)
	var b []byte
	for len(b) < n {
		if len(b)%8192 < 64 {
			line = fmt.Appendf(line[:0], "line %x of a text that repeats itself\n", r.Uint64())
		}
		b = append(b, line...)
	}
	return b[:n]
}

func random(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// sample has files in packs, compressed and not, a file of several frames, an empty one, a link,
// directories, and something that was removed.
func sample(t testing.TB, sector int64) *world { return sampleOf(t, sector, format.SuiteNone) }

func sampleOf(t testing.TB, sector int64, suite format.Suite) *world {
	w := newWorldOf(t, store.CreateOptions{Level: frames.LevelDefault, Sector: sector}, suite)
	add := map[string]any{"docs": nil, "big": text(300_000, 7), "empty": []byte{}, "link": "docs/f00", "raw": nil, "gone": text(700, 50)}
	for k := range 6 {
		add[fmt.Sprintf("docs/f%02d", k)] = text(100+37*k, uint64(100+k))
	}
	w.change(add)
	w.change(map[string]any{"raw/a": random(9000, 1), "raw/b": random(500, 2), "raw/c": random(300, 3), "docs/again": text(137, 101)}, "gone")
	return w
}

// collector is a Sink in memory.
type collector struct {
	opt   store.CreateOptions
	files map[string][]byte
	all   map[string]index.Entry

	groups uint64
}

func (c *collector) NewLinkGroup() uint64 {
	c.groups++
	return 1000 + c.groups
}

func (c *collector) Add(_ context.Context, sources iter.Seq[store.Source], done func(store.Added)) error {
	for src := range sources {
		if !src.LinkTo.IsZero() && c.all[src.LinkTo.String()].LinkGroup == 0 {
			done(store.Added{Path: src.Entry.Path, Err: fmt.Errorf("%v is no first name", src.LinkTo)})
			continue
		}
		e := src.Entry
		e.Xattrs = nil // there may be more than a record holds
		a := store.Added{Path: e.Path, Err: e.Check()}
		e = src.Entry
		if src.Open != nil {
			var b []byte
			r, e2, err := src.Open()
			if err == nil {
				e = e2
				buf := bytes.NewBuffer(make([]byte, 0, e.DataSize()+bytes.MinRead))
				_, err = io.Copy(buf, r)
				b = buf.Bytes()
			}
			if a.Err = err; err == nil {
				if _, twice := c.files[e.Path.String()]; twice {
					a.Err = fmt.Errorf("%v comes twice", e.Path)
				}
				c.files[e.Path.String()] = b
				a.Bytes = int64(len(b))
			}
		} else if e.Kind == index.File {
			c.files[e.Path.String()] = nil
		}
		if a.Err == nil {
			c.all[e.Path.String()] = e
		}
		done(a)
	}
	return nil
}

// outcome is what a recovery came to.
type outcome struct {
	rep   Report
	got   collector
	lost  []Loss
	items []Item
	notes []string
}

func (o *outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", o.rep)
	for _, n := range o.notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, l := range o.lost {
		fmt.Fprintf(&b, "lost: %+v\n", l)
	}
	for _, i := range o.items {
		fmt.Fprintf(&b, "item: %v %s %d %s\n", i.Path, i.Status, i.Bytes, i.Reason)
	}
	return b.String()
}

func salvageOf(src Source) (*outcome, error) { return salvageWith(src, nil) }

func (w *world) salvage(src Source) (*outcome, error) { return salvageWith(src, w.opt.Unlock) }

func salvageWith(src Source, unlock seal.Unlock) (*outcome, error) {
	o := &outcome{got: collector{files: map[string][]byte{}, all: map[string]index.Entry{}}}
	var err error
	o.rep, err = Run(ctx, src, Options{
		Unlock: unlock,
		Create: func(c store.CreateOptions) (Sink, error) { o.got.opt = c; return &o.got, nil },
		Found:  func(i Item) { o.items = append(o.items, i) },
		Lost:   func(l Loss) { o.lost = append(o.lost, l) },
		Note:   func(n string) { o.notes = append(o.notes, n) },
	})
	return o, err
}

// part is what a range of a good archive belongs to.
type part struct {
	ext  format.Extent
	kind string
	t    index.Tree
	f    index.Frame
	num  uint64
}

// parts lists what a good archive consists of, and the contents' bytes by number.
func (w *world) parts() (ps []part, contents map[uint64][]byte) {
	w.t.Helper()
	b := w.bytes()
	src := memFile{b: b}
	s := &salvage{ctx: ctx, src: src, size: int64(len(b)), o: Options{Unlock: w.opt.Unlock}}
	s.nodes.s = s
	copies, err := journal.ReadCopies(src)
	if err == nil {
		s.newest = copies.Current
		err = s.unlock([]state{{super: copies.Current}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if ok, err := s.take(state{super: copies.Current}); !ok || err != nil {
		w.t.Fatal(ok, err)
	}
	ps = append(ps, part{ext: copies.Current.CommitExtent(), kind: "commit"})
	if k := copies.Current.KeyDirExtent(); k.Len > 0 {
		ps = append(ps, part{ext: k, kind: "keys"})
	}
	contents = map[uint64][]byte{}
	for t := index.Entries; t <= index.Free; t++ {
		err := index.Walk(&s.nodes, t, s.base.roots[t], func(level int, ref index.Ref, n *index.Node, _, _ []byte) error {
			ps = append(ps, part{ext: format.Extent{Off: ref.Off, Len: int64(ref.Len)}, kind: "node", t: t, num: uint64(level)})
			if w.suite.Encrypted() {
				ps[len(ps)-1].ext.Len = format.AlignUp(int64(ref.Len), s.sector) // the fill is sealed with it
			}
			if level > 0 {
				return nil
			}
			sc := n.Scan()
			for sc.Next() {
				switch t {
				case index.Entries:
					e, err := index.DecodeEntry(sc.Key(), sc.Value())
					if err != nil {
						return err
					}
					if e.Content != 0 {
						contents[e.Content] = w.data[e.Path.String()]
					}
				case index.Frames:
					f, err := index.DecodeFrame(sc.Value(), s.tag, s.sector)
					if err != nil {
						return err
					}
					ps = append(ps, part{ext: f.Ext, kind: "frame", f: f, num: binary.BigEndian.Uint64(sc.Key())})
				}
			}
			return sc.Err()
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return ps, contents
}

// check holds an outcome against what the archive held: nothing wrong may be in it, and what is not in it
// must have been said. It returns the names that are missing.
func (w *world) check(what string, o *outcome, contents map[uint64][]byte) (missing []string) {
	w.t.Helper()
	fail := func(msg string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s: %s\n%s", what, fmt.Sprintf(msg, args...), o)
	}
	for p, e := range o.got.all {
		if strings.HasPrefix(p, "lost+found/content-") {
			if contents == nil {
				continue
			}
			var n uint64
			fmt.Sscanf(p, "lost+found/content-%d", &n)
			if want, ok := contents[n]; ok && !bytes.Equal(o.got.files[p], want) {
				fail("%s has other bytes", p)
			}
			continue
		}
		want, ok := w.model[p]
		if !ok {
			fail("%s came out of nowhere", p)
		}
		if e.Kind != want.Kind || e.Mode != want.Mode || e.MtimeSec != want.MtimeSec || e.Target != want.Target || e.Size != want.Size || e.Content != 0 {
			fail("%s: %+v where %+v was stored", p, e, want)
		}
		if e.Kind == index.File && !bytes.Equal(o.got.files[p], w.data[p]) {
			fail("%s has other bytes", p)
		}
	}
	named := map[string]bool{}
	ranges := 0
	for _, l := range o.lost {
		if l.Path == "" && l.Content == 0 {
			ranges++
		}
		named[l.Path] = true
		if _, ok := w.model[l.Path]; !ok && l.Path != "" {
			fail("%s is lost and never was there", l.Path)
		}
		for _, r := range l.Intact {
			if r.From < 0 || r.From >= r.To || r.To > l.Size {
				fail("%s: impossible range %v", l.Path, r)
			}
		}
	}
	for p := range w.model {
		if _, ok := o.got.all[p]; ok == named[p] {
			if ok || ranges == 0 && o.rep.Current {
				fail("%s: recovered %v, reported as lost %v", p, ok, named[p])
			}
		} else if ok {
			continue
		}
		missing = append(missing, p)
	}
	if o.rep.Complete != (len(missing) == 0 && o.rep.Found == 0 && o.rep.Current) {
		fail("complete is %v with %d missing", o.rep.Complete, len(missing))
	}
	if len(missing) > 0 && o.rep.Lost == 0 {
		fail("%d are missing, none is counted", len(missing))
	}
	return missing
}

// saved lists the contents whose bytes are somewhere in an outcome.
func saved(o *outcome) map[string]bool {
	m := map[string]bool{}
	for _, b := range o.got.files {
		m[string(b)] = true
	}
	return m
}

// store makes a real archive of what is recovered and lets the independent check judge it.
func intoArchive(t testing.TB, src Source, jobs int) (Report, *vfs.MemFS, store.Info) {
	t.Helper()
	mem := vfs.Mem()
	opt := store.Options{FS: mem, Jobs: jobs, Entropy: rand.NewChaCha8([32]byte{1})}
	var a *store.Archive
	var tx *store.Tx
	rep, err := Run(ctx, src, Options{Create: func(c store.CreateOptions) (Sink, error) {
		var err error
		if a, err = store.Create(ctx, name, opt, c); err != nil {
			return nil, err
		}
		tx, err = a.Begin(ctx)
		return tx, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	in, err := a.Info()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	sum, err := verify.Run(ctx, memFile{b: mem.Bytes(name)}, verify.Options{Full: true, Finding: func(f verify.Finding) { t.Errorf("%+v", f) }})
	if err != nil || !sum.Complete {
		t.Fatalf("%+v, %v", sum, err)
	}
	return rep, mem, in
}
