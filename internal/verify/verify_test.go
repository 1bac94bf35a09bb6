package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
)

func TestCleanArchive(t *testing.T) {
	for _, sector := range []int64{512, 4096} {
		for _, full := range []bool{false, true} {
			for _, jobs := range []int{0, 1, 2, 5} {
				m := sample(t, sector)
				s, fs, err := check(m.build(), Options{Full: full, Jobs: jobs})
				if err != nil || len(fs) != 0 || s.Damaged != 0 || !s.Complete {
					t.Fatalf("sector %d, full %v, jobs %d: %+v, %v, %v", sector, full, jobs, s, fs, err)
				}
				want := uint64(0)
				if full {
					for _, c := range m.contents {
						want += uint64(c.Size)
					}
				}
				if s.Entries != uint64(len(m.entries)) || s.Contents != uint64(len(m.contents)) || s.Frames != uint64(len(m.frames)) ||
					s.Nodes != uint64(len(m.refs)) || s.Bytes != want || s.Generation != 3 || s.Root == (format.Digest{}) {
					t.Fatalf("full %v, jobs %d: %+v, want %d bytes", full, jobs, s, want)
				}
			}
		}
	}
}

func TestEmptyArchive(t *testing.T) {
	m := newModel(t, 512, frames.LevelDefault)
	m.alter = func(k *journal.Counters) { k.NextContent, k.NextFrame = 1, 1 }
	s, fs, err := check(m.build(), Options{Full: true})
	if err != nil || len(fs) != 0 || !s.Complete || s.Entries != 0 {
		t.Fatalf("%+v, %v, %v", s, fs, err)
	}
}

// Every byte that was committed is checked: whichever is changed, a full check says so.
func TestEveryFlipIsNoticed(t *testing.T) {
	m := sample(t, 512)
	b := m.build()
	step := 1
	if testing.Short() {
		step = 7
	}
	for off := 0; off < len(b); off += step {
		if off%16 != 0 && m.unread(int64(off)) {
			continue
		}
		b[off] ^= 0x41
		s, fs, err := check(b, Options{Full: true})
		b[off] ^= 0x41
		quiet := err == nil && len(fs) == 0 && s.Damaged == 0
		if quiet != m.unread(int64(off)) {
			t.Fatalf("byte %d flipped: unread %v, findings %v, error %v", off, m.unread(int64(off)), fs, err)
		}
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrVersion) && !errors.Is(err, format.ErrNotLockbox) {
			t.Fatalf("byte %d flipped: %v", off, err)
		}
	}
}

// Without Full, every byte of every node, and of the commit block, is checked still.
func TestStructureFlips(t *testing.T) {
	m := sample(t, 512)
	b := m.build()
	for _, ref := range m.refs {
		for off := ref.Off; off < ref.Off+int64(ref.Len); off += 5 {
			b[off] ^= 0x10
			if s, fs, err := check(b, Options{}); err != nil || s.Damaged == 0 || s.Complete || fs[0].Kind == "" {
				t.Fatalf("byte %d flipped: %+v, %v, %v", off, s, fs, err)
			}
			b[off] ^= 0x10
		}
	}
}

func TestTruncatedAnywhere(t *testing.T) {
	b := sample(t, 512).build()
	for n := 0; n < len(b); n += 97 {
		s, fs, err := check(b[:n:n], Options{Full: true})
		if err == nil && (s.Damaged == 0 || s.Complete || len(fs) == 0) {
			t.Fatalf("cut to %d bytes: %+v", n, s)
		}
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrNotLockbox) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestBytesPastTheEndDoNotMatter(t *testing.T) {
	b := append(sample(t, 512).build(), random(3000, 1)...)
	if s, fs, err := check(b, Options{Full: true}); err != nil || len(fs) > 0 || s.Damaged > 0 {
		t.Fatalf("%+v, %v, %v", s, fs, err)
	}
}

// A damaged frame names every entry that needs it, and no other.
func TestDamageIsNamed(t *testing.T) {
	at := func(m *model, frame uint64, off int64) int64 {
		return m.frames[frame].Ext.Off + int64(frames.HeaderSize(testTag)) + off
	}
	for name, c := range map[string]struct {
		off  func(m *model) int64
		want []string
	}{
		"compressed pack": {func(m *model) int64 { return at(m, 1, 20) }, []string{"docs/again", "docs/f001", "docs/f002", "docs/f003", "docs/f004"}},
		"one block":       {func(m *model) int64 { return at(m, 2, 100) }, []string{"raw/r0", "raw/r1"}},
		"block of three":  {func(m *model) int64 { return at(m, 2, 1100) }, []string{"odd", "raw/r1", "raw/r2"}},
		"tag table":       {func(m *model) int64 { return at(m, 2, 1250+3) }, []string{"odd", "raw/r0", "raw/r1", "raw/r2"}},
		"middle of a run": {func(m *model) int64 { return at(m, 5, 9) }, []string{"big"}},
		"last of a run":   {func(m *model) int64 { return at(m, 7, 9) }, []string{"big"}},
		"out of order":    {func(m *model) int64 { return at(m, 9, 1) }, []string{"odd"}},
		"header":          {func(m *model) int64 { return m.frames[1].Ext.Off + 9 }, nil},
	} {
		for _, jobs := range []int{1, 3} {
			m := sample(t, 512)
			b := m.build()
			b[c.off(m)] ^= 1
			s, fs, err := check(b, Options{Full: true, Jobs: jobs})
			if err != nil {
				t.Fatal(err)
			}
			if got := paths(fs, KindContent); !slices.Equal(got, c.want) {
				t.Errorf("%s: names %q, want %q (%v)", name, got, c.want, fs)
			}
			if s.Damaged != len(c.want)+1 || !s.Complete {
				t.Errorf("%s: %+v", name, s)
			}
			if fs[len(fs)-1].Kind != KindFrame || fs[len(fs)-1].Offset < format.DataStart {
				t.Errorf("%s: no finding for the frame: %v", name, fs)
			}
		}
	}
}

func TestDamagedNodes(t *testing.T) {
	big := func() *model {
		m := newModel(t, 512, frames.LevelDefault)
		for p := range uint64(20) {
			var datas [][]byte
			for k := range uint64(20) {
				datas = append(datas, text(50, p*100+k))
			}
			m.pack(p+1, 0, fmt.Sprintf("d%02d", p), p*20+1, datas...)
		}
		return m
	}
	m := big()
	clean := m.build()
	if s, fs, err := check(clean, Options{Full: true}); err != nil || s.Damaged != 0 || len(fs) != 0 {
		t.Fatalf("%+v, %v, %v", s, fs, err)
	}
	levels := map[index.Tree]int{}
	for i, ref := range m.refs {
		tree := m.trees[i]
		if m.levels[i] > levels[tree] {
			levels[tree] = m.levels[i]
		}
		b := bytes.Clone(clean)
		b[ref.Off+int64(ref.Len)/2] ^= 4
		s, fs, err := check(b, Options{Full: true, Jobs: 1 + i%3})
		if err != nil || s.Complete {
			t.Fatalf("%v, level %d: %+v, %v", tree, m.levels[i], s, err)
		}
		if got := paths(fs, KindEntry); len(got) != 0 {
			t.Fatalf("%v, level %d: entries said to be wrong: %q", tree, m.levels[i], got)
		}
		nodes, named := 0, len(paths(fs, KindContent))
		for _, f := range fs {
			switch {
			case f.Kind == KindNode:
				nodes++
				if f.Offset != ref.Off || !strings.HasPrefix(f.Detail, "tree "+tree.String()) {
					t.Errorf("%v, level %d: %v", tree, m.levels[i], f)
				}
			case f.Path == "":
				t.Errorf("%v, level %d: follows from the damaged node: %v", tree, m.levels[i], f)
			}
		}
		if nodes != 1 || s.Damaged != 1+named {
			t.Errorf("%v, level %d: %d findings for nodes, %d entries named, %+v", tree, m.levels[i], nodes, named, s)
		}
		// The rest of the tree is checked still, and what is lost is named.
		if m.levels[i] == 0 {
			switch lost := tree == index.Contents || tree == index.Frames; {
			case lost && (named == 0 || named > 200):
				t.Errorf("%v: %d entries named", tree, named)
			case !lost && named != 0:
				t.Errorf("%v: entries named: %v", tree, fs)
			case tree == index.Entries && (s.Entries < 300 || s.Entries >= 400):
				t.Errorf("entries checked: %d", s.Entries)
			}
		}
	}
	if levels[index.Entries] < 2 || levels[index.Contents] < 1 || levels[index.Digests] < 1 {
		t.Fatalf("trees too low for this test: %v", levels)
	}
}

// Nodes with valid tags whose keys are not where they belong, or that form a graph that is not a tree.
func TestHostileNodes(t *testing.T) {
	for name, change := range map[string]func(tree index.Tree, b []byte){
		"level": func(_ index.Tree, b []byte) { b[1]++ },
		"tree":  func(_ index.Tree, b []byte) { b[0]++ },
		"items": func(_ index.Tree, b []byte) { b[2]-- },
		"keys": func(tree index.Tree, b []byte) {
			if b[1] == 0 && tree == index.Contents {
				b[11] = 0xFF // the first byte of the first key
			}
		},
	} {
		m := sample(t, 512)
		m.node = change
		s, fs, err := check(m.build(), Options{Full: true})
		if err != nil || s.Damaged == 0 || s.Complete && name != "keys" || len(fs) == 0 {
			t.Errorf("%s: %+v, %v, %v", name, s, fs, err)
		}
	}
	m := sample(t, 512)
	m.roots = func(r []index.Root) { r[0], r[1] = r[1], r[0]; r[2].Ref = r[3].Ref }
	s, fs, err := check(m.build(), Options{})
	if err != nil || s.Complete || s.Damaged < 3 {
		t.Errorf("exchanged roots: %+v, %v, %v", s, fs, err)
	}
}

func TestSuperblocks(t *testing.T) {
	clean := sample(t, 512).build()
	for bad, want := range map[[4]bool]int{{true}: 1, {true, true}: 2, {true, true, true}: 3, {false, true, false, true}: 2} {
		b := bytes.Clone(clean)
		for i, x := range bad {
			if x {
				b[i*format.PageSize+100] ^= 1
			}
		}
		s, fs, err := check(b, Options{})
		if err != nil || s.Repairable != want || s.Damaged != 0 || len(fs) != want {
			t.Errorf("%v: %+v, %v, %v", bad, s, fs, err)
		}
		for _, f := range fs {
			if f.Kind != KindRepairable || !bad[f.Offset/format.PageSize] {
				t.Errorf("%v: %v", bad, f)
			}
			if twin := bad[(f.Offset/format.PageSize)^2]; twin != strings.Contains(f.Detail, "twin") {
				t.Errorf("%v: %v", bad, f)
			}
		}
	}
	b := bytes.Clone(clean)
	for i := range 4 {
		b[i*format.PageSize+100] ^= 1
	}
	if s, fs, err := check(b, Options{}); !errors.Is(err, format.ErrCorrupt) || len(fs) != 1 || fs[0].Kind != KindSuperblock || s.Damaged != 1 {
		t.Errorf("no copy left: %+v, %v, %v", s, fs, err)
	}
	b = bytes.Clone(clean)
	s, err := journal.ReadCopies(memFile(b))
	if err != nil {
		t.Fatal(err)
	}
	b[s.Current.CommitOff+40] ^= 1
	if s, fs, err := check(b, Options{}); !errors.Is(err, format.ErrCorrupt) || len(fs) != 1 || fs[0].Kind != KindCommit || s.Damaged != 1 {
		t.Errorf("commit block: %+v, %v, %v", s, fs, err)
	}
	for name, b := range map[string][]byte{"empty": {}, "garbage": random(30000, 1), "zip": []byte("PK\x03\x04 and so on")} {
		if s, fs, err := check(b, Options{}); !errors.Is(err, format.ErrNotLockbox) || len(fs) != 0 || s.Damaged != 0 {
			t.Errorf("%s: %+v, %v, %v", name, s, fs, err)
		}
	}
}

func TestOnly(t *testing.T) {
	m := sample(t, 512)
	b := m.build()
	b[m.frames[1].Ext.Off+120] ^= 1
	under := func(dir string) func(pathsafe.Path) bool {
		return func(p pathsafe.Path) bool { return strings.HasPrefix(p.String(), dir) }
	}
	s, fs, err := check(b, Options{Full: true, Only: under("raw")})
	if err != nil || len(fs) != 0 || s.Entries != 4 || s.Bytes != 400+700+90 {
		t.Errorf("another directory: %+v, %v, %v", s, fs, err)
	}
	s, fs, err = check(b, Options{Full: true, Only: under("docs/again")})
	if err != nil || s.Entries != 1 || s.Damaged != 2 || !slices.Equal(paths(fs, KindContent), []string{"docs/again"}) {
		t.Errorf("damaged entry: %+v, %v, %v", s, fs, err)
	}
	if s, _, err = check(b, Options{Full: true, Only: under("big")}); err != nil || s.Bytes != 5000 || s.Damaged != 0 {
		t.Errorf("long entry: %+v, %v", s, err)
	}
	if s, _, err = check(b, Options{Full: true, Only: under("odd")}); err != nil || s.Bytes != 1560 || s.Damaged != 0 {
		t.Errorf("entry out of order: %+v, %v", s, err)
	}
}

// More contents than are digested at the same time, each in two frames that stand far apart.
func TestInterleavedContents(t *testing.T) {
	const n = maxStreams + 40
	m := newModel(t, 512, frames.LevelNone)
	for half := range uint64(2) {
		for k := range uint64(n) {
			data := random(100, k)
			m.frame(1+half*n+k, frames.NoPack, data[half*60:min(100, half*60+60)], frames.Member{Content: k + 1, Off: int64(half * 60), Len: int64(60 - half*20)})
			if half == 0 {
				m.content(k+1, data, index.Run{Frame: 1 + k, Len: 60}, index.Run{Frame: 1 + n + k, Len: 40})
				m.entry(fmt.Sprintf("f%03d", k), index.Entry{Kind: index.File, Size: 100, Content: k + 1})
			}
		}
	}
	b := m.build()
	for jobs := range 4 {
		if s, fs, err := check(b, Options{Full: true, Jobs: jobs}); err != nil || len(fs) > 0 || s.Bytes != n*100 {
			t.Fatalf("jobs %d: %+v, %v, %v", jobs, s, fs, err)
		}
	}
	for _, k := range []uint64{0, n - 1} { // a stream, and a content that was put off
		f := m.frames[1+n+k]
		b[f.Ext.Off+int64(frames.HeaderSize(testTag))] ^= 1
		s, fs, err := check(b, Options{Full: true, Jobs: 2})
		if want := []string{fmt.Sprintf("f%03d", k)}; err != nil || s.Damaged != 2 || !slices.Equal(paths(fs, KindContent), want) {
			t.Fatalf("%q: %+v, %v, %v", want, s, fs, err)
		}
		b[f.Ext.Off+int64(frames.HeaderSize(testTag))] ^= 1
	}
}

type failing struct {
	memFile
	at  int64
	err error
}

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off <= f.at && f.at < off+int64(len(p)) {
		return 0, f.err
	}
	return f.memFile.ReadAt(p, off)
}

// A sector that the disk does not give back is damage in one place: what lies elsewhere is checked, and the entries
// that need the sector are named, no others than when its bytes are wrong.
func TestBadSectors(t *testing.T) {
	m := sample(t, 512)
	b := m.build()
	for off := int64(0); off < int64(len(b)); off += 512 {
		o := Options{Full: true, Jobs: 1 + int(off/512)%3}
		var fs []Finding
		o.Finding = func(f Finding) { fs = append(fs, f) }
		s, err := Run(context.Background(), failing{memFile(b), off, syscall.EIO}, o)
		if m.unread(off) && off%format.PageSize != 0 {
			continue // only reads of whole pages touch it
		}
		wrong := slices.Clone(b)
		for i := range min(512, len(b)-int(off)) {
			wrong[int(off)+i] ^= 0x5a
		}
		_, want, wantErr := check(wrong, o)
		switch {
		case wantErr != nil: // the commit block: there is nothing to go by
			if err == nil {
				t.Errorf("bad sector at %d: no error, but %v when its bytes are wrong", off, wantErr)
			}
		case err != nil:
			t.Errorf("bad sector at %d: %v", off, err)
		case off < format.CopiesSize:
			if s.Damaged > 0 || len(fs) != 1 {
				t.Errorf("bad sector in a superblock copy at %d: %+v, %v", off, s, fs)
			}
		case !m.unread(off) && s.Damaged == 0:
			t.Errorf("bad sector at %d: nothing found", off)
		case !subset(paths(want, KindContent), paths(fs, KindContent)):
			t.Errorf("bad sector at %d: %v, but %v when its bytes are wrong", off, fs, want)
		}
	}
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

func TestInputErrorsEndTheCheck(t *testing.T) {
	m := sample(t, 512)
	b := m.build()
	fault := errors.New("the disk is on fire")
	for off := int64(0); off < int64(len(b)); off += 512 {
		_, err := Run(context.Background(), failing{memFile(b), off, fault}, Options{Full: true, Jobs: int(off/512) % 3})
		if m.unread(off) && off%format.PageSize != 0 {
			continue
		}
		if quiet := err == nil; quiet != (m.unread(off) && off >= format.CleanMarkOff) || err != nil && !errors.Is(err, fault) {
			t.Fatalf("input error at %d: %v", off, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for jobs := range 3 {
		if _, err := Run(ctx, memFile(b), Options{Full: true, Jobs: jobs}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

func TestProgress(t *testing.T) {
	m := newModel(t, 512, frames.LevelNone)
	data := random(5<<20, 1)
	order := make([]int, 20)
	for i := range order {
		order[i] = i ^ 1
	}
	m.content(1, data, m.split(1, 1, data, 256<<10, order...))
	m.entry("x", index.Entry{Kind: index.File, Size: int64(len(data)), Content: 1})
	b := m.build()
	for jobs := range 4 {
		calls, last, total := 0, int64(0), int64(0)
		s, err := Run(context.Background(), memFile(b), Options{Full: true, Jobs: jobs, Finding: func(f Finding) { t.Error(f) }, Progress: func(done, of int64) {
			if done < last || done > of || total != 0 && of != total {
				t.Errorf("%d of %d after %d of %d", done, of, last, total)
			}
			calls, last, total = calls+1, done, of
		}})
		if err != nil || calls < 4 || last != total || s.Bytes != uint64(len(data)) {
			t.Errorf("jobs %d: %+v, %v, %d calls, %d of %d", jobs, s, err, calls, last, total)
		}
	}
}
