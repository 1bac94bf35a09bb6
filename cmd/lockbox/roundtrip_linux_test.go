//go:build linux && !hostfs_portable

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// roundTrip stores a random tree, extracts it, and compares the two with a checker that has nothing of the program.
func roundTrip(t *testing.T, dir string, seed uint64) {
	t.Helper()
	g := newGrower(t, seed, dir)
	src := filepath.Join(dir, "src")
	g.tree(src)
	t.Cleanup(func() { openUp(dir) })
	want := snapshot(t, src)
	mustRun(t, dir, "add", "a.lbx", "src")
	if out := mustRun(t, dir, "add", "a.lbx", "src"); !strings.HasPrefix(out, "unchanged: ") {
		t.Errorf("adding the tree again: %s", out)
	}
	mustRun(t, dir, "verify", "--full", "a.lbx")
	compareSnapshots(t, "the tree itself", want, snapshot(t, src))
	flags := []string{"--keep-setid", "--devices"}
	if g.root {
		flags = append(flags, "--same-owner")
	}
	mustRun(t, dir, append([]string{"extract", "a.lbx", "-d", "out"}, flags...)...)
	compareSnapshots(t, "extracted", want, snapshot(t, filepath.Join(dir, "out", "src")))
	mustRun(t, dir, append([]string{"extract", "a.lbx", "-d", "out", "--overwrite", "-j1"}, flags...)...)
	compareSnapshots(t, "extracted over itself", want, snapshot(t, filepath.Join(dir, "out", "src")))
	if !g.attrs {
		return
	}
	// What a directory gives to all that is made in it is not to be seen on what had no such list.
	inherit := filepath.Join(dir, "inherit")
	g.check(os.Mkdir(inherit, 0o755))
	g.check(unix.Setxattr(inherit, "system.posix_acl_default", accessList(4321, 7, 7, 7, 7), 0))
	mustRun(t, dir, append([]string{"extract", "a.lbx", "-d", "inherit"}, flags...)...)
	compareSnapshots(t, "extracted where lists are inherited", want, snapshot(t, filepath.Join(inherit, "src")))
}

// openUp lets the clean-up remove what is in a tree.
func openUp(dir string) {
	_ = filepath.WalkDir(dir, func(p string, e os.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			return os.Chmod(p, 0o755)
		}
		return nil
	})
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { roundTrip(t, t.TempDir(), seed) })
	}
}

// TestRoundTripAsUser is for an ordinary user, whom modes bind; root becomes one.
func TestRoundTripAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { roundTrip(t, t.TempDir(), 100+seed) })
		}
		return
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("root, and no way to run as somebody else")
	}
	tmp := filepath.Join(dir, "tmp")
	for _, err := range []error{
		os.WriteFile(exe, self, 0o755), os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("as an ordinary user: %v\n%s", err, out)
	}
}

// mountNew makes a file system of a kind and mounts it for the test, which is skipped where that cannot be done.
func mountNew(t *testing.T, kind, mnt string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("file systems can be mounted by root only")
	}
	mount := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "none", mnt)
	if kind != "tmpfs" {
		mkfs, err := exec.LookPath("mkfs." + kind)
		if err != nil {
			t.Skipf("no mkfs.%s here", kind)
		}
		img := filepath.Join(t.TempDir(), "img")
		f, err := os.Create(img)
		if err == nil {
			err = errors.Join(f.Truncate(320<<20), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(mkfs, "-q", img).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", mkfs, err, out)
		}
		mount = exec.Command("mount", "-t", kind, "-o", "loop", img, mnt)
	}
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("%s cannot be mounted here: %v %s", kind, err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
}

func TestRoundTripFileSystems(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			mnt := t.TempDir()
			mountNew(t, kind, mnt)
			for seed := range uint64(2) {
				sub := filepath.Join(mnt, fmt.Sprint(seed))
				if err := os.Mkdir(sub, 0o755); err != nil {
					t.Fatal(err)
				}
				roundTrip(t, sub, 200+seed)
			}
		})
	}
}

// A file has more attributes than an archive takes: it is stored with those that fit, and that is said.
func TestTooManyXattrs(t *testing.T) {
	dir := t.TempDir()
	mountNew(t, "xfs", dir)
	for _, name := range []string{"file", "dir"} {
		name = filepath.Join(dir, name)
		err := os.Mkdir(name, 0o755)
		if filepath.Base(name) == "file" {
			err = errors.Join(os.Remove(name), os.WriteFile(name, []byte("bytes"), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
		// Names and values come to the bound exactly, and the archive needs some bytes more.
		const most = 1 << 20
		for total := 0; total < most; {
			attr := fmt.Sprintf("user.%08d", total)
			size := min(60_000, most-total-len(attr))
			if err := unix.Setxattr(name, attr, noise(size, name), 0); err != nil {
				t.Fatal(err)
			}
			total += len(attr) + size
		}
	}
	code, out, errs := lockbox(t, dir, "add", "a.lbx", "file", "dir", "--json")
	for _, name := range []string{"file", "dir"} {
		if !strings.Contains(errs, fmt.Sprintf("not all extended attributes of %q were stored: its extended attributes take more than 1048576 bytes", name)) ||
			!strings.Contains(out, fmt.Sprintf(`{"path":%q,"action":"added","incomplete":true}`, name)) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
	if got := mustRun(t, dir, "cat", "a.lbx", "file"); code != 3 || got != "bytes" {
		t.Errorf("exit %d, %q", code, got)
	}
	if got := strings.Count(mustRun(t, dir, "list", "--json", "a.lbx"), `"user.`); got != 2*17 {
		t.Errorf("%d attributes are stored", got)
	}
	mustRun(t, dir, "verify", "--full", "a.lbx")
}

// Where two names of a file lie on two file systems, each becomes a file, and that is said.
func TestLinksAcrossFileSystems(t *testing.T) {
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
	mountNew(t, "tmpfs", filepath.Join(dir, "out/tree/sub"))
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
