package hostfs

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// posixACL makes the attribute that holds a list of (tag, permissions, number).
func posixACL(entries ...[3]uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return b
}

const (
	aclOwner, aclMask, aclOther = 1, 16, 32
	nobodyInParticular          = math.MaxUint32
)

// Where an access control list cannot be set, the one that the directory above gives to all that is made in it does not stay
// in its place: it may name people of whom the other knows nothing.
func TestInheritedACLDoesNotStandInForALostOne(t *testing.T) {
	dir := t.TempDir()
	inherited := posixACL([3]uint32{aclOwner, 7, nobodyInParticular}, [3]uint32{aclUser, 7, 77}, [3]uint32{aclOwn, 7, nobodyInParticular},
		[3]uint32{aclMask, 7, nobodyInParticular}, [3]uint32{aclOther, 0, nobodyInParticular})
	if err := unix.Setxattr(dir, xattrDefaultACL, inherited, 0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no access control lists here")
	} else {
		check(t, err)
	}
	x, lost := lossy(t, dir, ExtractOptions{})
	// The system refuses a list with an entry of a kind that it does not know.
	bad := posixACL([3]uint32{aclOwner, 7, nobodyInParticular}, [3]uint32{aclUser, 7, 9}, [3]uint32{99, 7, 9},
		[3]uint32{aclOwn, 5, nobodyInParticular}, [3]uint32{aclMask, 7, nobodyInParticular}, [3]uint32{aclOther, 0, nobodyInParticular})
	m := Meta{Mode: 0o770, Xattrs: []Xattr{{xattrACL, bad}}}
	check(t, x.Mkdir(path(t, "d"), m, nil))
	check(t, x.WriteFile(path(t, "f"), m, []byte("x")))
	check(t, x.Finish())
	for _, name := range []string{"d", "f"} {
		if lost[name] == nil {
			t.Errorf("%s: nobody was told", name)
		}
		fi, err := os.Lstat(filepath.Join(dir, name))
		check(t, err)
		if fi.Mode().Perm() != 0o750 {
			t.Errorf("%s is %v", name, fi.Mode())
		}
		if got := listXattrs(t, filepath.Join(dir, name)); len(got) > 0 {
			t.Errorf("%s has %q", name, got)
		}
	}
}

// Every file system ends somewhere, and takes the nearest time that it has.
func TestTimeThatIsNotKeptIsTold(t *testing.T) {
	dir := t.TempDir()
	x, lost := lossy(t, dir, ExtractOptions{})
	times := map[string]int64{"now": 1_800_000_000, "past": -1 << 60, "future": 1 << 60, "last": math.MaxInt64, "first": math.MinInt64}
	for name, sec := range times {
		m := Meta{Mode: 0o755, MtimeSec: sec, MtimeNsec: 999_999_999, Target: "x"}
		check(t, x.Mkdir(path(t, "d-"+name), m, nil))
		check(t, x.WriteFile(path(t, "f-"+name), m, nil))
		check(t, x.Symlink(path(t, "l-"+name), m))
	}
	check(t, x.Finish())
	for name, sec := range times {
		for _, kind := range []string{"d-", "f-", "l-"} {
			if kind == "l-" && !anonTemps {
				continue // the time of a link is not restored here
			}
			fi, err := os.Lstat(filepath.Join(dir, kind+name))
			check(t, err)
			if kept := fi.ModTime().Unix() == sec; kept != (lost[kind+name] == nil) {
				t.Errorf("%s: it is of %v, and what was told is %v", kind+name, fi.ModTime(), lost[kind+name])
			}
		}
	}
}

func listXattrs(t *testing.T, name string) []string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := unix.Llistxattr(name, b)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	check(t, err)
	return strings.FieldsFunc(string(b[:n]), func(c rune) bool { return c == 0 })
}

// A directory is made in one whose default list gives its owner less than he needs, or under a umask that does.
func TestDirectoriesThatAreMadeWithTooLittle(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for _, withACL := range []bool{false, true} {
		dir := t.TempDir()
		x, lost := lossy(t, dir, ExtractOptions{})
		umask := 0o777
		if withACL {
			x.Abort()
			list := posixACL([3]uint32{aclOwner, 6, nobodyInParticular}, [3]uint32{aclOwn, 0, nobodyInParticular}, [3]uint32{aclOther, 0, nobodyInParticular})
			if err := unix.Setxattr(dir, xattrDefaultACL, list, 0); errors.Is(err, errors.ErrUnsupported) {
				continue
			} else {
				check(t, err)
			}
			x, lost = lossy(t, dir, ExtractOptions{})
			umask = 0
		}
		was := unix.Umask(umask)
		err := x.Mkdir(path(t, "d"), Meta{Mode: 0o750}, nil)
		if err == nil {
			err = x.WriteFile(path(t, "d/f"), Meta{Mode: 0o640}, []byte("x"))
		}
		err = errors.Join(err, x.Finish())
		unix.Umask(was)
		check(t, err)
		if len(lost) > 0 {
			t.Errorf("%v", lost)
		}
		for name, mode := range map[string]os.FileMode{"d": 0o750, "d/f": 0o640} {
			fi, err := os.Lstat(filepath.Join(dir, name))
			check(t, err)
			if fi.Mode().Perm() != mode {
				t.Errorf("%s is %v", name, fi.Mode())
			}
		}
	}
}
