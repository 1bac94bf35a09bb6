package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The test binary runs itself as another process: with childEnv set it is one of these instead, which
// says "ready" when its part is done and then waits to be told to end, or to be killed.
const childEnv = "LOCKBOX_VFS_CHILD"

var children = map[string]func(name string) error{
	"lock": func(name string) error {
		f, err := OS().Open(name, true)
		if err != nil {
			return err
		}
		for off, exclusive := range map[int64]bool{base: true, base + 10: false} {
			if got, err := f.TryLock(off, 1, exclusive); !got || err != nil {
				return fmt.Errorf("lock: %v, %w", got, err)
			}
		}
		return waitForEnd()
	},
	"temp": func(name string) error {
		for _, system := range osVariants {
			if _, err := system.CreateTemp(name, 0o600); err != nil {
				return err
			}
		}
		if _, err := OS().CreateTemp(name, 0o600); err != nil {
			return err
		}
		return waitForEnd()
	},
}

func waitForEnd() error {
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func TestMain(m *testing.M) {
	if child, found := children[os.Getenv(childEnv)]; found {
		if err := child(os.Args[len(os.Args)-1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start runs a child until it is ready. end tells it to finish, kill kills it.
func start(t *testing.T, child, name string) (end, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], name)
	cmd.Env = append(os.Environ(), childEnv+"="+child)
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("child %s: %q, %v", child, line, err)
	}
	ended := false
	finish := func(how func() error) {
		if !ended {
			ended = true
			_ = how()      // it may have ended by itself
			_ = cmd.Wait() // and a killed one has no success to report
		}
	}
	t.Cleanup(func() { finish(cmd.Process.Kill) })
	return func() { finish(in.Close) }, func() { finish(cmd.Process.Kill) }
}

func TestLocksBetweenProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	ok(t, os.WriteFile(name, []byte("x"), 0o600))
	f, err := OS().Open(name, true)
	ok(t, err)
	defer f.Close()
	for _, how := range []string{"ended", "killed"} {
		end, kill := start(t, "lock", name)
		locked(t, f, base, 1, true, false)
		locked(t, f, base, 1, false, false)
		locked(t, f, base+10, 1, true, false)
		locked(t, f, base+5, 100, true, false)
		locked(t, f, base+10, 1, false, true)
		ok(t, f.Unlock(base+10, 1))

		// Closing another handle of the file here must not disturb anybody's lock.
		g, err := OS().Open(name, true)
		ok(t, err)
		locked(t, f, base+20, 1, true, true)
		ok(t, g.Close())
		g, err = OS().Open(name, true)
		ok(t, err)
		locked(t, g, base+20, 1, true, false)
		ok(t, g.Close())
		ok(t, f.Unlock(base+20, 1))

		if how == "ended" {
			end()
		} else {
			kill()
		}
		deadline := time.Now().Add(5 * time.Second)
		for got := false; !got; {
			if got, err = f.TryLock(base, 100, true); err != nil || time.Now().After(deadline) {
				t.Fatalf("the lock of a process that was %s stays: %v", how, err)
			}
		}
		ok(t, f.Unlock(base, 100))
	}
}

func TestLeftoversOfKilledProcess(t *testing.T) {
	dir := t.TempDir()
	final := filepath.Join(dir, "a")
	_, kill := start(t, "temp", final)
	entries, err := os.ReadDir(dir)
	ok(t, err)
	visible := len(entries)
	if visible < len(osVariants) {
		t.Fatalf("only %d temporary files are visible", visible)
	}
	if removed, _ := CleanStale(dir); removed != 0 {
		t.Fatalf("%d files of a living process were removed", removed)
	}
	kill()
	deadline := time.Now().Add(5 * time.Second)
	for removed := 0; removed < visible; {
		n, err := CleanStale(dir)
		ok(t, err)
		if removed += n; time.Now().After(deadline) {
			t.Fatalf("%d of %d leftovers removed", removed, visible)
		}
	}
	if _, err := os.Stat(final); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the final name: %v", err)
	}
}
