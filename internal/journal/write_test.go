package journal

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/seal"

	"pgregory.net/rapid"
)

var errDisk = errors.New("the disk is broken")

// broken fails every read and write, after n bytes.
type broken struct{ n int }

func (d broken) ReadAt(p []byte, _ int64) (int, error)  { return min(d.n, len(p)-1), errDisk }
func (d broken) WriteAt(p []byte, _ int64) (int, error) { return min(d.n, len(p)-1), errDisk }

func TestWriteCopy(t *testing.T) {
	s := goodSuper(6)
	for i := range copies {
		off, pair, cp := place(i)
		d := &disk{bytes.Repeat([]byte{0xEE}, format.DataStart)}
		if err := WriteCopy(d, s, int(pair), int(cp)); err != nil {
			t.Fatal(err)
		}
		if off != []int64{0, 4096, 8192, 12288}[i] || pair != "\x00\x01\x00\x01"[i] || cp != "\x00\x00\x01\x01"[i] {
			t.Errorf("copy %d is copy %d of pair %d at %d", i, cp, pair, off)
		}
		for k, b := range d.b {
			inside := int64(k) >= off && int64(k) < off+superSize
			if !inside && b != 0xEE {
				t.Fatalf("writing copy %d touches byte %d", i, k)
			}
		}
		if !validCopy(d.b[off:off+superSize], i) {
			t.Errorf("copy %d is not valid", i)
		}
	}
	for g, want := range map[uint64]int{1: 1, 2: 0, 3: 1, 1<<64 - 1: 1} {
		if Pair(g) != want {
			t.Errorf("generation %d is published into pair %d", g, Pair(g))
		}
	}
}

// Written says what reading gives: whatever is written and rots, in whatever order.
func TestWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := goodSuper(4)
		d := &disk{all(s)}
		c, err := ReadCopies(d)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"publish", "mirror", "rot"}).Draw(t, "step") {
			case "publish":
				s = goodSuper(s.Generation + 1)
				c = write(t, d, c, s, Pair(s.Generation))
			case "mirror":
				c = write(t, d, c, s, 1-Pair(s.Generation))
			case "rot":
				// Whoever finds a bad copy reads them all again.
				b := d.b[rapid.IntRange(0, 3).Draw(t, "copy")*format.PageSize:]
				b[200] ^= 1
				again, err := ReadCopies(d)
				if err != nil || again.Current.Generation != s.Generation {
					b[200] ^= 1
					continue
				}
				c = again
			}
			got, err := ReadCopies(d)
			if err != nil || !got.Same(c) || !c.Same(got) || *got.Current != *s {
				t.Fatalf("generation %d: read %+v, expected %+v: %v", s.Generation, got, c, err)
			}
		}
	})
}

func write(t *rapid.T, d *disk, c *Copies, s *Super, pair int) *Copies {
	for n := range 2 {
		if err := WriteCopy(d, s, pair, n); err != nil {
			t.Fatal(err)
		}
	}
	return c.Written(s, pair)
}

// Same notices every difference that a writer has to notice.
func TestSame(t *testing.T) {
	s := goodSuper(6)
	base, err := DecodeCopies(all(s))
	if err != nil {
		t.Fatal(err)
	}
	rotted := all(s)
	rotted[100] ^= 1
	for name, b := range map[string][]byte{
		"a newer state": front(goodSuper(7), s, s, s), "one copy bad": rotted, "another state": all(goodSuper(8)),
		"another attempt": all(with(s, func(s *Super) { s.Attempt[9]++ })), "one copy older": front(s, s, s, goodSuper(5)),
	} {
		c, err := DecodeCopies(b)
		if err != nil || c.Same(base) || base.Same(c) {
			t.Errorf("%s is the same: %v", name, err)
		}
	}
	if again, err := DecodeCopies(all(s)); err != nil || !again.Same(base) {
		t.Error("the same bytes are not the same")
	}
}

func TestReadCopies(t *testing.T) {
	if _, err := ReadCopies(broken{100}); !errors.Is(err, errDisk) || errors.Is(err, format.ErrCorrupt) {
		t.Errorf("a failed read: %v", err)
	}
	if _, err := ReadCopies(&disk{}); !errors.Is(err, format.ErrNotLockbox) {
		t.Errorf("an empty file: %v", err)
	}
	if c, err := ReadCopies(&disk{all(goodSuper(3))[:5000]}); err != nil || c.Damaged() != 2 {
		t.Errorf("a short file: %v", err)
	}
	if err := WriteCopy(broken{}, goodSuper(3), 0, 0); !errors.Is(err, errDisk) {
		t.Errorf("a failed write: %v", err)
	}
}

// Whatever happens between two readings, Moved says so when a generation was published, and says no when nothing
// was written.
func TestMoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := goodSuper(uint64(rapid.IntRange(2, 9).Draw(t, "generation")))
		d := &disk{all(s)}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 3).Draw(t, "rotten") {
			d.b[i*format.PageSize+rapid.SampledFrom([]int{0, 8, 200, 500}).Draw(t, "byte")] ^= 1
		}
		c, err := ReadCopies(d)
		if err != nil {
			t.Skip("nothing left to read")
		}
		moved := func(d io.ReaderAt) bool {
			ok, err := c.Moved(d)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if moved(d) {
			t.Fatal("moved, and nothing was written")
		}
		if _, err := c.Moved(broken{100}); !errors.Is(err, errDisk) {
			t.Fatalf("a failed read: %v", err)
		}
		if !moved(&disk{d.b[:100]}) {
			t.Fatal("a file cut short has not moved")
		}
		for range rapid.IntRange(1, 3).Draw(t, "commits") {
			s = goodSuper(s.Generation + 1)
			for n := range rapid.IntRange(1, 2).Draw(t, "copies") { // a writer may have been killed after the first
				if err := WriteCopy(d, s, Pair(s.Generation), n); err != nil {
					t.Fatal(err)
				}
			}
			if !moved(d) {
				t.Fatalf("not moved, at generation %d", s.Generation)
			}
		}
	})
	if moved, err := (&Copies{}).Written(goodSuper(6), 0, 1).Moved(&disk{all(goodSuper(6))}); err != nil || !moved {
		t.Errorf("copies that were not read have not moved: %v", err)
	}
}

func TestMark(t *testing.T) {
	s := goodSuper(6)
	marked := func(d io.ReaderAt, s *Super) bool {
		t.Helper()
		ok, err := Marked(d, s)
		if err != nil {
			t.Fatal(err)
		}
		// Reading the copies says the same of the state that they hold.
		if c, err := ReadCopies(d); err == nil && *c.Current == *s && c.Marked() != ok {
			t.Errorf("marked: %v, with the copies %v", ok, c.Marked())
		}
		return ok
	}
	d := &disk{append(all(s), bytes.Repeat([]byte{0xEE}, 8192)...)}
	clear(d.b[format.CleanMarkOff+superSize : format.DataStart])
	if marked(d, s) {
		t.Fatal("marked by bytes that nobody wrote")
	}
	if err := WriteMark(d, s); err != nil {
		t.Fatal(err)
	}
	if !marked(d, s) || !bytes.Equal(d.b[:format.CleanMarkOff], all(s)) || d.b[format.DataStart] != 0xEE {
		t.Fatal("the mark is not what and where it should be")
	}
	for _, other := range []*Super{goodSuper(7), goodSuper(5), with(s, func(s *Super) { s.Attempt[15]++ }), with(s, func(s *Super) { s.PrevRoot[31]++ })} {
		if marked(d, other) {
			t.Errorf("the mark names another state, of generation %d", other.Generation)
		}
	}
	for k := range superSize {
		d.b[format.CleanMarkOff+k] ^= 0x80
		if marked(d, s) {
			t.Errorf("marked with byte %d flipped", k)
		}
		d.b[format.CleanMarkOff+k] ^= 0x80
	}
	for n := format.CleanMarkOff - 1; n < format.CleanMarkOff+superSize; n += 171 {
		if marked(&disk{d.b[:n]}, s) {
			t.Errorf("marked in a file of %d bytes", n)
		}
	}
	if err := ClearMark(d); err != nil || marked(d, s) {
		t.Errorf("marked after the mark was taken back: %v", err)
	}
	if _, err := Marked(broken{10}, s); !errors.Is(err, errDisk) {
		t.Errorf("a failed read: %v", err)
	}
	if err := errors.Join(WriteMark(broken{}, s), ClearMark(broken{})); !errors.Is(err, errDisk) {
		t.Error(err)
	}
}

func TestReadCommit(t *testing.T) {
	m := goodCommit()
	b := m.Encode(6)
	s := super(b, goodSuper(6))
	d := &disk{}
	if _, err := d.WriteAt(b, s.CommitOff); err != nil {
		t.Fatal(err)
	}
	got, raw, err := ReadCommit(d, s, seal.New())
	if err != nil || !same(got, m) || !bytes.Equal(raw, b) {
		t.Fatalf("%+v, %v", got, err)
	}
	if e := s.CommitExtent(); e.Off != s.CommitOff || e.Len != 1024 || len(b) > 1024 || len(b) <= 512 {
		t.Errorf("a block of %d bytes at %+v", len(b), e)
	}
	for k := range b {
		d.b[int(s.CommitOff)+k] ^= 4
		if _, _, err := ReadCommit(d, s, seal.New()); !errors.Is(err, format.ErrCorrupt) {
			t.Fatalf("byte %d flipped: %v", k, err)
		}
		d.b[int(s.CommitOff)+k] ^= 4
	}
	for _, n := range []int64{0, 100, s.CommitOff, s.CommitOff + 5, s.CommitOff + int64(len(b)) - 1} {
		if _, _, err := ReadCommit(&disk{d.b[:n]}, s, seal.New()); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("a file of %d bytes: %v", n, err)
		}
	}
	if _, _, err := ReadCommit(broken{20}, s, seal.New()); !errors.Is(err, errDisk) || errors.Is(err, format.ErrCorrupt) {
		t.Errorf("a failed read: %v", err)
	}
	// A block that was replaced by a good one of another generation, or of another content.
	for what, o := range map[string]*Super{
		"cut":                with(s, func(s *Super) { s.CommitLen-- }),
		"elsewhere":          with(s, func(s *Super) { s.CommitOff -= 512 }),
		"another generation": with(s, func(s *Super) { s.Generation++ }),
	} {
		if _, _, err := ReadCommit(d, o, seal.New()); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
