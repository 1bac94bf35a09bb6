package verify

import (
	"bytes"
	"encoding/binary"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/seal"

	"pgregory.net/rapid"
)

// FuzzRun takes any bytes for an archive. Whatever they are, the check ends, with or without findings.
func FuzzRun(f *testing.F) {
	f.Add(sample(f, 512).build(), true, uint8(1))
	f.Add(sample(f, 4096).build(), false, uint8(2))
	f.Add([]byte("PK"), true, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, full bool, jobs uint8) {
		if len(b) > 1<<17 {
			return
		}
		run(t, b, full, int(jobs%4))
		run(t, mend(b), full, int(jobs%4))
	})
}

func run(t interface{ Fatalf(string, ...any) }, b []byte, full bool, jobs int) {
	s, fs, err := check(b, Options{Full: full, Jobs: jobs})
	damaged, repairable := 0, 0
	for _, f := range fs {
		if f.Kind == KindRepairable {
			repairable++
		} else {
			damaged++
		}
		if f.Kind == "" || f.Detail == "" {
			t.Fatalf("empty finding %+v", f)
		}
	}
	if s.Repairable != repairable || s.Damaged > damaged || (s.Damaged == 0) != (damaged == 0) {
		t.Fatalf("%+v from %d findings, %v", s, damaged, err)
	}
	if err == nil && !s.Complete && damaged == 0 {
		t.Fatalf("not complete, and no finding says why: %+v", s)
	}
}

// mend makes the tags of whatever copies, commit block and nodes b has right again, so that what lies behind
// them is reached by changed bytes.
func mend(b []byte) []byte {
	b = bytes.Clone(b)
	c, err := journal.ReadCopies(memFile(b))
	if err != nil {
		return b
	}
	s := *c.Current
	if s.CommitOff < 0 || s.CommitOff+int64(s.CommitLen) > int64(len(b)) {
		return b
	}
	commit := b[s.CommitOff : s.CommitOff+int64(s.CommitLen)]
	left := 2000
	// Root records stand behind the commit block's header and the head of its first field.
	for t := range uint8(5) {
		at := 24 + int(t)*(16+32+testTag)
		if at+16+32+testTag > len(commit) {
			break
		}
		if commit[at] > 0 {
			mendNode(b, &s, t+1, commit[at+16:at+16+32+testTag], 4, &left)
		}
	}
	s.CommitHash = journal.Sum(commit)
	for i := range 4 {
		_ = journal.WriteCopy(writer(b), &s, i%2, i/2)
	}
	return b
}

// mendNode sets the tag in a node reference to that of the bytes it points to, children first.
func mendNode(b []byte, s *journal.Super, tree uint8, ref []byte, depth int, left *int) {
	off, size := binary.LittleEndian.Uint64(ref), binary.LittleEndian.Uint32(ref[8:])
	if *left--; *left < 0 || off > uint64(len(b)) || size < 8 || uint64(size) > uint64(len(b))-off {
		return
	}
	node := b[off : off+uint64(size)]
	if level := node[1]; level > 0 && depth > 0 {
		// Values of a branch's items are references: they end where the next item begins.
		pos := 8
		for range int(binary.LittleEndian.Uint16(node[2:])) {
			if pos+3 > len(node) {
				break
			}
			_, n1 := binary.Uvarint(node[pos:])
			rest, n2 := binary.Uvarint(node[min(pos+max(n1, 0), len(node)):])
			value, n3 := binary.Uvarint(node[min(pos+max(n1, 0)+max(n2, 0), len(node)):])
			at := pos + max(n1, 0) + max(n2, 0) + max(n3, 0) + int(rest&0xFFFF)
			if n1 <= 0 || n2 <= 0 || n3 <= 0 || value != 32+testTag || at+int(value) > len(node) {
				break
			}
			mendNode(b, s, tree, node[at:at+int(value)], depth-1, left)
			pos = at + int(value)
		}
	}
	ctx := seal.Context{Archive: s.Archive, Attempt: format.ID(ref[16:32]), Number: uint64(binary.LittleEndian.Uint32(ref[12:])), Plain: size, Stored: size, Codec: tree}
	seal.New().Seal(&ctx, seal.KindNode, seal.NoBlock, node, ref[32:32+testTag])
}

// Any few bytes of the index changed under tags that are right: no panic, no hang, sums that hold.
func TestMendedDamage(t *testing.T) {
	clean := sample(t, 512)
	clean.nodeSize = 256
	file := clean.build()
	if !bytes.Equal(mend(file), file) {
		t.Fatal("mending changes an archive that is whole")
	}
	first := clean.refs[0].Off
	noticed := 0
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(file)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			at := rapid.Int64Range(first, int64(len(b))-1).Draw(t, "at")
			b[at] = rapid.Byte().Draw(t, "byte")
		}
		b = mend(b)
		run(t, b, rapid.Bool().Draw(t, "full"), rapid.IntRange(1, 3).Draw(t, "jobs"))
		if s, _, err := check(b, Options{Full: true}); err != nil || s.Damaged > 0 {
			noticed++
		}
	})
	if noticed == 0 {
		t.Error("no change was ever noticed")
	}
}
