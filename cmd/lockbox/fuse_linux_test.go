package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A file system of a test's own, served through /dev/fuse: the disk that fails, and the mount that is dead.

// Requests of the kernel, and what they look like.
const (
	fuseLookup  = 1
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseInit    = 26
	fuseOpendir = 27
	fuseReaddir = 28
)

const (
	fuseForget     = 2
	fuseForgets    = 42
	fuseInterrupt  = 36
	fuseRelease    = 18
	fuseFlush      = 25
	fuseReleasedir = 29
	fuseRoot       = 1
	fuseHeader     = 40
)

// sickFile is a file, or with dir an empty directory, of that file system.
type sickFile struct {
	name   string
	dir    bool
	size   uint64 // as it claims
	data   string // what can be read
	broken bool   // reading beyond data fails with EIO
}

// sickMount is a directory that holds files. A request after the last one that gets an answer is not even taken, as
// by a server that was stopped; asked is closed when there is one.
type sickMount struct {
	dir     string
	files   []sickFile
	fd      int
	answers int
	asked   chan struct{}
}

// mountSick mounts the files, or skips the test. It dies after so many answers. The mount is gone when the test ends, whoever waits for it.
func mountSick(t *testing.T, answers int, files ...sickFile) *sickMount {
	t.Helper()
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("/dev/fuse: %v", err)
	}
	m := &sickMount{dir: filepath.Join(t.TempDir(), "sick"), files: files, fd: fd, answers: answers, asked: make(chan struct{})}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, os.Getuid(), os.Getgid())
	if err := syscall.Mount("sick", m.dir, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		syscall.Close(fd)
		t.Skipf("no way to mount: %v", err)
	}
	var served sync.WaitGroup
	served.Go(m.serve)
	t.Cleanup(func() {
		_ = syscall.Unmount(m.dir, syscall.MNT_FORCE|syscall.MNT_DETACH)
		served.Wait()
		syscall.Close(fd)
	})
	return m
}

// serve answers requests until the file system is unmounted.
func (m *sickMount) serve() {
	buf := make([]byte, 1<<20)
	for {
		if m.answers == 0 {
			m.wait(unix.POLLIN)
			close(m.asked)
			m.wait(0)
			return
		}
		n, err := syscall.Read(m.fd, buf)
		if err == syscall.EINTR || err == syscall.ENOENT {
			continue
		}
		if err != nil || n < fuseHeader {
			return
		}
		op, id := binary.LittleEndian.Uint32(buf[4:]), binary.LittleEndian.Uint64(buf[8:])
		if op == fuseForget || op == fuseForgets || op == fuseInterrupt {
			continue // these want no answer
		}
		m.answers--
		out, errno := m.answer(op, binary.LittleEndian.Uint64(buf[16:]), buf[fuseHeader:n])
		reply := binary.LittleEndian.AppendUint32(nil, uint32(16+len(out)))
		reply = binary.LittleEndian.AppendUint32(reply, uint32(-int32(errno)))
		reply = append(binary.LittleEndian.AppendUint64(reply, id), out...)
		_, _ = syscall.Write(m.fd, reply) // who asked may be gone
	}
}

// wait returns when there is such an event, or when the file system is unmounted.
func (m *sickMount) wait(events int16) {
	for {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.fd), Events: events}}, -1); n > 0 || err != unix.EINTR {
			return
		}
	}
}

// answer is what a request for a node gets: the root, or the file that is numbered after it.
func (m *sickMount) answer(op uint32, node uint64, in []byte) (out []byte, errno syscall.Errno) {
	var f *sickFile
	if op == fuseLookup && node == fuseRoot {
		for i := range m.files {
			if m.files[i].name == string(in[:max(len(in)-1, 0)]) {
				f, node = &m.files[i], fuseRoot+1+uint64(i)
			}
		}
		if f == nil {
			return nil, syscall.ENOENT
		}
	} else if i := node - fuseRoot - 1; node > fuseRoot && i < uint64(len(m.files)) {
		f = &m.files[i]
	}
	le := binary.LittleEndian
	switch op {
	case fuseInit:
		out = make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[20:], 1<<16) // the most that is written at once, which nobody does
	case fuseLookup:
		out = le.AppendUint64(make([]byte, 0, 128), node)
		out = append(out, make([]byte, 32)...)
		out = append(out, attributes(node, f)...)
	case fuseGetattr:
		out = append(make([]byte, 16), attributes(node, f)...)
	case fuseOpen, fuseOpendir:
		out = make([]byte, 16)
		out[8] = 1 | 1<<5 // past the system's cache; closing asks nothing, as nobody could interrupt that
	case fuseRead:
		from, n := le.Uint64(in[8:]), uint64(le.Uint32(in[16:]))
		size := uint64(len(f.data))
		if from >= size && f.broken {
			return nil, syscall.EIO
		}
		out = []byte(f.data[min(from, size):min(from+n, size)])
	case fuseReaddir:
		if node != fuseRoot {
			break
		}
		for i := le.Uint64(in[8:]); i < uint64(len(m.files)); i++ {
			out = le.AppendUint64(out, fuseRoot+1+i)
			out = le.AppendUint64(out, i+1)
			out = le.AppendUint32(out, uint32(len(m.files[i].name)))
			out = append(le.AppendUint32(out, 0), m.files[i].name...)
			out = append(out, make([]byte, -len(out)&7)...)
		}
	case fuseRelease, fuseReleasedir, fuseFlush:
	default:
		return nil, syscall.ENOSYS
	}
	return out, 0
}

// attributes describes the root, where f is nil, or a file.
func attributes(node uint64, f *sickFile) []byte {
	le := binary.LittleEndian
	b := make([]byte, 88)
	mode, size := uint32(syscall.S_IFDIR|0o755), uint64(0)
	if f != nil && !f.dir {
		mode, size = syscall.S_IFREG|0o644, f.size
	}
	le.PutUint64(b, node)
	le.PutUint64(b[8:], size)
	le.PutUint32(b[60:], mode)
	le.PutUint32(b[64:], 1)
	le.PutUint32(b[68:], uint32(os.Getuid()))
	le.PutUint32(b[72:], uint32(os.Getgid()))
	return b
}

// A disk that fails, and sizes that are not true: named, exit 3, and nothing made up in place of what is missing.
func TestSickDisk(t *testing.T) {
	m := mountSick(t, -1,
		sickFile{name: "a-good", size: 4, data: "good"},
		sickFile{name: "broken", size: 5, data: "", broken: true},
		sickFile{name: "half", size: 300_000, data: string(noise(150_000, "half")), broken: true},
		sickFile{name: "huge", size: 1<<63 - 1, data: "not so huge", broken: true},
		sickFile{name: "less", size: 100, data: "less"},
		sickFile{name: "more", size: 4, data: "more than that"},
		sickFile{name: "unsized", size: 0, data: "content"},
		sickFile{name: "vast", size: 1 << 62, data: "ends here"},
		sickFile{name: "z-good", size: 4, data: "last"},
	)
	for _, jobs := range []string{"1", "4"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "older", "broken"), []byte("older"))
		mustRun(t, dir, "add", "a.lbx", "-C", "older", ".")
		code, _, errs := lockbox(t, dir, "add", "a.lbx", "-C", m.dir, ".", "-j", jobs)
		if code != 3 {
			t.Errorf("-j %s: exit %d: %s", jobs, code, errs)
		}
		for name, says := range map[string]string{
			"broken": "input/output error", "half": "input/output error", "huge": "input/output error",
			"less": "4 bytes instead of 100", "unsized": "it has bytes although its size is 0", "vast": "bytes instead of",
		} {
			if !regexp.MustCompile(`"./` + name + `" was left out: .*` + says).MatchString(errs) {
				t.Errorf("-j %s: nothing of %s: %s", jobs, name, errs)
			}
		}
		if got, want := mustRun(t, dir, "list", "a.lbx"), "a-good\nbroken\nmore\nz-good\n"; got != want {
			t.Errorf("-j %s: stored are %q, want %q", jobs, got, want)
		}
		// What a file has beyond its size is not there for anybody.
		for name, want := range map[string]string{"broken": "older", "more": "more", "a-good": "good", "z-good": "last"} {
			if got := mustRun(t, dir, "cat", "a.lbx", name); got != want {
				t.Errorf("-j %s: %s is %q", jobs, name, got)
			}
		}
		mustRun(t, dir, "verify", "--full", "a.lbx")
	}
}

// Whichever request is the one that a mount never answers, an interrupt ends the command: exit 130, the archive as
// before, no stray file. It dies one request later each time, until the command gets through.
func TestDeadMount(t *testing.T) {
	for _, args := range [][]string{{"a.lbx", "-j", "1"}, {"a.lbx", "-j", "4"}, {"a.lbx", "--dry-run"}, {"a.lbx", "--no-replace"}, {"new.lbx"}, {"new.lbx", "--reproducible"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			const most = 56
			through := make([]bool, most)
			var all sync.WaitGroup
			for n := range most {
				m := mountSick(t, n, sickFile{name: "d", dir: true}, sickFile{name: "f", size: 4, data: "data"})
				write(t, filepath.Join(m.dir, "..", "x"), []byte("x"))
				mustRun(t, filepath.Dir(m.dir), "add", "a.lbx", "x")
				all.Go(func() { through[n] = addFromDying(t, m, args) })
			}
			all.Wait()
			if through[5] || !through[most-1] {
				t.Errorf("got through: %v", through)
			}
		})
	}
}

// addFromDying interrupts add when the mount has died, and reports whether it got through before.
func addFromDying(t *testing.T, m *sickMount, args []string) (through bool) {
	dir := filepath.Dir(m.dir)
	_, before, _ := lockbox(t, dir, "info", "a.lbx", "--json")
	cmd := command(t, dir, append([]string{"add"}, append(args, "-C", "sick", ".")...)...)
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return false
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-m.asked:
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err = <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			t.Error("an interrupt does not end it")
			return false
		}
	}
	code := exitStatus(t, err)
	if code == 0 {
		return true // what was not answered, if anything, came at the end, and nobody waited for it
	}
	var e *exec.ExitError
	early := errors.As(err, &e) && e.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT // before it can tidy up, it need not
	if code != 130 && !early {
		t.Errorf("exit %d", code)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 3 {
		t.Errorf("stray files: %q, %v", names, err)
	}
	if _, after, _ := lockbox(t, dir, "info", "a.lbx", "--json"); root(t, after) != root(t, before) {
		t.Error("the archive changed")
	}
	if code, _, errs := lockbox(t, dir, "add", "a.lbx", "x"); code != 0 {
		t.Errorf("the next writer: exit %d: %s", code, errs)
	}
	return false
}
