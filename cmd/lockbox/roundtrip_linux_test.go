//go:build linux && !hostfs_portable

package main

import (
	"bytes"
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

// TestRoundTripFileSystems needs root and, for all but tmpfs, what makes the file system.
func TestRoundTripFileSystems(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("file systems can be mounted by root only")
	}
	for _, f := range []struct {
		kind string
		size int64
	}{{"tmpfs", 0}, {"ext4", 64 << 20}, {"xfs", 320 << 20}, {"btrfs", 128 << 20}} {
		t.Run(f.kind, func(t *testing.T) {
			dir := t.TempDir()
			mnt := filepath.Join(dir, "mnt")
			if err := os.Mkdir(mnt, 0o755); err != nil {
				t.Fatal(err)
			}
			mount := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "none", mnt)
			if f.kind != "tmpfs" {
				img := filepath.Join(dir, "img")
				mkfs, err := exec.LookPath("mkfs." + f.kind)
				if err != nil {
					t.Skipf("no mkfs.%s here", f.kind)
				}
				if err := os.WriteFile(img, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(img, f.size); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command(mkfs, "-q", img).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", mkfs, err, out)
				}
				mount = exec.Command("mount", "-t", f.kind, "-o", "loop", img, mnt)
			}
			if out, err := mount.CombinedOutput(); err != nil {
				t.Skipf("%s cannot be mounted here: %v %s", f.kind, err, out)
			}
			t.Cleanup(func() {
				if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
					t.Errorf("umount: %v %s", err, out)
				}
			})
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
