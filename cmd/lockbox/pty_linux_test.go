package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// session is the program at a terminal of its own.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File // the other end
	seen string
}

func atPty(t *testing.T, dir string, args ...string) *session {
	t.Helper()
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	conn, err := tty.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n uint32
	var ioctl error
	if err := conn.Control(func(fd uintptr) {
		if ioctl = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctl == nil {
			n, ioctl = unix.IoctlGetUint32(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || ioctl != nil {
		t.Skipf("no terminal can be made here: %v, %v", err, ioctl)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	defer slave.Close()
	cmd := command(t, dir, args...)
	cmd.Env = append(os.Environ(), "LOCKBOX_TEST_TERMINAL=1", "LOCKBOX_PASSPHRASE=", "LOCKBOX_PASSPHRASE_FILE=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &session{t: t, cmd: cmd, tty: tty}
}

// answer waits for a prompt and types.
func (s *session) answer(prompt, text string) {
	s.t.Helper()
	s.read(func() bool { return strings.HasSuffix(s.seen, prompt) })
	if !strings.HasSuffix(s.seen, prompt) {
		s.t.Fatalf("no %q in %q", prompt, s.seen)
	}
	// The prompt stands there a moment before what is typed is hidden.
	waitFor(s.t, "a terminal that hides what is typed", func() bool {
		hidden := false
		conn, err := s.tty.SyscallConn()
		if err != nil {
			s.t.Fatal(err)
		}
		if err := conn.Control(func(fd uintptr) {
			var modes *unix.Termios
			modes, err = unix.IoctlGetTermios(int(fd), unix.TCGETS)
			hidden = err == nil && modes.Lflag&unix.ECHO == 0
		}); err != nil {
			s.t.Fatal(err)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return hidden
	})
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) read(enough func() bool) {
	buf := make([]byte, 1024)
	if err := s.tty.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	for !enough() {
		n, err := s.tty.Read(buf)
		s.seen += string(buf[:n])
		if err != nil {
			return // the other side is gone
		}
	}
}

// end returns the exit code, and all that was to be seen.
func (s *session) end() (int, string) {
	s.t.Helper()
	s.read(func() bool { return false })
	return exitStatus(s.t, s.cmd.Wait()), s.seen
}

// shows reports whether the terminal shows what is typed.
func (s *session) shows() bool {
	s.t.Helper()
	state, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	s := atPty(t, dir, "create", "a.lbx", "--encrypt")
	s.answer(`New passphrase of "a.lbx": `, "sesame\n")
	s.answer("The same once more: ", "sesame\n")
	if code, seen := s.end(); code != 0 || strings.Contains(seen, "sesame") || !strings.Contains(seen, "created a.lbx") {
		t.Fatalf("create: exit %d: %q", code, seen)
	}
	s = atPty(t, dir, "info", "a.lbx")
	s.answer(`Passphrase of "a.lbx": `, "sesame\n")
	if code, seen := s.end(); code != 0 || strings.Contains(seen, "sesame") || !strings.Contains(seen, "entries ") {
		t.Fatalf("info: exit %d: %q", code, seen)
	}
	s = atPty(t, dir, "info", "a.lbx")
	s.answer(`Passphrase of "a.lbx": `, "open\n")
	if code, seen := s.end(); code != 11 || strings.Contains(seen, "entries ") {
		t.Fatalf("info with a wrong passphrase: exit %d: %q", code, seen)
	}
	// An interrupt ends the question, and leaves a terminal that shows what is typed.
	s = atPty(t, dir, "list", "a.lbx")
	s.answer(`Passphrase of "a.lbx": `, "\x03")
	if code, seen := s.end(); code != 130 || !s.shows() {
		t.Fatalf("interrupted: exit %d: %q; what is typed shows: %v", code, seen, s.shows())
	}
}

// Colours show at a terminal that has them, and nowhere else: the words are the same.
func TestColours(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		term, noColour string
		want           bool
	}{{"xterm", "", true}, {"xterm", "1", false}, {"dumb", "", false}, {"", "", false}} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColour)
		code, seen := atPty(t, dir, "list", "none.lbx").end()
		if code != 12 || strings.Contains(seen, "\x1b[1;31merror\x1b[0m: there is no archive") != c.want || strings.Contains(seen, "\x1b") != c.want {
			t.Errorf("TERM=%s NO_COLOR=%s: exit %d: %q", c.term, c.noColour, code, seen)
		}
	}
	t.Setenv("TERM", "xterm")
	if _, _, errs := lockbox(t, dir, "list", "none.lbx"); strings.Contains(errs, "\x1b") || !strings.HasPrefix(errs, "lockbox: error: ") {
		t.Errorf("in a pipe: %q", errs)
	}
}

// A bar with rate and remaining time stands at a terminal while work goes on, narrower than the terminal, and is gone
// at the end; --quiet and a dumb terminal have none.
func TestBarAtTerminal(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	write(t, filepath.Join(dir, "f"), data)
	mustRun(t, dir, "add", "a.lbx", "f", "--compression", "none")
	t.Setenv("TERM", "xterm")
	for _, c := range []struct {
		args []string
		bar  bool
	}{
		{[]string{"verify", "--full", "--rate", "2M", "a.lbx"}, true},
		{[]string{"verify", "--full", "--rate", "2M", "a.lbx", "--quiet"}, false},
		{[]string{"verify", "--full", "--rate", "2M", "a.lbx", "--progress", "never"}, false},
	} {
		s := atPty(t, dir, c.args...)
		if err := unix.IoctlSetWinsize(int(s.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 72}); err != nil {
			t.Fatal(err)
		}
		code, seen := s.end()
		if bar := strings.Contains(seen, "verifying "); code != 0 || bar != c.bar {
			t.Errorf("%v: exit %d: %q", c.args, code, seen)
		}
		for _, line := range strings.FieldsFunc(seen, func(r rune) bool { return r == '\r' || r == '\n' }) {
			if strings.HasPrefix(line, "verifying") && len(line) >= 72 {
				t.Errorf("%v: %d columns: %q", c.args, len(line), line)
			}
		}
		if left := screen(seen); strings.Contains(left, "verifying") {
			t.Errorf("%v: what stays is %q", c.args, left)
		}
		if c.bar && !strings.Contains(seen, "/s, ") {
			t.Errorf("%v: neither rate nor remaining time in %q", c.args, seen)
		}
	}
}
