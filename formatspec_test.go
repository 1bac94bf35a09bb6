package lockbox_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
)

// These tests read FORMAT.md as a stranger would: they take offsets and widths from its tables, apply them
// to what the code writes, and find every field's value where the table has it. A field without an expected
// value and an expected value without a field both fail, so neither side can grow alone.

const tagWidth = 16 // T of the suite that this version writes

type spec struct {
	t    *testing.T
	text string
}

// section returns the part of FORMAT.md below a heading, up to the next heading of the same or a higher level.
func section(t *testing.T, heading string) spec {
	t.Helper()
	b, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	start := strings.Index(text, "\n"+heading)
	if start < 0 {
		t.Fatalf("FORMAT.md has no heading %q", heading)
	}
	text = text[start+1:]
	level := len(heading) - len(strings.TrimLeft(heading, "#"))
	_, text, _ = strings.Cut(text, "\n")
	for l := level; l > 0; l-- {
		if end := strings.Index(text, "\n"+strings.Repeat("#", l)+" "); end >= 0 {
			text = text[:end]
		}
	}
	return spec{t, text}
}

// rows returns the cells of the first table from the first line on that contains mark, which may be its header
// ("" for the section's first table).
func (s spec) rows(mark string) [][]string {
	s.t.Helper()
	at := strings.Index(s.text, mark)
	if at < 0 {
		s.t.Fatalf("FORMAT.md: %q not found", mark)
	}
	text := s.text[strings.LastIndexByte(s.text[:at], '\n')+1:]
	var rows [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		s.t.Fatalf("FORMAT.md: no table after %q", mark)
	}
	return rows[2:] // without header and rule
}

// find returns the numbers that re captures, without separators.
func (s spec) find(re string) []int64 {
	s.t.Helper()
	m := regexp.MustCompile(re).FindStringSubmatch(strings.ReplaceAll(s.text, "\n", " "))
	if m == nil {
		s.t.Fatalf("FORMAT.md: nothing matches %s", re)
	}
	var ns []int64
	for _, x := range m[1:] {
		n, err := strconv.ParseInt(strings.ReplaceAll(x, ",", ""), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		ns = append(ns, n)
	}
	return ns
}

// widths returns the widths of fields that a sentence lists as "name (width…)", from mark to the next full stop.
func (s spec) widths(mark string) []int {
	s.t.Helper()
	_, text, ok := strings.Cut(strings.ReplaceAll(s.text, "\n", " "), mark)
	if !ok {
		s.t.Fatalf("FORMAT.md: %q not found", mark)
	}
	text, _, _ = strings.Cut(text+" ", ". ")
	var ws []int
	for _, m := range regexp.MustCompile(`\((\d+|T|32 \+ T)[);:,]`).FindAllStringSubmatch(text, -1) {
		ws = append(ws, evaluate(s.t, m[1]))
	}
	return ws
}

// evaluate computes sizes and offsets such as "64 + 2 T".
func evaluate(t *testing.T, s string) int {
	t.Helper()
	sum := 0
	for term := range strings.SplitSeq(s, "+") {
		term = strings.TrimSpace(term)
		n := 1
		if d, ok := strings.CutSuffix(term, "T"); ok {
			n = tagWidth
			term = strings.TrimSpace(d)
		}
		if term != "" {
			f, err := strconv.Atoi(term)
			if err != nil {
				t.Fatalf("FORMAT.md: size %q", s)
			}
			n *= f
		}
		sum += n
	}
	return sum
}

// want is what a field whose name starts with prefix must hold. skip is for fields that another check covers.
type want struct {
	prefix string
	bytes  []byte
	skip   bool
}

// match finds the one expectation for a field's name.
func match(t *testing.T, wants []want, used map[string]bool, name string) want {
	t.Helper()
	if strings.HasPrefix(name, "reserved") {
		return want{prefix: "reserved"}
	}
	var found []want
	for _, w := range wants {
		if strings.HasPrefix(name, w.prefix) {
			found = append(found, w)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%q: %d expectations", name, len(found))
	}
	used[found[0].prefix] = true
	return found[0]
}

func allUsed(t *testing.T, wants []want, used map[string]bool) {
	t.Helper()
	for _, w := range wants {
		if !used[w.prefix] {
			t.Errorf("FORMAT.md has no field %q", w.prefix)
		}
	}
}

// checkTable holds bytes that the code wrote against a table of offset, size, field. The rows must adjoin. It
// returns where the last one ends; the last row may have no size.
// reserved is what its reserved bytes are where they are not zero.
func checkTable(t *testing.T, rows [][]string, b []byte, wants []want, reserved ...[]byte) int {
	t.Helper()
	at := 0
	used := map[string]bool{}
	for _, r := range rows {
		if off := evaluate(t, r[0]); off != at {
			t.Fatalf("%q stands at %d, but what is before it ends at %d", r[2], off, at)
		}
		if r[1] == "" {
			break
		}
		n := evaluate(t, r[1])
		w := match(t, wants, used, r[2])
		if w.prefix == "reserved" {
			w.bytes = make([]byte, n)
			if len(reserved) > 0 {
				w.bytes, reserved = reserved[0], reserved[1:]
			}
		}
		if got := b[at : at+n]; !w.skip && !bytes.Equal(got, w.bytes) {
			t.Errorf("%q at %d: the code writes %x, expected %x", r[2], at, got, w.bytes)
		}
		at += n
	}
	allUsed(t, wants, used)
	return at
}

func le(width int, v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v)[:width] }

func seq[T ~[16]byte | ~[32]byte](first byte) (v T) {
	for i := range len(v) {
		v[i] = first + byte(i)
	}
	return v
}

// disk is a file in memory.
type disk []byte

func (d disk) WriteAt(p []byte, off int64) (int, error) { return copy(d[off:], p), nil }

// magicIn returns the bytes of the first `AA BB …` in a cell.
func magicIn(t *testing.T, cell string) []byte {
	t.Helper()
	m := regexp.MustCompile("`([0-9A-F ]+)`").FindStringSubmatch(cell)
	if m == nil {
		t.Fatalf("no bytes in %q", cell)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(m[1], " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFormatFile(t *testing.T) {
	at := 0
	places := map[string]int{}
	rows := section(t, "## The file").rows("")
	for _, r := range rows {
		if off := evaluate(t, r[0]); off != at {
			t.Fatalf("%q stands at %d, what is before it ends at %d", r[2], off, at)
		}
		places[r[2]] = at
		if r[1] != "" {
			at += evaluate(t, r[1])
		}
	}
	for what, off := range map[string]int{
		"page of the clean mark": format.CleanMarkOff, "extents, up to the logical end": format.DataStart,
	} {
		if got, ok := places[what]; !ok || got != off {
			t.Errorf("%q: at %d in FORMAT.md (%v), %d in the code", what, got, ok, off)
		}
	}
	s := someSuper()
	for i, name := range []string{"A0", "B0", "A1", "B1"} {
		d := make(disk, format.DataStart)
		if err := journal.WriteCopy(d, s, i%2, i/2); err != nil {
			t.Fatal(err)
		}
		off, ok := places["page of superblock copy "+name]
		if !ok || !bytes.HasPrefix(d[off:], []byte("\x89LBX")) {
			t.Errorf("copy %s is not written to %d (%v)", name, off, ok)
		}
		end := off + int(section(t, "## The file").find(`A copy fills the first (\d+) bytes`)[0])
		clear(d[off:end])
		if len(bytes.Trim(d, "\x00")) != 0 {
			t.Errorf("writing copy %s touches more than its place", name)
		}
	}
}

func someSuper() *journal.Super {
	return &journal.Super{
		Suite: format.SuiteNone, Sector: 4096, Archive: seq[format.ID](0x10), MustKnow: 0x0102030405060708, WriteKnow: 0x1112131415161718,
		MayIgnore: 0x2122232425262728, Generation: 0x3132333435363738, Attempt: seq[format.ID](0x30), End: 0x0041424344454647,
		CommitOff: 0x0051525354555657, CommitLen: 0x61626364, KeyDirOff: 0x0071727374757677, KeyDirLen: 0x81828384,
		CommitHash: seq[format.Digest](0x50), KeyDirHash: seq[format.Digest](0x80), PrevRoot: seq[format.Digest](0xB0),
	}
}

func TestFormatSuperblock(t *testing.T) {
	s := someSuper()
	d := make(disk, format.DataStart)
	if err := journal.WriteCopy(d, s, 1, 1); err != nil {
		t.Fatal(err)
	}
	b := d[3*format.PageSize:][:format.PageSize]
	sec := section(t, "## Superblock")
	rows := sec.rows("")
	summed := sec.find(`checksum: XXH3-128 of bytes 0 to (\d+)`)[0] + 1
	x := xxh3.Hash128(b[:summed])
	end := checkTable(t, rows, b, []want{
		{prefix: "magic", bytes: magicIn(t, rows[0][2])}, {prefix: "format version", bytes: le(2, format.Version)},
		{prefix: "suite", bytes: []byte{0}}, {prefix: "tag algorithm", bytes: []byte{1}}, {prefix: "digest algorithm", bytes: []byte{1}},
		{prefix: "signature algorithm", bytes: []byte{0}}, {prefix: "sector shift", bytes: []byte{12}}, {prefix: "archive id", bytes: s.Archive[:]},
		{prefix: "features a reader", bytes: le(8, s.MustKnow)}, {prefix: "features a writer", bytes: le(8, s.WriteKnow)},
		{prefix: "features anyone", bytes: le(8, s.MayIgnore)}, {prefix: "generation", bytes: le(8, s.Generation)},
		{prefix: "attempt id", bytes: s.Attempt[:]}, {prefix: "logical end", bytes: le(8, uint64(s.End))},
		{prefix: "commit block: offset", bytes: le(8, uint64(s.CommitOff))}, {prefix: "commit block: length", bytes: le(4, uint64(s.CommitLen))},
		{prefix: "key directory: length", bytes: le(4, uint64(s.KeyDirLen))}, {prefix: "key directory: offset", bytes: le(8, uint64(s.KeyDirOff))},
		{prefix: "commit block: BLAKE3-256", bytes: s.CommitHash[:]}, {prefix: "key directory: BLAKE3-256", bytes: s.KeyDirHash[:]},
		{prefix: "root hash of the generation before", bytes: s.PrevRoot[:]},
		{prefix: "checksum", bytes: append(le(8, x.Lo), le(8, x.Hi)...)}, {prefix: "pair", bytes: []byte{1}}, {prefix: "copy", bytes: []byte{1}},
	})
	if want := section(t, "## The file").find(`A copy fills the first (\d+) bytes`)[0]; int64(end) != want {
		t.Errorf("the table adds up to %d bytes, not %d", end, want)
	}

	if err := journal.WriteMark(d, s); err != nil {
		t.Fatal(err)
	}
	mark := sec.find(`\*\*Clean mark\*\*: the first (\d+) bytes`)[0]
	page := d[format.CleanMarkOff:][:format.PageSize]
	if !bytes.Equal(page[:mark], b[:mark]) || len(bytes.Trim(page[mark:], "\x00")) != 0 {
		t.Error("the clean mark is not what FORMAT.md says")
	}

	commit := (&journal.Commit{}).Encode(s.Generation)
	r := sec.find(`over superblock bytes 0 to (\d+), .* and superblock bytes (\d+) to (\d+)`)
	ctx := regexp.MustCompile("context `([^`]+)`").FindStringSubmatch(strings.ReplaceAll(sec.text, "\n", " "))
	if ctx == nil {
		t.Fatal("FORMAT.md names no context for the root hash")
	}
	h := blake3.NewDeriveKey(ctx[1])
	body := blake3.Sum256(commit)
	h.Write(b[:r[0]+1])
	h.Write(body[:])
	h.Write(b[r[1] : r[2]+1])
	if got := s.RootHash(commit); !bytes.Equal(got[:], h.Sum(nil)) {
		t.Errorf("root hash %v, by FORMAT.md %x", got, h.Sum(nil))
	}
}

func TestFormatCommitBlock(t *testing.T) {
	sec := section(t, "## Commit block")
	root := index.Root{Height: 3, Count: 0x0102030405060708, Ref: someRef()}
	m := journal.Commit{
		Stage: []journal.Planned{{Extent: format.Extent{Off: 0x10203040, Len: 0x5060}, Generation: 7, Owner: 8, Kind: journal.OwnerNode, Deleted: true}},
		Counters: journal.Counters{NextContent: 1, NextFrame: 2, Entries: 3, PlainBytes: 4, StoredBytes: 5, FrameBytes: 6,
			NodeBytes: 7, FreeBytes: 8, Pending: 9},
		Options:   journal.Options{Level: uint8(frames.LevelBest), Padding: 2, Reproducible: true},
		OpenPacks: []uint64{11, journal.NoFrame},
		Salt:      bytes.Repeat([]byte{0x5A}, journal.SaltSize),
	}
	m.Retire = []journal.Planned{{Extent: format.Extent{Off: 0x20000000, Len: 0x1000}, Generation: 5, Owner: 9, Kind: journal.OwnerSeveral}}
	for range 5 {
		m.Trees = root.Append(m.Trees, tagWidth)
	}
	b := m.Encode(0x0807060504030201)
	at := checkTable(t, sec.rows(""), b, []want{
		{prefix: "magic", bytes: []byte("LBXC")}, {prefix: "version", bytes: le(2, 1)}, {prefix: "generation", bytes: le(8, 0x0807060504030201)},
	})

	// Root record: height (1), reserved (7), number of items (8), node reference.
	rw := sec.widths("Root record:")
	wantRoot := append(append([]byte{3}, make([]byte, rw[1])...), le(8, root.Count)...)
	wantRoot = append(wantRoot, refBytes(t, root.Ref)...)
	if rw[3] != len(refBytes(t, root.Ref)) || len(rw) != 4 || sum(rw) != index.RootSize(tagWidth) {
		t.Errorf("root record: widths %v", rw)
	}
	extent := func(p journal.Planned) []byte {
		ws := sec.widths("Extent record (40 bytes):")
		if sum(ws) != 40 || len(ws) != 7 {
			t.Fatalf("extent record: widths %v", ws)
		}
		deleted := uint64(0)
		if p.Deleted {
			deleted = 1
		}
		var b []byte
		for i, v := range []uint64{uint64(p.Off), uint64(p.Len), p.Generation, p.Owner, uint64(p.Kind), deleted, 0} {
			b = append(b, le(8, v)[:min(8, ws[i])]...)
		}
		return b
	}
	var counters []byte
	n := sec.find(`(\d+) numbers of 8 bytes: next content number, next frame number, entries, plain bytes, stored bytes of frames, bytes of frame extents, bytes of nodes, wiped free bytes in the free tree, pending extents`)[0]
	for v := range n {
		counters = append(counters, le(8, uint64(v+1))...)
	}
	fields := map[string][]byte{
		"trees": bytes.Repeat(wantRoot, 5), "stage set": extent(m.Stage[0]), "retire set": extent(m.Retire[0]), "counters": counters,
		"options": {4, 2, 1, 0, 0, 0, 0, 0}, "open packs": append(le(8, 11), bytes.Repeat([]byte{0xFF}, 8)...),
	}
	fields["salt"] = bytes.Repeat([]byte{0x5A}, int(sec.find(`\| salt \| (\d+) random bytes`)[0]))
	fw := sec.widths("A field is:") // tag, flags, length
	if len(fw) != 3 {
		t.Fatalf("a field's widths: %v", fw)
	}
	rows := sec.rows("At most 4 MiB.")
	for _, r := range rows {
		tag := evaluate(t, r[0])
		if r[1] == "signature" {
			if tag != 1<<16-1 {
				t.Errorf("signature has tag %d", tag)
			}
			continue
		}
		payload, ok := fields[r[1]]
		if !ok {
			t.Errorf("field %q has no expectation", r[1])
			continue
		}
		delete(fields, r[1])
		want := append(append(le(fw[0], uint64(tag)), le(fw[1], 1)...), le(fw[2], uint64(len(payload)))...)
		want = append(want, payload...)
		if got := b[at:min(at+len(want), len(b))]; !bytes.Equal(got, want) {
			t.Errorf("field %q:\n the code writes %x\n FORMAT.md means %x", r[1], got, want)
		}
		at += len(want)
	}
	if at != len(b) || len(fields) != 0 {
		t.Errorf("the code writes %d bytes, FORMAT.md has %d; fields without a row: %d", len(b), at, len(fields))
	}
}

func someRef() index.Ref {
	r := index.Ref{Off: 0x0001020304050607, Len: 0x1000, Seq: 0x0A0B0C0D, Attempt: seq[format.ID](0x40)}
	tag := seq[format.ID](0x60)
	copy(r.Tag[:], tag[:])
	return r
}

// refBytes is a node reference by FORMAT.md.
func refBytes(t *testing.T, r index.Ref) []byte {
	t.Helper()
	ws := section(t, "## Trees").widths("**Node reference** (32 + T bytes):")
	if len(ws) != 5 || sum(ws) != index.RefSize(tagWidth) || sum(ws) != 32+tagWidth {
		t.Fatalf("node reference: widths %v", ws)
	}
	b := append(le(ws[0], uint64(r.Off)), le(ws[1], uint64(r.Len))...)
	b = append(b, le(ws[2], uint64(r.Seq))...)
	return append(append(b, r.Attempt[:]...), r.Tag[:ws[4]]...)
}

func sum(ws []int) (n int) {
	for _, w := range ws {
		n += w
	}
	return n
}

func TestFormatLimits(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for _, c := range []struct {
		heading, re string
		unit        int64
		code        int64
	}{
		{"## Commit block", `At most (\d+) MiB\.`, mib, format.MaxCommitBlock},
		{"## Commit block", `At most ([\d,]+) in a set`, 1, format.MaxSetExtents},
		{"## Trees", `a node is at most (\d+) KiB`, kib, format.MaxNode},
		{"## Trees", `a tree at most (\d+) levels`, 1, format.MaxHeight},
		{"## Trees", `a key at most (\d+) KiB`, kib, format.MaxKey},
		{"## Trees", `a value at most (\d+) KiB`, kib, format.MaxValue},
		{"### entries", `longer than ([\d,]+) bytes`, 1, format.MaxComponent},
		{"### entries", `at most (\d+) KiB`, kib, format.MaxPath},
		{"### entries", `without a zero byte; at most (\d+) KiB`, kib, format.MaxTarget},
		{"### entries", `no hole only in the last; at most (\d+) KiB`, kib, index.MaxSparse},
		{"### entries", `length and value; at most (\d+) KiB`, kib, index.MaxXattrs},
		{"### entries", `when that is over (\d+) KiB`, kib, index.MaxXattrs},
		{"### entries", `over 32 KiB; at most (\d+) MiB`, 1 << 20, index.MaxXattrsContent},
		{"### contents", `number of runs \| uvarint, 1 to ([\d,]+)`, 1, format.MaxRuns},
		{"### frames", `stored length \| uvarint, 1 to (\d+) MiB`, mib, format.MaxFramePlain},
		{"### frames", `plain length \| uvarint, 1 to (\d+) MiB`, mib, format.MaxFramePlain},
		{"### frames", `number of members \| uvarint, 1 to ([\d,]+)`, 1, format.MaxMembers},
		{"### frames", `log2 of the verification block, (\d+) to`, 1, index.MinBlockShift},
		{"### frames", `log2 of the verification block, \d+ to (\d+)`, 1, index.MaxBlockShift},
		{"### frames", `pack class \| 1: 0 to (\d+)`, 1, index.MaxClass},
		{"### frames", `(\d+) when the frame is not a pack`, 1, index.NoClass},
		{"## Tags", `both \| (\d+)`, 1, format.MaxTag},
		{"## Tags", `none \| (\d+)`, 1, int64(seal.New().TagSize())},
		{"## Tags", `signed \| (\d+)`, 1, int64(seal.NewSigned().TagSize())},
		{"## Tags", `encrypted \| (\d+)`, 1, int64(specSuite(format.SuiteEncrypted).TagSize())},
		{"## Tags", `both \| (\d+)`, 1, int64(specSuite(format.SuiteBoth).TagSize())},
		{"## Key directory", `number of slots, 1 to (\d+)`, 1, journal.MaxSlots},
		{"## Key directory", `At most (\d+) MiB a copy`, mib, format.MaxKeyDir},
		{"## Key directory", `length \(4\), at most (\d+) KiB`, kib, seal.MaxSlot},
		{"## Key directory", `its length \(uvarint, at most ([\d,]+)\)`, 1, seal.MaxLabel},
		{"## Tags", `Context\*\* \((\d+) bytes`, 1, seal.ContextSize},
	} {
		if got := section(t, c.heading).find(c.re)[0] * c.unit; got != c.code {
			t.Errorf("%s: %s is %d, the code has %d", c.heading, c.re, got, c.code)
		}
	}
	// Powers of two, whose exponents stand in the text.
	whole, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for re, code := range map[string]int64{`the logical end among them, are at most 2\^(\d+)`: format.MaxLogicalEnd, `sizes at most 2\^(\d+)`: format.MaxFileSize} {
		m := regexp.MustCompile(re).FindSubmatch(whole)
		if m == nil || string(m[1]) != strconv.Itoa(bits.TrailingZeros64(uint64(code))) {
			t.Errorf("%s is %q, the code has %d", re, m, code)
		}
	}
	// The same limit under two names, because pathsafe imports nothing.
	if pathsafe.MaxLen != format.MaxPath || pathsafe.MaxComponent != format.MaxComponent {
		t.Error("pathsafe and format disagree on the length of a path")
	}
	if frames.NoPack != index.NoClass || frames.Raw != index.CodecRaw || frames.Zstd != index.CodecZstd {
		t.Error("frames and index disagree on codecs or on the class of a frame that is no pack")
	}
}
