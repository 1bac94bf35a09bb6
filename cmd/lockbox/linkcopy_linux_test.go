package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Where two names of a file lie on two file systems, each becomes a file, and that is said.
func TestLinksAcrossFileSystems(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("file systems can be mounted by root only")
	}
	dir := t.TempDir()
	for _, d := range []string{"tree/sub", "out/tree/sub"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tree/a"), noise(100_000, "links"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, l := range []string{"tree/b", "tree/sub/c", "tree/sub/d"} {
		if err := os.Link(filepath.Join(dir, "tree/a"), filepath.Join(dir, l)); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, dir, "add", "a.lbx", "tree")
	mnt := filepath.Join(dir, "out/tree/sub")
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "none", mnt).CombinedOutput(); err != nil {
		t.Skipf("tmpfs cannot be mounted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	code, _, errs := lockbox(t, dir, "extract", "a.lbx", "-d", "out")
	if code != 3 || !strings.Contains(errs, `2 files in "out" could not be made hard links and were written as copies`) {
		t.Errorf("exit %d: %s", code, errs)
	}
	var infos []os.FileInfo
	for _, f := range []string{"a", "b", "sub/c", "sub/d"} {
		name := filepath.Join(dir, "out/tree", f)
		b, err := os.ReadFile(name)
		if err != nil || string(b) != string(noise(100_000, "links")) {
			t.Errorf("%s: %d bytes, %v", f, len(b), err)
		}
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, fi)
	}
	if !os.SameFile(infos[0], infos[1]) || os.SameFile(infos[0], infos[2]) {
		t.Error("other links than could be made")
	}
}
