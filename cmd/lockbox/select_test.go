package main

import (
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// paths is a catalogue in memory, in ascending order.
type paths []pathsafe.Path

func (c paths) Get(p pathsafe.Path) (index.Entry, error) {
	if slices.Contains(c, p) {
		return index.Entry{Path: p, Kind: index.File}, nil
	}
	return index.Entry{}, fmt.Errorf("%s: %w", p, fs.ErrNotExist)
}

func (c paths) List(under pathsafe.Path) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		for _, p := range c {
			if (p == under || p.IsUnder(under)) && !yield(index.Entry{Path: p, Kind: index.File}, nil) {
				return
			}
		}
	}
}

func catalogueOf(t interface{ Fatal(...any) }, names ...string) paths {
	var c paths
	for _, n := range names {
		p, err := pathsafe.Parse(n)
		if err != nil {
			t.Fatal(err)
		}
		c = append(c, p)
	}
	slices.SortFunc(c, pathsafe.Path.Compare)
	return slices.Compact(c)
}

func chosen(t interface{ Fatal(...any) }, s *selection) []string {
	var names []string
	for e, err := range s.entries() {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Path.String())
	}
	return names
}

func TestSelection(t *testing.T) {
	c := catalogueOf(t, "a", "a/x.go", "a/sub/y.go", "a/sub/z.txt", "b/only-implied", "[q]", "q", "{p,q}", "c*d", "cxd", "e/\xff.bin")
	for _, k := range []struct {
		operands  string
		want      string
		unmatched string
	}{
		{"", "[q] a a/sub/y.go a/sub/z.txt a/x.go b/only-implied c*d cxd e/\xff.bin q {p,q}", ""},
		{"a", "a a/sub/y.go a/sub/z.txt a/x.go", ""},
		{"a/sub", "a/sub/y.go a/sub/z.txt", ""},
		{"/a/sub/ ./q", "a/sub/y.go a/sub/z.txt q", ""},
		{"b", "b/only-implied", ""},
		{"b*", "b/only-implied", ""},
		{"*.go", "", "*.go"},
		{"a/*.go", "a/x.go", ""},
		{"**/*.go", "a/sub/y.go a/x.go", ""},
		{"a/**/*.go", "a/sub/y.go a/x.go", ""},
		{"a/s*", "a/sub/y.go a/sub/z.txt", ""},
		{"[q]", "[q]", ""},
		{"[qr]", "q", ""},
		{"{p,q}", "{p,q}", ""},
		{"{p,q}*", "{p,q}", ""},
		{"c*d", "c*d", ""},
		{"c?d", "c*d cxd", ""},
		{`c\*?`, "c*d", ""},
		{"e/*.bin", "e/\xff.bin", ""},
		{"../a a/../q", "", "../a a/../q"},
		{"x q y* a/x.go", "a/x.go q", "x y*"},
		{". x", "[q] a a/sub/y.go a/sub/z.txt a/x.go b/only-implied c*d cxd e/\xff.bin q {p,q}", "x"},
		{". x*", "[q] a a/sub/y.go a/sub/z.txt a/x.go b/only-implied c*d cxd e/\xff.bin q {p,q}", "x*"},
		{"q q a/x.go a", "a a/sub/y.go a/sub/z.txt a/x.go q", ""},
	} {
		s, err := newSelection(c, strings.Fields(k.operands), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(chosen(t, s), " "); got != k.want {
			t.Errorf("%q: %q, want %q", k.operands, got, k.want)
		}
		if got := strings.Join(s.unmatched(), " "); got != k.unmatched {
			t.Errorf("%q: unmatched %q, want %q", k.operands, got, k.unmatched)
		}
	}
	if _, err := newSelection(c, []string{"x["}, false); codeOf(err) != exitUsage {
		t.Errorf("a malformed pattern: %v", err)
	}
	if s, err := newSelection(c, []string{"x[", "*.go"}, true); err != nil || len(s.unmatched()) != 2 {
		t.Errorf("literally: %v", err)
	}
}

// A pattern costs each directory once, not once for each entry in it: this tree would take hours otherwise.
func TestSelectionInDeepTree(t *testing.T) {
	deep := strings.Repeat("d/", 2000)
	var all []string
	for i := 2; i <= len(deep); i += 2 {
		all = append(all, deep[:i-1])
	}
	for i := range 2000 {
		dir := fmt.Sprintf("%ss%04d", deep, i)
		all = append(all, dir, dir+"/f.go", dir+"/f.txt")
	}
	s, err := newSelection(catalogueOf(t, all...), []string{"**/*.go", "**/s0007", "**/never/*"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(t, s); len(got) != 2002 {
		t.Errorf("%d entries are selected", len(got))
	}
	if got := s.unmatched(); !slices.Equal(got, []string{"**/never/*"}) {
		t.Errorf("unmatched %q", got)
	}
}

// The selection of any operands is what a plain reading of the rules gives.
func TestSelectionModel(t *testing.T) {
	component := rapid.StringMatching(`[ab*]{1,2}`)
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.Map(rapid.SliceOfN(component, 1, 3), func(c []string) string { return strings.Join(c, "/") })
		c := catalogueOf(t, rapid.SliceOfN(path, 1, 12).Draw(t, "stored")...)
		operands := rapid.SliceOfN(path, 1, 4).Draw(t, "operands")
		var want, missing []string
		match := func(op, name string) bool {
			literal := slices.ContainsFunc(c, func(p pathsafe.Path) bool {
				return p.String() == op || strings.HasPrefix(p.String(), op+"/")
			})
			for up := name; ; up = up[:strings.LastIndexByte(up, '/')] {
				if up == op {
					return true
				}
				if ok, _ := doublestar.Match(op, up); ok && !literal && strings.Contains(op, "*") {
					return true
				}
				if !strings.Contains(up, "/") {
					return false
				}
			}
		}
		for _, p := range c {
			if slices.ContainsFunc(operands, func(op string) bool { return match(op, p.String()) }) {
				want = append(want, p.String())
			}
		}
		for _, op := range operands {
			if !slices.ContainsFunc(c, func(p pathsafe.Path) bool { return match(op, p.String()) }) {
				missing = append(missing, op)
			}
		}
		s, err := newSelection(c, operands, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen(t, s); !slices.Equal(got, want) {
			t.Fatalf("%q of %v: %q, want %q", operands, c, got, want)
		}
		got := s.unmatched()
		slices.Sort(got)
		slices.Sort(missing)
		if !slices.Equal(got, missing) {
			t.Fatalf("%q of %v: unmatched %q, want %q", operands, c, got, missing)
		}
	})
}
