package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/seal"

	"pgregory.net/rapid"
)

// super is the superblock of a commit block.
func super(b []byte, s *Super) *Super {
	return with(s, func(s *Super) { s.CommitLen, s.CommitHash = uint32(len(b)), Sum(b) })
}

func goodCommit() *Commit {
	return &Commit{
		Trees:     bytes.Repeat([]byte{1, 2, 3, 4, 5}, 64),
		Stage:     []Planned{{Extent: format.Extent{Off: 20480, Len: 512}, Generation: 6, Owner: 3, Kind: OwnerNode}},
		Retire:    []Planned{{Extent: format.Extent{Off: 20992, Len: 1024}, Generation: 5, Owner: 7, Kind: OwnerFrame, Deleted: true}},
		Counters:  Counters{1, 2, 3, 4, 5, 6, 7, 8, 9},
		Options:   Options{Level: 2, Padding: 1, Reproducible: true},
		OpenPacks: []uint64{1, NoFrame},
	}
}

// genSet makes a set of extents that a generation may have.
func genSet(s *Super) *rapid.Generator[[]Planned] {
	return rapid.Custom(func(t *rapid.T) []Planned {
		var set []Planned
		at := int64(format.DataStart) / s.Sector
		for range rapid.IntRange(0, 20).Draw(t, "extents") {
			p := Planned{Generation: rapid.Uint64Range(0, s.Generation).Draw(t, "generation"), Owner: rapid.Uint64().Draw(t, "owner"),
				Kind: rapid.Uint8Range(OwnerNone, OwnerSeveral).Draw(t, "kind"), Deleted: rapid.Bool().Draw(t, "deleted")}
			if p.Kind == OwnerNode {
				p.Owner = rapid.Uint64Range(1, 5).Draw(t, "tree")
			}
			at += rapid.Int64Range(0, 5).Draw(t, "gap")
			n := rapid.Int64Range(1, 9).Draw(t, "len")
			p.Extent = format.Extent{Off: at * s.Sector, Len: n * s.Sector}
			at += n
			if p.End() > s.End {
				break
			}
			set = append(set, p)
		}
		return set
	})
}

func genCommit(s *Super) *rapid.Generator[*Commit] {
	return rapid.Custom(func(t *rapid.T) *Commit {
		m := &Commit{Trees: rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "trees"), Stage: genSet(s).Draw(t, "stage"), Retire: genSet(s).Draw(t, "retire"),
			OpenPacks: rapid.SliceOfN(rapid.Uint64(), 0, 16).Draw(t, "packs")}
		n := rapid.Uint64()
		m.Counters = Counters{n.Draw(t, "c"), n.Draw(t, "c"), n.Draw(t, "c"), n.Draw(t, "c"), n.Draw(t, "c"), n.Draw(t, "c"), n.Draw(t, "c"), n.Draw(t, "c"), n.Draw(t, "c")}
		next := rapid.Uint64Range(1, 1<<62)
		m.Counters.NextContent, m.Counters.NextFrame = next.Draw(t, "next content"), next.Draw(t, "next frame")
		m.Options = Options{rapid.Uint8Range(0, 4).Draw(t, "level"), format.Padding(rapid.Uint8Range(0, 2).Draw(t, "padding")), rapid.Bool().Draw(t, "reproducible")}
		if s.Suite.Encrypted() {
			m.Salt = rapid.SliceOfN(rapid.Byte(), SaltSize, SaltSize).Draw(t, "salt")
		}
		tag := uint16(tagSalt)
		for range rapid.IntRange(0, 3).Draw(t, "unknown fields") {
			tag += rapid.Uint16Range(1, 1000).Draw(t, "tag")
			flags := rapid.Uint16().Draw(t, "flags") &^ mustKnowField
			m.unknown = appendField(m.unknown, tag, flags, rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "payload"))
		}
		return m
	})
}

// same compares what two commit blocks say; an empty list is as good as none.
func same(a, b *Commit) bool {
	return bytes.Equal(a.Trees, b.Trees) && slices.Equal(a.Stage, b.Stage) && slices.Equal(a.Retire, b.Retire) && a.Counters == b.Counters &&
		a.Options == b.Options && slices.Equal(a.OpenPacks, b.OpenPacks) && bytes.Equal(a.Salt, b.Salt) && bytes.Equal(a.unknown, b.unknown)
}

func TestCommitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSuper().Draw(t, "super")
		s.Suite = rapid.SampledFrom([]format.Suite{format.SuiteNone, format.SuiteEncrypted}).Draw(t, "suite")
		m := genCommit(s).Draw(t, "commit")
		b := m.Encode(s.Generation)
		kept := bytes.Clone(b)
		got, err := DecodeCommit(b, s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = 0xEE // the result must share nothing with it
		}
		if !same(got, m) {
			t.Fatalf("%+v came back as %+v", m, got)
		}
		if !bytes.Equal(got.Encode(s.Generation), kept) {
			t.Fatal("written again, it differs")
		}
	})
}

// Fields that a writer does not know go on from one generation to the next, byte for byte.
func TestCarry(t *testing.T) {
	s := goodSuper(6)
	unknown := appendField(appendField(nil, 8, 0, []byte("new")), 40000, 0xFFFE, nil)
	old, err := DecodeCommit(append(goodCommit().Encode(6), unknown...), s)
	if err != nil {
		t.Fatal(err)
	}
	next := goodCommit()
	next.Counters.Entries++
	next.Carry(old)
	b := next.Encode(7)
	if !bytes.HasSuffix(b, unknown) {
		t.Fatalf("the unknown fields are not at the end of %x", b)
	}
	got, err := DecodeCommit(b, goodSuper(7))
	if err != nil || !same(got, next) {
		t.Fatalf("%+v, %v", got, err)
	}
	empty := goodCommit()
	next.Carry(empty)
	if !bytes.Equal(next.unknown, nil) {
		t.Error("fields carried from a block that has none")
	}
}

// parts is a commit block's header and fields, each by itself.
func parts(b []byte) (p [][]byte) {
	p = append(p, b[:commitHeader:commitHeader])
	for b = b[commitHeader:]; len(b) > 0; {
		n := 8 + int(binary.LittleEndian.Uint32(b[4:]))
		p = append(p, b[:n:n])
		b = b[n:]
	}
	return p
}

func field(tag, flags uint16, payload ...byte) []byte { return appendField(nil, tag, flags, payload) }

// counters is the payload of that field for two next numbers.
func counters(content, frame uint64) []byte {
	b := make([]byte, 72)
	binary.LittleEndian.PutUint64(b, content)
	binary.LittleEndian.PutUint64(b[8:], frame)
	return b
}

func TestCommitRefuses(t *testing.T) {
	s := goodSuper(6)
	good := goodCommit().Encode(6)
	if _, err := DecodeCommit(good, s); err != nil {
		t.Fatal(err)
	}
	type bad struct {
		b    []byte
		kind error
	}
	at := func(off int, v ...byte) bad {
		b := bytes.Clone(good)
		copy(b[off:], v)
		return bad{b, format.ErrCorrupt}
	}
	join := func(p ...[]byte) bad { return bad{slices.Concat(p...), format.ErrCorrupt} }
	p := parts(good)
	version := func(b bad) bad { b.kind = format.ErrVersion; return b }
	fine := func(b bad) bad { b.kind = nil; return b }
	replaced := func(tag int, payload ...byte) bad {
		q := slices.Clone(p)
		q[tag] = field(uint16(tag), mustKnowField, payload...)
		return join(q...)
	}
	cases := map[string]bad{
		"nothing":                         {nil, format.ErrCorrupt},
		"magic":                           at(0, 'l'),
		"magic, last letter":              at(3, 'D'),
		"version 0":                       version(at(4, 0)),
		"version 2":                       version(at(4, 2)),
		"reserved":                        at(6, 1),
		"another generation":              at(8, 7),
		"another generation, top byte":    at(15, 1),
		"header alone":                    join(p[0]),
		"a field twice":                   join(p[0], p[1], p[1], p[2], p[3], p[4], p[5], p[6]),
		"fields out of order":             join(p[0], p[2], p[1], p[3], p[4], p[5], p[6]),
		"tag 0":                           join(p[0], field(0, 0), p[1], p[2], p[3], p[4], p[5], p[6]),
		"length past the end":             at(len(good)-len(p[6])+4, 17),
		"length of 4 GiB":                 at(commitHeader+4, 0xff, 0xff, 0xff, 0xff),
		"length 2^31":                     at(commitHeader+4, 0, 0, 0, 0x80),
		"a byte left over":                join(good, []byte{0}),
		"zero fill":                       join(good, make([]byte, 16)),
		"unknown field":                   fine(join(good, field(8, 0, 1, 2))),
		"unknown field with other flags":  fine(join(good, field(8, 0xFFFE, 1, 2))),
		"unknown field, empty":            fine(join(good, field(0xFFFE, 0))),
		"unknown field twice":             join(good, field(8, 0, 1), field(8, 0, 1)),
		"unknown fields out of order":     join(good, field(9, 0, 1), field(8, 0, 1)),
		"must-know field":                 version(join(good, field(8, 1))),
		"must-know field among others":    version(join(good, field(8, 0), field(9, 3), field(10, 0))),
		"signature":                       version(join(good, field(tagSignature, 0, 1, 0, 0, 0))),
		"counters, one missing":           replaced(tagCounters, make([]byte, 64)...),
		"counters, one more":              replaced(tagCounters, make([]byte, 80)...),
		"numbers from 0":                  replaced(tagCounters, make([]byte, 72)...),
		"highest next numbers":            fine(replaced(tagCounters, counters(1<<62, 1<<62)...)),
		"next content number too high":    replaced(tagCounters, counters(1<<62+1, 1)...),
		"next frame number too high":      replaced(tagCounters, counters(1, 1<<62+1)...),
		"next content number 0":           replaced(tagCounters, counters(0, 1)...),
		"next frame number 0":             replaced(tagCounters, counters(1, 0)...),
		"next content number 2^64-1":      replaced(tagCounters, counters(1<<64-1, 1)...),
		"options cut":                     replaced(tagOptions, 2, 1, 0, 0, 0, 0, 0),
		"options, more":                   replaced(tagOptions, 2, 1, 0, 0, 0, 0, 0, 0, 0),
		"options, highest":                fine(replaced(tagOptions, 4, 2, 1, 0, 0, 0, 0, 0)),
		"level 5":                         replaced(tagOptions, 5, 1, 0, 0, 0, 0, 0, 0),
		"padding 3":                       replaced(tagOptions, 2, 3, 0, 0, 0, 0, 0, 0),
		"reproducible 2":                  replaced(tagOptions, 2, 1, 2, 0, 0, 0, 0, 0),
		"options, reserved":               replaced(tagOptions, 2, 1, 0, 1, 0, 0, 0, 0),
		"options, last reserved":          replaced(tagOptions, 2, 1, 0, 0, 0, 0, 0, 1),
		"no packs":                        fine(replaced(tagOpenPacks)),
		"16 packs":                        fine(replaced(tagOpenPacks, make([]byte, 128)...)),
		"17 packs":                        replaced(tagOpenPacks, make([]byte, 136)...),
		"half a pack":                     replaced(tagOpenPacks, make([]byte, 12)...),
		"stage set, a byte more":          replaced(tagStage, append(p[2][8:], 0)...),
		"retire set, a byte less":         replaced(tagRetire, p[3][8:len(p[3])-1]...),
		"stage set of nothing":            fine(replaced(tagStage)),
		"trees are bytes to this package": fine(replaced(tagTrees, 9)),
	}
	for i := 1; i < len(p); i++ {
		cases[fmt.Sprintf("without field %d", i)] = join(slices.Delete(slices.Clone(p), i, i+1)...)
	}
	for n := range good {
		cases[fmt.Sprintf("cut to %d bytes", n)] = bad{good[:n], format.ErrCorrupt}
	}
	// What is left is shorter than a field's head: it must not be taken for a field.
	whole := field(8, 0, 1, 2, 3)
	for n := 1; n < len(whole); n++ {
		cases[fmt.Sprintf("unknown field cut to %d bytes", n)] = join(good, whole[:n])
	}
	for name, c := range cases {
		m, err := DecodeCommit(slices.Clip(c.b), s)
		if !errors.Is(err, c.kind) || (err == nil) != (m != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
}

func TestSetsRefuse(t *testing.T) {
	s := with(goodSuper(6), func(s *Super) { s.Sector = 4096 })
	ext := func(off, length int64) Planned {
		return Planned{Extent: format.Extent{Off: off, Len: length}, Generation: 6}
	}
	good := []Planned{ext(20480, 4096), ext(24576, 4096), ext(40960, 8192)}
	change := func(f func(p []Planned)) []Planned {
		p := slices.Clone(good)
		f(p)
		return p
	}
	for name, set := range map[string][]Planned{
		"overlapping":         change(func(p []Planned) { p[0].Len = 8192 }),
		"out of order":        change(func(p []Planned) { p[0], p[1] = p[1], p[0] }),
		"twice":               change(func(p []Planned) { p[1] = p[0] }),
		"in the front":        change(func(p []Planned) { p[0].Off = 16384 }),
		"at 0":                change(func(p []Planned) { p[0].Off = 0 }),
		"empty":               change(func(p []Planned) { p[1].Len = 0 }),
		"inside a sector":     change(func(p []Planned) { p[2].Off += 512 }),
		"half a sector long":  change(func(p []Planned) { p[2].Len += 512 }),
		"past the end":        change(func(p []Planned) { p[2].Len = s.End - p[2].Off + 4096 }),
		"behind the end":      change(func(p []Planned) { p[2].Off = s.End }),
		"far past the end":    change(func(p []Planned) { p[2].Len = format.MaxLogicalEnd }),
		"negative length":     change(func(p []Planned) { p[2].Len = -4096 }),
		"negative offset":     change(func(p []Planned) { p[0].Off = -4096 }),
		"a later generation":  change(func(p []Planned) { p[0].Generation = 7 }),
		"node of tree 0":      change(func(p []Planned) { p[1].Kind = OwnerNode }),
		"node of tree 6":      change(func(p []Planned) { p[1].Kind, p[1].Owner = OwnerNode, 6 }),
		"unknown kind":        change(func(p []Planned) { p[0].Kind = OwnerKeyDir + 1 }),
		"more than a set has": slices.Repeat([]Planned{ext(20480, 4096)}, format.MaxSetExtents+1),
	} {
		for _, retire := range []bool{false, true} {
			m := goodCommit()
			m.Stage, m.Retire = good, set
			if !retire {
				m.Stage, m.Retire = set, good
			}
			if _, err := DecodeCommit(m.Encode(6), s); !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%s, retire %v: %v", name, retire, err)
			}
		}
	}
	// To the last byte, and all that a set can hold.
	full := make([]Planned, format.MaxSetExtents)
	for i := range full {
		full[i] = ext(format.DataStart+int64(i)*4096, 4096)
	}
	s.End = full[len(full)-1].End()
	m := &Commit{Stage: full, Retire: full, Counters: Counters{NextContent: 1, NextFrame: 1}}
	b := m.Encode(6)
	got, err := DecodeCommit(b, s)
	if err != nil || !slices.Equal(got.Stage, full) || len(b) > format.MaxCommitBlock {
		t.Errorf("two full sets in %d bytes: %v", len(b), err)
	}
	// Reserved bytes and flags of a record.
	for k := 33; k < extentRecord; k++ {
		raw := appendSet(nil, good)
		raw[extentRecord+k] = 2
		if _, err := decodeSet(raw, s, "stage set"); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("byte %d of a record is 2: %v", k, err)
		}
	}
}

// The root hash changes with every byte that a signature has to cover, and with no other.
func TestRootHash(t *testing.T) {
	s := goodSuper(6)
	s.Suite, s.Cipher = format.SuiteEncrypted, seal.AESGCM
	block := append(goodCommit().Encode(6), field(9, 0, 1, 2, 3)...)
	want := s.RootHash(block)
	for i := range block {
		b := bytes.Clone(block)
		b[i] ^= 1
		if s.RootHash(b) == want {
			t.Errorf("byte %d of the commit block is not bound", i)
		}
	}
	if s.RootHash(block[:len(block)-1]) == want || s.RootHash(append(bytes.Clone(block), 0)) == want {
		t.Error("the commit block's length is not bound")
	}
	// Every field of the superblock but the digest of the commit block, which the block's own stands for.
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		n := int(v.Field(i).Type().Size())
		if v.Field(i).Kind() != reflect.Array {
			n = 1
		}
		for k := range n {
			c := *s
			switch f := reflect.ValueOf(&c).Elem().Field(i); f.Kind() {
			case reflect.Array:
				f.Index(k).SetUint(f.Index(k).Uint() ^ 1)
			case reflect.Int64:
				f.SetInt(f.Int() * 8)
				if f.Int() == 0 {
					f.SetInt(1)
				}
			default:
				f.SetUint(f.Uint() ^ 1)
			}
			if (c.RootHash(block) == want) != (name == "CommitHash") {
				t.Errorf("field %s, byte %d: bound %v", name, k, name == "CommitHash")
			}
		}
	}
	// A signature is not part of what it signs, whatever it is.
	signed := append(bytes.Clone(block), field(tagSignature, 1, bytes.Repeat([]byte{7}, 68)...)...)
	other := append(bytes.Clone(block), field(tagSignature, 1, 8)...)
	if s.RootHash(signed) != want || s.RootHash(other) != want {
		t.Error("the signature is part of what it signs")
	}
	// Bytes that are no fields are bound too.
	for n := range len(block) {
		if s.RootHash(block[:n]) == want {
			t.Errorf("the block cut to %d bytes has the same root", n)
		}
	}
}

// FuzzCommit decodes whatever it is given as the commit block of a small archive.
func FuzzCommit(f *testing.F) {
	good := goodCommit().Encode(6)
	f.Add(good, int64(1<<20), uint64(6))
	f.Add(append(bytes.Clone(good), field(8, 0, 'n', 'e', 'w')...), int64(1<<20), uint64(6))
	f.Add((&Commit{Counters: Counters{NextContent: 1, NextFrame: 1}}).Encode(1), int64(24576), uint64(1))
	f.Add(append(bytes.Clone(good), field(tagSignature, 1, 1, 0, 0, 0)...), int64(21504), uint64(6))
	f.Add(append(bytes.Clone(good), 7, 0, 0, 0), int64(1<<20), uint64(6))
	f.Fuzz(func(t *testing.T, b []byte, end int64, generation uint64) {
		s := with(goodSuper(generation), func(s *Super) { s.End = end &^ 511 })
		b = slices.Clip(b)
		root := s.RootHash(b)
		m, err := DecodeCommit(b, s)
		if err != nil {
			if m != nil || !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		for _, set := range [][]Planned{m.Stage, m.Retire} {
			at := int64(format.DataStart)
			for _, p := range set {
				if p.Off < at || p.Len < 512 || p.Off%512 != 0 || p.Len%512 != 0 || p.End() > s.End || p.Generation > generation {
					t.Fatalf("%+v", set)
				}
				at = p.End()
			}
		}
		// The flags of known fields carry nothing, so that is all that writing may change.
		again := m.Encode(generation)
		for _, p := range parts(b)[1:] {
			if tag := binary.LittleEndian.Uint16(p); tag <= tagOpenPacks {
				binary.LittleEndian.PutUint16(p[2:], mustKnowField)
			}
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x\nis written as\n%x", b, again)
		}
		if root == (format.Digest{}) {
			t.Fatal("a root hash of zeros")
		}
	})
}
