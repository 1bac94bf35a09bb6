package recover

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// ruin is damage to a range of a good archive.
type ruin struct {
	what     string
	from, to int64
}

// demand holds the outcome of damage to one range against what the range belonged to: all that the damage
// did not touch must be there.
func (w *world) demand(r ruin, o *outcome, ps []part, contents map[uint64][]byte) {
	w.t.Helper()
	missing := w.check(r.what, o, contents)
	hit := format.Extent{Off: r.from, Len: r.to - r.from}
	gone := map[string]bool{} // bytes of contents that the damage touched
	nameless, touched, structures := false, 0, 0
	for _, p := range ps {
		if !p.ext.Overlaps(hit) {
			continue
		}
		structures++
		switch {
		case p.kind == "frame":
			// Header, tag table of a pack with digests, member table and fill are not needed.
			lo, n := p.ext.Off+int64(frames.HeaderSize(w.tag())), int64(p.f.Stored)
			if w.suite.Encrypted() {
				n += int64(p.f.Blocks() * w.tag()) // without its tag no block opens
			}
			if (format.Extent{Off: lo, Len: n}).Overlaps(hit) {
				touched++
				for _, c := range p.f.Contents {
					gone[string(contents[c])] = true
				}
			}
		case p.kind == "commit" || p.t == index.Entries:
			nameless = true
		}
	}
	if structures > 1 {
		return // with a record and what it stands for both gone, more may be lost
	}
	have := saved(o)
	for _, b := range contents {
		if !have[string(b)] && !gone[string(b)] {
			w.t.Fatalf("%s: a content of %d bytes that the damage did not touch is not recovered\n%s", r.what, len(b), o)
		}
	}
	for _, p := range missing {
		if !nameless && !gone[string(w.data[p])] {
			w.t.Fatalf("%s: %s is not recovered though the damage did not touch it\n%s", r.what, p, o)
		}
	}
	if !nameless && touched == 0 && !o.rep.Complete {
		w.t.Fatalf("%s: nothing is lost, but the recovery is not complete\n%s", r.what, o)
	}
}

func (w *world) tag() int {
	return map[format.Suite]int{format.SuiteNone: 16, format.SuiteSigned: 32, format.SuiteEncrypted: 16, format.SuiteBoth: 48}[w.suite]
}

func TestDamageEverywhere(t *testing.T) {
	for i := range 2 * len(suites) {
		sector, suite := []int64{512, 4096}[i%2], suites[i/2]
		if i != 0 && testing.Short() {
			break
		}
		w := sampleOf(t, sector, suite)
		good := w.bytes()
		ps, contents := w.parts()
		o, err := w.salvage(memFile{b: good})
		if err != nil || !o.rep.Complete || o.rep.Scanned || int(o.rep.Recovered) != len(w.model) {
			t.Fatalf("a good archive: %v\n%s", err, o)
		}
		w.demand(ruin{"no damage", 0, 0}, o, ps, contents)
		if o.got.opt.Sector != sector {
			t.Fatalf("made with %+v", o.got.opt)
		}
		step := 1
		if testing.Short() || i > 0 {
			step = 23
		}
		if i > 1 {
			step = 101
		}
		for k := 0; k < len(good); k += step {
			if k < format.DataStart && k%format.PageSize > 520 {
				k += 61 // what follows a superblock in its page is not read
			}
			b := bytes.Clone(good)
			b[k] ^= 1 << (k % 8)
			r := ruin{fmt.Sprintf("%v, sector size %d, byte %d flipped", suite, sector, k), int64(k), int64(k + 1)}
			o, err := w.salvage(memFile{b: b})
			if err != nil {
				t.Fatalf("%s: %v", r.what, err)
			}
			w.demand(r, o, ps, contents)
		}
		for k := 0; k < len(good); k += 512 {
			b := bytes.Clone(good)
			clear(b[k : k+512])
			r := ruin{fmt.Sprintf("%v, sector size %d, sector at %d zeroed", suite, sector, k), int64(k), int64(k + 512)}
			o, err := w.salvage(memFile{b: b})
			if err != nil {
				t.Fatalf("%s: %v", r.what, err)
			}
			w.demand(r, o, ps, contents)

			// A sector that the disk does not give is the same to it.
			lo, hi := int64(k), int64(k+512)
			again, err := w.salvage(memFile{b: good, broken: func(off int64, n int) bool { return off < hi && off+int64(n) > lo }})
			if err != nil {
				t.Fatalf("%s: %v", r.what, err)
			}
			w.check("unreadable: "+r.what, again, contents)
		}
	}
}

func TestTruncation(t *testing.T) {
	w := sample(t, 512)
	good := w.bytes()
	ps, contents := w.parts()
	for n := 0; n <= len(good); n += 512 {
		what := fmt.Sprintf("cut to %d", n)
		o, err := salvageOf(memFile{b: good[:n]})
		if n == 0 {
			if !errors.Is(err, format.ErrNotLockbox) {
				t.Fatalf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		missing := w.check(what, o, contents)
		// What stands in front of the cut is there, with a name or without.
		have := saved(o)
		for num, b := range contents {
			whole := true
			for _, p := range ps {
				for _, c := range p.f.Contents {
					whole = whole && (c != num || p.ext.End() <= int64(n))
				}
			}
			if whole && !have[string(b)] {
				t.Fatalf("%s: content %d, whole, is not recovered\n%s", what, num, o)
			}
		}
		if n == len(good) && len(missing) > 0 {
			t.Fatalf("%s: %v are missing", what, missing)
		}
	}
}

// wipe zeroes what pick picks.
func wipe(b []byte, ps []part, pick func(part) bool) []byte {
	b = bytes.Clone(b)
	for _, p := range ps {
		if pick(p) {
			clear(b[p.ext.Off:p.ext.End()])
		}
	}
	return b
}

func tree(ts ...index.Tree) func(part) bool {
	return func(p part) bool {
		for _, t := range ts {
			if p.kind == "node" && p.t == t {
				return true
			}
		}
		return false
	}
}

func TestWholeStructures(t *testing.T) {
	for _, suite := range suites {
		t.Run(suite.String(), func(t *testing.T) { testWholeStructures(t, suite) })
	}
}

func testWholeStructures(t *testing.T, suite format.Suite) {
	w := sampleOf(t, 512, suite)
	good := w.bytes()
	ps, contents := w.parts()
	commit := func(p part) bool { return p.kind == "commit" }
	copies := func(b []byte, which ...int) []byte {
		b = bytes.Clone(b)
		for _, i := range which {
			clear(b[i*format.PageSize : (i+1)*format.PageSize])
		}
		return b
	}
	mark := func(b []byte) []byte {
		b = bytes.Clone(b)
		clear(b[format.CleanMarkOff : format.CleanMarkOff+format.PageSize])
		return b
	}
	for _, c := range []struct {
		what     string
		b        []byte
		named    bool // all entries come back under their names
		contents bool // all bytes come back
		complete bool
		origin   string
	}{
		{"one superblock", copies(good, 1), true, true, true, OriginSuperblock},
		{"a pair, marked", copies(good, 1, 3), true, true, true, OriginSuperblock},
		{"a pair, not marked", mark(copies(good, 1, 3)), true, true, false, OriginSuperblock},
		{"all superblocks", copies(good, 0, 1, 2, 3), true, true, true, OriginMark},
		{"all superblocks and the mark", mark(copies(good, 0, 1, 2, 3)), true, true, false, OriginScan},
		{"superblocks and commit block", wipe(mark(copies(good, 0, 1, 2, 3)), ps, commit), true, true, false, OriginScan},
		{"commit block", wipe(good, ps, commit), true, true, false, OriginScan}, // the one before tidying is still there
		{"entries tree", wipe(good, ps, tree(index.Entries)), false, true, false, OriginSuperblock},
		{"contents tree", wipe(good, ps, tree(index.Contents)), true, true, true, OriginSuperblock},
		{"frames tree", wipe(good, ps, tree(index.Frames)), true, true, true, OriginSuperblock},
		{"digests tree", wipe(good, ps, tree(index.Digests)), true, true, true, OriginSuperblock},
		{"free tree", wipe(good, ps, tree(index.Free)), true, true, true, OriginSuperblock},
		{"contents and frames trees", wipe(good, ps, tree(index.Contents, index.Frames)), true, true, true, OriginSuperblock},
		{"contents and digests trees", wipe(good, ps, tree(index.Contents, index.Digests)), true, true, true, OriginSuperblock},
		{"contents, digests, frames", wipe(good, ps, tree(index.Contents, index.Digests, index.Frames)), false, true, false, OriginSuperblock},
		{"entries and contents trees", wipe(good, ps, tree(index.Entries, index.Contents)), false, true, false, OriginSuperblock},
		{"entries and frames trees", wipe(good, ps, tree(index.Entries, index.Frames)), false, true, false, OriginSuperblock},
		{"all trees", wipe(good, ps, func(p part) bool { return p.kind == "node" }), false, true, false, OriginSuperblock},
		{"all but the frames", wipe(mark(copies(good, 0, 1, 2, 3)), ps, func(p part) bool { return p.kind != "frame" && p.kind != "keys" }), false, true, false, OriginNone},
		{"all frames", wipe(good, ps, func(p part) bool { return p.kind == "frame" }), false, false, false, OriginSuperblock},
	} {
		o, err := w.salvage(memFile{b: c.b})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		missing := w.check(c.what, o, contents)
		if (len(missing) == 0) != c.named || o.rep.Complete != c.complete || c.origin != "" && o.rep.Origin != c.origin {
			t.Errorf("%s: %d missing\n%s", c.what, len(missing), o)
		}
		have := saved(o)
		for n, b := range contents {
			if have[string(b)] != c.contents {
				t.Errorf("%s: content %d: recovered %v\n%s", c.what, n, have[string(b)], o)
			}
		}
		for p := range o.got.all {
			if bytes.Contains(o.got.files[p], text(700, 50)) && o.rep.Current {
				t.Errorf("%s: what was removed is back as %s", c.what, p)
			}
		}
	}
}
