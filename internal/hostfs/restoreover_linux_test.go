package hostfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What existed before ends with the stored attributes and no others, also where its mode lets nobody write; what has them
// already is not opened for that.
func TestAttributesOfWhatExisted(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for name, opt := range map[string]ExtractOptions{
		"modes restored":     {Resume: true},
		"modes not restored": {Resume: true, NoPermissions: true},
	} {
		dir := t.TempDir()
		set := func(name string, xs ...string) {
			for _, x := range xs {
				if err := unix.Setxattr(filepath.Join(dir, name), x, []byte("v"), 0); err != nil {
					t.Skip("no extended attributes here")
				}
			}
		}
		for _, f := range []string{"equal", "more", "less", "d/x"} {
			write(t, filepath.Join(dir, f), "x")
		}
		set("equal", "user.a", "user.b")
		set("more", "user.0", "user.a", "user.b", "user.c")
		set("less", "user.a")
		set("d", "user.0", "user.a")
		for _, f := range []string{"equal", "more", "less"} {
			check(t, os.Chmod(filepath.Join(dir, f), 0o444))
		}
		x, lost := lossy(t, dir, opt)
		m := Meta{Kind: KindFile, Mode: 0o444, Xattrs: []Xattr{{"user.a", []byte("v")}, {"user.b", []byte("v")}}}
		for _, f := range []string{"equal", "more", "less"} {
			now, err := x.DescribeExisting(path(t, f))
			check(t, err)
			x.Keep(path(t, f), now)
			check(t, x.Restore(path(t, f), m))
		}
		m.Mode = 0o555
		check(t, x.Mkdir(path(t, "d"), m, nil))
		check(t, x.Finish())
		for _, f := range []string{"equal", "more", "less", "d"} {
			got := listXattrs(t, filepath.Join(dir, f))
			slices.Sort(got)
			if !slices.Equal(got, []string{"user.a", "user.b"}) || lost[f] != nil {
				t.Errorf("%s, %s: %q, %v", name, f, got, lost[f])
			}
			fi, err := os.Lstat(filepath.Join(dir, f))
			check(t, err)
			if !fi.IsDir() && fi.Mode().Perm() != 0o444 {
				t.Errorf("%s, %s: it is %v", name, f, fi.Mode())
			}
		}
		check(t, os.Chmod(filepath.Join(dir, "d"), 0o755))
	}
}
