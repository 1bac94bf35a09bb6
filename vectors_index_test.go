package lockbox_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// Known answers for what stands in the trees; see vectors_test.go.

// vecEntry has every field that can stand beside the others in one entry.
func vecEntry(t *testing.T) index.Entry {
	return index.Entry{
		Path: mustPath(t, "srv/disk.img"), Kind: index.File, Mode: 0o4755, HasMtime: true, MtimeSec: 1764511980, MtimeNsec: 123456789,
		Size: 1 << 30, Content: 300, HasOwner: true, UID: 1000, GID: 100, User: "alice", Group: "staff", LinkGroup: 2,
		Sparse: []index.SparseRun{{Data: 4096, Hole: 1<<30 - 8192}, {Data: 4096}}, Xattrs: []index.Xattr{{Name: "user.a", Value: []byte("1")}, {Name: "user.b"}},
		HasBirth: true, BirthSec: -5, BirthNsec: 6, HasWinAttrs: true, WinAttrs: 0x20, HasBSDFlags: true, BSDFlags: 1,
		Unknown: []byte{77, 3, 'n', 'e', 'w'},
	}
}

// entryParts lists the fields of an entry's value, of whose payloads nothing is longer than 127 bytes.
func entryParts(v *vector, kind string, fields ...string) {
	v.part(1, "kind: %s", kind)
	for _, f := range fields {
		v.part(2, "tag %d, %d bytes", v.bytes[v.at], v.bytes[v.at+1])
		v.part(int(v.bytes[v.at-1]), "%s", f)
	}
}

func TestVectorEntries(t *testing.T) {
	full := vecEntry(t)
	link := index.Entry{Path: mustPath(t, "link"), Kind: index.Symlink, Mode: 0o777, Target: "srv/disk.img"}
	dev := index.Entry{Path: mustPath(t, "null"), Kind: index.CharDevice, Mode: 0o666, HasDevice: true, Major: 1, Minor: 300, XattrsContent: 12}
	for _, k := range []struct {
		file  string
		e     index.Entry
		parts func(v *vector)
	}{
		{"entry-file.txt", full, func(v *vector) {
			entryParts(v, "file", "mode: 04755", "mtime: 1764511980 s, 123456789 ns", "size: 1 GiB", "content 300", "owner: uid 1000, gid 100", "user: alice",
				"group: staff", "link group 2", "sparse map: 4096 data, 1073733632 hole, 4096 data, 0 hole", `xattrs: user.a = "1", user.b = ""`,
				"birth time: -5 s, 6 ns", "Windows attributes", "BSD flags", "a field that this version has no name for")
		}},
		{"entry-link.txt", link, func(v *vector) { entryParts(v, "symbolic link", "mode: 0777", "target: srv/disk.img") }},
		{"entry-device.txt", dev, func(v *vector) {
			entryParts(v, "character device", "mode: 0666", "device 1, 300", "extended attributes in content 12")
		}},
	} {
		if err := k.e.Check(); err != nil {
			t.Fatal(err)
		}
		key := k.e.Path.Key()
		v := newVector(t, append(bytes.Clone(key), index.AppendEntry(nil, &k.e)...), "Key and value of an entry.")
		v.part(len(key), "key: the path, a zero byte for each slash")
		v.heading("value")
		k.parts(v)
		b := v.done(k.file)
		got, err := index.DecodeEntry(b[:len(key)], b[len(key):])
		if err != nil || got.Path != k.e.Path || !bytes.Equal(index.AppendEntry(nil, &got), b[len(key):]) {
			t.Errorf("%s read back: %+v, %v", k.file, got, err)
		}
	}
}

// TestVectorSparseDigest has what is hashed, then the digest that is shown of a sparse file.
func TestVectorSparseDigest(t *testing.T) {
	ctx := t.Context()
	e := vecEntry(t)
	e.Xattrs, e.LinkGroup = nil, 0
	data := bytes.Repeat(vecBytes(), 12)[:8192]
	a, err := store.Create(ctx, "a.lbx", store.Options{FS: vfs.Mem()}, store.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	tx, err := a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	src := store.Source{Entry: e, Open: func() (store.Reader, index.Entry, error) { return vecReader{bytes.NewReader(data)}, e, nil }}
	if err := tx.Add(ctx, slices.Values([]store.Source{src}), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := a.Get(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Digest(&got)
	if err != nil {
		t.Fatal(err)
	}
	sum := blake3.Sum256(data)
	var b []byte
	for _, r := range e.Sparse {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, uint64(r.Data)), uint64(r.Hole))
	}
	v := newVector(t, append(append(b, sum[:]...), d[:]...), "What is hashed of a sparse file, and what that gives with the context", "lockbox 2026-11-30 sparse file v1")
	for i := range e.Sparse {
		v.part(8, "bytes of data, run %d", i)
		v.part(8, "bytes of hole")
	}
	v.part(32, "BLAKE3-256 of the data")
	v.heading("the digest")
	v.part(32, "")
	b = v.done("digest-sparse.txt")
	h := blake3.NewDeriveKey("lockbox 2026-11-30 sparse file v1")
	h.Write(b[:len(b)-32])
	if want := h.Sum(nil); !bytes.Equal(want[:32], b[len(b)-32:]) {
		t.Errorf("the digest is %x", want)
	}
}

type vecReader struct{ *bytes.Reader }

func (vecReader) Close() error { return nil }
func (vecReader) Check() error { return nil }

func TestVectorRecords(t *testing.T) {
	c := index.Content{Size: 600_000, Digest: seq[format.Digest](0x40), Refs: 2,
		Runs: []index.Run{{Frame: 3, Off: 100, Len: 10_000}, {Frame: 300, Len: 590_000, Unit: 262_144}}}
	v := newVector(t, append(index.NumKey(258), index.AppendContent(nil, &c)...), "Key and value of a content.")
	v.part(8, "key: content 258")
	v.heading("value")
	v.uvarint("size: 600000")
	v.part(32, "BLAKE3-256 of the plain bytes")
	v.uvarint("2 references")
	v.uvarint("2 runs")
	for _, r := range c.Runs {
		v.uvarint("run from frame %d", r.Frame)
		v.uvarint("from byte %d of its plain bytes", r.Off)
		v.uvarint("%d bytes", r.Len)
		if r.Unit == 0 {
			v.uvarint("unit 0: all in one frame")
		} else {
			v.uvarint("unit: %d bytes in every frame but the last", r.Unit)
		}
	}
	b := v.done("content.txt")
	if got, err := index.DecodeContent(b[8:]); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("content read back: %+v, %v", got, err)
	}

	v = newVector(t, index.DigestKey([8]byte(c.Digest[:8]), 258), "Key of a content in the tree digests; the value is empty.")
	v.part(8, "first 8 bytes of the content's BLAKE3-256")
	v.part(8, "content 258")
	b = v.done("digest.txt")
	if prefix, n, err := index.DecodeDigestKey(b); err != nil || n != 258 || !bytes.Equal(prefix[:], c.Digest[:8]) {
		t.Errorf("digest key read back: %x, %d, %v", prefix, n, err)
	}

	f := index.Frame{Codec: index.CodecZstd, Class: 3, Ext: format.Extent{Off: 20480, Len: 4096}, Stored: 3000, Plain: 9000, MemberTable: 40,
		Attempt: vecAttempt, Contents: []uint64{70, 71, 5, 1<<63 - 1}}
	tag := seq[format.ID](0xC0)
	copy(f.Commitment[:], tag[:])
	v = newVector(t, append(index.NumKey(4), index.AppendFrame(nil, &f, tagWidth, 512)...), "Key and value of a frame, in an archive with sectors of 512 bytes.")
	v.part(8, "key: frame 4")
	v.heading("value")
	v.part(1, "codec: zstd")
	v.part(1, "block shift: one tag")
	v.part(1, "pack class 3")
	v.uvarint("extent at sector %d", f.Ext.Off/512)
	v.uvarint("of %d sectors", f.Ext.Len/512)
	v.uvarint("%d stored bytes", f.Stored)
	v.uvarint("%d plain bytes", f.Plain)
	v.uvarint("member table of %d bytes", f.MemberTable)
	v.part(16, "attempt id")
	v.part(tagWidth, "commitment")
	v.uvarint("%d members", len(f.Contents))
	for _, n := range f.Contents {
		v.uvarint("content %d, as a difference", n)
	}
	b = v.done("frame-record.txt")
	if got, err := index.DecodeFrame(b[8:], tagWidth, 512); err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("frame read back: %+v, %v", got, err)
	}

	e := index.FreeExtent{Ext: format.Extent{Off: 20480, Len: 1024}, Gen: 7, State: index.FreePending}
	v = newVector(t, append(e.Key(), index.AppendFree(nil, &e)...), "Key and value of a free extent.")
	v.part(8, "key: offset 20480")
	v.heading("value")
	v.part(8, "1024 bytes")
	v.part(8, "retired by generation 7")
	v.part(1, "state: pending, may hold deleted content")
	b = v.done("free.txt")
	if got, err := index.DecodeFree(b[:8], b[8:]); err != nil || got != e {
		t.Errorf("free extent read back: %+v, %v", got, err)
	}
}

func TestVectorNodes(t *testing.T) {
	// Leaves of a small target, so that a branch stands over them.
	var sink nodeSink
	root, err := index.Apply(nil, &sink, index.Entries, index.Root{}, tagWidth, 300, func(yield func(index.Op) bool) {
		for i := range 40 {
			if !yield(index.Op{Key: fmt.Appendf(nil, "dir\x00file%02d", i*2), Value: fmt.Appendf(nil, "value%d", i)}) {
				return
			}
		}
	})
	if err != nil || root.Height != 2 || len(sink.nodes) < 3 {
		t.Fatalf("%d nodes, height %d: %v", len(sink.nodes), root.Height, err)
	}
	for _, k := range []struct {
		file, about string
		b           []byte
		level       int
	}{
		{"node-leaf.txt", "A leaf of the tree entries, without the zero fill. The values are not entries.", sink.nodes[0], 0},
		{"node-branch.txt", "The branch over the leaf in node-leaf.txt and its neighbours, without the zero fill.", sink.nodes[len(sink.nodes)-1], 1},
	} {
		v := newVector(t, k.b, k.about)
		n, err := index.ParseNode(k.b, index.Entries, k.level, tagWidth, 0)
		if err != nil {
			t.Fatal(err)
		}
		v.part(1, "tree: entries")
		v.part(1, "level %d", k.level)
		v.part(2, "%d items", n.Len())
		v.part(4, "offset of the restart table")
		i := 0
		for s := n.Scan(); s.Next(); i++ {
			v.heading(fmt.Sprintf("item %d: %q", i, s.Key()))
			v.uvarint("%d key bytes shared with the item before", v.bytes[v.at])
			v.uvarint("%d further key bytes", v.bytes[v.at])
			rest := int(v.bytes[v.at-1])
			v.uvarint("%d bytes of value", v.bytes[v.at])
			v.part(rest, "key bytes")
			if k.level == 0 {
				v.part(len(s.Value()), "value")
			} else {
				refParts(v, index.DecodeRef(format.NewCursor(s.Value(), "node reference", -1), tagWidth))
			}
		}
		v.heading("restart table")
		for r := 0; r < n.Len(); r += 16 {
			v.part(4, "offset of item %d", r)
		}
		b := v.done(k.file)
		got, err := index.ParseNode(b, index.Entries, k.level, tagWidth, 0)
		if err == nil {
			err = got.Check()
		}
		if err != nil || got.Len() != n.Len() {
			t.Errorf("%s read back: %v", k.file, err)
		}
	}
}
