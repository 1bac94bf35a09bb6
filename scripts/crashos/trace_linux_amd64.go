package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

func traceUnavailable() string { return "" }

const (
	ptraceSyscallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO
	traceSysGood      = 1
	traceClone        = 8
	traceExitKill     = 1 << 20
	regOrigRax        = 15 * 8
	regRax            = 10 * 8
	openTmpfile       = 0o20000000 // __O_TMPFILE
)

// call is a system call that changes files.
type call struct {
	name string
	fd   bool // its first argument is the descriptor that it changes
	flow bool // a write, sync or truncation, which a poisoned handle refuses
}

var calls = map[uint64]call{
	1: {"write", true, true}, 18: {"pwrite64", true, true}, 20: {"writev", true, true}, 296: {"pwritev", true, true},
	74: {"fsync", true, true}, 75: {"fdatasync", true, true}, 77: {"ftruncate", true, true}, 285: {"fallocate", true, true},
	277: {"sync_file_range", true, true}, 326: {"copy_file_range", false, false},
	82: {"rename", false, false}, 264: {"renameat", false, false}, 316: {"renameat2", false, false},
	86: {"link", false, false}, 265: {"linkat", false, false}, 87: {"unlink", false, false}, 263: {"unlinkat", false, false},
	83: {"mkdir", false, false}, 258: {"mkdirat", false, false}, 88: {"symlink", false, false}, 266: {"symlinkat", false, false},
	76: {"truncate", false, false}, 91: {"fchmod", true, false}, 268: {"fchmodat", false, false}, 280: {"utimensat", false, false},
	257: {"openat", false, false},
}

// fileID is a file's identity; two descriptors of one file share it.
type fileID struct{ dev, ino uint64 }

// tracer follows all threads of one process.
type tracer struct {
	plan
	rep    report
	leader int
	fail   map[int]syscall.Errno // threads whose running call was replaced by an error
	file   fileID                // what the met call was about
	fd     uint64                // the descriptor
	onFile bool                  // until that is closed
}

func traceMain(spec string, argv []string) int {
	runtime.LockOSThread() // one thread makes all requests
	t := &tracer{fail: map[int]syscall.Errno{}}
	code, err := t.run(spec, argv)
	if err == nil {
		var b []byte
		if b, err = json.Marshal(&t.rep); err == nil {
			err = os.WriteFile(t.Report, b, 0o600)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "crash-os: tracing: %v\n", err)
		return 125
	}
	return code
}

func (t *tracer) run(spec string, argv []string) (int, error) {
	if err := json.Unmarshal([]byte(spec), &t.plan); err != nil {
		return 0, err
	}
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return 0, err
	}
	t.leader = p.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(t.leader, &ws, 0, nil); err != nil {
		return 0, err
	}
	if err := syscall.PtraceSetOptions(t.leader, traceSysGood|traceClone|traceExitKill); err != nil {
		return 0, err
	}
	known := map[int]bool{t.leader: true}
	tid, sig := t.leader, 0
	for {
		// A thread may vanish between two steps: another one ended the process.
		if err := syscall.PtraceSyscall(tid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
	wait:
		if tid, err = syscall.Wait4(-1, &ws, syscall.WALL, nil); errors.Is(err, syscall.EINTR) {
			goto wait
		}
		if err != nil {
			return 0, err
		}
		sig = 0
		switch {
		case ws.Exited() || ws.Signaled():
			if tid != t.leader {
				goto wait
			}
			if ws.Signaled() {
				return 128 + int(ws.Signal()), nil
			}
			return ws.ExitStatus(), nil
		case ws.StopSignal() == syscall.SIGTRAP|0x80:
			if err := t.stopped(tid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return 0, err
			}
		case ws.TrapCause() > 0:
		case !known[tid]: // a new thread's first stop
			known[tid] = true
		default:
			sig = int(ws.StopSignal())
		}
	}
}

// stopped handles a thread that enters or leaves a system call.
func (t *tracer) stopped(tid int) error {
	var info [88]byte
	n, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, ptraceSyscallInfo, uintptr(tid), uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return errno
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(info[24+8*i:]) }
	switch op := info[0]; {
	case n < 80 && op == 1:
		return errors.New("the kernel's description of a call is too short")
	case op == 1:
		args := [4]uint64{word(1), word(2), word(3), word(4)}
		return t.enter(tid, word(0), args)
	case op == 2 && t.fail[tid] != 0:
		e := t.fail[tid]
		delete(t.fail, tid)
		return poke(tid, regRax, -int64(e))
	}
	return nil
}

func (t *tracer) enter(tid int, nr uint64, args [4]uint64) error {
	c, ok := calls[nr]
	if nr == syscall.SYS_CLOSE && args[0] == t.fd {
		t.onFile = false
	}
	if !ok {
		return nil
	}
	if c.name == "openat" {
		if t.NoAnon && args[2]&openTmpfile != 0 {
			return t.refuse(tid, syscall.EOPNOTSUPP)
		}
		if args[2]&(openTmpfile|syscall.O_CREAT) == 0 {
			return nil
		}
	}
	if c.name == "renameat2" && t.NoSwap {
		return t.refuse(tid, syscall.EINVAL)
	}
	var target string
	var id fileID
	if c.fd {
		link := "/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.FormatUint(args[0], 10)
		target, _ = os.Readlink(link)
		// The runtime wakes itself through such descriptors, and messages are what the tests read.
		if strings.HasPrefix(target, "anon_inode:") || args[0] == 2 {
			return nil
		}
		var st syscall.Stat_t
		if err := syscall.Stat(link, &st); err == nil {
			id = fileID{st.Dev, st.Ino}
		}
	}
	if c.flow && t.onFile && id == t.file && t.rep.Met != "" && len(t.rep.After) < 8 {
		t.rep.After = append(t.rep.After, c.name)
	}
	if t.Only != "" && c.name != t.Only {
		return nil
	}
	t.rep.Calls++
	if t.rep.Calls != t.N {
		return nil
	}
	t.rep.Met, t.rep.File = c.name, filepath.Base(target)
	t.file, t.fd, t.onFile = id, args[0], c.flow && id != fileID{}
	if t.Front != "" {
		pushFront(t.Front)
	}
	if t.Cut != "" {
		if err := cutPower(t.Cut); err != nil {
			return err
		}
	}
	if t.Kill {
		// A call whose caller is killed at its entry is not made.
		return syscall.Kill(t.leader, syscall.SIGKILL)
	}
	if t.Errno != 0 {
		return t.refuse(tid, t.Errno)
	}
	return nil
}

// refuse turns the call that a thread is entering into one that does nothing and fails.
func (t *tracer) refuse(tid int, errno syscall.Errno) error {
	t.fail[tid] = errno
	return poke(tid, regOrigRax, -1)
}

func poke(tid int, off uintptr, v int64) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, syscall.PTRACE_POKEUSR, uintptr(tid), off, uintptr(v), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
