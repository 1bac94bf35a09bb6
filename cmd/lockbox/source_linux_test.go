package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Files of the system that are not what they say: named, exit 3, nothing stored in their place.
func TestUntrueFiles(t *testing.T) {
	for name, says := range map[string]string{
		"/proc/version":  "it has bytes although its size is 0",
		"/proc/self/mem": "input/output error",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "x"), []byte("x"))
		code, _, errs := lockbox(t, dir, "add", "a.lbx", "x", name)
		if code != 3 || !strings.Contains(errs, `"`+name+`" was left out: `) || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
		if got := mustRun(t, dir, "list", "a.lbx"); got != "x\n" {
			t.Errorf("%s: stored are %q", name, got)
		}
	}
}

// asUser returns a directory of an ordinary user and what runs the program as that user.
func asUser(t *testing.T) (dir string, run func(args ...string) (int, string)) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		b, err := os.ReadFile(self)
		self = filepath.Join(dir, "program")
		for _, err := range []error{err, os.WriteFile(self, b, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, func(args ...string) (int, string) {
		t.Helper()
		cmd := exec.Command(self)
		cmd.Args, cmd.Dir, cmd.SysProcAttr = append([]string{"lockbox"}, args...), dir, as
		out, err := cmd.CombinedOutput()
		return exitStatus(t, err), string(out)
	}
}

// What an ordinary user cannot read is named, exit 3, and what is stored of it stays, also with --mirror.
func TestUnreadableSources(t *testing.T) {
	dir, run := asUser(t)
	names := []string{"tree/closed/in/f", "tree/open", "tree/secret"}
	for _, name := range names {
		write(t, filepath.Join(dir, name), []byte("older"))
	}
	if code, out := run("add", "a.lbx", "tree"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	for _, name := range names {
		write(t, filepath.Join(dir, name), []byte("newer contents"))
	}
	closed := filepath.Join(dir, "tree", "closed")
	chmod := func(name string, mode fs.FileMode) {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(filepath.Join(dir, "tree", "secret"), 0)
	chmod(closed, 0)
	defer chmod(closed, 0o755)
	for _, flags := range [][]string{nil, {"--mirror"}, {"--update"}, {"-j", "1"}} {
		code, out := run(append([]string{"add", "a.lbx", "tree"}, flags...)...)
		if code != 3 || !strings.Contains(out, `"tree/secret" was left out: permission denied`) ||
			!strings.Contains(out, `the contents of "tree/closed" were left out: permission denied`) {
			t.Errorf("%q: exit %d: %s", flags, code, out)
		}
	}
	for name, want := range map[string]string{names[0]: "older", names[1]: "newer contents", names[2]: "older"} {
		if code, out := run("cat", "a.lbx", name); code != 0 || out != want {
			t.Errorf("%s: exit %d: %q", name, code, out)
		}
	}
}

// mount mounts for the time of a test, or skips it.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		t.Skipf("no way to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
}

// A tree that is mounted into itself ends all the same; --one-file-system stores where another one is mounted, and not
// what is in it.
func TestMountsInTheTree(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	for _, sub := range []string{"again/deeper", "other"} {
		if err := os.MkdirAll(filepath.Join(tree, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(tree, "f"), []byte("f"))
	mount(t, "none", filepath.Join(tree, "other"), "tmpfs", 0, "")
	write(t, filepath.Join(tree, "other", "g"), []byte("g"))
	mount(t, tree, filepath.Join(tree, "again"), "", syscall.MS_BIND|syscall.MS_REC, "")
	again := "tree/\ntree/again/\ntree/again/again/\ntree/again/again/deeper/\ntree/again/f\ntree/again/other/\n"
	for flag, want := range map[string]string{
		"--jobs=4":          again + "tree/again/other/g\ntree/f\ntree/other/\ntree/other/g\n",
		"--one-file-system": again + "tree/f\ntree/other/\n",
	} {
		name := flag + ".lbx"
		mustRun(t, dir, "add", "./"+name, "tree", flag)
		if got := mustRun(t, dir, "list", "./"+name); got != want {
			t.Errorf("%s: stored are\n%swant\n%s", flag, got, want)
		}
	}
}
