package store

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// TestChildren holds listings of single directories against what the whole listing says.
func TestChildren(t *testing.T) {
	component := rapid.SampledFrom([]string{"a", "b", "a!", "a\x01", "a\xff", "ab", "\x01", "\xff"})
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 1, Options{Jobs: 1})
		w.create(CreateOptions{})
		files := map[string]bool{}
		for _, parts := range rapid.SliceOfN(rapid.SliceOfN(component, 1, 4), 0, 30).Draw(rt, "paths") {
			p := strings.Join(parts, "/")
			clash := false
			for other := range files {
				clash = clash || other == p || strings.HasPrefix(other, p+"/") || strings.HasPrefix(p, other+"/")
			}
			if !clash {
				files[p] = true
			}
		}
		want := map[string][]string{".": nil}
		put := map[string][]byte{}
		for _, f := range slices.Sorted(maps.Keys(files)) {
			put[f] = []byte{}
			for at := f; at != "."; at = path.Dir(at) {
				if dir := path.Dir(at); !slices.Contains(want[dir], path.Base(at)) {
					want[dir] = append(want[dir], path.Base(at))
				}
				if at != f && rapid.Bool().Draw(rt, "stored") {
					put[at] = nil
				}
			}
		}
		w.change(func(tx *Tx) { w.add(tx, put) })
		a, err := Open(ctx, name, w.opt)
		if err != nil {
			rt.Fatal(err)
		}
		defer a.Close()
		for dir, names := range want {
			slices.Sort(names)
			p := pathsafe.Path{}
			if dir != "." {
				p = mustPath(dir)
			}
			for i := range len(names) + 1 {
				after := ""
				if i > 0 {
					after = names[i-1]
				}
				var got []string
				for e, err := range a.Children(p, after) {
					if err != nil {
						rt.Fatal(err)
					}
					got = append(got, e.Path.Base())
					full := path.Join(dir, e.Path.Base())
					_, stored := put[full]
					if e.Path.String() != full || (e.Kind == index.Dir) == files[full] || (e.Mode != 0) != stored {
						rt.Fatalf("%q became %+v", full, e)
					}
				}
				if !slices.Equal(got, names[i:]) {
					rt.Fatalf("%q has after %q %q, should have %q", dir, after, got, names[i:])
				}
			}
		}
		for range a.Children(mustPath("nothing"), "") {
			rt.Fatal("a directory that is not there has something in it")
		}
	})
}
