package format

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestExtent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		extent := rapid.Custom(func(t *rapid.T) Extent {
			return Extent{Off: rapid.Int64Range(0, 12).Draw(t, "off"), Len: rapid.Int64Range(1, 6).Draw(t, "len")}
		})
		a, b := extent.Draw(t, "a"), extent.Draw(t, "b")
		shared := false
		for x := a.Off; x < a.End(); x++ {
			shared = shared || x >= b.Off && x < b.Off+b.Len
		}
		if a.Overlaps(b) != shared || b.Overlaps(a) != shared {
			t.Fatalf("%v and %v: overlap %v, %v", a, b, a.Overlaps(b), b.Overlaps(a))
		}
	})
	last := Extent{Off: MaxLogicalEnd - 512, Len: 512}
	if last.End() != MaxLogicalEnd || last.Overlaps(Extent{Off: MaxLogicalEnd, Len: 512}) || !last.Overlaps(Extent{Off: 0, Len: MaxLogicalEnd}) {
		t.Error("sums at the end of what an archive can be")
	}
}

func TestAlign(t *testing.T) {
	for n := range int64(9000) {
		for _, sector := range []int64{512, 4096} {
			if got := AlignUp(n, sector); got < n || got-n >= sector || got%sector != 0 {
				t.Fatalf("%d in sectors of %d ends at %d", n, sector, got)
			}
		}
	}
	for n := int64(-1); n < 10000; n++ {
		if SectorOK(n) != (n == 512 || n == 4096) {
			t.Fatalf("a sector of %d bytes", n)
		}
	}
}

// The sums of the front and of the bounds, which other packages rely on.
func TestLimits(t *testing.T) {
	if CopiesSize != 16384 || CleanMarkOff != 16384 || DataStart != 20480 || DataStart%PageSize != 0 {
		t.Errorf("front: copies to %d, mark at %d, extents from %d", CopiesSize, CleanMarkOff, DataStart)
	}
	if MaxLogicalEnd != 72057594037927936 || MaxLogicalEnd+MaxFileSize < 0 || MaxLogicalEnd%PageSize != 0 {
		t.Error("sums of offsets do not stay inside an int64")
	}
	// A value has to fit into a node beside its key; a set into the commit block.
	if MaxKey+MaxValue+64 > MaxNode || 2*40*MaxSetExtents+4096 > MaxCommitBlock {
		t.Error("a bound that cannot be reached")
	}
}

func TestErrors(t *testing.T) {
	cause := &Error{Kind: ErrVersion, Offset: -1}
	for want, err := range map[string]error{
		"damaged: node at offset 512: 3 items":         Corrupt("node", 512, "%d items", 3),
		"damaged: node: cut short":                     Corrupt("node", -1, "cut short"),
		"unsupported format version":                   cause,
		"damaged: frame 3 at offset 0 of \"a\\nb\": x": &Error{Kind: ErrCorrupt, Record: "frame 3", Entry: "a\nb", Detail: "x"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err.Error(), want)
		}
	}
	kinds := []error{ErrCorrupt, ErrAuth, ErrNotLockbox, ErrVersion, ErrBusy, ErrPoisoned, ErrChanged}
	for i, k := range kinds {
		err := fmt.Errorf("around: %w", &Error{Kind: k, Offset: -1})
		for j, other := range kinds {
			if errors.Is(err, other) != (i == j) {
				t.Errorf("%v is %v: %v", k, other, i != j)
			}
		}
		var where *Error
		if !errors.As(err, &where) || where.Kind != k {
			t.Errorf("%v: no place in %v", k, err)
		}
	}
	if err := Corrupt("r", 7, "x"); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	if s := (ID{0: 1, 15: 0xfe}).String(); s != "01"+strings.Repeat("00", 14)+"fe" {
		t.Error(s)
	}
	if s := (Digest{0: 0xab, 31: 2}).String(); s != "ab"+strings.Repeat("00", 30)+"02" {
		t.Error(s)
	}
	seen := map[string]bool{}
	for s := range Suite(5) {
		seen[s.String()] = true
	}
	if len(seen) != 5 || !seen["none"] || SuiteBoth.String() != "signed+encrypted" {
		t.Errorf("suites: %v", seen)
	}
}
