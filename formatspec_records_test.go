package lockbox_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
)

func uv(ns ...uint64) (b []byte) {
	for _, n := range ns {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func zigzag(n int64) []byte { return uv(uint64(n)<<1 ^ uint64(n>>63)) }

func mustPath(t *testing.T, s string) pathsafe.Path {
	t.Helper()
	p, err := pathsafe.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// nodeSink keeps the nodes that a tree is made of, in the order in which they were written.
type nodeSink struct {
	nodes  [][]byte
	levels []int
}

func (s *nodeSink) Write(_ index.Tree, level int, b []byte) (index.Ref, error) {
	s.nodes = append(s.nodes, bytes.Clone(b))
	s.levels = append(s.levels, level)
	r := someRef()
	r.Off = format.DataStart + int64(len(s.nodes))*512
	r.Len = uint32(len(b))
	return r, nil
}

func (s *nodeSink) Retire(index.Tree, int, index.Ref) {}

func TestFormatNode(t *testing.T) {
	const n = 200
	var sink nodeSink
	ops := func(yield func(index.Op) bool) {
		for i := range n {
			if !yield(index.Op{Key: fmt.Appendf(nil, "directory\x00name%03d", i), Value: fmt.Appendf(nil, "v%d", i)}) {
				return
			}
		}
	}
	if _, err := index.Apply(nil, &sink, index.Entries, index.Root{}, tagWidth, 1024, ops); err != nil {
		t.Fatal(err)
	}
	sec := section(t, "## Trees")
	every := sec.find(`restart table: one offset \(4\) of every (\d+)th item`)[0]
	var leafKeys [][]byte
	seenBranch := false
	for i, b := range sink.nodes {
		header := sec.rows("**Node**")
		table := int(binary.LittleEndian.Uint32(b[4:]))
		count := int(binary.LittleEndian.Uint16(b[2:]))
		items := checkTable(t, header, b, []want{
			{prefix: "tree", bytes: []byte{byte(index.Entries)}}, {prefix: "level", bytes: []byte{byte(sink.levels[i])}},
			{prefix: "number of items", skip: true}, {prefix: "offset of the restart table", skip: true},
		})
		keys, values, starts := readItems(t, b, items, table, count)
		var restarts []byte
		for k := 0; k < count; k += int(every) {
			restarts = append(restarts, le(4, uint64(starts[k]))...)
		}
		if !bytes.Equal(b[table:], restarts) {
			t.Errorf("node %d: restart table %x, by FORMAT.md %x", i, b[table:], restarts)
		}
		if sink.levels[i] == 0 {
			leafKeys = append(leafKeys, keys...)
			continue
		}
		seenBranch = true
		if len(keys[0]) != 0 {
			t.Errorf("a branch's first key is %q", keys[0])
		}
		for _, v := range values {
			if len(v) != len(refBytes(t, someRef())) {
				t.Errorf("a branch's value has %d bytes", len(v))
			}
		}
	}
	if len(leafKeys) != n || !seenBranch || !slices.IsSortedFunc(leafKeys, bytes.Compare) {
		t.Errorf("%d keys in the leaves, sorted or a branch missing", len(leafKeys))
	}
	if string(leafKeys[17]) != "directory\x00name017" {
		t.Errorf("key 17 is %q", leafKeys[17])
	}
	for r, name := range map[index.Tree]string{1: "entries", 2: "contents", 3: "digests", 4: "frames", 5: "free"} {
		if r.String() != name {
			t.Errorf("tree %d is %v", r, r)
		}
		if cell := sec.rows("**Node**")[0][2]; !strings.Contains(cell, fmt.Sprintf("%d %s", r, name)) {
			t.Errorf("FORMAT.md does not name tree %d %s", r, name)
		}
	}
}

// readItems decodes a node's items by the words of FORMAT.md.
func readItems(t *testing.T, b []byte, at, end, count int) (keys, values [][]byte, starts []int) {
	t.Helper()
	number := func() int {
		v, n := binary.Uvarint(b[at:end])
		if n <= 0 {
			t.Fatal("item: bad number")
		}
		at += n
		return int(v)
	}
	var last []byte
	for range count {
		starts = append(starts, at)
		shared, further, value := number(), number(), number()
		key := append(bytes.Clone(last[:shared]), b[at:at+further]...)
		at += further
		keys, values = append(keys, key), append(values, b[at:at+value])
		at += value
		last = key
	}
	if at != end {
		t.Fatalf("items end at %d, the restart table stands at %d", at, end)
	}
	return keys, values, starts
}

func TestFormatEntries(t *testing.T) {
	sec := section(t, "### entries")
	kinds := map[string]index.Kind{
		"file": index.File, "directory": index.Dir, "symbolic link": index.Symlink, "FIFO": index.FIFO,
		"character device": index.CharDevice, "block device": index.BlockDevice, "socket": index.Socket,
	}
	for _, r := range sec.rows("| kind |") {
		name, _, _ := strings.Cut(r[1], " (")
		if k, ok := kinds[name]; !ok || strconv.Itoa(int(k)) != r[0] {
			t.Errorf("kind %s is %q in FORMAT.md, %d in the code", r[0], r[1], k)
		}
		delete(kinds, name)
	}
	if len(kinds) != 0 {
		t.Errorf("kinds without a row: %v", kinds)
	}

	common := index.Entry{
		Path: mustPath(t, "a/b/c"), Mode: 0o4751, HasMtime: true, MtimeSec: -77, MtimeNsec: 123456789, HasOwner: true, UID: 1000, GID: 1 << 40,
		User: "ada", Group: "users", LinkGroup: 300, Xattrs: []index.Xattr{{Name: "user.a", Value: []byte("1")}, {Name: "user.b", Value: nil}},
		HasBirth: true, BirthSec: 1 << 33, BirthNsec: 5, HasWinAttrs: true, WinAttrs: 0x20, HasBSDFlags: true, BSDFlags: 0x8000,
	}
	file, link, dev := common, common, common
	file.Kind, file.Size, file.Content, file.Sparse = index.File, 5000, 77, []index.SparseRun{{Data: 0, Hole: 4000}, {Data: 1000, Hole: 0}}
	file.Xattrs, file.XattrsContent = nil, 99
	link.Kind, link.Target = index.Symlink, "../x"
	dev.Kind, dev.HasDevice, dev.Major, dev.Minor = index.CharDevice, true, 8, 300
	want := map[string][]byte{
		"mode": uv(0o4751), "mtime": append(zigzag(-77), uv(123456789)...), "size": uv(5000), "content": uv(77), "target": []byte("../x"),
		"owner": uv(1000, 1<<40), "user": []byte("ada"), "group": []byte("users"), "link group": uv(300), "device": uv(8, 300),
		"sparse map": uv(0, 4000, 1000, 0), "xattrs": []byte("\x06user.a\x011\x06user.b\x00"), "xattrs content": uv(99),
		"birth time": append(zigzag(1<<33), uv(5)...), "Windows attributes": uv(0x20), "BSD flags": uv(0x8000),
	}
	got := map[int][]byte{}
	for _, e := range []index.Entry{file, link, dev} {
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		b := index.AppendEntry(nil, &e)
		if b[0] != byte(e.Kind) {
			t.Errorf("an entry of kind %v begins with %d", e.Kind, b[0])
		}
		last := 0
		for b = b[1:]; len(b) > 0; {
			tag := int(b[0])
			n, w := binary.Uvarint(b[1:])
			payload := b[1+w:][:n]
			if old, ok := got[tag]; tag <= last || ok && !bytes.Equal(old, payload) {
				t.Errorf("tag %d after %d, or with two payloads", tag, last)
			}
			got[tag], last = payload, tag
			b = b[1+w+int(n):]
		}
	}
	for _, r := range sec.rows("| tag |") {
		tag := evaluate(t, r[0])
		payload, ok := want[r[1]]
		if !ok || !bytes.Equal(got[tag], payload) {
			t.Errorf("tag %d, %q: the code writes %x, expected %x", tag, r[1], got[tag], payload)
		}
		delete(got, tag)
		delete(want, r[1])
	}
	if len(got)+len(want) != 0 {
		t.Errorf("fields without a row: tags %v, names %v", got, want)
	}
	if key := common.Path.Key(); string(key) != "a\x00b\x00c" {
		t.Errorf("key %q", key)
	}
}

// checkForms holds a record's value against a table of field and form: the forms say how many bytes to take,
// the expectations what they must be. repeat is how often rows that begin with "per …:" occur.
func checkForms(t *testing.T, rows [][]string, b []byte, repeat int, wants []want) {
	t.Helper()
	used := map[string]bool{}
	var plain, per [][]string
	for _, r := range rows {
		if strings.Contains(r[0], "per run:") || strings.HasPrefix(r[1], "per member") {
			per = append(per, r)
		} else {
			plain = append(plain, r)
		}
	}
	order := plain
	for range repeat {
		order = append(order, per...)
	}
	taken := map[string]int{}
	for _, r := range order {
		w := match(t, wants, used, r[0])
		form := strings.TrimPrefix(r[1], "per member a ")
		n := 0
		switch {
		case strings.HasPrefix(form, "uvarint"), strings.HasPrefix(form, "varint"):
			if _, n = binary.Uvarint(b); n <= 0 {
				t.Fatalf("%q: no number left", r[0])
			}
		default:
			size, _, _ := strings.Cut(form, ":")
			n = evaluate(t, size)
		}
		expected := w.bytes
		if repeat > 0 && slices.ContainsFunc(per, func(p []string) bool { return p[0] == r[0] }) {
			expected = expected[taken[r[0]]:][:n]
			taken[r[0]] += n
		}
		if n > len(b) || !bytes.Equal(b[:n], expected) {
			t.Fatalf("%q: the code writes %x, expected %x", r[0], b[:min(n, len(b))], expected)
		}
		b = b[n:]
	}
	if len(b) != 0 {
		t.Errorf("%d bytes that FORMAT.md has no field for", len(b))
	}
	allUsed(t, wants, used)
}

func TestFormatContentsAndDigests(t *testing.T) {
	d := seq[format.Digest](9)
	c := index.Content{Size: 700, Digest: d, Refs: 3, Runs: []index.Run{{Frame: 5, Off: 10, Len: 300}, {Frame: 300, Len: 400, Unit: 100}}}
	checkForms(t, section(t, "### contents").rows(""), index.AppendContent(nil, &c), 2, []want{
		{prefix: "size", bytes: uv(700)}, {prefix: "BLAKE3-256 of the plain bytes", bytes: d[:]}, {prefix: "references", bytes: uv(3)},
		{prefix: "number of runs", bytes: uv(2)}, {prefix: "per run: first frame", bytes: uv(5, 300)},
		{prefix: "per run: offset", bytes: uv(10, 0)}, {prefix: "per run: length", bytes: uv(300, 400)}, {prefix: "per run: unit", bytes: uv(0, 100)},
	})
	prefix := section(t, "### digests").find(`the first (\d+) bytes of the content's BLAKE3-256`)[0]
	want := append(bytes.Clone(d[:prefix]), 0, 0, 0, 0, 0, 0, 1, 2)
	if got := index.DigestKey([8]byte(d[:8]), 0x102); !bytes.Equal(got, want) {
		t.Errorf("digest key %x, by FORMAT.md %x", got, want)
	}
	if got := index.NumKey(0x0102); !bytes.Equal(got, []byte{0, 0, 0, 0, 0, 0, 1, 2}) {
		t.Errorf("key of a number: %x", got)
	}
}

func TestFormatFrameRecord(t *testing.T) {
	f := index.Frame{Codec: 0, BlockShift: 14, Class: 7, Ext: format.Extent{Off: 512 * 1000, Len: 512 * 300}, Stored: 100000, Plain: 100000,
		MemberTable: 33, Attempt: seq[format.ID](1), Contents: []uint64{500, 40, 41}}
	tag := seq[format.ID](0x70)
	copy(f.Commitment[:], tag[:])
	members := append(append(zigzag(500), zigzag(-460)...), zigzag(1)...)
	checkForms(t, section(t, "### frames").rows(""), index.AppendFrame(nil, &f, tagWidth, 512), 3, []want{
		{prefix: "codec", bytes: []byte{0}}, {prefix: "block shift", bytes: []byte{14}}, {prefix: "pack class", bytes: []byte{7}},
		{prefix: "extent offset ÷ sector", bytes: uv(1000)}, {prefix: "extent length ÷ sector", bytes: uv(300)}, {prefix: "stored length", bytes: uv(100000)},
		{prefix: "plain length", bytes: uv(100000)}, {prefix: "member table length", bytes: uv(33)}, {prefix: "attempt id", bytes: f.Attempt[:]},
		{prefix: "commitment", bytes: tag[:]}, {prefix: "number of members", bytes: uv(3)}, {prefix: "content numbers", bytes: members},
	})
}

func TestFormatFree(t *testing.T) {
	sec := section(t, "### free")
	ws := sec.widths("The value:")
	if len(ws) != 3 {
		t.Fatalf("widths %v", ws)
	}
	f := index.FreeExtent{Ext: format.Extent{Off: 0x10000, Len: 0x2000}, Gen: 0x0102, State: index.FreePendingClean}
	want := append(append(le(ws[0], 0x2000), le(ws[1], 0x0102)...), le(ws[2], 2)...)
	if got := index.AppendFree(nil, &f); !bytes.Equal(got, want) {
		t.Errorf("free record %x, by FORMAT.md %x", got, want)
	}
	sec.find(`state \((\d): 0 wiped, 1 pending: not wiped, may hold deleted content, 2 pending: not wiped, held nothing deleted\)`)
	if index.FreeWiped != 0 || index.FreePending != 1 || index.FreePendingClean != 2 {
		t.Error("states of a free extent differ")
	}
}

// boundContext builds the bytes that a tag is bound to by the table "Context".
func boundContext(t *testing.T, archive format.ID, i *frames.Info, kind seal.Kind, block uint32) []byte {
	t.Helper()
	sec := section(t, "## Tags")
	b := make([]byte, sec.find(`Context\*\* \((\d+) bytes`)[0])
	fields := map[string][]byte{
		"archive id": archive[:], "attempt id": i.Attempt[:], "number": le(8, i.Number), "plain length": le(4, uint64(i.Plain)),
		"stored length": le(4, uint64(i.Stored)), "codec": {i.Codec}, "kind": {byte(kind)}, "block number": le(4, uint64(block)),
	}
	at := 0
	for _, r := range sec.rows("**Context**") {
		if evaluate(t, r[0]) != at {
			t.Fatalf("context: %q does not adjoin what is before it", r[2])
		}
		for name, v := range fields {
			if strings.HasPrefix(r[2], name) {
				if len(v) != evaluate(t, r[1]) {
					t.Fatalf("context: %q has %s bytes", r[2], r[1])
				}
				copy(b[at:], v)
				delete(fields, name)
			}
		}
		at += evaluate(t, r[1])
	}
	if len(fields) != 0 || at != len(b) {
		t.Fatalf("context: %d bytes of %d, without a row: %v", at, len(b), fields)
	}
	return b
}

// nullTag is a tag of the suite "none" by FORMAT.md.
func nullTag(t *testing.T, archive format.ID, i *frames.Info, kind seal.Kind, block uint32, b []byte) []byte {
	x := xxh3.Hash128Seed(b, xxh3.Hash(boundContext(t, archive, i, kind, block)))
	return append(le(8, x.Lo), le(8, x.Hi)...)
}

func TestFormatFrameExtent(t *testing.T) {
	const noBlock = 1<<32 - 1
	archive := seq[format.ID](0x20)
	random := make([]byte, 100<<10)
	blake3.NewDeriveKey("bytes that do not compress").Digest().Read(random)
	for _, c := range []struct {
		name    string
		plain   []byte
		members []frames.Member
	}{
		{"raw with blocks", random, []frames.Member{{Content: 9, Off: 512, Len: 100 << 10}}},
		{"raw with one tag", random[:1000], []frames.Member{{Content: 9, Len: 400}, {Content: 4, Len: 600}}},
		{"zstd", bytes.Repeat([]byte("text "), 5000), []frames.Member{{Content: 9, Len: 25000}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enc, err := frames.NewEncoder(seal.New(), archive, frames.LevelDefault, 14, 512, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			i := frames.Info{Number: 0x0102030405060708, Attempt: seq[format.ID](0x40), Class: 3}
			b := enc.Encode(nil, &i, c.plain, c.members)

			table := uv(uint64(len(c.members)))
			last := uint64(0)
			for _, m := range c.members {
				table = append(append(table, zigzag(int64(m.Content-last))...), uv(uint64(m.Off), uint64(m.Len))...)
				last = m.Content
			}
			sec := section(t, "## Frame extent")
			parts := sec.rows("")
			names := []string{"header", "stored bytes", "tag table", "member table", "zero fill"}
			if len(parts) != len(names) {
				t.Fatalf("%d parts", len(parts))
			}
			header := b[:evaluate(t, parts[0][1])]
			stored := b[len(header):][:i.Stored]
			rest := b[len(header)+len(stored):]
			var tags []byte
			if i.BlockShift != 0 {
				for k := 0; k<<i.BlockShift < len(stored); k++ {
					tags = append(tags, nullTag(t, archive, &i, seal.KindBlock, uint32(k), stored[k<<i.BlockShift:min((k+1)<<i.BlockShift, len(stored))])...)
				}
			}
			for k, want := range [][]byte{nil, nil, tags, table} {
				if !strings.HasPrefix(parts[k][0], names[k]) {
					t.Errorf("part %d is %q", k, parts[k][0])
				}
				if want != nil && !bytes.HasPrefix(rest, want) {
					t.Fatalf("%s: the code writes %x", names[k], rest[:len(want)])
				}
				rest = rest[len(want):]
			}
			if len(bytes.Trim(rest, "\x00")) != 0 || len(b)%512 != 0 {
				t.Errorf("fill: %d bytes, not all zero, or not up to a sector", len(rest))
			}
			commitment := nullTag(t, archive, &i, seal.KindBlock, 0, stored)
			if tags != nil {
				commitment = nullTag(t, archive, &i, seal.KindTable, noBlock, tags)
			}
			if c.name == "raw with blocks" != (tags != nil) || (c.name == "zstd") != (i.Codec == frames.Zstd) {
				t.Fatalf("not the frame that the case is for: %+v", i)
			}
			rows := sec.rows("**Header**")
			end := checkTable(t, rows, header, []want{
				{prefix: "marker", bytes: magicIn(t, rows[0][2])}, {prefix: "archive id", bytes: archive[:]}, {prefix: "attempt id", bytes: i.Attempt[:]},
				{prefix: "frame number", bytes: le(8, i.Number)}, {prefix: "plain length", bytes: le(4, uint64(len(c.plain)))},
				{prefix: "stored length", bytes: le(4, uint64(i.Stored))}, {prefix: "codec", bytes: []byte{i.Codec}},
				{prefix: "block shift", bytes: []byte{i.BlockShift}}, {prefix: "pack class", bytes: []byte{3}},
				{prefix: "member table length", bytes: le(4, uint64(len(table)))}, {prefix: "commitment", bytes: commitment},
				{prefix: "header tag", bytes: nullTag(t, archive, &i, seal.KindHeader, noBlock, append(bytes.Clone(header[:64+tagWidth]), table...))},
			})
			if end != len(header) || end != frames.HeaderSize(tagWidth) {
				t.Errorf("header of %d bytes, the table adds up to %d", len(header), end)
			}
		})
	}
}

func TestFormatNumbersOfKinds(t *testing.T) {
	cell := ""
	for _, r := range section(t, "## Tags").rows("**Context**") {
		if strings.HasPrefix(r[2], "kind") {
			cell = r[2]
		}
	}
	want := fmt.Sprintf("kind: %d block, %d tag table, %d frame header, %d node, %d commit block, %d labels of the key directory",
		seal.KindBlock, seal.KindTable, seal.KindHeader, seal.KindNode, seal.KindCommit, seal.KindKeys)
	if cell != want {
		t.Errorf("FORMAT.md: %q, the code: %q", cell, want)
	}
	for cell, want := range map[string]string{
		section(t, "## Superblock").rows("")[2][2]: fmt.Sprintf("suite: %d none, %d signed, %d encrypted, %d both",
			format.SuiteNone, format.SuiteSigned, format.SuiteEncrypted, format.SuiteBoth),
		section(t, "### frames").rows("")[0][1]:    fmt.Sprintf("1: %d raw, %d zstd", frames.Raw, frames.Zstd),
		section(t, "## Superblock").rows("")[1][2]: fmt.Sprintf("format version, %d", format.Version),
	} {
		if cell != want {
			t.Errorf("FORMAT.md: %q, the code: %q", cell, want)
		}
	}
	for _, r := range section(t, "## Commit block").rows("At most 4 MiB.") {
		if ws := (spec{t, r[2]}).widths(""); r[1] == "options" && (sum(ws) != 8 || len(ws) != 4) {
			t.Errorf("options: widths %v", ws)
		}
	}
	levels := fmt.Sprintf("compression level (1): %d none, %d fast, %d default, %d better, %d best;",
		frames.LevelNone, frames.LevelFast, frames.LevelDefault, frames.LevelBetter, frames.LevelBest)
	if !strings.Contains(section(t, "## Commit block").text, levels) {
		t.Errorf("FORMAT.md does not have %q", levels)
	}
}
