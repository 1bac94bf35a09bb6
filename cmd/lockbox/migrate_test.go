package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// oldTar is a tar archive with some megabytes in it.
func oldTar(t *testing.T) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range 60 {
		data := make([]byte, 1000+r.IntN(300_000))
		for k := range data {
			data[k] = byte(r.IntN(1 + i*4))
		}
		err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%d/%d", i%5, i), Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Killed at any moment, a replacement leaves the old archive whole under one of two names and nothing false under its
// own; run again, it ends as if nothing had been.
func TestKilledReplacement(t *testing.T) {
	old := oldTar(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "old.tar")
	write(t, name, old)
	start := time.Now()
	mustRun(t, dir, "migrate", "old.tar", "-o", "whole.lbx")
	whole := time.Since(start)
	list := mustRun(t, dir, "list", "whole.lbx", "--digest")
	killed := 0
	for i := range 12 {
		for _, n := range []string{name, name + ".bak", name + ".migrate-new"} {
			if err := os.Remove(n); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		write(t, name, old)
		cmd := command(t, dir, "migrate", "old.tar", "--replace")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(whole * time.Duration(i+1) / 12)
		_ = cmd.Process.Kill() // it may have ended already
		if cmd.Wait() != nil {
			killed++
		}
		now, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(now, old) {
			if b, err := os.ReadFile(name + ".bak"); err != nil || !bytes.Equal(b, old) {
				t.Fatalf("round %d: the old archive is gone: %v", i, err)
			}
			mustRun(t, dir, "verify", "--full", "old.tar")
		}
		mustRun(t, dir, "migrate", "old.tar", "--replace")
		if got := mustRun(t, dir, "list", "old.tar", "--digest"); got != list {
			t.Fatalf("round %d: the new archive holds\n%s", i, got)
		}
		if b, err := os.ReadFile(name + ".bak"); err != nil || !bytes.Equal(b, old) {
			t.Fatalf("round %d: the backup: %v", i, err)
		}
		if _, err := os.Lstat(name + ".migrate-new"); err == nil {
			t.Fatalf("round %d: the new archive is still there under its own name", i)
		}
	}
	if killed == 0 {
		t.Error("no run was killed before it had ended")
	}
}

// An interrupted migration leaves nothing, whatever it was waiting for.
func TestInterruptedMigration(t *testing.T) {
	dir := t.TempDir()
	old := oldTar(t)
	var said *bytes.Buffer
	code := interrupted(t, func() *exec.Cmd {
		cmd, in, errs := startFed(t, dir, old[:len(old)/2], "migrate", "-", "-o", "new.lbx")
		t.Cleanup(func() { in.Close() })
		said = errs
		return cmd
	})
	if code != int(exitInterrupted) {
		t.Errorf("exit %d: %s", code, said.String())
	}
	if left := strings.TrimSpace(files(t, dir)); left != "" && left != "." {
		t.Errorf("it left %q", left)
	}
}

// A directory that cannot be searched costs what is in it, and nothing else.
func TestMigrateBesideUnreadableDirectory(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("needs a user who may not read everything")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "old", "a.tar"), oldTar(t))
	write(t, filepath.Join(dir, "old", "closed", "b.tar"), oldTar(t))
	closed := filepath.Join(dir, "old", "closed")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	out, err := command(t, dir, "migrate", "old", "--into", "new").CombinedOutput()
	if code := exitStatus(t, err); code != 3 || !strings.Contains(string(out), `"old/closed" was not searched`) || !strings.Contains(string(out), "1 archive migrated") {
		t.Errorf("exit %d: %s", code, out)
	}
}
