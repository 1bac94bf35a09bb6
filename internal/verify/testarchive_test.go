package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
)

const testTag = 16

// model is an archive in the making: records that a test may falsify before build turns them into bytes.
type model struct {
	t          testing.TB
	sector     int64
	nodeSize   int
	generation uint64
	archive    format.ID
	attempt    format.ID
	enc        *frames.Encoder

	file     []byte // from offset 0; frames and other extents stand in it before build
	entries  []index.Entry
	contents map[uint64]*index.Content
	digests  map[string]bool // keys
	frames   map[uint64]*index.Frame
	free     []index.FreeExtent
	stage    []journal.Planned
	retire   []journal.Planned
	packs    []uint64
	alter    func(*journal.Counters)      // the counters before they are written
	super    func(*journal.Super)         // the superblock before it is written
	roots    func([]index.Root)           // the roots before they are written
	node     func(t index.Tree, b []byte) // a node's bytes before they are sealed
	refs     []index.Ref                  // of all nodes, for tests that damage one
	trees    []index.Tree                 // of refs
	levels   []int                        // of refs
}

func newModel(t testing.TB, sector int64, level frames.Level) *model {
	t.Helper()
	m := &model{t: t, sector: sector, nodeSize: 512, generation: 3, archive: format.ID{1, 2, 3}, attempt: format.ID{7, 7},
		file: make([]byte, format.DataStart), contents: map[uint64]*index.Content{}, digests: map[string]bool{}, frames: map[uint64]*index.Frame{}}
	var err error
	if m.enc, err = frames.NewEncoder(seal.New(), m.archive, level, 9, sector, 1<<20); err != nil {
		t.Fatal(err)
	}
	return m
}

func random(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 9))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func text(n int, seed uint64) []byte {
	var b bytes.Buffer
	r := rand.New(rand.NewPCG(seed, 8))
	for b.Len() < n {
		fmt.Fprintf(&b, "line %d of the text\n", r.IntN(1000))
	}
	return b.Bytes()[:n]
}

// extent appends bytes to the file, filled up to a sector.
func (m *model) extent(b []byte) format.Extent {
	e := format.Extent{Off: int64(len(m.file)), Len: format.AlignUp(int64(len(b)), m.sector)}
	m.file = append(append(m.file, b...), make([]byte, e.Len-int64(len(b)))...)
	return e
}

// frame stores a frame of the given members, which lie in plain one after the other.
func (m *model) frame(number uint64, class uint8, plain []byte, members ...frames.Member) {
	i := frames.Info{Number: number, Attempt: m.attempt, Class: class}
	b := m.enc.Encode(nil, &i, plain, members)
	rec := &index.Frame{Codec: i.Codec, BlockShift: i.BlockShift, Class: class, Ext: m.extent(b), Stored: i.Stored, Plain: i.Plain,
		MemberTable: i.MemberTable, Attempt: i.Attempt, Commitment: i.Commitment}
	for _, x := range members {
		rec.Contents = append(rec.Contents, x.Content)
	}
	m.frames[number] = rec
}

// content adds a content's records. Its references are counted by refer.
func (m *model) content(number uint64, data []byte, runs ...index.Run) {
	d := format.Digest(blake3.Sum256(data))
	m.contents[number] = &index.Content{Size: int64(len(data)), Digest: d, Runs: runs}
	m.digests[string(index.DigestKey([8]byte(d[:8]), number))] = true
}

// entry adds an entry, and a reference to its contents.
func (m *model) entry(path string, e index.Entry) {
	p, err := pathsafe.Parse(path)
	if err != nil {
		m.t.Fatal(err)
	}
	e.Path, e.Mode, e.HasMtime, e.MtimeSec = p, 0o644, true, 1_700_000_000
	m.entries = append(m.entries, e)
	for _, n := range []uint64{e.Content, e.XattrsContent} {
		if c := m.contents[n]; c != nil {
			c.Refs++
		}
	}
}

// pack stores a frame of small contents and an entry for each.
func (m *model) pack(number uint64, class uint8, dir string, first uint64, datas ...[]byte) {
	var plain []byte
	var members []frames.Member
	for i, d := range datas {
		n := first + uint64(i)
		m.content(n, d, index.Run{Frame: number, Off: int64(len(plain)), Len: int64(len(d))})
		members = append(members, frames.Member{Content: n, Len: int64(len(d))})
		plain = append(plain, d...)
		m.entry(fmt.Sprintf("%s/f%03d", dir, n), index.Entry{Kind: index.File, Size: int64(len(d)), Content: n})
	}
	m.frame(number, class, plain, members...)
}

// split stores a content in frames of unit bytes from first on; order says in which order they come in
// the file.
func (m *model) split(first uint64, content uint64, data []byte, unit int, order ...int) index.Run {
	for _, k := range order {
		lo, hi := k*unit, min((k+1)*unit, len(data))
		m.frame(first+uint64(k), frames.NoPack, data[lo:hi], frames.Member{Content: content, Off: int64(lo), Len: int64(hi - lo)})
	}
	return index.Run{Frame: first, Len: int64(len(data)), Unit: int64(unit)}
}

// sample is an archive with some of everything.
func sample(t testing.TB, sector int64) *model {
	m := newModel(t, sector, frames.LevelDefault)
	m.entry("docs", index.Entry{Kind: index.Dir})
	m.pack(1, 0, "docs", 1, text(300, 1), text(200, 2), text(77, 3), text(1, 4))
	m.entry("docs/again", index.Entry{Kind: index.File, Size: 200, Content: 2})
	m.entry("empty", index.Entry{Kind: index.File})
	m.entry("link", index.Entry{Kind: index.Symlink, Target: "docs/f001"})

	// A raw pack with blocks; the tail of content 20 is its last member.
	rawData := [][]byte{random(400, 5), random(700, 6), random(90, 7)}
	tail := random(60, 8)
	plain := slices.Concat(rawData[0], rawData[1], rawData[2], tail)
	var members []frames.Member
	at := int64(0)
	m.entry("raw", index.Entry{Kind: index.Dir})
	for i, d := range rawData {
		n := uint64(10 + i)
		m.content(n, d, index.Run{Frame: 2, Off: at, Len: int64(len(d))})
		members = append(members, frames.Member{Content: n, Len: int64(len(d))})
		m.entry(fmt.Sprintf("raw/r%d", i), index.Entry{Kind: index.File, Size: int64(len(d)), Content: n})
		at += int64(len(d))
	}
	m.frame(2, 1, plain, append(members, frames.Member{Content: 20, Off: 1500, Len: 60})...)

	m.wiped(2 * sector)
	big := text(5000, 9)
	m.content(30, big, m.split(3, 30, big, 1024, 0, 2, 1, 4, 3))
	m.entry("big", index.Entry{Kind: index.File, Size: 5000, Content: 30})

	// Two frames of its own, then a tail in a pack with a lower number.
	odd := random(1500, 10)
	run := m.split(8, 20, odd, 1000, 0, 1)
	m.content(20, slices.Concat(odd, tail), run, index.Run{Frame: 2, Off: 1190, Len: 60})
	m.entry("odd", index.Entry{Kind: index.File, Size: 1560, Content: 20})

	m.pending(sector, index.FreePending)
	sparse := random(100, 11)
	m.content(40, sparse, index.Run{Frame: 10, Len: 100})
	m.frame(10, frames.NoPack, sparse, frames.Member{Content: 40, Len: 100})
	m.entry("sparse", index.Entry{Kind: index.File, Size: 1100, Content: 40, Sparse: []index.SparseRun{{Data: 60, Hole: 1000}, {Data: 40}}})
	// Extended attributes in a content, of one frame and of several; and names of one file.
	set := index.AppendXattrs(nil, []index.Xattr{{Name: "user.a", Value: random(100, 15)}, {Name: "user.b"}})
	m.content(50, set, index.Run{Frame: 15, Len: int64(len(set))})
	m.frame(15, frames.NoPack, set, frames.Member{Content: 50, Len: int64(len(set))})
	m.entry("xattrs", index.Entry{Kind: index.Dir, XattrsContent: 50})
	set = index.AppendXattrs(nil, []index.Xattr{{Name: "user.a", Value: random(1500, 16)}})
	m.content(51, set, m.split(16, 51, set, 1000, 1, 0))
	for _, path := range []string{"yattrs", "zattrs"} {
		m.entry(path, index.Entry{Kind: index.File, XattrsContent: 51, LinkGroup: 7})
	}
	m.entries[len(m.entries)-1].Unknown = []byte{200, 1, 1}
	m.stage = append(m.stage, journal.Planned{Extent: m.extent(random(int(sector), 12)), Generation: 2, Kind: journal.OwnerNone})
	m.retire = append(m.retire, journal.Planned{Extent: m.extent(random(int(2*sector), 13)), Generation: 3, Owner: 99, Kind: journal.OwnerFrame, Deleted: true})
	m.packs = []uint64{1, 2, journal.NoFrame}
	return m
}

func (m *model) wiped(n int64) {
	m.free = append(m.free, index.FreeExtent{Ext: m.extent(make([]byte, n)), Gen: 1})
}

func (m *model) pending(n int64, s index.FreeState) {
	m.free = append(m.free, index.FreeExtent{Ext: m.extent(random(int(n), 14)), Gen: 2, State: s})
}

// Node and the rest make a model the source and sink of index.Apply. Nothing is read: trees are built once.
func (m *model) Node(index.Tree, index.Ref, int) (*index.Node, error) {
	return nil, errors.New("a tree that is built at once reads no node")
}

func (m *model) Write(t index.Tree, level int, b []byte) (index.Ref, error) {
	b = bytes.Clone(b)
	if m.node != nil {
		m.node(t, b)
	}
	ref := index.Ref{Off: int64(len(m.file)), Len: uint32(len(b)), Seq: uint32(len(m.refs)), Attempt: m.attempt}
	ctx := seal.Context{Archive: m.archive, Attempt: m.attempt, Number: uint64(ref.Seq), Plain: ref.Len, Stored: ref.Len, Codec: uint8(t)}
	seal.New().Seal(&ctx, seal.KindNode, seal.NoBlock, b, ref.Tag[:testTag])
	m.extent(b)
	m.refs, m.trees, m.levels = append(m.refs, ref), append(m.trees, t), append(m.levels, level)
	return ref, nil
}

func (m *model) Retire(t index.Tree, _ int, _ index.Ref) { m.t.Fatalf("a node of %v is superseded", t) }

func (m *model) apply(t index.Tree, ops []index.Op) index.Root {
	m.t.Helper()
	slices.SortFunc(ops, func(a, b index.Op) int { return bytes.Compare(a.Key, b.Key) })
	r, err := index.Apply(m, m, t, index.Root{}, testTag, m.nodeSize, slices.Values(ops))
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// build writes trees, commit block and superblocks and returns the file.
func (m *model) build() []byte {
	m.t.Helper()
	var k journal.Counters
	start := len(m.file)
	var ops [index.Free + 1][]index.Op
	for i := range m.entries {
		e := &m.entries[i]
		ops[index.Entries] = append(ops[index.Entries], index.Op{Key: e.Path.Key(), Value: index.AppendEntry(nil, e)})
	}
	k.Entries = uint64(len(m.entries))
	for n, c := range m.contents {
		ops[index.Contents] = append(ops[index.Contents], index.Op{Key: index.NumKey(n), Value: index.AppendContent(nil, c)})
		k.PlainBytes += uint64(c.Size)
		k.NextContent = max(k.NextContent, n+1)
	}
	for key := range m.digests {
		ops[index.Digests] = append(ops[index.Digests], index.Op{Key: []byte(key)})
	}
	for n, f := range m.frames {
		ops[index.Frames] = append(ops[index.Frames], index.Op{Key: index.NumKey(n), Value: index.AppendFrame(nil, f, testTag, m.sector)})
		k.StoredBytes += uint64(f.Stored)
		k.FrameBytes += uint64(f.Ext.Len)
		k.NextFrame = max(k.NextFrame, n+1)
	}
	for i := range m.free {
		f := &m.free[i]
		ops[index.Free] = append(ops[index.Free], index.Op{Key: f.Key(), Value: index.AppendFree(nil, f)})
		if f.State == index.FreeWiped {
			k.FreeBytes += uint64(f.Ext.Len)
		} else {
			k.Pending++
		}
	}
	var roots []index.Root
	for t := index.Entries; t <= index.Free; t++ {
		roots = append(roots, m.apply(t, ops[t]))
	}
	if m.roots != nil {
		m.roots(roots)
	}
	k.NodeBytes = uint64(len(m.file) - start)
	if m.alter != nil {
		m.alter(&k)
	}
	commit := journal.Commit{Stage: m.stage, Retire: m.retire, Counters: k, Options: journal.Options{Level: 2}, OpenPacks: m.packs}
	for _, r := range roots {
		commit.Trees = r.Append(commit.Trees, testTag)
	}
	b := commit.Encode(m.generation)
	ext := m.extent(b)
	s := &journal.Super{Sector: m.sector, Archive: m.archive, Generation: m.generation, Attempt: m.attempt,
		End: int64(len(m.file)), CommitOff: ext.Off, CommitLen: uint32(len(b)), CommitHash: journal.Sum(b)}
	if m.super != nil {
		m.super(s)
	}
	w := writer(m.file)
	for i := range 4 {
		if err := journal.WriteCopy(w, s, i%2, i/2); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := journal.WriteMark(w, s); err != nil {
		m.t.Fatal(err)
	}
	return m.file
}

type writer []byte

func (w writer) WriteAt(p []byte, off int64) (int, error) { return copy(w[off:], p), nil }

// memFile is a file in memory.
type memFile []byte

func (f memFile) Size() (int64, error) { return int64(len(f)), nil }

func (f memFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(f)) {
		return 0, io.EOF
	}
	n := copy(p, f[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// check runs a check and returns its findings in a fixed order.
func check(b []byte, o Options) (Summary, []Finding, error) {
	var fs []Finding
	o.Finding = func(f Finding) { fs = append(fs, f) }
	s, err := Run(context.Background(), memFile(b), o)
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Detail, b.Detail))
	})
	return s, fs, err
}

// paths are the entries that findings of a kind name.
func paths(fs []Finding, kind string) []string {
	set := map[string]bool{}
	for _, f := range fs {
		if f.Kind == kind && f.Path != "" {
			set[f.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// unread reports whether a byte belongs to what no check looks at: extents without content, and pages
// around a superblock.
func (m *model) unread(off int64) bool {
	in := func(e format.Extent) bool { return off >= e.Off && off < e.End() }
	for _, p := range slices.Concat(m.stage, m.retire) {
		if in(p.Extent) {
			return true
		}
	}
	for _, f := range m.free {
		if f.State != index.FreeWiped && in(f.Ext) {
			return true
		}
	}
	if off < format.CopiesSize {
		return off%format.PageSize >= 512
	}
	return off < format.DataStart
}
