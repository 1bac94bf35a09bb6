package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests need the program as a process of its own: it is interrupted, killed, made to wait.

// command is the program under test as a process; TestMain makes the test binary behave as it.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{"lockbox"}, args...)
	cmd.Dir = dir
	return cmd
}

// lockbox runs the program and returns its exit code and what it printed.
func lockbox(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := command(t, dir, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	return exitStatus(t, cmd.Run()), out.String(), errs.String()
}

func exitStatus(t *testing.T, err error) int {
	t.Helper()
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e == nil {
		return 0
	}
	return e.ExitCode()
}

func mustRun(t *testing.T, dir string, args ...string) string {
	t.Helper()
	code, out, errs := lockbox(t, dir, args...)
	if code != 0 {
		t.Fatalf("lockbox %v: exit %d: %s", args, code, errs)
	}
	return out
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// files lists all names below dir.
func files(t *testing.T, dir string) string {
	t.Helper()
	tree, err := readTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for name := range tree {
		fmt.Fprintf(&b, "%s\n", name)
	}
	return b.String()
}

// waitFor polls until ok.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// interrupted interrupts the command that start has started and returns its exit status. The program takes signals over
// beside the command, and one that comes before just kills it: then there is another try, with more time.
func interrupted(t *testing.T, start func() *exec.Cmd) int {
	t.Helper()
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		cmd := start()
		time.Sleep(pause)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Skipf("no signals here: %v", err)
		}
		stuck := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		code := exitStatus(t, cmd.Wait())
		if !stuck.Stop() {
			t.Fatal("it goes on after an interrupt")
		}
		if code != -1 || pause > 2*time.Second {
			return code
		}
	}
}

// startAdding starts an add that has begun to read standard input and does not come to its end.
func startAdding(t *testing.T, dir string, args ...string) (*exec.Cmd, io.WriteCloser, *bytes.Buffer) {
	t.Helper()
	// A pipe holds much less than this, so most of it was read when the write returns.
	return startFed(t, dir, noise(8<<20, "stdin"), append([]string{"add", "a.lbx", "-", "--stdin-name", "piped"}, args...)...)
}

// startFed starts the program and writes to its standard input, which stays open. The buffer gets what it says.
func startFed(t *testing.T, dir string, b []byte, args ...string) (*exec.Cmd, io.WriteCloser, *bytes.Buffer) {
	t.Helper()
	cmd := command(t, dir, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(b); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	return cmd, in, &errs
}

// Situation 30: interrupted at any time, exit 130, the archive as before, no stray file.
func TestInterruptedAdd(t *testing.T) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // or the program has to ignore it, too
		signals = append(signals, syscall.SIGHUP)
	}
	for _, sig := range signals {
		for _, jobs := range []string{"1", "4"} {
			t.Run(fmt.Sprint(sig, jobs), func(t *testing.T) {
				dir := t.TempDir()
				write(t, filepath.Join(dir, "x"), []byte("x"))
				mustRun(t, dir, "add", "a.lbx", "x")
				before := mustRun(t, dir, "info", "a.lbx", "--json")
				cmd, in, errs := startAdding(t, dir, "-j", jobs)
				defer in.Close()
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				if code := exitStatus(t, cmd.Wait()); code != 130 || !strings.Contains(errs.String(), "interrupted") {
					t.Errorf("exit %d: %s", code, errs.String())
				}
				after := mustRun(t, dir, "info", "a.lbx", "--json")
				if root(t, before) != root(t, after) {
					t.Errorf("the archive changed:\n%s%s", before, after)
				}
				mustRun(t, dir, "verify", "--full", "a.lbx")
				mustRun(t, dir, "add", "a.lbx", "x")
				if got := files(t, dir); len(strings.Fields(got)) != 2 {
					t.Errorf("stray files: %s", got)
				}
			})
		}
	}
}

// root takes the root out of the output of info.
func root(t *testing.T, info string) string {
	t.Helper()
	_, rest, ok := strings.Cut(info, `"root":"`)
	if !ok {
		t.Fatalf("no root in %s", info)
	}
	return rest[:64]
}

func TestInterruptedCreation(t *testing.T) {
	dir := t.TempDir()
	cmd, in, _ := startAdding(t, dir)
	defer in.Close()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitStatus(t, cmd.Wait()); code != 130 {
		t.Errorf("exit %d", code)
	}
	if got := files(t, dir); got != "" {
		t.Errorf("stray files: %s", got)
	}
}

// Situation 2: the next writer runs without any manual unlock.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x"), []byte("x"))
	mustRun(t, dir, "add", "a.lbx", "x")
	cmd, in, _ := startAdding(t, dir)
	defer in.Close()
	if code, _, errs := lockbox(t, dir, "add", "a.lbx", "x", "--lock-timeout", "50ms"); code != 16 || !strings.Contains(errs, "--lock-timeout") {
		t.Errorf("a second writer: exit %d: %s", code, errs)
	}
	if code, _, errs := lockbox(t, dir, "add", "a.lbx", "x", "--lock-timeout", "0s"); code != 16 || !strings.Contains(errs, "waited 0s\n") {
		t.Errorf("one that does not wait: exit %d: %s", code, errs)
	}
	mustRun(t, dir, "cat", "a.lbx", "x")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	mustRun(t, dir, "verify", "--full", "a.lbx")
	mustRun(t, dir, "add", "a.lbx", "x", "--lock-timeout", "0s")
	if out := mustRun(t, dir, "list", "a.lbx"); out != "x\n" {
		t.Errorf("entries: %s", out)
	}
	mustRun(t, dir, "verify", "--full", "a.lbx")
}

// Another process makes the archive while this one is making it: nothing is lost, and it is said what to do.
func TestOvertaken(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x"), []byte("x"))
	cmd, in, errs := startAdding(t, dir)
	mustRun(t, dir, "add", "a.lbx", "x")
	before := mustRun(t, dir, "info", "a.lbx", "--json")
	_ = in.Close()
	if code := exitStatus(t, cmd.Wait()); code != 16 {
		t.Errorf("exit %d", code)
	}
	if got := errs.String(); !strings.Contains(got, `"a.lbx" was made by another process`) || !strings.Contains(got, "hint: run the command again") {
		t.Errorf("%s", got)
	}
	if after := mustRun(t, dir, "info", "a.lbx", "--json"); after != before {
		t.Errorf("the other's archive changed:\n%s%s", before, after)
	}
	if got := files(t, dir); len(strings.Fields(got)) != 2 {
		t.Errorf("stray files: %s", got)
	}
}

// Situation 30 for extract: what is incomplete is gone, what is complete stays.
func TestInterruptedExtract(t *testing.T) {
	dir := t.TempDir()
	for i := range 24 {
		write(t, filepath.Join(dir, "tree", fmt.Sprint(i)), noise(2<<20, fmt.Sprint(i)))
	}
	mustRun(t, dir, "add", "a.lbx", "tree", "--compression", "none")
	cmd := command(t, dir, "extract", "a.lbx", "-d", "out", "-q")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the first file", func() bool {
		names, _ := os.ReadDir(filepath.Join(dir, "out", "tree"))
		return len(names) > 0
	})
	_ = cmd.Process.Signal(os.Interrupt)
	code := exitStatus(t, cmd.Wait())
	tree, err := readTree(filepath.Join(dir, "out", "tree"))
	if err != nil {
		t.Fatal(err)
	}
	if code != 130 && (code != 0 || len(tree) != 24) {
		t.Errorf("exit %d with %d files", code, len(tree))
	}
	for name, e := range tree {
		if !bytes.Equal(e.data, noise(2<<20, name)) {
			t.Errorf("%q is not one of the files, or not whole", name)
		}
	}
	mustRun(t, dir, "extract", "a.lbx", "-d", "out", "--overwrite")
}

// A reader that nobody reads from ends all the same when it is interrupted.
func TestInterruptedStuckReader(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "big"), noise(4<<20, "big"))
	mustRun(t, dir, "add", "a.lbx", "big")
	code := interrupted(t, func() *exec.Cmd {
		cmd := command(t, dir, "cat", "a.lbx", "big")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return cmd
	})
	if code != 130 {
		t.Errorf("exit %d", code)
	}
}

// Situation 3: a reader streams a big file while a writer replaces it.
func TestReaderDuringChange(t *testing.T) {
	dir := t.TempDir()
	old := noise(6<<20, "old")
	write(t, filepath.Join(dir, "big"), old)
	mustRun(t, dir, "add", "a.lbx", "big")
	cmd := command(t, dir, "cat", "a.lbx", "big")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1)
	if _, err := io.ReadFull(out, got); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		write(t, filepath.Join(dir, "big"), noise(6<<20, fmt.Sprint("new", i)))
		mustRun(t, dir, "add", "a.lbx", "big")
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if code := exitStatus(t, cmd.Wait()); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if !bytes.Equal(append(got, rest...), old) {
		t.Error("the reader did not see one generation")
	}
	mustRun(t, dir, "verify", "--full", "a.lbx")
}

// Situation 28: a file that does not hold still is named, exit 3, and the older version stays.
func TestSourceThatGrows(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "tree", "log")
	write(t, name, []byte("first state"))
	write(t, filepath.Join(dir, "tree", "calm"), []byte("calm"))
	mustRun(t, dir, "add", "a.lbx", "tree")
	write(t, name, noise(24<<20, "log"))
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				_, _ = f.Write([]byte("more\n"))
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	code, _, errs := lockbox(t, dir, "add", "a.lbx", "tree")
	close(done)
	<-stopped
	if code != 3 || !strings.Contains(errs, `"tree/log" was left out`) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if out := mustRun(t, dir, "cat", "a.lbx", "tree/log"); out != "first state" {
		t.Errorf("stored are %d bytes", len(out))
	}
	mustRun(t, dir, "verify", "--full", "a.lbx")
}
