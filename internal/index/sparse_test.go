package index

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sparseLen(runs []SparseRun) (n int) {
	for _, r := range runs {
		n += r.encodedLen()
	}
	return n
}

// What FitSparse makes is a map that a record may have, of the same length, with as few holes filled as will do, and
// those the smallest.
func TestFitSparse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []SparseRun
		var size, holes int64
		for range rapid.IntRange(0, 60).Draw(t, "runs") {
			r := SparseRun{rapid.Int64Range(0, 1<<rapid.IntRange(1, 40).Draw(t, "bits")).Draw(t, "data"), rapid.Int64Range(0, 300).Draw(t, "hole")}
			runs = append(runs, r)
			size, holes = size+r.Data+r.Hole, holes+r.Hole
		}
		given := slices.Clone(runs)
		most := rapid.IntRange(0, 200).Draw(t, "most")
		all, got := FitSparse(runs, MaxSparse), FitSparse(runs, most)
		if !slices.Equal(runs, given) {
			t.Fatal("it has changed what it was given")
		}
		for _, m := range [][]SparseRun{all, got} {
			e := Entry{Path: mustPath("f"), Kind: File, Size: size, Sparse: m}
			if e.DataSize() > 0 {
				e.Content = 1
			}
			if err := e.Check(); err != nil {
				t.Fatalf("%v: %v", m, err)
			}
		}
		if (all == nil) != (holes == 0) || all != nil && size-holes != (&Entry{Size: size, Sparse: all}).DataSize() {
			t.Fatalf("%v of %v", all, runs)
		}
		if sparseLen(got) > most {
			t.Fatalf("%d bytes, at most %d", sparseLen(got), most)
		}
		// The holes that are left are the largest, and one more would not fit.
		left := holesOf(got)
		var filled []span
		for _, h := range holesOf(all) {
			if !slices.Contains(left, h) {
				filled = append(filled, h)
			}
		}
		if len(left)+len(filled) != len(holesOf(all)) {
			t.Fatal("a hole that was none")
		}
		if len(filled) == 0 {
			return
		}
		last := slices.MaxFunc(filled, bySize)
		if len(left) > 0 && bySize(slices.MinFunc(left, bySize), last) < 0 {
			t.Fatalf("%v is filled, a smaller hole is not: %v", last, left)
		}
		if more := withHoles(size, append(slices.Clone(left), last)); sparseLen(more) <= most {
			t.Fatalf("%v fits, and has one hole more than %v", more, got)
		}
	})
}

// span is a hole.
type span struct{ off, n int64 }

func bySize(a, b span) int {
	switch {
	case a.n != b.n:
		return int(a.n - b.n)
	case a.off < b.off:
		return -1
	}
	return 1
}

func holesOf(runs []SparseRun) (holes []span) {
	off := int64(0)
	for _, r := range runs {
		if off += r.Data; r.Hole > 0 {
			holes = append(holes, span{off, r.Hole})
		}
		off += r.Hole
	}
	return holes
}

func withHoles(size int64, holes []span) (runs []SparseRun) {
	slices.SortFunc(holes, func(a, b span) int { return int(a.off - b.off) })
	off := int64(0)
	for _, h := range holes {
		runs = append(runs, SparseRun{h.off - off, h.n})
		off = h.off + h.n
	}
	if off < size {
		runs = append(runs, SparseRun{Data: size - off})
	}
	return runs
}

// A map of a million holes fits, and quickly.
func TestFitManyHoles(t *testing.T) {
	runs := make([]SparseRun, 1_000_000)
	size := int64(0)
	for i := range runs {
		runs[i] = SparseRun{4096, 4096 * int64(1+i%1000)}
		size += runs[i].Data + runs[i].Hole
	}
	e := Entry{Path: mustPath("f"), Kind: File, Size: size, Sparse: FitSparse(runs, MaxSparse), Content: 1}
	if err := e.Check(); err != nil || sparseLen(e.Sparse) < MaxSparse-20 {
		t.Fatalf("%d runs with %d bytes: %v", len(e.Sparse), sparseLen(e.Sparse), err)
	}
	for i := range runs {
		runs[i].Hole = 4096 // all equal: the first go
	}
	if got := FitSparse(runs, MaxSparse); len(got) < 1000 || got[0].Data < 1<<32 || got[1].Data != 4096 {
		t.Fatalf("%d runs, %v", len(got), got[:2])
	}
	if err := (&Entry{Path: mustPath("f"), Kind: File, Size: 8192 * 1_000_000, Sparse: runs, Content: 1}).Check(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a map of %d bytes: %v", sparseLen(runs), err)
	}
}

// Sets of extended attributes come back, and what does not come back is refused.
func FuzzXattrs(f *testing.F) {
	f.Add(AppendXattrs(nil, []Xattr{{"user.a", []byte("1")}, {"user.b", nil}}))
	f.Add([]byte{1, 'a', 0, 1, 'a', 0})
	f.Add([]byte{0, 0})
	f.Add([]byte{1, 'a', 0x80, 0})
	f.Add([]byte{2, 'a', 0, 0})
	f.Add([]byte{1, 'a', 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		xs, err := DecodeXattrs(b)
		if err != nil {
			return
		}
		if err := CheckXattrs(xs); err != nil {
			t.Fatal(err)
		}
		if got := AppendXattrs(nil, xs); string(got) != string(b) || XattrsSize(xs) != len(b) {
			t.Fatalf("%x becomes %x", b, got)
		}
	})
}

func TestXattrsLimits(t *testing.T) {
	whole := []Xattr{{"a", make([]byte, MaxXattrsContent-5)}}
	if xs, err := DecodeXattrs(AppendXattrs(nil, whole)); err != nil || len(xs) != 1 {
		t.Errorf("a set of %d bytes: %v", XattrsSize(whole), err)
	}
	for what, xs := range map[string][]Xattr{
		"too many bytes": {{"a", make([]byte, MaxXattrsContent-4)}},
		"order":          {{"b", nil}, {"a", nil}},
		"twice":          {{"a", nil}, {"a", nil}},
		"no name":        {{"", nil}},
		"zero byte":      {{"a\x00", nil}},
	} {
		if err := CheckXattrs(xs); err == nil {
			t.Errorf("%s: checked", what)
		}
		if _, err := DecodeXattrs(AppendXattrs(nil, xs)); err == nil {
			t.Errorf("%s: decoded", what)
		}
	}
}
