package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Attributes that are damaged do not cost what has them: it comes back without, for its owner alone, as an access control
// list may have been among them.
func TestDamagedAttributes(t *testing.T) {
	dir := t.TempDir()
	var tree bytes.Buffer
	tw := tar.NewWriter(&tree)
	sick := []string{"tree/d", "tree/d/f", "tree/large"}
	for _, name := range []string{"tree/d", "tree/d/f", "tree/d/sound", "tree/large"} {
		h := tar.Header{Name: name, Mode: 0o674, Typeflag: tar.TypeReg, PAXRecords: map[string]string{}}
		data := bytes.Repeat([]byte(name), 20_000)
		if name == "tree/d" {
			h.Mode, h.Typeflag, data = 0o775, tar.TypeDir, nil
		}
		h.Size = int64(len(data))
		if slices.Contains(sick, name) {
			h.PAXRecords["SCHILY.xattr.user.note"] = string(noise(40_000, name)) // more than a record has room for
		}
		err := tw.WriteHeader(&h)
		if err == nil {
			_, err = tw.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tree.tar"), tree.Bytes())
	mustRun(t, dir, "migrate", "tree.tar", "-o", "a.lbx")
	archive := filepath.Join(dir, "a.lbx")
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sick {
		at := bytes.Index(b, noise(40_000, name)[1000:1032])
		if at < 0 {
			t.Fatalf("the attribute of %s is not stored as it is", name)
		}
		b[at] ^= 1
	}
	write(t, archive, b)
	for _, more := range [][]string{nil, {"-j", "1"}, {"--resume"}, {"--overwrite"}} {
		out := "out"
		if len(more) == 2 {
			out = "out1"
		}
		code, _, errs := lockbox(t, dir, append([]string{"extract", "a.lbx", "-d", out}, more...)...)
		if code != 15 || strings.Count(errs, "was extracted, but without") != len(sick) {
			t.Errorf("%v: exit %d: %s", more, code, errs)
		}
		for name, perm := range map[string]os.FileMode{"tree/d": 0o700, "tree/d/f": 0o600, "tree/d/sound": 0o674, "tree/large": 0o600} {
			at := filepath.Join(dir, out, name)
			fi, err := os.Stat(at)
			if err != nil {
				t.Fatalf("%v: %v\n%s", more, err, errs)
			}
			if fi.Mode().Perm() != perm || len(xattrsOf(t, at)) > 0 {
				t.Errorf("%v: %s is %v with %v", more, name, fi.Mode(), xattrsOf(t, at))
			}
			if got, _ := os.ReadFile(at); !fi.IsDir() && !bytes.Equal(got, bytes.Repeat([]byte(name), 20_000)) {
				t.Errorf("%v: %s has other bytes", more, name)
			}
		}
	}
}
