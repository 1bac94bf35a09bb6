//go:build unix

package hostfs

import (
	"os"
	"path/filepath"
	"testing"
)

// What an earlier run, or the user, has left without leave to look in or to write is opened up for what is to be in it, and
// ends with the stored mode, or with its own where that is not restored.
func TestExistingDirectoriesWithTooLittle(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for _, mode := range []os.FileMode{0, 0o400, 0o600, 0o500} {
		for name, c := range map[string]struct {
			opt  ExtractOptions
			want os.FileMode
		}{
			"overwrite":                   {ExtractOptions{Overwrite: true}, 0o510},
			"overwrite, no permissions":   {ExtractOptions{Overwrite: true, NoPermissions: true}, mode},
			"resume":                      {ExtractOptions{Resume: true}, 0o510},
			"skip existing":               {ExtractOptions{SkipExisting: true}, mode},
			"skip existing, then nothing": {ExtractOptions{SkipExisting: true}, mode},
		} {
			dst := t.TempDir()
			for _, f := range []string{"d/e/in", "d/in"} {
				write(t, filepath.Join(dst, f), "x")
			}
			for _, d := range []string{"d/e", "d"} {
				check(t, os.Chmod(filepath.Join(dst, d), mode))
			}
			x, err := NewExtractor(dst, c.opt)
			check(t, err)
			err = x.Preflight(func(yield func(PreflightItem) bool) {
				_ = yield(PreflightItem{path(t, "d"), KindDir}) && yield(PreflightItem{path(t, "d/e"), KindDir}) &&
					yield(PreflightItem{path(t, "d/e/in"), KindFile}) && yield(PreflightItem{path(t, "d/in"), KindFile})
			})
			if err != nil {
				t.Errorf("%s, %v: %v", name, mode, err)
			}
			if there := x.Skipped(path(t, "d/e/in")) || x.Exists(path(t, "d/e/in")); there == c.opt.Overwrite {
				t.Errorf("%s, %v: what exists was found: %v", name, mode, there)
			}
			if name == "skip existing, then nothing" {
				x.Withdraw()
			} else {
				check(t, x.Mkdir(path(t, "d"), Meta{Mode: 0o510}, nil))
				check(t, x.Mkdir(path(t, "d/e"), Meta{Mode: 0o510}, nil))
				for _, f := range []string{"d/e/new", "d/new"} {
					check(t, x.WriteFile(path(t, f), Meta{Mode: 0o600}, []byte("x")))
				}
				check(t, x.Finish())
			}
			for _, d := range []string{"d", "d/e"} {
				fi, err := os.Lstat(filepath.Join(dst, d))
				check(t, err)
				if fi.Mode().Perm() != c.want {
					t.Errorf("%s, %v: %s is %v", name, mode, d, fi.Mode())
				}
				check(t, os.Chmod(filepath.Join(dst, d), 0o700))
			}
		}
	}
	// Without a word about existing files nothing is changed for their sake.
	dst := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dst, "d"), 0o500))
	x, err := NewExtractor(dst, ExtractOptions{})
	check(t, err)
	check(t, x.Preflight(func(yield func(PreflightItem) bool) { yield(PreflightItem{path(t, "d"), KindDir}) }))
	fi, err := os.Lstat(filepath.Join(dst, "d"))
	check(t, err)
	if fi.Mode().Perm() != 0o500 {
		t.Errorf("it is %v", fi.Mode())
	}
	x.Abort()
}
