package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// metaCommands are for scripts about what only this system's files have.
var metaCommands = map[string]func(*testscript.TestScript, bool, []string){
	"setxattr": cmdSetXattr,
	"xattr":    cmdXattr,
	"sparse":   cmdSparse,
	"takes":    cmdTakes,
	"samefile": cmdSameFile,
	"mksocket": cmdMkSocket,
}

// takesXattrs reports whether temporary files can have attributes and access control lists.
func takesXattrs() bool {
	f, err := os.CreateTemp("", "")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return unix.Fsetxattr(int(f.Fd()), "user.x", nil, 0) == nil &&
		unix.Fsetxattr(int(f.Fd()), "system.posix_acl_access", accessList(77, 4, 4, 4, 0), 0) == nil
}

// setxattr FILE NAME HEX sets an attribute of a file, not of what a link leads to.
func cmdSetXattr(ts *testscript.TestScript, _ bool, args []string) {
	b, err := hex.DecodeString(args[2])
	ts.Check(err)
	ts.Check(unix.Lsetxattr(ts.MkAbs(args[0]), args[1], b, 0))
}

// xattr FILE NAME [HEX] demands that a file has an attribute, ! xattr FILE NAME that it has not.
func cmdXattr(ts *testscript.TestScript, neg bool, args []string) {
	buf := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(ts.MkAbs(args[0]), args[1], buf)
	if neg {
		if !errors.Is(err, unix.ENODATA) {
			ts.Fatalf("%s has %s: %x, %v", args[0], args[1], buf[:max(n, 0)], err)
		}
		return
	}
	ts.Check(err)
	if got := hex.EncodeToString(buf[:n]); got != args[2] {
		ts.Fatalf("%s is %s, want %s", args[1], got, args[2])
	}
}

// sparse FILE SIZE OFFSET=TEXT... makes a file with holes.
func cmdSparse(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(f.Truncate(size))
	for _, a := range args[2:] {
		at, text, _ := strings.Cut(a, "=")
		off, err := strconv.ParseInt(at, 10, 64)
		ts.Check(err)
		_, err = f.WriteAt([]byte(text), off)
		ts.Check(err)
	}
	ts.Check(f.Close())
}

// takes FILE MOST demands that a file takes at most so many bytes of the disk.
func cmdTakes(ts *testscript.TestScript, _ bool, args []string) {
	most, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	var st unix.Stat_t
	ts.Check(unix.Lstat(ts.MkAbs(args[0]), &st))
	if st.Blocks*512 > most {
		ts.Fatalf("%s takes %d bytes", args[0], st.Blocks*512)
	}
}

// samefile A B demands that two names are names of one file.
func cmdSameFile(ts *testscript.TestScript, neg bool, args []string) {
	var st [2]unix.Stat_t
	for i := range st {
		ts.Check(unix.Lstat(ts.MkAbs(args[i]), &st[i]))
	}
	if same := st[0].Ino == st[1].Ino && st[0].Dev == st[1].Dev; same == neg {
		ts.Fatalf("%s and %s are one file: %v", args[0], args[1], same)
	}
}

func cmdMkSocket(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := os.Open(ts.MkAbs("."))
	ts.Check(err)
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	ts.Check(err)
	defer unix.Close(fd)
	// The name of a socket may not be long.
	ts.Check(unix.Bind(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + args[0]}))
}

// An access control list as the system takes it: version 2, then tag, permissions and id of each entry.
func accessList(user uint32, perm, mask, group, other uint16) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 7, ^uint32(0)}, {2, perm, user}, {4, group, ^uint32(0)}, {0x10, mask, ^uint32(0)}, {0x20, other, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}
