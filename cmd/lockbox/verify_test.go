package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockbox/internal/vfs"
)

// summaryOf is the last line of what verify prints with --json.
func summaryOf(t *testing.T, out string) (s struct {
	Bytes    int64
	Complete bool
	Pass     struct {
		Number, Read, Left int64
		Complete           bool
	}
}) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	err := json.Unmarshal([]byte(lines[len(lines)-1]), &struct{ Summary any }{&s})
	if err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return s
}

// lockedBuffer is what a process writes to while others look.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// An interrupted run of verify says how far it came: the next one goes on from there. While it runs, another one is
// refused its state.
func TestInterruptedVerify(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		write(t, filepath.Join(dir, "tree", fmt.Sprint(i)), noise(1<<20, fmt.Sprint(i)))
	}
	mustRun(t, dir, "add", "a.lbx", "tree", "--compression", "none")
	args := []string{"verify", "a.lbx", "--full", "--json", "--state", "s", "--report", "r", "--metrics", "m", "--jobs", "1"}
	cmd := command(t, dir, append(args, "--rate", "16M", "--progress", "always")...)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	half := regexp.MustCompile(` [5-9]\d% `)
	waitFor(t, "half of the archive", func() bool { return half.MatchString(errs.String()) })
	if code, _, errs := lockbox(t, dir, "verify", "--full", "--state", "s", "a.lbx"); code != 16 || !strings.Contains(errs, "another run") {
		t.Errorf("a second run beside the first: exit %d: %s", code, errs)
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if code := exitStatus(t, cmd.Wait()); code != 130 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var report struct {
		ExitCode int `json:"exit_code"`
		Archives []struct {
			Complete bool
			Pass     struct{ Read, Left int64 }
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "r"))
	if err == nil {
		err = json.Unmarshal(b, &report)
	}
	if err != nil || report.ExitCode != 130 || len(report.Archives) != 1 || report.Archives[0].Complete || report.Archives[0].Pass.Left == 0 {
		t.Fatalf("%s, %v", b, err)
	}
	next := summaryOf(t, mustRun(t, dir, args...))
	if p := next.Pass; p.Number != 1 || !p.Complete || !next.Complete {
		t.Errorf("%+v", next)
	}
	if before := report.Archives[0].Pass.Read; before == 0 || next.Bytes >= 40<<20 {
		t.Errorf("interrupted after %d bytes, then %d bytes of all were read", before, next.Bytes)
	}
}

// Whatever archives are called, the metrics have each once, in lines of which a collector can make sense.
func TestMetricLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOf(rapid.SampledFrom([]byte("a\"\\\n{}\xff\xc3 ="))).Draw(t, "name"))
		label := metricLabel(name)
		line := metricPrefix + `damaged{archive="` + label + `"} 3` + "\n"
		if strings.Count(line, "\n") != 1 || !json.Valid([]byte(`"`+label+`"`)) {
			t.Fatalf("%q", line)
		}
		if got := parseMetrics("# HELP x\n" + line)[label]["damaged"]; got != "3" {
			t.Fatalf("%q was read as %q", line, got)
		}
	})
	if known := parseMetrics("lockbox_verify_damaged{archive=\"a\"} x\nother{archive=\"a\"} 1\nlockbox_verify_none{archive=\"a\"} 1\nlockbox_verify_damaged 1"); len(known) != 0 {
		t.Errorf("%v", known)
	}
}

// Metrics that a run did not come to stay as they were; those of archives that are not its own go.
func TestMetricsOfArchivesNotReached(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m")
	old := "lockbox_verify_damaged{archive=\"b\"} 7\nlockbox_verify_damaged{archive=\"gone\"} 8\nlockbox_verify_last_success_timestamp_seconds{archive=\"a\"} 5\n"
	if err := vfs.ReplaceFile(name, 0o600, []byte(old)); err != nil {
		t.Fatal(err)
	}
	a := newApp(system{})
	v := &verifying{a: a, opt: verifyOptions{archives: []string{"a", "b"}, metrics: name}, done: []*outcome{{name: "a", code: exitFailed, began: a.now()}}}
	if err := v.writeMetrics(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	known := parseMetrics(string(b))
	if len(known) != 2 || known["b"]["damaged"] != "7" || len(known["b"]) != 1 || known["a"]["last_success_timestamp_seconds"] != "5" || known["a"]["exit_code"] != "1" {
		t.Errorf("%s", b)
	}
}

// What cannot be held against another process's wiping is not checked: overwritten bytes would look like damage.
func TestVerifyOfWhatIsBeingPublished(t *testing.T) {
	const publishLock = 1<<62 + 1
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), []byte("x"))
	mustRun(t, dir, "add", "a.lbx", "f")
	f, err := vfs.OS().Open(filepath.Join(dir, "a.lbx"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	switch ok, err := f.TryLock(publishLock, 1, true); {
	case errors.Is(err, vfs.ErrLockUnsupported):
		t.Skip("no locks here")
	case err != nil || !ok:
		t.Fatalf("the lock: %v, %v", ok, err)
	}
	for _, more := range [][]string{nil, {"--full"}, {"--only", "f"}} {
		code, out, errs := lockbox(t, dir, append([]string{"verify", "a.lbx", "--lock-timeout", "0s"}, more...)...)
		if code != 16 || !strings.Contains(errs, "hint: --lock-timeout") || strings.Contains(out, "damage") {
			t.Errorf("%v: exit %d: %s%s", more, code, out, errs)
		}
	}
	if err := f.Unlock(publishLock, 1); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "verify", "a.lbx", "--lock-timeout", "0s")
}

// A copy in the archive's place, which tells nothing of it by itself, is not taken for what the state's runs have read.
func TestVerifyBeginsAnewWithACopy(t *testing.T) {
	dir := t.TempDir()
	a, aside := filepath.Join(dir, "a.lbx"), filepath.Join(dir, "aside.lbx")
	write(t, filepath.Join(dir, "f"), noise(9<<20, "f"))
	mustRun(t, dir, "add", "a.lbx", "f")
	if born(t, a) == 0 {
		t.Skip("this file system does not tell when a file came to be")
	}
	run := func() (read int64, errs string) {
		t.Helper()
		code, out, errs := lockbox(t, dir, "verify", "--full", "--json", "--max-duration", "1ns", "--state", "s", "a.lbx")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		return summaryOf(t, out).Pass.Read, errs
	}
	first, _ := run()
	// What changes the archive, adds nothing, or gives the file another name or time is no new file.
	mustRun(t, dir, "add", "a.lbx", "f")
	if err := errors.Join(os.Rename(a, aside), os.Link(aside, a), os.Chtimes(a, time.Unix(9, 0), time.Unix(9, 0))); err != nil {
		t.Fatal(err)
	}
	second, errs := run()
	if errs != "" || second <= first {
		t.Fatalf("read %d, then %d: %s", first, second, errs)
	}
	whole, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	// Copies that are younger by less than a file system may round to are told apart only as far as that.
	time.Sleep(time.Until(time.Unix(0, born(t, a)).Add(110 * time.Millisecond)))
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	write(t, a, whole)
	third, errs := run()
	if !strings.Contains(errs, `the state of "a.lbx" in "s" is not used: it is about another file than is there now, which is a copy, or was made by key rotate; a new pass begins`) || third >= second {
		t.Errorf("read %d, then %d of a copy: %s", second, third, errs)
	}
	if fourth, errs := run(); errs != "" || fourth <= third {
		t.Errorf("read %d, then %d: %s", third, fourth, errs)
	}
}

// A rotation of the key writes a new file. That is said once, and not that a copy has come.
func TestVerifyBeginsAnewAfterRotation(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a.lbx")
	public := mustRun(t, dir, "key", "generate", "-o", "me.key")
	mustRun(t, dir, "create", "a.lbx", "--recipient", strings.TrimSpace(public))
	first := born(t, a)
	if first == 0 {
		t.Skip("this file system does not tell when a file came to be")
	}
	run := func() (pass int64, errs string) {
		t.Helper()
		code, out, errs := lockbox(t, dir, "verify", "--full", "--json", "--state", "s", "a.lbx", "-i", "me.key")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		return summaryOf(t, out).Pass.Number, errs
	}
	run()
	time.Sleep(time.Until(time.Unix(0, first).Add(110 * time.Millisecond)))
	mustRun(t, dir, "key", "rotate", "a.lbx", "-i", "me.key")
	if pass, errs := run(); pass != 1 || !strings.Contains(errs, "which is a copy, or was made by key rotate; a new pass begins") {
		t.Errorf("pass %d: %s", pass, errs)
	}
	if pass, errs := run(); pass != 2 || errs != "" {
		t.Errorf("then pass %d: %s", pass, errs)
	}
}

func born(t *testing.T, name string) int64 {
	t.Helper()
	f, err := vfs.OS().Open(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return vfs.BornOf(f)
}
