package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lockbox/internal/store"
)

// Every exit code is given by some command, and the documents list the same ones.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), []byte("content"))
	mustRun(t, dir, "add", "a.lbx", "f")
	mustRun(t, dir, "create", "locked.lbx", "--recipient", absolute(t, "testdata/keys/age.pub"))
	whole, err := os.ReadFile(filepath.Join(dir, "a.lbx"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "short.lbx"), whole[:len(whole)-600])
	mustRun(t, dir, "add", "busy.lbx", "f")
	held, err := store.OpenWrite(t.Context(), filepath.Join(dir, "busy.lbx"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()

	commands := map[exitCode]string{
		exitOK:          "verify --full a.lbx",
		exitFailed:      "create a.lbx",
		exitUsage:       "lst a.lbx",
		exitSkipped:     "add a.lbx f a.lbx",
		exitDiffers:     "diff a.lbx .",
		exitAuth:        "list locked.lbx",
		exitMissing:     "cat a.lbx nothing",
		exitForeign:     "list f",
		exitDamaged:     "verify short.lbx",
		exitBusy:        "add busy.lbx f --lock-timeout 0s",
		exitInterrupted: "", // below
	}
	for code, line := range commands {
		if line == "" {
			continue
		}
		if got, _, errs := lockbox(t, dir, strings.Fields(line)...); got != int(code) {
			t.Errorf("lockbox %s: exit %d, want %d: %s", line, got, code, errs)
		}
	}
	if runtime.GOOS != "windows" {
		cmd, in, errs := startAdding(t, dir) // and it is reading its input
		defer in.Close()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if got := exitStatus(t, cmd.Wait()); got != 130 {
			t.Errorf("interrupted: exit %d: %s", got, errs)
		}
	}

	var listed []exitCode
	for code := range commands {
		listed = append(listed, code)
	}
	slices.Sort(listed)
	if known := slices.Sorted(slices.Values(rank)); !slices.Equal(known, listed) {
		t.Errorf("there are the codes %v, commands are listed for %v", known, listed)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"README.md": string(readme), "help exit-codes": findTopic("exit-codes").text} {
		var codes []exitCode
		for _, m := range regexp.MustCompile(`(?m)^(?:\| )?(\d{1,3}) (?: |\|)`).FindAllStringSubmatch(text, -1) {
			var n int
			if _, err := fmt.Sscan(m[1], &n); err != nil {
				t.Fatal(err)
			}
			codes = append(codes, exitCode(n))
		}
		if !slices.Equal(codes, listed) {
			t.Errorf("%s lists %v, there are %v", name, codes, listed)
		}
	}
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
