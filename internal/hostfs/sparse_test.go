package hostfs

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// layout answers as a system does of a file whose pages are there or not.
type layout []bool

const pageSize = 4096

func (l layout) next(at int64, data bool) (int64, error) {
	for i := int(at / pageSize); i < len(l); i++ {
		if l[i] == data {
			return max(at, int64(i)*pageSize), nil
		}
	}
	return math.MaxInt64, nil
}

func (l layout) seekData(at int64) (int64, error) { return l.next(at, true) }
func (l layout) seekHole(at int64) (int64, error) { return l.next(at, false) }

// A map has the shape that a record demands, covers all data, and is exact as long as it is not too long.
func TestMapHoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layout(rapid.SliceOfN(rapid.Bool(), 1, 60).Draw(t, "pages"))
		size := int64(len(l))*pageSize - rapid.Int64Range(0, pageSize-1).Draw(t, "short")
		most := rapid.IntRange(2, 80).Draw(t, "most")
		runs, err := mapHoles(size, l.seekData, l.seekHole, most)
		if err != nil {
			t.Fatal(err)
		}
		if runs == nil {
			if most == 80 && slices.Contains(l, false) {
				t.Fatalf("the holes of %v were not found", l)
			}
			return
		}
		if len(runs) > most {
			t.Fatalf("%d runs, %d are allowed", len(runs), most)
		}
		at := int64(0)
		for i, r := range runs {
			if r.Data < 0 || r.Hole < 0 || r.Data == 0 && i > 0 || r.Hole == 0 && (i == 0 || i < len(runs)-1) {
				t.Fatalf("run %d of %v", i, runs)
			}
			for p := (at + r.Data + pageSize - 1) / pageSize; p*pageSize < at+r.Data+r.Hole; p++ {
				if l[p] {
					t.Fatalf("page %d has data, but lies in a hole of %v", p, runs)
				}
			}
			if most == 80 {
				for p := at / pageSize; p*pageSize < at+r.Data; p++ {
					if !l[p] {
						t.Fatalf("page %d is a hole, but data in %v", p, runs)
					}
				}
			}
			at += r.Data + r.Hole
		}
		if at != size {
			t.Fatalf("%v has %d bytes, want %d", runs, at, size)
		}
	})
}

func TestMapHolesRefuses(t *testing.T) {
	ends := func(off int64) func(int64) (int64, error) { return func(int64) (int64, error) { return off, nil } }
	broken := errors.New("broken")
	fails := func(int64) (int64, error) { return 0, broken }
	for name, f := range map[string]struct{ data, hole func(int64) (int64, error) }{
		"no progress":        {ends(0), ends(0)},
		"a hole before data": {ends(8192), ends(4096)},
		"an empty hole":      {func(at int64) (int64, error) { return at, nil }, func(at int64) (int64, error) { return at + 1, nil }},
	} {
		if runs, err := mapHoles(1<<20, f.data, f.hole, 100); runs != nil || err != nil {
			t.Errorf("%s: %v, %v", name, runs, err)
		}
	}
	if _, err := mapHoles(1<<20, fails, fails, 100); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := mapHoles(1<<20, ends(4096), fails, 100); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// sparseFile makes a file of 1 MiB with data at both ends of a hole; where no hole comes of that the test is skipped.
func sparseFile(t *testing.T, name string) (data []byte) {
	t.Helper()
	data = bytes.Repeat([]byte("data"), 16<<10)
	f, err := os.Create(name)
	check(t, err)
	defer f.Close()
	for _, at := range []int64{0, 1<<20 - int64(len(data))} {
		_, err := f.WriteAt(data, at)
		check(t, err)
	}
	return append(slices.Clone(data), data...)
}

func TestSourceLeavesHolesOut(t *testing.T) {
	dir := t.TempDir()
	data := sparseFile(t, filepath.Join(dir, "f"))
	open := func(opt WalkOptions) *Source {
		items := walkAll(top(dir), opt)
		s, err := items[0].Open()
		check(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open(WalkOptions{})
	if s.Sparse == nil {
		t.Skip("files have no holes here")
	}
	if want := []Run{{64 << 10, 1<<20 - 128<<10}, {64 << 10, 0}}; !slices.Equal(s.Sparse, want) || s.DataSize() != 128<<10 {
		t.Fatalf("%v, want %v", s.Sparse, want)
	}
	got, err := io.ReadAll(s)
	check(t, err)
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes, and not the data", len(got))
	}
	check(t, s.Check())

	for name, opt := range map[string]WalkOptions{
		"no holes":  {NoHoles: true},
		"none fits": {FitSparse: func([]Run) []Run { return nil }},
	} {
		s := open(opt)
		got, err := io.ReadAll(s)
		check(t, err)
		if s.Sparse != nil || len(got) != 1<<20 || !bytes.Equal(got[1<<20-64<<10:], data[:64<<10]) {
			t.Errorf("%s: %v, %d bytes", name, s.Sparse, len(got))
		}
		check(t, s.Check())
	}

	s = open(WalkOptions{})
	check(t, os.Truncate(filepath.Join(dir, "f"), 1<<19))
	_, err = io.Copy(io.Discard, s)
	check(t, err)
	if err := s.Check(); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that was cut: %v", err)
	}
}

func TestOutputWithHoles(t *testing.T) {
	dir := t.TempDir()
	x, err := NewExtractor(dir, ExtractOptions{})
	check(t, err)
	defer x.Abort()
	m := Meta{Mode: 0o644, Size: 1 << 40, Sparse: []Run{{0, 1<<40 - 10}, {4, 6}}}
	for _, short := range []bool{true, false} {
		o, err := x.File(path(t, "f"), m)
		check(t, err)
		b := []byte("data")
		if short {
			b = b[:3]
		}
		_, err = o.WriteAt(b, 1<<40-10)
		check(t, err)
		if err := o.Commit(); (err != nil) != short {
			t.Fatalf("data is missing: %v, %v", short, err)
		}
	}
	f, err := os.Open(filepath.Join(dir, "f"))
	check(t, err)
	defer f.Close()
	fi, err := f.Stat()
	check(t, err)
	var tail [11]byte
	_, err = f.ReadAt(tail[:], 1<<40-11)
	check(t, err)
	if fi.Size() != 1<<40 || string(tail[:]) != "\x00data\x00\x00\x00\x00\x00\x00" {
		t.Errorf("%d bytes, %q", fi.Size(), tail)
	}
	o, err := x.File(path(t, "hole"), Meta{Mode: 0o644, Size: 5, Sparse: []Run{{0, 5}}})
	check(t, err)
	check(t, o.Commit())
	if b, err := os.ReadFile(filepath.Join(dir, "hole")); err != nil || string(b) != "\x00\x00\x00\x00\x00" {
		t.Errorf("%q, %v", b, err)
	}
}
