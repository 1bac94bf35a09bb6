package main

import (
	"fmt"
	"os"
	"os/exec"
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
	time.Sleep(50 * time.Millisecond)
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
