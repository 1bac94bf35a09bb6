package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lockbox/internal/format"

	"pgregory.net/rapid"
)

// disk is a file in memory that grows when it is written.
type disk struct{ b []byte }

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	if n := int(off) + len(p); n > len(d.b) {
		d.b = append(d.b, make([]byte, n-len(d.b))...)
	}
	return copy(d.b[off:], p), nil
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(d.b).ReadAt(p, off) }

// goodSuper is a superblock that an archive could have.
func goodSuper(generation uint64) *Super {
	s := &Super{Sector: 512, Generation: generation, End: 1 << 20, CommitOff: 40960, CommitLen: 700, MayIgnore: 1 << 40}
	for i := range 16 {
		s.Archive[i], s.Attempt[i] = 0x20+byte(i), 0x40+byte(i)
	}
	s.Attempt[0] = byte(generation)
	for i := range 32 {
		s.CommitHash[i] = 0x60 + byte(i)
		if generation > 1 {
			s.PrevRoot[i] = 0x80 + byte(i)
		}
	}
	return s
}

// with returns a changed copy.
func with(s *Super, change func(*Super)) *Super {
	c := *s
	change(&c)
	return &c
}

// front is the first 16 KiB of a file whose copies, in file order, hold the given superblocks; nil leaves a
// page of zeros.
func front(supers ...*Super) []byte {
	d := &disk{make([]byte, format.CopiesSize)}
	for i, s := range supers {
		if s == nil {
			continue
		}
		if err := WriteCopy(d, s, i%2, i/2); err != nil {
			panic(err)
		}
	}
	return d.b
}

func all(s *Super) []byte { return front(s, s, s, s) }

// reseal makes the checksum of copy i right again.
func reseal(b []byte, i int) {
	off, _, _ := place(i)
	copy(b[off+superSummed:], checksum(b[off:off+superSummed]))
}

// genSuper makes superblocks that are good.
func genSuper() *rapid.Generator[*Super] {
	return rapid.Custom(func(t *rapid.T) *Super {
		s := &Super{Sector: rapid.SampledFrom([]int64{512, 4096}).Draw(t, "sector")}
		fill := func(b []byte, name string) { copy(b, rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, name)) }
		fill(s.Archive[:], "archive")
		fill(s.Attempt[:], "attempt")
		fill(s.CommitHash[:], "hash")
		fill(s.PrevRoot[:], "root")
		s.WriteKnow, s.MayIgnore = rapid.Uint64().Draw(t, "writers"), rapid.Uint64().Draw(t, "ignored")
		s.Generation = rapid.Uint64Range(1, maxGeneration).Draw(t, "generation")
		s.CommitLen = rapid.Uint32Range(commitHeader, format.MaxCommitBlock).Draw(t, "length")
		room := format.AlignUp(int64(s.CommitLen), s.Sector)
		first := format.AlignUp(format.DataStart, s.Sector) / s.Sector
		s.CommitOff = rapid.Int64Range(first, (format.MaxLogicalEnd-room)/s.Sector).Draw(t, "at") * s.Sector
		s.End = rapid.Int64Range((s.CommitOff+room)/s.Sector, format.MaxLogicalEnd/s.Sector).Draw(t, "end") * s.Sector
		return s
	})
}

func TestSuperRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSuper().Draw(t, "super")
		c, err := DecodeCopies(all(s))
		if err != nil || *c.Current != *s || !c.AllEqual() || c.Damaged() != 0 {
			t.Fatalf("%+v came back as %+v: %v", s, c, err)
		}
		if !bytes.Equal(c.Current.encode(), s.encode()) || !bytes.Equal(c.raw, s.encode()) {
			t.Fatal("the bytes differ")
		}
	})
}

// Every value that a field must not have, in all four copies and under a right checksum.
func TestSuperFields(t *testing.T) {
	u64 := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	u32 := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	type field struct {
		name string
		off  int
		b    []byte
		kind error
	}
	fields := []field{
		{"version 0", 8, []byte{0, 0}, format.ErrVersion},
		{"version 2", 8, []byte{2, 0}, format.ErrVersion},
		{"version 257", 8, []byte{1, 1}, format.ErrVersion},
		{"signed", 10, []byte{1}, format.ErrVersion},
		{"encrypted", 10, []byte{2}, format.ErrVersion},
		{"signed and encrypted", 10, []byte{3}, format.ErrVersion},
		{"unknown suite", 10, []byte{4}, format.ErrVersion},
		{"no tag algorithm", 11, []byte{0}, format.ErrVersion},
		{"another tag algorithm", 11, []byte{2}, format.ErrVersion},
		{"no digest algorithm", 12, []byte{0}, format.ErrVersion},
		{"another digest algorithm", 12, []byte{2}, format.ErrVersion},
		{"a signature algorithm", 13, []byte{1}, format.ErrVersion},
		{"reserved byte", 15, []byte{1}, format.ErrCorrupt},
		{"any archive id", 16, make([]byte, 16), nil},
		{"generation 0", 56, u64(0), format.ErrCorrupt},
		{"any attempt id", 64, make([]byte, 16), nil},
		{"end before the commit block's", 80, u64(40960 + 512), format.ErrCorrupt},
		{"end at the commit block's", 80, u64(40960 + 1024), nil},
		{"end inside a sector", 80, u64(1<<20 + 1), format.ErrCorrupt},
		{"end 0", 80, u64(0), format.ErrCorrupt},
		{"end at the limit", 80, u64(1 << 56), nil},
		{"end past the limit", 80, u64(1<<56 + 512), format.ErrCorrupt},
		{"negative end", 80, u64(1 << 63), format.ErrCorrupt},
		{"commit block in the front", 88, u64(20480 - 512), format.ErrCorrupt},
		{"commit block first of all", 88, u64(20480), nil},
		{"commit block inside a sector", 88, u64(40960 + 8), format.ErrCorrupt},
		{"commit block past the end", 88, u64(1 << 20), format.ErrCorrupt},
		{"commit block past the limit", 88, u64(1<<56 + 512), format.ErrCorrupt},
		{"commit block shorter than its header", 96, u32(15), format.ErrCorrupt},
		{"commit block of a header", 96, u32(16), nil},
		{"commit block past the end by its length", 96, u32(1<<20 - 40960 + 1), format.ErrCorrupt},
		{"commit block over 4 MiB", 96, u32(4<<20 + 1), format.ErrCorrupt},
		{"commit block of 4 GiB", 96, u32(1<<32 - 1), format.ErrCorrupt},
		{"key directory", 100, u32(512), format.ErrCorrupt},
		{"key directory's offset alone", 104, u64(20480), format.ErrCorrupt},
		{"key directory's digest alone", 144, []byte{1}, format.ErrCorrupt},
		{"key directory's digest alone, last byte", 175, []byte{1}, format.ErrCorrupt},
		{"any commit block digest", 112, make([]byte, 32), nil},
		{"any root before", 176, make([]byte, 32), nil},
		{"a feature that writers know", 40, u64(1), nil},
		{"all features that may be ignored", 48, u64(1<<64 - 1), nil},
	}
	for i := range 64 {
		fields = append(fields, field{fmt.Sprintf("must-know feature %d", i), 32, u64(1 << i), format.ErrVersion})
	}
	for i := range 256 {
		kind := format.ErrCorrupt
		if i == 9 || i == 12 {
			kind = nil
		}
		fields = append(fields, field{fmt.Sprintf("sector shift %d", i), 14, []byte{byte(i)}, kind})
	}
	for off := 208; off < superSummed; off++ {
		fields = append(fields, field{fmt.Sprintf("reserved byte %d", off), off, []byte{1}, format.ErrCorrupt})
	}
	for _, f := range fields {
		b := all(goodSuper(6))
		for i := range copies {
			off, _, _ := place(i)
			copy(b[int(off)+f.off:], f.b)
			reseal(b, i)
		}
		c, err := DecodeCopies(b)
		if !errors.Is(err, f.kind) || (err == nil) != (c != nil) {
			t.Errorf("%s: %v, want %v", f.name, err, f.kind)
		}
		if err == nil && !bytes.Equal(c.Current.encode(), b[:superSummed]) {
			t.Errorf("%s: read as something else than what is there", f.name)
		}
	}
}

// What stands outside the checksum: another place, or a byte that is not zero, makes a copy bad.
func TestSuperOutsideChecksum(t *testing.T) {
	s := goodSuper(6)
	for i := range copies {
		off, pair, cp := place(i)
		for k := 496; k < superSize; k++ {
			b := all(s)
			b[int(off)+k] ^= 2
			c, err := DecodeCopies(b)
			if err != nil || c.Damaged() != 1 || c.Holds(int(pair), int(cp)) || c.AllEqual() {
				t.Fatalf("copy %d, byte %d: %+v, %v", i, k, c, err)
			}
		}
		for other := range copies {
			b := all(s)
			from, _, _ := place(other)
			copy(b[off:off+superSize], b[from:from+superSize])
			c, err := DecodeCopies(b)
			if err != nil || (c.Damaged() == 1) != (i != other) {
				t.Fatalf("copy %d in the place of %d: %+v, %v", other, i, c, err)
			}
		}
	}
	// The rest of a copy's page belongs to nobody.
	b := all(s)
	b[superSize] = 1
	if c, err := DecodeCopies(b); err != nil || !c.AllEqual() {
		t.Error(err)
	}
}

func TestSuperEveryFlip(t *testing.T) {
	s := goodSuper(7)
	good := all(s)
	for k := range 8 * superSize {
		b := bytes.Clone(good)
		b[2*format.PageSize+k/8] ^= 1 << (k % 8)
		c, err := DecodeCopies(b)
		if err != nil || c.Damaged() != 1 || c.Holds(0, 1) || *c.Current != *s {
			t.Fatalf("bit %d: %+v, %v", k, c, err)
		}
	}
}

// Any one good copy is enough, whichever others are rotted or older.
func TestSelection(t *testing.T) {
	newer, older := goodSuper(9), goodSuper(8)
	const gone, rotted, torn, old, current = 0, 1, 2, 3, 4
	for n := range 5 * 5 * 5 * 5 {
		state := [copies]int{n % 5, n / 5 % 5, n / 25 % 5, n / 125 % 5}
		b := make([]byte, format.CopiesSize)
		best, magics := 0, 0
		for i, st := range state {
			off, _, _ := place(i)
			was, is := all(older)[off:off+superSize], all(newer)[off:off+superSize]
			page := make([]byte, superSize)
			switch st {
			case rotted:
				copy(page, is)
				page[300] ^= 0x10
			case torn:
				copy(page, is[:256])
				copy(page[256:], was[256:])
			case old:
				copy(page, was)
			case current:
				copy(page, is)
			}
			copy(b[off:], page)
			best = max(best, st)
			if st != gone {
				magics++
			}
		}
		c, err := DecodeCopies(b)
		if best < old {
			want := format.ErrCorrupt
			if magics == 0 {
				want = format.ErrNotLockbox
			}
			if !errors.Is(err, want) || c != nil {
				t.Fatalf("%v: %v, want %v", state, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", state, err)
		}
		want, damaged, equal := newer, 0, 0
		if best == old {
			want = older
		}
		for i, st := range state {
			if st < old {
				damaged++
			}
			if st == best {
				equal++
			}
			_, pair, cp := place(i)
			if c.Holds(int(pair), int(cp)) != (st == best) {
				t.Fatalf("%v: copy %d holds the current state: %v", state, i, st != best)
			}
		}
		if *c.Current != *want || c.Damaged() != damaged || c.AllEqual() != (equal == copies) {
			t.Fatalf("%v: generation %d, %d damaged, equal %v", state, c.Current.Generation, c.Damaged(), c.AllEqual())
		}
	}
}

// Two valid copies that claim one generation for different states are refused wherever they stand, and
// whether or not a newer one stands beside them. So are copies of two archives.
func TestForks(t *testing.T) {
	s := goodSuper(9)
	forks := map[string]*Super{
		"another attempt":    with(s, func(s *Super) { s.Attempt[3]++ }),
		"another end":        with(s, func(s *Super) { s.End += 512 }),
		"another hash":       with(s, func(s *Super) { s.CommitHash[31]++ }),
		"another root":       with(s, func(s *Super) { s.PrevRoot[0]++ }),
		"another feature":    with(s, func(s *Super) { s.MayIgnore++ }),
		"another archive":    with(s, func(s *Super) { s.Archive[0]++ }),
		"an older archive":   with(goodSuper(8), func(s *Super) { s.Archive[0]++ }),
		"a newer archive":    with(goodSuper(10), func(s *Super) { s.Archive[15]++ }),
		"generation 1's own": with(goodSuper(1), func(s *Super) { s.Archive[15]++ }),
	}
	for what, f := range forks {
		for i := range copies {
			for j := range copies {
				if i == j {
					continue
				}
				for others, o := range map[string]*Super{"nothing": nil, "the state": s, "a newer state": goodSuper(11), "an older state": goodSuper(7)} {
					supers := [copies]*Super{o, o, o, o}
					supers[i], supers[j] = s, f
					if _, err := DecodeCopies(front(supers[:]...)); !errors.Is(err, format.ErrCorrupt) {
						t.Errorf("%s: copies %d and %d, beside %s: %v", what, i, j, others, err)
					}
				}
			}
		}
	}
}

// later makes copies of a version that this program does not know. sum makes their checksum the one of
// version 1.
func later(b []byte, sum bool, which ...int) []byte {
	for _, i := range which {
		off, _, _ := place(i)
		b[off+8] = 2
		b[off+300] = 7
		if sum {
			reseal(b, i)
		}
	}
	return b
}

func TestLaterVersion(t *testing.T) {
	s, old := goodSuper(6), goodSuper(5)
	broken := all(s)
	broken[8192+15] = 1 // reserved, under a right checksum
	reseal(broken, 2)
	for what, k := range map[string]struct {
		b    []byte
		kind error
	}{
		"all, checksum as here":                  {later(all(s), true, 0, 1, 2, 3), format.ErrVersion},
		"all, another checksum":                  {later(all(s), false, 0, 1, 2, 3), format.ErrVersion},
		"pair A, another checksum":               {later(front(s, old, s, old), false, 0, 2), format.ErrVersion},
		"pair B, another checksum":               {later(front(s, old, s, old), false, 1, 3), format.ErrVersion},
		"one, checksum as here":                  {later(all(s), true, 3), format.ErrVersion},
		"the first, checksum as here":            {later(front(s, old, s, old), true, 0), format.ErrVersion},
		"the first, before one with nonsense":    {later(bytes.Clone(broken), true, 0), format.ErrVersion},
		"one, another checksum: rot":             {later(all(s), false, 2), nil},
		"one of each pair, another checksum":     {later(all(s), false, 0, 3), nil},
		"one of each pair, nothing else":         {later(front(s, nil, nil, s), false, 0, 3), format.ErrCorrupt},
		"pair A, two different later versions":   {append(append(bytes.Clone(later(all(s), false, 0)[:8192]), 0), later(all(s), false, 2)[8193:]...), nil},
		"nonsense under a right checksum":        {broken, format.ErrCorrupt},
		"nonsense under a right checksum, alone": {append(make([]byte, 8192), broken[8192:12288]...), format.ErrCorrupt},
	} {
		c, err := DecodeCopies(k.b)
		if !errors.Is(err, k.kind) {
			t.Errorf("%s: %v, want %v", what, err, k.kind)
		}
		if k.kind == nil && (err != nil || *c.Current != *s) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFeatures(t *testing.T) {
	for i := range 64 {
		// Known to writers only: readable, not writable.
		s := with(goodSuper(3), func(s *Super) { s.WriteKnow = 1 << i })
		c, err := DecodeCopies(all(s))
		if err != nil || c.Current.WriteKnow != 1<<i {
			t.Fatalf("write feature %d keeps readers out: %v", i, err)
		}
		if err := c.Current.Writable(); !errors.Is(err, format.ErrVersion) {
			t.Errorf("write feature %d: %v", i, err)
		}
		// Known to nobody: writable, and kept.
		s = with(goodSuper(3), func(s *Super) { s.MayIgnore = 1 << i })
		if c, err = DecodeCopies(all(s)); err != nil || c.Current.MayIgnore != 1<<i {
			t.Fatalf("feature %d that may be ignored: %v", i, err)
		}
		if err := c.Current.Writable(); err != nil {
			t.Errorf("feature %d that may be ignored: %v", i, err)
		}
		// One copy whose features a reader must know hides no newer state.
		s = with(goodSuper(4), func(s *Super) { s.MustKnow = 1 << i })
		if _, err := DecodeCopies(front(goodSuper(3), goodSuper(3), nil, s)); !errors.Is(err, format.ErrVersion) {
			t.Errorf("must-know feature %d in one copy: %v", i, err)
		}
	}
}

// Files that end early, and files that are something else.
func TestShortFiles(t *testing.T) {
	good := all(goodSuper(6))
	for n := range len(good) {
		c, err := DecodeCopies(good[:n])
		switch {
		case n < 8:
			if !errors.Is(err, format.ErrNotLockbox) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		case n < superSize:
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		default:
			whole := (n-superSize)/format.PageSize + 1
			if err != nil || c.Damaged() != copies-whole || c.AllEqual() != (whole == copies) {
				t.Fatalf("%d bytes: %+v, %v", n, c, err)
			}
		}
	}
	for what, b := range map[string][]byte{
		"nothing": nil, "zeros": make([]byte, 20000), "zip": append([]byte("PK\x03\x04"), make([]byte, 20000)...),
		"the magic elsewhere": append([]byte{0}, good...), "the magic's letters": append([]byte("LBX\r\n\x1a\n"), make([]byte, 20000)...),
	} {
		if _, err := DecodeCopies(b); !errors.Is(err, format.ErrNotLockbox) {
			t.Errorf("%s: %v", what, err)
		}
	}
	strip := bytes.Clone(good)
	for i := range strip {
		strip[i] &= 0x7f
	}
	unix := bytes.ReplaceAll(good, []byte("\r\n"), []byte("\n"))
	for what, b := range map[string][]byte{
		"CR LF to LF": unix, "LF to CR LF": bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")),
		"any to CR LF": bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")),
		"any to CR":    bytes.ReplaceAll(unix, []byte("\n"), []byte("\r")), "seven bits": strip,
	} {
		if _, err := DecodeCopies(b); !errors.Is(err, format.ErrCorrupt) || !strings.Contains(err.Error(), "text-mode") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzCopies reads whatever front it is given: a copy's 512 bytes at each place, the checksums made right
// where a bit of mend says so.
func FuzzCopies(f *testing.F) {
	s := goodSuper(6)
	pages := func(b []byte) []byte {
		var p []byte
		for i := range copies {
			off, _, _ := place(i)
			p = append(p, b[off:off+superSize]...)
		}
		return p
	}
	f.Add(pages(all(s)), byte(0))
	f.Add(pages(front(s, goodSuper(5), s, goodSuper(5))), byte(0))
	f.Add(pages(front(s, nil, with(s, func(s *Super) { s.End *= 2 }))), byte(0))
	f.Add(pages(later(all(s), false, 0, 2)), byte(0))
	f.Add(pages(all(s))[:700], byte(15))
	f.Fuzz(func(t *testing.T, in []byte, mend byte) {
		var b []byte
		for i := 0; i < copies && len(in) > 0; i++ {
			b = append(b, make([]byte, i*format.PageSize-len(b))...)
			n := min(superSize, len(in))
			b = append(b, in[:n]...)
			in = in[n:]
			if n == superSize && mend>>i&1 != 0 {
				reseal(b, i)
				_, b[len(b)-16], b[len(b)-15] = place(i)
			}
		}
		before := bytes.Clone(b)
		c, err := DecodeCopies(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if c != nil || !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrVersion) && !errors.Is(err, format.ErrNotLockbox) {
				t.Fatal(err)
			}
			return
		}
		// What is current can be written again, and then all four copies hold it.
		d := &disk{bytes.Clone(b)}
		for i := range copies {
			_, pair, cp := place(i)
			off := i * format.PageSize
			holds := off+superSummed <= len(b) && bytes.Equal(b[off:off+superSummed], c.Current.encode())
			if c.Holds(int(pair), int(cp)) && !holds {
				t.Fatalf("copy %d does not hold what is current", i)
			}
			if err := WriteCopy(d, c.Current, int(pair), int(cp)); err != nil {
				t.Fatal(err)
			}
		}
		again, err := ReadCopies(d)
		if err != nil || !again.AllEqual() || *again.Current != *c.Current || again.Damaged() != 0 {
			t.Fatalf("written again: %+v, %v", again, err)
		}
		if !again.Same(c.Written(c.Current, 0, 1)) {
			t.Fatal("after writing, the copies are not what Written says")
		}
		if s := c.Current; s.End > format.MaxLogicalEnd || s.CommitExtent().End() > s.End || s.CommitOff < format.DataStart || s.Generation == 0 {
			t.Fatalf("out of range: %+v", s)
		}
	})
}
