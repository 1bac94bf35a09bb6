package index

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"lockbox/internal/format"
)

var update = flag.Bool("update", false, "write testdata/vectors.txt anew; a change of it is a change of the format")

// vectorEntries are entries that together have every field.
func vectorEntries() []Entry {
	return []Entry{
		{Path: mustPath("docs/readme"), Kind: File, Mode: 0o644, HasMtime: true, MtimeSec: 1764511980, MtimeNsec: 123456789, Size: 5000, Content: 300},
		{Path: mustPath("docs"), Kind: Dir, Mode: 0o755},
		{Path: mustPath("link"), Kind: Symlink, Mode: 0o777, HasMtime: true, MtimeSec: -1, Target: "docs/readme"},
		{Path: mustPath("dev/null"), Kind: CharDevice, Mode: 0o666, HasOwner: true, User: "root", Group: "wheel", HasDevice: true, Major: 1, Minor: 3},
		{Path: mustPath("disk.img"), Kind: File, Mode: 0o600, Size: 1 << 30, Content: 7, HasOwner: true, UID: 1000, GID: 100, LinkGroup: 2,
			Sparse: []SparseRun{{4096, 1<<30 - 8192}, {4096, 0}}, Xattrs: []Xattr{{"user.a", []byte("1")}, {"user.b", nil}},
			HasBirth: true, BirthSec: 5, BirthNsec: 6, HasWinAttrs: true, WinAttrs: 0x20, HasBSDFlags: true,
			Unknown: []byte{0, 1, 'x', 77, 3, 'n', 'e', 'w'}},
		{Path: mustPath("big xattrs"), Kind: FIFO, XattrsContent: 12},
	}
}

// TestVectors holds every layout to bytes that were written down once, so that a change shows as a diff.
func TestVectors(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Known answers: the bytes of a record or node after what they say. Tags have 16 bytes, sectors 512.\n")
	put := func(name string, value []byte) {
		fmt.Fprintf(&b, "\n%s\n", name)
		for len(value) > 0 {
			n := min(32, len(value))
			fmt.Fprintf(&b, "  %x\n", value[:n])
			value = value[n:]
		}
	}
	for _, e := range vectorEntries() {
		put(fmt.Sprintf("entry: %v %s, key %x", e.Kind, e.Path.String(), e.Path.Key()), AppendEntry(nil, &e))
	}
	c := Content{Size: 600_000, Refs: 2, Runs: []Run{{3, 100, 10_000, 0}, {4, 0, 590_000, 262_144}}}
	for i := range c.Digest {
		c.Digest[i] = byte(i)
	}
	put("content: 600000 bytes, 2 references, 10000 bytes in frame 3 from 100, the rest in units of 262144 from frame 4", AppendContent(nil, &c))
	fr := testFrame()
	put("frame: zstd pack of class 3 at 20480, 3000 of 9000 bytes, contents 70, 71, 5, 2^63-1", AppendFrame(nil, &fr, testTag, 512))
	free := FreeExtent{Ext: format.Extent{Off: 20480, Len: 1024}, Gen: 7, State: FreePending}
	put(fmt.Sprintf("free extent: 1024 bytes, generation 7, pending, key %x", free.Key()), AppendFree(nil, &free))
	put("key of number 258", NumKey(258))
	put("key of digest prefix 0102030405060708 and content 9", DigestKey([8]byte{1, 2, 3, 4, 5, 6, 7, 8}, 9))
	ref := Ref{Off: 1 << 20, Len: 8000, Seq: 5, Attempt: format.ID{0xa0, 0xa1}, Tag: [format.MaxTag]byte{0xb0, 15: 0xbf}}
	put("root: height 2, 1000 items, node at 1048576", Root{Ref: ref, Height: 2, Count: 1000}.Append(nil, testTag))
	var kv []string
	for i := range 18 {
		kv = append(kv, fmt.Sprintf("dir\x00file%02d", i*7), strings.Repeat("v", i%3))
	}
	put("leaf of the tree entries, 18 items, 2 restarts", makeNode(Entries, 0, kv...))
	put("branch of the tree entries, level 1, separators \"\", \"d\", \"dir\\x00m\"",
		makeNode(Entries, 1, "", string(ref.Append(nil, testTag)), "d", refTo(512), "dir\x00m", refTo(1024)))

	const file = "testdata/vectors.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
	if b.String() == string(want) {
		return
	}
	got, lines := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(lines)) {
		if got[i] != lines[i] {
			t.Fatalf("line %d of %s is\n%s\nbut the code makes\n%s", i+1, file, lines[i], got[i])
		}
	}
	t.Fatalf("%s has %d lines, the code makes %d", file, len(lines), len(got))
}

// TestVectorByHand spells one record and one node out, so that the file above has something to stand on.
func TestVectorByHand(t *testing.T) {
	e := vectorEntries()[2]
	want := "03" + // symbolic link
		"01" + "02" + "ff03" + // mode 0777
		"02" + "02" + "01" + "00" + // mtime -1, 0
		"05" + "0b" + hex.EncodeToString([]byte("docs/readme"))
	if got := hex.EncodeToString(AppendEntry(nil, &e)); got != want {
		t.Errorf("entry %s instead of %s", got, want)
	}
	want = "01" + "00" + "0200" + "13000000" + // entries, leaf, 2 items, table at 19
		"00" + "02" + "01" + "6162" + "31" + // "ab" = "1"
		"01" + "01" + "01" + "63" + "32" + // "ac" = "2"
		"08000000"
	if got := hex.EncodeToString(makeNode(Entries, 0, "ab", "1", "ac", "2")); got != want {
		t.Errorf("node %s instead of %s", got, want)
	}
}
