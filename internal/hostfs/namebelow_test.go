package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lockbox/internal/pathsafe"
)

// A directory somewhere in the destination takes names for one, the destination itself does not: what would collide there
// is found before anything is written, and can be renamed.
func TestDirectoriesWithRulesOfTheirOwn(t *testing.T) {
	dest := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dest, "up", "folding", "deep"), 0o755))
	check(t, os.Mkdir(filepath.Join(dest, "plain"), 0o755))
	folding, err := os.Stat(filepath.Join(dest, "up", "folding"))
	check(t, err)
	want := metaOf(folding)
	looked := 0
	was := foldsItself
	defer func() { foldsItself = was }()
	foldsItself = func(d *dir) bool {
		looked++
		m, err := d.meta()
		return err == nil && m.sameObject(&want) && want.Ino != 0
	}
	if want.Ino == 0 {
		t.Skip("directories have no numbers here")
	}
	for _, c := range []struct {
		name   string
		paths  []string
		looked int
		fails  bool
	}{
		{"what collides there", []string{"plain/x", "up/folding/A", "up/folding/a"}, 3, true},
		{"directories that would become one", []string{"up/folding/D/x", "up/folding/d/y"}, 2, true},
		{"below it", []string{"up/folding/deep/new/A", "up/folding/deep/new/a"}, 3, true},
		{"nothing goes there", []string{"plain/A", "plain/a", "up/A", "up/a"}, 2, false},
		{"nothing is there yet", []string{"new/folding/A", "new/folding/a"}, 0, false},
		{"nothing collides", []string{"up/folding/A", "up/folding/b"}, 2, false},
	} {
		var paths []pathsafe.Path
		for _, p := range c.paths {
			paths = append(paths, path(t, p))
		}
		all := func(yield func(pathsafe.Path, error) bool) {
			for _, p := range paths {
				if !yield(p, nil) {
					return
				}
			}
		}
		for _, rename := range []bool{false, true} {
			x, err := NewExtractor(dest, ExtractOptions{Overwrite: true})
			check(t, err)
			looked = 0
			n, err := x.CheckNames(all, false, rename)
			if errors.Is(err, ErrNames) != (c.fails && !rename) || err != nil && !errors.Is(err, ErrNames) {
				t.Errorf("%s: %v", c.name, err)
			}
			if looked != c.looked {
				t.Errorf("%s: %d directories were looked at", c.name, looked)
			}
			if rename {
				var places []string
				for _, p := range paths {
					to, err := n.Path(p)
					check(t, err)
					places = append(places, n.Key(to.String()))
				}
				slices.Sort(places)
				if len(slices.Compact(places)) != len(paths) {
					t.Errorf("%s: two paths go to one place", c.name)
				}
			}
			x.Abort()
			noTemps(t, dest)
		}
	}
}

func TestRulesAddUp(t *testing.T) {
	r := NameRules{Longest: 255, Units: true, Refused: ":"}
	r.add(&NameRules{FoldCase: true, Trailing: true, Refused: "?:", Longest: 143})
	if want := (NameRules{FoldCase: true, Trailing: true, Refused: ":?", Longest: 143}); r != want {
		t.Errorf("%+v", r)
	}
	r = NameRules{}
	r.add(&windowsNames)
	if r.problem("CON") == "" || r.problem("a\x01") == "" || r.problem("\xff") == "" || !r.folds() || r.Longest != 255 {
		t.Errorf("%+v", r)
	}
}
