package recover

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// What is recovered makes a new archive that the independent check finds nothing wrong with, whatever the
// number of workers.
func TestIntoArchive(t *testing.T) {
	w := sample(t, 4096)
	big := random(3<<20+77, 30)
	w.change(map[string]any{"many": nil, "large": big, "large copy": big})
	add := map[string]any{}
	for k := range 300 {
		add[fmt.Sprintf("many/%03d", k)] = text(50+k*7%900, uint64(1000+k))
	}
	w.change(add)
	good := w.bytes()
	ps, _ := w.parts()
	for _, b := range [][]byte{good, wipe(good, ps, tree(index.Frames)), wipe(good, ps, tree(index.Contents))} {
		var first []byte
		for _, jobs := range []int{1, 4} {
			rep, mem, in := intoArchive(t, memFile{b: b}, jobs)
			if !rep.Complete || int(in.Entries) != len(w.model) || in.Sector != 4096 || in.Level != frames.LevelDefault {
				t.Fatalf("%+v\n%+v", rep, in)
			}
			out := mem.Bytes(name)
			if first == nil {
				first = out
			} else if !bytes.Equal(first, out) {
				t.Error("the number of workers shows in the new archive")
			}
			o, err := salvageOf(memFile{b: out})
			if err != nil {
				t.Fatal(err)
			}
			if missing := w.check("the new archive", o, nil); len(missing) > 0 {
				t.Errorf("%v are missing", missing)
			}
		}
	}
}

// A dry run comes to the same report as a real one.
func TestDryRun(t *testing.T) {
	w := sample(t, 512)
	good := w.bytes()
	ps, _ := w.parts()
	pick := rapid.SliceOfNDistinct(rapid.IntRange(0, len(ps)-1), 0, 4, rapid.ID[int])
	rapid.Check(t, func(t *rapid.T) {
		hit := pick.Draw(t, "parts")
		i := -1
		b := wipe(good, ps, func(part) bool { i++; return slices.Contains(hit, i) })
		want, err := salvageOf(memFile{b: b})
		if err != nil {
			t.Fatal(err)
		}
		for _, jobs := range []int{0, 3} {
			got := &outcome{}
			got.rep, err = Run(ctx, memFile{b: b}, Options{
				Jobs:  jobs,
				Found: func(i Item) { got.items = append(got.items, i) },
				Lost:  func(l Loss) { got.lost = append(got.lost, l) },
			})
			if err != nil || got.rep != want.rep || !reflect.DeepEqual(got.items, want.items) || !reflect.DeepEqual(got.lost, want.lost) {
				t.Fatalf("%d jobs, %v: a dry run says\n%s\na real one\n%s", jobs, err, got, want)
			}
		}
	})
}

// Several kinds of damage at once never let anything wrong through.
func TestManyDamages(t *testing.T) {
	w := sample(t, 512)
	good := w.bytes()
	ps, contents := w.parts()
	rapid.Check(t, func(rt *rapid.T) {
		b := bytes.Clone(good)
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(ps)-1), 0, 6).Draw(rt, "parts") {
			clear(b[ps[i].ext.Off:ps[i].ext.End()])
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 4), 0, 5).Draw(rt, "pages") {
			clear(b[i*format.PageSize : (i+1)*format.PageSize])
		}
		for range rapid.IntRange(0, 20).Draw(rt, "flips") {
			b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= rapid.Byte().Draw(rt, "by")
		}
		b = b[:rapid.IntRange(format.PageSize, len(b)).Draw(rt, "size")]
		o, err := salvageOf(memFile{b: b})
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrNotLockbox) {
				rt.Fatal(err)
			}
			return
		}
		w.check("damage", o, contents)
	})
}

// A file that is damaged in part is not written; the ranges that are whole are listed.
func TestPartialFile(t *testing.T) {
	w := newWorld(t, store.CreateOptions{})
	big := random(2<<20+5000, 4)
	w.change(map[string]any{"big": big, "whole": random(300_000, 5)})
	good := w.bytes()
	at := bytes.Index(good, big[1<<20:1<<20+100])
	if at < 0 {
		t.Fatal("it is not stored raw")
	}
	b := bytes.Clone(good)
	b[at+10_000] ^= 4 // the third block of the second frame
	o, err := salvageOf(memFile{b: b})
	if err != nil {
		t.Fatal(err)
	}
	w.check("one block", o, nil)
	const block = 4096
	want := []Range{{0, 1<<20 + 2*block}, {1<<20 + 3*block, int64(len(big))}}
	if len(o.lost) != 1 || o.lost[0].Path != "big" || o.lost[0].Status != StatusPartial || !slices.Equal(o.lost[0].Intact, want) || o.rep.Recovered != 1 {
		t.Fatalf("%s", o)
	}
	// Without any digest the tags alone must tell.
	ps, _ := w.parts()
	if o, err = salvageOf(memFile{b: wipe(b, ps, tree(index.Contents, index.Digests))}); err != nil {
		t.Fatal(err)
	}
	w.check("one block, no digests", o, nil)
	if len(o.lost) != 1 || !slices.Equal(o.lost[0].Intact, want) || o.rep.Recovered != 1 {
		t.Fatalf("%s", o)
	}
	// Only the tags of a frame are damaged: the digest shows that its bytes are not.
	b = bytes.Clone(good)
	b[at+1<<20+20] ^= 4
	if o, err = salvageOf(memFile{b: b}); err != nil || !o.rep.Complete {
		t.Fatalf("%v\n%s", err, o)
	}
}

// frameAt encodes a frame as a writer would, of an attempt and with a number of its own choice.
func strayFrame(t *testing.T, s *journal.Super, number uint64, attempt format.ID, plain []byte, class uint8, members ...frames.Member) []byte {
	t.Helper()
	e, err := frames.NewEncoder(seal.New(), s.Archive, frames.LevelDefault, 12, s.Sector, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	i := frames.Info{Number: number, Attempt: attempt, Class: class}
	return e.Encode(nil, &i, plain, members)
}

func currentOf(t *testing.T, b []byte) *journal.Super {
	t.Helper()
	c, err := journal.ReadCopies(memFile{b: b})
	if err != nil {
		t.Fatal(err)
	}
	return c.Current
}

// Frames that no record names, left by what was deleted, given up or never committed, do not come back where
// the index says that they are not wanted, and never under a name.
func TestStrayFrames(t *testing.T) {
	w := sample(t, 512)
	good := w.bytes()
	ps, contents := w.parts()
	s := currentOf(t, good)
	var pack part
	for _, p := range ps {
		if p.kind == "frame" && len(p.f.Contents) > 1 {
			pack = p
			break
		}
	}
	if pack.kind == "" {
		t.Fatal("no pack")
	}
	n := pack.f.Contents[0]
	secret := []byte("what was deleted long ago, in a frame that was never wiped; what was deleted long ago, in a frame that was never wiped")
	other := bytes.Repeat([]byte("#"), len(contents[n]))
	big := text(300_000, 7)
	stray := slices.Concat(
		strayFrame(t, s, pack.num, format.ID{1}, other, pack.f.Class, frames.Member{Content: n, Len: int64(len(other))}),
		strayFrame(t, s, 1, format.ID{2}, secret, 0, frames.Member{Content: 1000, Len: int64(len(secret))}),
		strayFrame(t, s, 1<<40, format.ID{3}, secret, 0, frames.Member{Content: 1001, Len: int64(len(secret))}),
		strayFrame(t, s, 1<<40, format.ID{3}, big, frames.NoPack, frames.Member{Content: n, Len: int64(len(big))}),
	)
	for _, c := range []struct {
		what  string
		trees []index.Tree
		named bool
		found bool // what may have been deleted shows in lost+found
	}{
		{"nothing", nil, true, false},
		{"frames tree", []index.Tree{index.Frames}, true, false},
		{"contents tree", []index.Tree{index.Contents}, true, false},
		{"contents and frames", []index.Tree{index.Contents, index.Frames}, true, false},
		{"entries and frames", []index.Tree{index.Entries, index.Frames}, false, false},
		{"contents, frames, digests", []index.Tree{index.Contents, index.Frames, index.Digests}, false, false},
		{"all", []index.Tree{index.Entries, index.Contents, index.Frames, index.Digests}, false, true},
	} {
		b := append(wipe(good, ps, tree(c.trees...)), stray...)
		o, err := salvageOf(memFile{b: b})
		if err != nil {
			t.Fatal(err)
		}
		missing := w.check(c.what, o, nil)
		if (len(missing) == 0) != c.named {
			t.Errorf("%s: %v are missing\n%s", c.what, missing, o)
		}
		seen := 0
		for p, have := range o.got.files {
			if bytes.Equal(have, secret) || bytes.Equal(have, other) {
				seen++
				i := slices.IndexFunc(o.items, func(i Item) bool { return i.Path.String() == p })
				if !strings.HasPrefix(p, lostFound) || i < 0 || !strings.Contains(o.items[i].Reason, "may have been deleted") {
					t.Errorf("%s: %s has what was deleted\n%s", c.what, p, o)
				}
			}
		}
		if c.found && seen != 2 || seen > 0 && c.named {
			t.Errorf("%s: %d stray contents are in lost+found\n%s", c.what, seen, o)
		}
		if _, ok := o.got.files[fmt.Sprintf("%s/content-%d", lostFound, 1001)]; ok {
			t.Errorf("%s: a frame younger than the state was carried over\n%s", c.what, o)
		}
	}
}

// A frame that was written into the place of an older one is found there, and frames of another archive are
// not taken for this one's.
func TestScanFinds(t *testing.T) {
	w := sample(t, 512)
	good := w.bytes()
	ps, contents := w.parts()
	s := currentOf(t, good)
	b := wipe(good, ps, tree(index.Frames))
	old := strayFrame(t, s, 1<<40, format.ID{4}, random(60_000, 8), frames.NoPack, frames.Member{Content: 1 << 40, Len: 60_000})
	at := 512
	for _, p := range ps {
		if p.kind == "frame" {
			at += copy(old[at:], good[p.ext.Off:p.ext.End()])
			clear(b[p.ext.Off:p.ext.End()])
		}
	}
	o, err := salvageOf(memFile{b: append(b, old...)})
	if err != nil || !o.rep.Complete {
		t.Fatalf("%v\n%s", err, o)
	}
	w.check("moved into an older frame", o, contents)

	other := *s
	other.Archive[0] ^= 1
	foreign := strayFrame(t, &other, 2, format.ID{5}, random(500, 9), 0, frames.Member{Content: 2, Len: 500})
	for _, first := range []int{0, format.DataStart} {
		b := append(wipe(good, ps, func(p part) bool { return p.kind != "frame" }), foreign...)
		clear(b[:first])
		o, err := salvageOf(memFile{b: b})
		if err != nil || int(o.rep.Found) != len(contents) {
			t.Fatalf("%v\n%s", err, o)
		}
		w.check("frames of another archive", o, contents)
	}
}

// A transaction that was written but not published is not there.
func TestUnpublished(t *testing.T) {
	w := sample(t, 512)
	before := w.bytes()
	model, data := maps.Clone(w.model), maps.Clone(w.data)
	secret := text(400, 99)
	var b []byte // the file when the new state is about to be published
	w.mem.Hook = func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.Off < format.CopiesSize && b == nil {
			b = w.bytes()
		}
		return nil
	}
	w.change(map[string]any{"unpublished": secret, "docs/f00": secret})
	w.mem.Hook = nil
	if bytes.Equal(b, before) {
		t.Fatal("nothing was staged")
	}
	w.mem.Put(name, b)
	w.model, w.data = model, data
	ps, _ := w.parts()
	for _, trees := range [][]index.Tree{nil, {index.Frames}, {index.Entries, index.Frames}, {index.Entries, index.Contents, index.Frames, index.Digests}} {
		o, err := salvageOf(memFile{b: wipe(b, ps, tree(trees...))})
		if err != nil {
			t.Fatal(err)
		}
		w.check("unpublished", o, nil)
		if trees == nil && !o.rep.Complete {
			t.Errorf("%s", o)
		}
		for p, have := range o.got.files {
			if bytes.Equal(have, secret) {
				t.Errorf("%v: %s has what was never published\n%s", trees, p, o)
			}
		}
	}
}

// An older state is only ever called that.
func TestOlderState(t *testing.T) {
	w := sample(t, 512)
	before := w.bytes()
	older := currentOf(t, before)
	model, data := maps.Clone(w.model), maps.Clone(w.data)
	w.change(map[string]any{"late": random(5000, 77)})
	b := w.bytes()
	newer := currentOf(t, b)
	// One pair still names the older state; the newer commit block is gone.
	for _, n := range []int{0, 1} {
		if err := journal.WriteCopy(writer(b), older, journal.Pair(newer.Generation+1), n); err != nil {
			t.Fatal(err)
		}
	}
	copy(b[older.CommitOff:], before[older.CommitOff:older.CommitOff+512])
	clear(b[newer.CommitOff : newer.CommitOff+512])
	o, err := salvageOf(memFile{b: b})
	if err != nil {
		t.Fatal(err)
	}
	if o.rep.Current || o.rep.Complete || o.rep.Generation != older.Generation || o.rep.Newest != newer.Generation || o.rep.Lost == 0 {
		t.Errorf("%s", o)
	}
	if !slices.ContainsFunc(o.notes, func(n string) bool { return strings.Contains(n, "OLDER") }) {
		t.Errorf("nothing says that the state is older\n%s", o)
	}
	found := false
	for p, have := range o.got.files {
		if bytes.Equal(have, w.data["late"]) {
			found = strings.HasPrefix(p, lostFound)
		}
	}
	if !found {
		t.Errorf("what the newest state added is not found\n%s", o)
	}
	w.model, w.data = model, data
	if missing := w.check("older", o, nil); len(missing) > 0 {
		t.Errorf("%v are missing\n%s", missing, o)
	}
}

type writer []byte

func (w writer) WriteAt(p []byte, off int64) (int, error) { return copy(w[off:], p), nil }

func TestRefusals(t *testing.T) {
	w := sample(t, 512)
	good := w.bytes()
	later := bytes.Clone(good)
	for i := range 4 {
		c := later[i*format.PageSize:]
		c[8] = 2
		sum := xxh3.Hash128(c[:480])
		binary.LittleEndian.PutUint64(c[480:], sum.Lo)
		binary.LittleEndian.PutUint64(c[488:], sum.Hi)
	}
	for what, c := range map[string]struct {
		b    []byte
		kind error
	}{
		"nothing":         {nil, format.ErrNotLockbox},
		"zeros":           {make([]byte, 100_000), format.ErrNotLockbox},
		"garbage":         {random(100_000, 1), format.ErrNotLockbox},
		"the first bytes": {good[:300], format.ErrCorrupt},
		"a later version": {later, format.ErrVersion},
	} {
		if o, err := salvageOf(memFile{b: c.b}); !errors.Is(err, c.kind) || len(o.got.all) > 0 {
			t.Errorf("%s: %v, want %v\n%s", what, err, c.kind, o)
		}
	}
	o, err := salvageOf(memFile{b: good})
	if err != nil {
		t.Fatal(err)
	}
	root := o.rep.Root
	if _, err := Run(ctx, memFile{b: good}, Options{ExpectRoot: &root}); err != nil {
		t.Error(err)
	}
	root[0] ^= 1
	if _, err := Run(ctx, memFile{b: good}, Options{ExpectRoot: &root}); !errors.Is(err, format.ErrAuth) {
		t.Errorf("another root: %v", err)
	}
	sinkErr := errors.New("disk full")
	if _, err := Run(ctx, memFile{b: good}, Options{Create: func(store.CreateOptions) (Sink, error) { return nil, sinkErr }}); !errors.Is(err, sinkErr) {
		t.Errorf("a sink that fails: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, jobs := range []int{1, 3} {
		if rep, err := Run(cancelled, memFile{b: good}, Options{Jobs: jobs}); !errors.Is(err, context.Canceled) || rep.Complete {
			t.Errorf("cancelled: %v %+v", err, rep)
		}
	}
}

// lost+found never runs into an entry of that name.
func TestLostFoundName(t *testing.T) {
	w := newWorld(t, store.CreateOptions{})
	add := map[string]any{"lost+found": []byte("a file"), "lost+found-1": nil, "z": nil}
	for k := range 400 {
		add[fmt.Sprintf("z/%03d", k)] = text(20+k, uint64(k))
	}
	w.change(add)
	b := w.bytes()
	ps, _ := w.parts()
	last := slices.IndexFunc(ps, func(p part) bool { return p.kind == "node" && p.t == index.Contents }) - 1
	clear(b[ps[last].ext.Off:ps[last].ext.End()])
	o, err := salvageOf(memFile{b: b})
	if err != nil || o.rep.Found == 0 || o.rep.Recovered == 0 || o.rep.Found+o.rep.Recovered != uint64(len(add)) || o.rep.Lost != o.rep.Found {
		t.Fatalf("%v\n%s", err, o)
	}
	for _, i := range o.items {
		if i.Status == StatusFound && !strings.HasPrefix(i.Path.String(), "lost+found-2/") {
			t.Errorf("%v", i.Path)
		}
	}
	// With the contents' records gone as well, no content comes both under its name and without.
	o, err = salvageOf(memFile{b: wipe(b, ps, tree(index.Contents))})
	if err != nil || o.rep.Found == 0 || o.rep.Found+o.rep.Recovered != uint64(len(add)) {
		t.Fatalf("%v\n%s", err, o)
	}
}

func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ranges
		in := map[uint64]bool{}
		at := uint64(0)
		for range rapid.IntRange(0, 8).Draw(t, "spans") {
			at += rapid.Uint64Range(0, 4).Draw(t, "gap")
			n := rapid.Uint64Range(0, 4).Draw(t, "len")
			r.add(span{at, at + n})
			for k := range n {
				in[at+k] = true
			}
			at += n
		}
		for k := range at + 3 {
			if r.has(k) != in[k] {
				t.Fatalf("%v has %d: %v", r, k, r.has(k))
			}
		}
	})
	if r := numbers([]byte{0, 0, 0, 0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 0, 2}); r != (span{256, 512}) {
		t.Errorf("%v", r)
	}
	if r := numbers(nil, nil); r != (span{0, noLimit}) {
		t.Errorf("%v", r)
	}
}

// FuzzRun salvages whatever bytes it is given.
func FuzzRun(f *testing.F) {
	w := newWorld(f, store.CreateOptions{})
	w.change(map[string]any{"d": nil, "d/a": text(300, 1), "d/b": random(5000, 2), "l": "d/a"})
	w.change(map[string]any{"d/c": text(200, 3)}, "d/a")
	good := w.bytes()
	_, contents := w.parts()
	for k, cut := range []int{0, 0, 4096, 16384, 20480} {
		f.Add(good[cut:], uint32(20480+600*k), byte(k), uint32(0))
	}
	f.Add(good, uint32(100), byte(1), uint32(20480))
	f.Fuzz(func(t *testing.T, b []byte, at uint32, x byte, zeros uint32) {
		ours := bytes.Equal(b, good)
		b = bytes.Clone(b)
		clear(b[:min(int(zeros), len(b))])
		if int(at) < len(b) {
			b[at] ^= x
		}
		o, err := salvageOf(memFile{b: b})
		if err == nil && ours {
			v := *w
			v.t = t
			v.check("fuzz", o, contents)
		}
	})
}
