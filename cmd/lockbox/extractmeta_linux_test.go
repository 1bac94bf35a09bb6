package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/hostfs"
)

// migrated makes a.lbx of a tar archive. describe may change what is said of an entry and returns its bytes; the name of a
// directory ends in a slash.
func migrated(t *testing.T, dir string, describe func(*tar.Header) []byte, names ...string) {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, name := range names {
		h := tar.Header{Name: strings.TrimSuffix(name, "/"), Mode: 0o674, Typeflag: tar.TypeReg, PAXRecords: map[string]string{}}
		if h.Name != name {
			h.Mode, h.Typeflag = 0o775, tar.TypeDir
		}
		data := describe(&h)
		h.Size = int64(len(data))
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
	write(t, filepath.Join(dir, "old.tar"), b.Bytes())
	mustRun(t, dir, "migrate", "old.tar", "-o", "a.lbx", "-q")
}

// Attributes that are damaged do not cost what has them: it comes back without, for its owner alone, as an access control
// list may have been among them.
func TestDamagedAttributes(t *testing.T) {
	dir := t.TempDir()
	sick := []string{"tree/d", "tree/d/f", "tree/large"}
	migrated(t, dir, func(h *tar.Header) (data []byte) {
		if slices.Contains(sick, h.Name) {
			h.PAXRecords["SCHILY.xattr.user.note"] = string(noise(40_000, h.Name)) // more than a record has room for
		}
		if h.Typeflag == tar.TypeDir {
			return nil
		}
		return bytes.Repeat([]byte(h.Name), 20_000)
	}, "tree/d/", "tree/d/f", "tree/d/sound", "tree/large")
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

// What belongs to a machine is not restored by design: that is a hint for all of it together and no fault.
func TestAttributesOfAMachine(t *testing.T) {
	dir := t.TempDir()
	migrated(t, dir, func(h *tar.Header) []byte {
		if h.Name != "d/plain" {
			h.PAXRecords["SCHILY.xattr.security.selinux"] = "system_u:object_r:etc_t:s0"
			h.PAXRecords["SCHILY.xattr.trusted.overlay.opaque"] = "y"
		}
		return nil
	}, "d/", "d/a", "d/b", "d/plain")
	code, _, errs := lockbox(t, dir, "extract", "a.lbx", "-d", "out")
	if code != 0 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "hint: ") || !strings.Contains(errs, "3 entries have some") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := lockbox(t, dir, "extract", "a.lbx", "-d", "quiet", "-q"); code != 0 || errs != "" {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// What was asked for and could not be restored is named for the first entries by path, whatever order it comes in; of the
// rest only the number is kept.
func TestManyLosses(t *testing.T) {
	for _, n := range []int{maxLost, maxLost + 1, 5000} {
		var errs bytes.Buffer
		a := newApp(system{stdout: io.Discard, stderr: &errs, getenv: func(string) string { return "" }})
		x, err := hostfs.NewExtractor(t.TempDir(), hostfs.ExtractOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Abort()
		w := written{x: x}
		w.init()
		for _, i := range rand.Perm(n) {
			w.lose(fmt.Sprintf("f%05d", i), fs.ErrPermission)
			if len(w.lost) > maxLost {
				t.Fatalf("%d are kept", len(w.lost))
			}
		}
		w.flush(a, "a.lbx")
		want := maxLost
		if n > maxLost {
			want++
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if len(lines) != want || !strings.Contains(lines[0], "f00000") || !strings.Contains(lines[maxLost-1], fmt.Sprintf("f%05d", maxLost-1)) {
			t.Errorf("of %d: %s", n, errs.String())
		}
		if n > maxLost && !strings.Contains(lines[maxLost], "warning: "+plural(uint64(n-maxLost), "more entry was", "more entries were")) {
			t.Errorf("of %d: %s", n, lines[maxLost])
		}
		if a.worst != exitSkipped {
			t.Errorf("exit %d", a.worst)
		}
	}
}

// A directory that is stored without leave for its owner to look in comes back so, and a second extraction gets on with it.
func TestExtractAgainIntoClosedDirectories(t *testing.T) {
	dir, run := asUser(t)
	modes := map[string]int64{"tree": 0o755, "tree/none": 0, "tree/none/deep": 0o600, "tree/list": 0o400, "tree/read": 0o555}
	migrated(t, dir, func(h *tar.Header) []byte {
		if mode, ok := modes[h.Name]; ok {
			h.Mode = mode
			return nil
		}
		return []byte(h.Name)
	}, "tree/", "tree/list/", "tree/list/in", "tree/none/", "tree/none/deep/", "tree/none/deep/in", "tree/none/in", "tree/read/", "tree/read/in")
	defer func() {
		for _, name := range slices.Sorted(maps.Keys(modes)) {
			_ = os.Chmod(filepath.Join(dir, "out", name), 0o755) // so that the directory of the test can be removed
		}
	}()
	for _, more := range []string{"-q", "--resume", "--overwrite", "--skip-existing", "--resume"} {
		if code, out := run("extract", "a.lbx", "-d", "out", more); code != 0 {
			t.Errorf("%s: exit %d: %s", more, code, out)
		}
		for _, name := range slices.Sorted(maps.Keys(modes)) {
			at := filepath.Join(dir, "out", name)
			fi, err := os.Lstat(at)
			if errors.Is(err, fs.ErrPermission) {
				continue // it lies in a closed one, and only root sees it
			}
			if err != nil || int64(fi.Mode().Perm()) != modes[name] {
				t.Errorf("%s: %s is %v, %v", more, name, fi, err)
			}
			if b, err := os.ReadFile(filepath.Join(at, "in")); name != "tree" && !errors.Is(err, fs.ErrPermission) && string(b) != name+"/in" {
				t.Errorf("%s: in %s is %q, %v", more, name, b, err)
			}
			// The next run finds something missing, as after an interrupt.
			if err := os.Remove(filepath.Join(at, "in")); err != nil && name != "tree" && !errors.Is(err, fs.ErrPermission) {
				t.Error(err)
			}
		}
	}
}
