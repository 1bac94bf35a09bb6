package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/zeebo/xxh3"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// mend makes the checksums of an archive's copies, and the digest and the tags of its commit block and nodes,
// right for whatever stands there, so that changed bytes reach what lies behind these checks: what a forger
// without a key can do to an archive that is neither signed nor encrypted.
func mend(b []byte) []byte {
	b = bytes.Clone(b)
	for off := 0; off < format.CopiesSize && off+512 <= len(b); off += format.PageSize {
		sum := xxh3.Hash128(b[off : off+480])
		binary.LittleEndian.PutUint64(b[off+480:], sum.Lo)
		binary.LittleEndian.PutUint64(b[off+488:], sum.Hi)
	}
	c, err := journal.DecodeCopies(b[:min(len(b), format.CopiesSize)])
	if err != nil || c.Current.CommitOff+int64(c.Current.CommitLen) > int64(len(b)) {
		return b
	}
	s := *c.Current
	commit := b[s.CommitOff:][:s.CommitLen]
	left := 500
	// The root records are the payload of the block's first field.
	at := 16 + 8
	for t := index.Entries; t <= index.Free && at+index.RootSize(tagSize) <= len(commit); t++ {
		if height := commit[at]; height > 0 {
			mendNode(b, &s, t, int(height)-1, commit[at+16:][:index.RefSize(tagSize)], &left)
		}
		at += index.RootSize(tagSize)
	}
	s.CommitHash = journal.Sum(commit)
	for i := range 4 {
		if c.Holds(i%2, i/2) {
			_ = journal.WriteCopy(inMemory(b), &s, i%2, i/2)
		}
	}
	return b
}

const tagSize = 16

// inMemory writes into bytes that are there.
type inMemory []byte

func (b inMemory) WriteAt(p []byte, off int64) (int, error) {
	if n := copy(b[off:], p); n < len(p) {
		return n, io.ErrShortWrite
	}
	return len(p), nil
}

// mendNode sets the tag in a node reference to that of the bytes it names, children first. left bounds the work.
func mendNode(b []byte, s *journal.Super, t index.Tree, level int, ref []byte, left *int) {
	r := index.DecodeRef(format.NewCursor(ref, "", -1), tagSize)
	if *left--; *left < 0 || r.Len == 0 || r.Off+int64(r.Len) > int64(len(b)) {
		return
	}
	node := b[r.Off:][:r.Len]
	if n, err := index.ParseNode(node, t, level, tagSize, r.Off); err == nil && level > 0 {
		for it := n.Scan(); it.Next(); {
			if len(it.Value()) == index.RefSize(tagSize) {
				mendNode(b, s, t, level-1, it.Value(), left) // the value is a part of node
			}
		}
	}
	ctx := seal.Context{Archive: s.Archive, Attempt: r.Attempt, Number: uint64(r.Seq), Plain: r.Len, Stored: r.Len, Codec: uint8(t)}
	seal.New().Seal(&ctx, seal.KindNode, 1<<32-1, node, ref[32:])
}

// Mending a sound archive changes nothing, and after a change of any byte of a node it makes the tags right.
func TestMend(t *testing.T) {
	w := newWorld(t, 3, Options{Jobs: 1})
	w.create(CreateOptions{})
	files := map[string][]byte{}
	for i := range 600 {
		files[string(rune('a'+i%26))+"/"+string(rune('a'+i/26))+"-a-rather-long-name-that-fills-nodes"] = []byte{byte(i), byte(i >> 8), 1}
	}
	w.change(func(tx *Tx) { w.add(tx, files) })
	good := w.mem.Bytes(name)
	if !bytes.Equal(mend(good), good) {
		t.Fatal("mending changes a sound archive")
	}
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	root := a.cur.tree(index.Entries)
	leaf := root.Ref
	err = index.Walk(a, index.Entries, root, func(level int, ref index.Ref, _ *index.Node, _, _ []byte) error {
		if level == 0 {
			leaf = ref
		}
		return nil
	})
	if err != nil || leaf == root.Ref {
		t.Fatalf("the tree has no branch: %v", err)
	}
	bad := bytes.Clone(good)
	bad[leaf.Off+int64(leaf.Len)-30] ^= 1
	for what, b := range map[string][]byte{"changed": bad, "mended": mend(bad)} {
		w.mem.Put(name, b)
		a, err := Open(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		tags := 0
		err = index.Walk(a, index.Entries, a.cur.tree(index.Entries), func(int, index.Ref, *index.Node, []byte, []byte) error {
			tags++
			return nil
		})
		if (what == "changed") != (err != nil && bytes.Contains([]byte(err.Error()), []byte("tag does not verify"))) {
			t.Errorf("%s: %d nodes, %v", what, tags, err)
		}
		a.Close()
	}
}

// Every byte of the golden archive's commit block and nodes, changed under tags that are right.
func TestMendedDamage(t *testing.T) {
	golden := goldenFile(t, ".lbx")
	mem := vfs.Mem()
	mem.Put(name, golden)
	a, err := Open(ctx, name, Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	parts := []format.Extent{{Off: a.cur.super.CommitOff, Len: int64(a.cur.super.CommitLen)}}
	for _, r := range a.cur.roots {
		if r.Height > 1 {
			t.Fatal("a tree with branches: only roots are looked at here")
		}
		if r.Height > 0 {
			parts = append(parts, format.Extent{Off: r.Ref.Off, Len: int64(r.Ref.Len)})
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	step := int64(1)
	if testing.Short() {
		step = 5
	}
	for _, p := range parts {
		for k := p.Off; k < p.End(); k += step {
			for _, x := range []byte{golden[k] + 1, golden[k] - 1, golden[k] ^ 0x80, 0, 0xFF} {
				b := bytes.Clone(golden)
				if b[k] = x; x != golden[k] {
					tryAnything(t, fmt.Sprintf("byte %d is %#x, was %#x", k, x, golden[k]), mend(b))
				}
			}
		}
	}
}

// A legal archive of another program may have an open pack that is full by this one's measure: what is folded in
// fills the pack at once, and the file that opened it needs a new one.
func TestFullOpenPack(t *testing.T) {
	w := newWorld(t, 4, Options{Jobs: 1})
	w.create(CreateOptions{Level: 0})
	full := map[string][]byte{}
	for i := range packTarget(0, 0) / 512 {
		full["f"+string(rune('a'+i))] = bytes.Repeat([]byte{byte(i + 1)}, 512)
	}
	w.change(func(tx *Tx) { w.add(tx, full) })
	w.change(func(tx *Tx) {
		tx.openPacks[0] = 1 // as if frame 1, which is full, had been left open
		w.add(tx, map[string][]byte{"one": bytes.Repeat([]byte("1"), 300), "two": bytes.Repeat([]byte("2"), 300)})
	})
	w.check()
}

// A file that something else writes over while a transaction is open is left alone when it is rolled back.
func TestRollbackLeavesAForeignFileAlone(t *testing.T) {
	w := smallWorld(t)
	a, err := OpenWrite(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.add(tx, map[string][]byte{"new": bytes.Repeat([]byte("n"), 1000)})
	delete(w.model, "new")
	// Another archive is copied over this one, in place.
	f, err := w.mem.Open(name, true)
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Repeat([]byte("foreign "), 100<<10)
	if _, err := f.WriteAt(foreign, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err == nil {
		t.Fatal("committed over a foreign file")
	}
	if err := a.Close(); err != nil {
		t.Log(err)
	}
	if !bytes.HasPrefix(w.mem.Bytes(name), foreign[:format.DataStart]) || len(w.mem.Bytes(name)) < len(foreign) {
		t.Error("the foreign file was cut or overwritten")
	}
}
