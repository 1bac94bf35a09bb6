package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// extractionTree makes an archive of small and large files in a directory that is not writable in the end, and links.
func extractionTree(t *testing.T, dir string) {
	t.Helper()
	for i := range 60 {
		write(t, filepath.Join(dir, "tree", fmt.Sprint("d", i%7), fmt.Sprint(i)), noise(40<<10, fmt.Sprint(i)))
	}
	for i := range 4 {
		write(t, filepath.Join(dir, "tree", fmt.Sprint("large", i)), noise(6<<20, fmt.Sprint("l", i)))
	}
	if err := os.Symlink("d1/1", filepath.Join(dir, "tree", "link")); err != nil {
		t.Skip(err)
	}
	if err := os.Chmod(filepath.Join(dir, "tree", "d3"), 0o555); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "add", "a.lbx", "tree", "--compression", "none")
	writableAgain(t, filepath.Join(dir, "tree"))
	writableAgain(t, filepath.Join(dir, "out", "tree"))
}

func writableAgain(t *testing.T, dir string) {
	t.Cleanup(func() {
		if err := os.Chmod(filepath.Join(dir, "d3"), 0o755); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
}

// stopAt runs an extraction and ends it with a signal after a random part of the time that a whole one takes.
func stopAt(t *testing.T, dir string, sig os.Signal, whole time.Duration, args ...string) int {
	t.Helper()
	cmd := command(t, dir, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(rand.N(whole))
	_ = cmd.Process.Signal(sig)
	return exitStatus(t, cmd.Wait())
}

// wholeFiles fails when a file has a wrong byte, or a name that nobody gave it.
func wholeFiles(t *testing.T, dir string, temporary bool) {
	t.Helper()
	out, err := readTree(filepath.Join(dir, "out"))
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := readTree(filepath.Join(dir, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range out {
		if isTemporary(filepath.Base(name)) || strings.Contains(name, ".lbxtmp-") {
			if !temporary {
				t.Errorf("%q was left", name)
			}
			continue
		}
		w, ok := want[strings.TrimPrefix(name, "tree"+string(filepath.Separator))]
		if name != "tree" && (!ok || string(w.data) != string(e.data)) {
			t.Errorf("%q is not one of the files, or not whole", name)
		}
	}
}

// Killed at any moment, an extraction goes on with --resume, and leaves nothing behind in the end.
func TestKilledExtraction(t *testing.T) {
	dir := t.TempDir()
	extractionTree(t, dir)
	start := time.Now()
	mustRun(t, dir, "extract", "a.lbx", "-d", "whole")
	took := time.Since(start)
	writableAgain(t, filepath.Join(dir, "whole", "tree"))
	for round := range 3 {
		for range 6 {
			args := []string{"extract", "a.lbx", "-d", "out", "--resume"}
			if round == 1 {
				args = append(args, "--overwrite")
			}
			stopAt(t, dir, syscall.SIGKILL, took, args...)
			wholeFiles(t, dir, true)
		}
		mustRun(t, dir, "extract", "a.lbx", "-d", "out", "--resume")
		if diff := compareTrees(filepath.Join(dir, "tree"), filepath.Join(dir, "out", "tree")); diff != "" {
			t.Fatal(diff)
		}
		wholeFiles(t, dir, false)
		if err := os.Chmod(filepath.Join(dir, "out", "tree", "d3"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
	}
}

// Situation 30 at any time: interrupted, an extraction ends with 130 and leaves no temporary file, and what it has
// written is whole.
func TestInterruptedExtraction(t *testing.T) {
	dir := t.TempDir()
	extractionTree(t, dir)
	start := time.Now()
	mustRun(t, dir, "extract", "a.lbx", "-d", "whole")
	took := time.Since(start)
	writableAgain(t, filepath.Join(dir, "whole", "tree"))
	stopped := 0
	for i := range 14 {
		args := []string{"extract", "a.lbx", "-d", "out", "-q", "-j", fmt.Sprint(1 + i%3)}
		args = append(args, [][]string{{"--resume"}, {"--overwrite"}}[i%2]...)
		switch code := stopAt(t, dir, []os.Signal{os.Interrupt, syscall.SIGTERM}[i%2], took, args...); code {
		case 130, -1: // -1: before the program has taken signals over, and before it has written anything
			stopped++
		case 0:
		default:
			t.Errorf("exit %d", code)
		}
		wholeFiles(t, dir, false)
	}
	if stopped == 0 {
		t.Errorf("no extraction was interrupted: they took less than %v", took)
	}
	mustRun(t, dir, "extract", "a.lbx", "-d", "out", "--resume")
	if diff := compareTrees(filepath.Join(dir, "tree"), filepath.Join(dir, "out", "tree")); diff != "" {
		t.Error(diff)
	}
}
