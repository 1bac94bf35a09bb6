package lockbox_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// Known answers: testdata/vectors has one file for each structure of FORMAT.md, its bytes beside what they
// mean. The test writes every structure again and compares, and reads the bytes of the files back, so that a
// change of the format shows as a change of a text, and another implementation has something to start from.

var update = flag.Bool("update", false, "write testdata/vectors anew; a change there is a change of the format")

// vector lists the parts of a structure's bytes.
type vector struct {
	t     *testing.T
	text  strings.Builder
	bytes []byte
	at    int
}

func newVector(t *testing.T, b []byte, about ...string) *vector {
	v := &vector{t: t, bytes: b}
	for _, a := range about {
		fmt.Fprintf(&v.text, "# %s\n", a)
	}
	return v
}

// part says what the next n bytes are. Long runs of zeros are written as "00 x n".
func (v *vector) part(n int, format string, args ...any) {
	v.t.Helper()
	if n > len(v.bytes)-v.at {
		v.t.Fatalf("%d bytes left for %d bytes of %q", len(v.bytes)-v.at, n, format)
	}
	what := fmt.Sprintf(format, args...)
	p := v.bytes[v.at : v.at+n]
	line := func(b string, what string) {
		v.text.WriteString(strings.TrimRight(fmt.Sprintf("%06x  %-47s  %s", v.at, b, what), " ") + "\n")
	}
	if n > 16 && len(bytes.Trim(p, "\x00")) == 0 {
		line(fmt.Sprintf("00 x %d", n), what)
		v.at += n
		return
	}
	for len(p) > 0 {
		k := min(16, len(p))
		line(fmt.Sprintf("% x", p[:k]), what)
		what = ""
		p, v.at = p[k:], v.at+k
	}
}

// uvarint is a part that is as long as its number.
func (v *vector) uvarint(format string, args ...any) {
	v.t.Helper()
	n := 1
	for v.at+n < len(v.bytes) && v.bytes[v.at+n-1] >= 0x80 {
		n++
	}
	v.part(n, format, args...)
}

func (v *vector) heading(s string) { v.text.WriteString("# " + s + "\n") }

// done compares the vector with its file and returns the bytes that stand there.
func (v *vector) done(name string) []byte {
	v.t.Helper()
	if v.at != len(v.bytes) {
		v.t.Fatalf("%s: %d bytes without a meaning", name, len(v.bytes)-v.at)
	}
	file := filepath.Join("testdata", "vectors", name)
	if *update {
		if err := os.WriteFile(file, []byte(v.text.String()), 0o666); err != nil {
			v.t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		v.t.Fatal(err)
	}
	want := strings.ReplaceAll(string(b), "\r\n", "\n")
	if want != v.text.String() {
		got, lines := strings.Split(v.text.String(), "\n"), strings.Split(want, "\n")
		for i := range max(len(got), len(lines)) {
			if i >= len(got) || i >= len(lines) || got[i] != lines[i] {
				v.t.Fatalf("%s, line %d differs. The code makes\n%s", file, i+1, strings.Join(got[min(i, len(got)):min(i+3, len(got))], "\n"))
			}
		}
	}
	return readVector(v.t, want)
}

// readVector returns the bytes that the text of a vector spells, whose offsets must be right.
func readVector(t *testing.T, text string) (b []byte) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		off, rest, _ := strings.Cut(line, "  ")
		if at, err := strconv.ParseInt(off, 16, 64); err != nil || at != int64(len(b)) {
			t.Fatalf("offset in %q", line)
		}
		digits := strings.TrimSpace(rest[:min(47, len(rest))])
		if n, ok := strings.CutPrefix(digits, "00 x "); ok {
			zeros, err := strconv.Atoi(n)
			if err != nil {
				t.Fatalf("%q", line)
			}
			b = append(b, make([]byte, zeros)...)
			continue
		}
		p, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		b = append(b, p...)
	}
	return b
}

// The archive that the vectors are parts of: sectors of 512 bytes, suite none.
var (
	vecArchive = seq[format.ID](0x10)
	vecAttempt = seq[format.ID](0x30)
)

// vecRoot is the root record of tree t in the commit block; the tree free is empty.
func vecRoot(t index.Tree) index.Root {
	if t == index.Free {
		return index.Root{}
	}
	tag := seq[format.ID](byte(t) << 4)
	r := index.Root{Height: 1, Count: 2 * uint64(t), Ref: index.Ref{Off: 20480 + 1024*int64(t), Len: 300 + uint32(t), Seq: uint32(t), Attempt: vecAttempt}}
	copy(r.Ref.Tag[:], tag[:])
	return r
}

func vecCommit() *journal.Commit {
	m := &journal.Commit{
		Stage:  []journal.Planned{{Extent: format.Extent{Off: 28672, Len: 1024}, Generation: 5, Owner: 4, Kind: journal.OwnerNode}},
		Retire: []journal.Planned{{Extent: format.Extent{Off: 30720, Len: 512}, Generation: 6, Owner: 3, Kind: journal.OwnerFrame, Deleted: true}},
		Counters: journal.Counters{NextContent: 4, NextFrame: 5, Entries: 2, PlainBytes: 5000, StoredBytes: 1500, FrameBytes: 2048,
			NodeBytes: 4096},
		Options:   journal.Options{Level: uint8(frames.LevelDefault)},
		OpenPacks: []uint64{4, journal.NoFrame},
	}
	for t := index.Entries; t <= index.Free; t++ {
		m.Trees = vecRoot(t).Append(m.Trees, tagWidth)
	}
	return m
}

func vecSuper() *journal.Super {
	b := vecCommit().Encode(7)
	return &journal.Super{Suite: format.SuiteNone, Sector: 512, Archive: vecArchive, MayIgnore: 1, Generation: 7, Attempt: vecAttempt,
		End: 32768, CommitOff: 31232, CommitLen: uint32(len(b)), CommitHash: journal.Sum(b), PrevRoot: seq[format.Digest](0xB0)}
}

func superParts(v *vector, s *journal.Super) {
	v.part(8, "magic")
	v.part(2, "format version 1")
	v.part(1, "suite: none")
	v.part(1, "tag algorithm: XXH3-128")
	v.part(1, "digest algorithm: BLAKE3-256")
	v.part(1, "signature algorithm: none")
	v.part(1, "sector shift: %d bytes", s.Sector)
	v.part(1, "reserved")
	v.part(16, "archive id")
	v.part(8, "features a reader must know")
	v.part(8, "features a writer must know")
	v.part(8, "features anyone may ignore")
	v.part(8, "generation %d", s.Generation)
	v.part(16, "attempt id")
	v.part(8, "logical end: %d", s.End)
	v.part(8, "commit block: at %d", s.CommitOff)
	v.part(4, "commit block: %d bytes", s.CommitLen)
	v.part(4, "key directory: no length")
	v.part(8, "key directory: no offset")
	v.part(32, "commit block: BLAKE3-256 of its bytes")
	v.part(32, "key directory: no digest")
	v.part(32, "root hash of the generation before")
	v.part(272, "reserved")
}

func TestVectorSuperblock(t *testing.T) {
	s := vecSuper()
	d := make(disk, format.DataStart)
	if err := journal.WriteCopy(d, s, 1, 0); err != nil {
		t.Fatal(err)
	}
	v := newVector(t, d[format.PageSize:][:format.PageSize], "The page of superblock copy B0, at 4096 of an archive. Its commit block is in commit-block.txt.",
		"root hash: "+s.RootHash(vecCommit().Encode(s.Generation)).String())
	superParts(v, s)
	v.part(16, "checksum: XXH3-128 of bytes 0 to 479, low half first")
	v.part(1, "pair: B")
	v.part(1, "copy: 0")
	v.part(14, "reserved")
	v.part(format.PageSize-512, "rest of the page")
	page := v.done("superblock.txt")
	c, err := journal.DecodeCopies(append(make([]byte, format.PageSize), page...))
	if err != nil || *c.Current != *s || c.Damaged() != 3 {
		t.Errorf("read back: %+v, %v", c, err)
	}

	if err := journal.WriteMark(d, s); err != nil {
		t.Fatal(err)
	}
	v = newVector(t, d[format.CleanMarkOff:][:format.PageSize], "The page of the clean mark, at 16384, for the state in superblock.txt.")
	superParts(v, s)
	v.part(format.PageSize-480, "rest of the page")
	page = v.done("clean-mark.txt")
	if ok, err := journal.Marked(bytes.NewReader(append(make([]byte, format.CleanMarkOff), page...)), s); err != nil || !ok {
		t.Errorf("read back: %v, %v", ok, err)
	}
}

func refParts(v *vector, r index.Ref) {
	v.part(8, "node at %d", r.Off)
	v.part(4, "of %d bytes", r.Len)
	v.part(4, "number %d of its attempt", r.Seq)
	v.part(16, "its attempt id")
	v.part(tagWidth, "its tag")
}

func rootParts(v *vector, name string, r index.Root) {
	v.part(1, "%s: height %d", name, r.Height)
	v.part(7, "reserved")
	v.part(8, "%d items", r.Count)
	if r.Height == 0 {
		v.part(index.RefSize(tagWidth), "no node")
		return
	}
	refParts(v, r.Ref)
}

func TestVectorCommitBlock(t *testing.T) {
	s, m := vecSuper(), vecCommit()
	b := m.Encode(s.Generation)
	v := newVector(t, append(b, make([]byte, int(s.CommitExtent().Len)-len(b))...), "The extent of a commit block of generation 7, at 31232 of an archive with sectors of 512 bytes.")
	v.part(4, "magic")
	v.part(2, "version 1")
	v.part(2, "reserved")
	v.part(8, "generation %d", s.Generation)
	field := func(tag uint16, what string, n int) {
		v.heading("field " + what)
		v.part(2, "tag %d", tag)
		v.part(2, "flags: a reader must know it")
		v.part(4, "%d bytes", n)
	}
	field(1, "trees", 5*index.RootSize(tagWidth))
	for t := index.Entries; t <= index.Free; t++ {
		rootParts(v, t.String(), vecRoot(t))
	}
	set := func(tag uint16, what string, set []journal.Planned, owners ...string) {
		field(tag, what, 40*len(set))
		for i, p := range set {
			v.part(8, "extent at %d", p.Off)
			v.part(8, "of %d bytes", p.Len)
			v.part(8, "retired by generation %d", p.Generation)
			v.part(8, "former owner: %s", owners[i])
			v.part(1, "owner kind %d", p.Kind)
			v.part(1, "may hold deleted content: %v", p.Deleted)
			v.part(6, "reserved")
		}
	}
	set(2, "stage set", m.Stage, "tree frames")
	set(3, "retire set", m.Retire, "frame 3")
	field(4, "counters", 72)
	for _, what := range []string{"next content number", "next frame number", "entries", "plain bytes", "stored bytes of frames", "bytes of frame extents",
		"bytes of nodes", "wiped free bytes in the free tree", "pending extents in the free tree"} {
		v.part(8, "%s", what)
	}
	field(5, "options", 8)
	v.part(1, "compression level: default")
	v.part(1, "padding: none")
	v.part(1, "reproducible: no")
	v.part(5, "reserved")
	field(6, "open packs", 16)
	v.part(8, "class 0: frame 4")
	v.part(8, "class 1: none")
	v.heading("the rest of the extent")
	v.part(len(v.bytes)-v.at, "zero fill")
	file := v.done("commit-block.txt")
	got, raw, err := journal.ReadCommit(bytes.NewReader(append(make([]byte, s.CommitOff), file...)), s, seal.New())
	if err != nil || !bytes.Equal(raw, b) || !bytes.Equal(got.Encode(s.Generation), b) || got.Counters != m.Counters {
		t.Errorf("read back: %+v, %v", got, err)
	}
}

// vecText compresses; vecBytes is stored raw at the level none.
func vecText() []byte {
	return bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog\n"), 12)
}

func vecBytes() []byte {
	b := make([]byte, 700)
	for i := range b {
		b[i] = byte(i*7 + 3)
	}
	return b
}

func vecFrame(t *testing.T, i *frames.Info, l frames.Level, plain []byte, members ...frames.Member) []byte {
	e, err := frames.NewEncoder(seal.New(), vecArchive, l, 9, 512, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return e.Encode(nil, i, plain, members)
}

func headerParts(v *vector, i *frames.Info, codec, shift, class string) {
	v.heading("header")
	v.part(8, "marker")
	v.part(16, "archive id")
	v.part(16, "attempt id")
	v.part(8, "frame %d", i.Number)
	v.part(4, "%d plain bytes", i.Plain)
	v.part(4, "%d stored bytes", i.Stored)
	v.part(1, "codec: %s", codec)
	v.part(1, "block shift: %s", shift)
	v.part(1, "pack class: %s", class)
	v.part(1, "reserved")
	v.part(4, "member table of %d bytes", i.MemberTable)
	v.part(tagWidth, "commitment")
	v.part(tagWidth, "header tag: of bytes 0 to 79 and the member table")
}

func memberParts(v *vector, ms []frames.Member) {
	v.heading("member table")
	v.uvarint("%d members", len(ms))
	for _, m := range ms {
		v.uvarint("content %d, as a difference", m.Content)
		v.uvarint("from its byte %d on", m.Off)
		v.uvarint("%d bytes", m.Len)
	}
	v.part(len(v.bytes)-v.at, "zero fill")
}

func TestVectorFrames(t *testing.T) {
	s := seal.New()
	i := frames.Info{Number: 4, Attempt: vecAttempt}
	plain := vecText()
	ms := []frames.Member{{Content: 3, Len: 500}, {Content: 2, Len: int64(len(plain)) - 500}}
	v := newVector(t, vecFrame(t, &i, frames.LevelDefault, plain, ms...), "The extent of a zstd frame: a pack of two contents, which are twelve times the line",
		`"the quick brown fox jumps over the lazy dog\n", cut at 500.`,
		"A compressor may find other bytes for the stored part: then it, the commitment and the header tag differ, and nothing else.")
	headerParts(v, &i, "zstd", "one tag", "0")
	v.heading("stored bytes")
	v.part(4, "zstd: magic")
	v.part(int(i.Stored)-4, "zstd: a frame of RFC 8878; the commitment is its tag, as block 0")
	memberParts(v, ms)
	ext := v.done("frame-zstd.txt")
	got, err := frames.CheckHeader(ext, s, vecArchive, &i, 0)
	if err != nil || len(got) != 2 || got[1] != ms[1] {
		t.Errorf("header: %v, %v", got, err)
	}
	out := make([]byte, i.Plain)
	if c, err := frames.Check(s, vecArchive, &i, ext[96:96+i.Stored]); err != nil || c.Decode(out) != nil || !bytes.Equal(out, plain) {
		t.Errorf("zstd frame read back as %q: %v", out, err)
	}

	i = frames.Info{Number: 3, Attempt: vecAttempt, Class: frames.NoPack}
	plain = vecBytes()
	ms = []frames.Member{{Content: 1, Off: 1 << 20, Len: 700}}
	v = newVector(t, vecFrame(t, &i, frames.LevelNone, plain, ms...), "The extent of a raw frame with a tag table: part of one content. Byte i of it is the low byte of 7 i + 3.")
	headerParts(v, &i, "raw", "blocks of 512 bytes", "not a pack")
	v.heading("stored bytes")
	v.part(512, "block 0")
	v.part(188, "block 1")
	v.heading("tag table; the commitment is its tag")
	v.part(tagWidth, "tag of block 0")
	v.part(tagWidth, "tag of block 1")
	memberParts(v, ms)
	ext = v.done("frame-raw.txt")
	if got, err := frames.CheckHeader(ext, s, vecArchive, &i, 0); err != nil || len(got) != 1 || got[0] != ms[0] {
		t.Errorf("header: %v, %v", got, err)
	}
	table, err := frames.CheckTable(s, vecArchive, &i, ext[96+700:][:2*tagWidth])
	if err != nil || table.Open(0, ext[96:96+700]) != nil || !bytes.Equal(ext[96:96+700], plain) {
		t.Errorf("raw frame: %v", err)
	}
}
