//go:build linux && !hostfs_portable

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"
)

// snapshot says all that there is to say of what lies in a tree, by system calls of its own: kind, mode, owner, time,
// extended attributes, other names, target, device, where data and holes are, and the bytes.
func snapshot(t *testing.T, top string) map[string]string {
	t.Helper()
	all := map[string]string{}
	first := map[uint64]string{}
	err := filepath.WalkDir(top, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		s := fmt.Sprintf("%o %d:%d %d.%09d %v", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec, xattrsOf(t, name))
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			if _, seen := first[st.Ino]; !seen {
				first[st.Ino] = rel
			}
			s += fmt.Sprintf(" %d bytes, %d links, as %q, %s", st.Size, st.Nlink, first[st.Ino], contentOf(t, name, st.Size))
		case unix.S_IFLNK:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			s += fmt.Sprintf(" to %q", target)
		case unix.S_IFCHR, unix.S_IFBLK:
			s += fmt.Sprintf(" device %x", st.Rdev)
		}
		all[rel] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func xattrsOf(t *testing.T, name string) (list []string) {
	t.Helper()
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(name, buf)
	if err == unix.EOPNOTSUPP || err == nil && n == 0 {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 64<<10)
	for attr := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if attr == "security.selinux" {
			continue
		}
		n, err := unix.Lgetxattr(name, attr, value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s=%x", attr, value[:n]))
	}
	slices.Sort(list)
	return list
}

// contentOf is where a file has data, and a digest of that.
func contentOf(t *testing.T, name string, size int64) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := blake3.New()
	var extents []string
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		end, err := unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			t.Fatal(err)
		}
		extents = append(extents, fmt.Sprintf("%d-%d", data, end))
		b := make([]byte, end-data)
		if _, err := f.ReadAt(b, data); err != nil {
			t.Fatal(err)
		}
		_, _ = h.Write(b)
		at = end
	}
	return fmt.Sprintf("%v %x", extents, h.Sum(nil)[:8])
}

func compareSnapshots(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[p]; !ok {
			t.Errorf("%s: %q is missing", what, p)
		} else if g != want[p] {
			t.Errorf("%s: %q is\n%.400s, want\n%.400s", what, p, g, want[p])
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%s: %q is there but should not", what, p)
		}
	}
}

// grower makes random trees.
type grower struct {
	t     *testing.T
	r     *rand.Rand
	root  bool
	attrs bool
	files []string
	dirs  []string
}

func newGrower(t *testing.T, seed uint64, dir string) *grower {
	t.Helper()
	g := &grower{t: t, r: rand.New(rand.NewPCG(seed, 16)), root: os.Geteuid() == 0}
	probe := filepath.Join(dir, "probe")
	g.check(os.WriteFile(probe, nil, 0o600))
	g.attrs = unix.Setxattr(probe, "user.x", nil, 0) == nil && unix.Setxattr(probe, "system.posix_acl_access", accessList(77, 4, 4, 4, 0), 0) == nil
	g.check(os.Remove(probe))
	return g
}

func (g *grower) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *grower) one(in int) bool { return g.r.IntN(in) == 0 }

// name makes a name of any bytes that a name can have.
func (g *grower) name() string {
	b := make([]byte, 1+g.r.IntN(12))
	for i := range b {
		if b[i] = byte(1 + g.r.IntN(255)); b[i] == '/' {
			b[i] = 'x'
		}
	}
	return fmt.Sprintf("%s-%d", b, g.r.IntN(1000))
}

// tree makes top and what lies in it. A directory gets its metadata when it is full.
func (g *grower) tree(top string) {
	g.dir(top, 0)
	for _, d := range slices.Backward(g.dirs) {
		g.finish(d, true)
	}
}

func (g *grower) dir(name string, depth int) {
	g.check(os.Mkdir(name, 0o700))
	g.dirs = append(g.dirs, name)
	for range 4 + g.r.IntN(8) {
		sub := filepath.Join(name, g.name())
		switch k := g.r.IntN(10); {
		case k < 2 && depth < 3:
			g.dir(sub, depth+1)
		case k < 3:
			g.check(os.Symlink(g.name(), sub))
			g.owner(sub)
			g.time(sub)
		case k < 5 && len(g.files) > 0:
			g.check(os.Link(g.files[g.r.IntN(len(g.files))], sub))
		case k < 6:
			g.check(unix.Mkfifo(sub, 0o600))
			g.finish(sub, false)
		case k < 7 && g.root:
			g.check(unix.Mknod(sub, []uint32{unix.S_IFCHR, unix.S_IFBLK}[g.r.IntN(2)]|0o600, int(unix.Mkdev(g.r.Uint32N(512), g.r.Uint32N(1<<18)))))
			g.finish(sub, false)
		default:
			g.file(sub)
			g.finish(sub, false)
			g.files = append(g.files, sub)
		}
	}
}

// file writes some bytes here and there.
func (g *grower) file(name string) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	g.check(err)
	defer f.Close()
	if g.one(2) {
		_, err := f.Write(noise(g.r.IntN(40_000), name))
		g.check(err)
		return
	}
	size := g.r.Int64N(1 << 24)
	g.check(f.Truncate(size))
	for range g.r.IntN(5) {
		b := noise(1+g.r.IntN(20_000), name)
		_, err := f.WriteAt(b, g.r.Int64N(size+1))
		g.check(err)
	}
}

// finish gives something its metadata.
func (g *grower) finish(name string, isDir bool) {
	var st unix.Stat_t
	g.check(unix.Lstat(name, &st))
	regular := st.Mode&unix.S_IFMT == unix.S_IFREG
	g.owner(name)
	if g.attrs && (regular || isDir) && g.one(3) {
		for range 1 + g.r.IntN(3) {
			g.check(unix.Lsetxattr(name, fmt.Sprintf("user.%d é\x01", g.r.IntN(9)), noise(g.r.IntN(200), name), 0))
		}
	}
	if g.attrs && regular && g.one(5) {
		// Not every file system takes so much; in an archive it is more than a record holds.
		_ = unix.Lsetxattr(name, "user.large", noise(40_000, name), 0)
	}
	mode := g.r.Uint32N(0o10000)
	if !g.root { // who cannot read something cannot store it
		if mode |= 0o400; isDir {
			mode |= 0o500
		}
	}
	g.check(unix.Chmod(name, mode))
	if g.attrs && g.one(3) {
		g.check(unix.Lsetxattr(name, "system.posix_acl_access", accessList(g.r.Uint32N(5000), 5, uint16(g.r.UintN(8)), 4, 1), 0))
	}
	if g.attrs && isDir && g.one(3) {
		g.check(unix.Lsetxattr(name, "system.posix_acl_default", accessList(g.r.Uint32N(5000), 7, 7, 4, 2), 0))
	}
	if g.attrs && regular && g.root && g.one(6) {
		// Version 2, effective, CAP_NET_BIND_SERVICE permitted.
		g.check(unix.Lsetxattr(name, "security.capability", []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0))
	}
	g.time(name)
}

func (g *grower) owner(name string) {
	if g.root && g.one(2) {
		g.check(unix.Lchown(name, g.r.IntN(3), g.r.IntN(70_000)))
	}
}

func (g *grower) time(name string) {
	sec := []int64{-2208988800, 0, -1, 16725225600, g.r.Int64N(1 << 31)}[g.r.IntN(5)] // 1900, 1970, 1969, 2500
	ts := []unix.Timespec{{}, {Sec: sec, Nsec: g.r.Int64N(1_000_000_000)}}
	g.check(unix.UtimesNanoAt(unix.AT_FDCWD, name, ts, unix.AT_SYMLINK_NOFOLLOW))
}
