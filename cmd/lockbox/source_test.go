package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockbox/internal/hostfs"
)

// Sources that do not hold still: each is named, exit 3, the rest is stored, an older version stays.

// openBetween opens an item for the program as a process of a test, and runs what the environment says before and after
// that, when the item is the one that it names.
func openBetween(it *hostfs.Item) (*hostfs.Source, error) {
	if it.Host() != os.Getenv("LOCKBOX_TEST_ITEM") {
		return it.Open()
	}
	run := func(script string) {
		if script == "" {
			return
		}
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			panic(script + ": " + string(out))
		}
	}
	run(os.Getenv("LOCKBOX_TEST_BEFORE"))
	f, err := it.Open()
	if err == nil {
		run(os.Getenv("LOCKBOX_TEST_AFTER"))
	}
	return f, err
}

// between makes a command run scripts before and after it opens an item.
func between(cmd *exec.Cmd, item, before, after string) {
	cmd.Env = append(os.Environ(), "LOCKBOX_TEST_ITEM="+item, "LOCKBOX_TEST_BEFORE="+before, "LOCKBOX_TEST_AFTER="+after)
}

func needShell(t *testing.T) {
	t.Helper()
	for _, name := range []string{"sh", "mkfifo", "ln"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed")
		}
	}
}

func TestSourcesThatMisbehave(t *testing.T) {
	needShell(t)
	for _, tt := range []struct {
		what          string
		before, after string
		says          string // of tree/f, on standard error
		stored        string // of tree/f afterwards
	}{
		{"vanished", "rm -f tree/f", "", "left out: .*no such file", "older"},
		{"another file", "echo swapped >x; mv x tree/f", "", "left out: .*replaced by another file", "older"},
		{"a directory", "rm -rf tree/f; mkdir tree/f", "", "left out: .*replaced by a directory", "older"},
		{"a link", "ln -sf ../outside tree/f", "", "left out: .*replaced by a symbolic link", "older"},
		{"a FIFO", "rm tree/f; mkfifo tree/f", "", "left out: .*replaced by a FIFO", "older"},
		{"grows", "", "echo more >>tree/f", "left out: .*its size went from", "older"},
		{"shrinks", "", `test $(wc -c <tree/f) -eq 1 || printf 1 >tree/f`, "changed while it was read; a second reading.*its size went from", "1"},
		{"shrinks to nothing", "", `test ! -s tree/f || : >tree/f`, "changed while it was read; a second reading.*its size went from", ""},
		{"grows once", "", `grep -q more tree/f || echo more >>tree/f`, "changed while it was read; a second reading.*its size went from", "newer contents\nmore\n"},
		{"vanishes once open", "", "rm -f tree/f", "", "newer contents\n"},
	} {
		for _, jobs := range []string{"1", "4"} {
			t.Run(tt.what+" -j "+jobs, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				write(t, filepath.Join(dir, "outside"), []byte("outside"))
				write(t, filepath.Join(dir, "tree", "f"), []byte("older"))
				mustRun(t, dir, "add", "a.lbx", "tree")
				write(t, filepath.Join(dir, "tree", "f"), []byte("newer contents\n"))
				write(t, filepath.Join(dir, "tree", "z"), []byte("last"))
				cmd := command(t, dir, "add", "a.lbx", "tree", "-j", jobs)
				between(cmd, "tree/f", tt.before, tt.after)
				out, err := cmd.CombinedOutput()
				code, want := exitStatus(t, err), 3
				if tt.says == "" {
					want = 0
				}
				if code != want || !regexp.MustCompile(`"tree/f".*`+tt.says).Match(out) && tt.says != "" {
					t.Errorf("exit %d: %s", code, out)
				}
				for name, data := range map[string]string{"tree/f": tt.stored, "tree/z": "last"} {
					if got := mustRun(t, dir, "cat", "a.lbx", name); got != data {
						t.Errorf("%s is stored as %q, want %q", name, got, data)
					}
				}
				mustRun(t, dir, "verify", "--full", "a.lbx")
			})
		}
	}
}

// A directory that is swapped for a link does not lead outside.
func TestSwappedDirectory(t *testing.T) {
	needShell(t)
	for _, jobs := range []string{"1", "4"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "outside", "f"), []byte("outside"))
		write(t, filepath.Join(dir, "tree", "d", "f"), []byte("inside"))
		cmd := command(t, dir, "add", "a.lbx", "tree", "-j", jobs)
		between(cmd, "tree/d/f", "mv tree/d moved && ln -s ../outside tree/d", "")
		out, err := cmd.CombinedOutput()
		switch code := exitStatus(t, err); code {
		case 0:
			if got := mustRun(t, dir, "cat", "a.lbx", "tree/d/f"); got != "inside" {
				t.Errorf("stored is %q", got)
			}
		case 3:
			if !strings.Contains(string(out), `"tree/d/f" was left out`) || strings.Contains(mustRun(t, dir, "list", "a.lbx"), "tree/d/f") {
				t.Errorf("%s", out)
			}
		default:
			t.Errorf("exit %d: %s", code, out)
		}
	}
}

// A file whose first name goes away before it is read is read under the next one.
func TestFirstNameVanishes(t *testing.T) {
	needShell(t)
	for _, jobs := range []string{"1", "4"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "tree", "f"), []byte("older"))
		mustRun(t, dir, "add", "a.lbx", "tree")
		write(t, filepath.Join(dir, "tree", "f"), []byte("delivered"))
		for _, name := range []string{"g", "h"} {
			if err := os.Link(filepath.Join(dir, "tree", "f"), filepath.Join(dir, "tree", name)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := command(t, dir, "add", "a.lbx", "tree", "-j", jobs)
		between(cmd, "tree/f", "rm -f tree/f", "")
		out, err := cmd.CombinedOutput()
		if code := exitStatus(t, err); code != 3 || !strings.Contains(string(out), `"tree/f" was left out`) || strings.Contains(string(out), "tree/g") {
			t.Errorf("exit %d: %s", code, out)
		}
		for name, data := range map[string]string{"f": "older", "g": "delivered", "h": "delivered"} {
			if got := mustRun(t, dir, "cat", "a.lbx", "tree/"+name); got != data {
				t.Errorf("%s is stored as %q", name, got)
			}
		}
		mustRun(t, dir, "verify", "--full", "a.lbx")
	}
}
