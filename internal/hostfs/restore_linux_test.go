package hostfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// lossy is an Extractor of which it is known what was lost.
func lossy(t *testing.T, dir string, opt ExtractOptions) (*Extractor, map[string]error) {
	t.Helper()
	var mu sync.Mutex
	lost := map[string]error{}
	opt.Lost = func(path string, err error) {
		mu.Lock()
		defer mu.Unlock()
		lost[path] = err
	}
	x, err := NewExtractor(dir, opt)
	check(t, err)
	return x, lost
}

// Who may not give a file away is told so, and what belongs to him then has no setuid bit.
func TestOwnerIsNotRestored(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dir := t.TempDir()
	x, lost := lossy(t, dir, ExtractOptions{SameOwner: true, KeepSetid: true})
	m := Meta{Mode: 0o6755, HasOwner: true, UID: 1, GID: 1, Xattrs: []Xattr{{xattrCapability, []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}}
	check(t, x.WriteFile(path(t, "f"), m, []byte("x")))
	check(t, x.Mkdir(path(t, "d"), m, nil))
	m.Target = "f"
	check(t, x.Symlink(path(t, "l"), m))
	check(t, x.WriteFile(path(t, "mine"), Meta{Mode: 0o4755, HasOwner: true, UID: uint64(os.Getuid()), GID: uint64(os.Getgid())}, nil))
	check(t, x.Finish())
	for _, name := range []string{"f", "d", "l"} {
		if err := lost[name]; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "its owner") {
			t.Errorf("%s: %v", name, err)
		}
		fi, err := os.Lstat(filepath.Join(dir, name))
		check(t, err)
		if fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s is %v", name, fi.Mode())
		}
	}
	if lost["mine"] != nil {
		t.Errorf("%v", lost["mine"])
	}
	fi, err := os.Lstat(filepath.Join(dir, "mine"))
	check(t, err)
	if fi.Mode()&fs.ModeSetuid == 0 {
		t.Errorf("a file of one's own is %v", fi.Mode())
	}
}

func TestOwnerIDs(t *testing.T) {
	var o ownerIDs
	for _, c := range []struct {
		m        Meta
		uid, gid int
		ok       bool
	}{
		{Meta{UID: 5, GID: 6}, 5, 6, true},
		{Meta{UID: 5, User: "root", GID: 6, Group: "no such group"}, 0, 6, true},
		{Meta{UID: 1<<32 - 2, GID: 6}, 1<<32 - 2, 6, true},
		{Meta{UID: 1<<32 - 1, GID: 6}, 0, 0, false}, // to the system it means "leave it"
		{Meta{UID: 1<<32 - 1, User: "root", GID: 1 << 40}, 0, 0, false},
	} {
		for range 2 {
			if uid, gid, ok := o.of(&c.m); ok != c.ok || ok && (uid != c.uid || gid != c.gid) {
				t.Errorf("%+v: %d, %d, %v", c.m, uid, gid, ok)
			}
		}
	}
}

// A link's attributes are its own: what it leads to is not looked at, and one that leads nowhere is no fault.
func TestXattrsOfLinks(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "target"), 0o755))
	if err := unix.Setxattr(filepath.Join(dir, "target"), "user.x", []byte("y"), 0); err != nil {
		t.Skip("no extended attributes here")
	}
	check(t, os.Symlink("target", filepath.Join(dir, "link")))
	check(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	for _, follow := range []bool{false, true} {
		for _, it := range walkAll(top(dir), WalkOptions{Dereference: follow}) {
			if it.XattrErr != nil {
				t.Errorf("%s: %v", it.Path, it.XattrErr)
			}
			want := it.Path.String() == "target" || follow && it.Path.String() == "link"
			if got := len(it.Xattrs) == 1 && it.Xattrs[0].Name == "user.x" && string(it.Xattrs[0].Value) == "y"; got != want {
				t.Errorf("follow %v: %s has %q", follow, it.Path, it.Xattrs)
			}
		}
	}
	for _, it := range walkAll(top(dir), WalkOptions{NoXattrs: true}) {
		if it.Xattrs != nil {
			t.Errorf("%s has %q", it.Path, it.Xattrs)
		}
	}
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	x, err := NewExtractor(dir, ExtractOptions{})
	check(t, err)
	defer x.Abort()
	m := Meta{Mode: 0o644, Nlink: 2}
	check(t, x.WriteFile(path(t, "d/first"), m, []byte("bytes")))
	check(t, x.Link(path(t, "d/first"), path(t, "e/second")))
	a, err := os.Stat(filepath.Join(dir, "d/first"))
	check(t, err)
	b, err := os.Stat(filepath.Join(dir, "e/second"))
	check(t, err)
	if !os.SameFile(a, b) {
		t.Error("two files")
	}
	if err := x.Link(path(t, "d/first"), path(t, "e/second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
	// What was not written by this run, or was replaced since, does not become an entry.
	write(t, filepath.Join(dir, "other"), "not ours")
	if err := x.Link(path(t, "other"), path(t, "third")); err == nil {
		t.Error("a file that was not written got a name")
	}
	check(t, os.Remove(filepath.Join(dir, "d/first")))
	check(t, os.Symlink("../other", filepath.Join(dir, "d/first")))
	if err := x.Link(path(t, "d/first"), path(t, "third")); !errors.Is(err, ErrChanged) {
		t.Errorf("a replaced file: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "third")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	noTemps(t, dir)

	// Over names that exist; over another name of the very same file nothing is left behind.
	over, err := NewExtractor(dir, ExtractOptions{Overwrite: true})
	check(t, err)
	defer over.Abort()
	check(t, over.WriteFile(path(t, "d/first"), m, []byte("new")))
	for range 2 {
		check(t, over.Link(path(t, "d/first"), path(t, "e/second")))
		got, err := os.ReadFile(filepath.Join(dir, "e/second"))
		check(t, err)
		if !bytes.Equal(got, []byte("new")) {
			t.Errorf("%q", got)
		}
		noTemps(t, dir)
	}
}

func TestSpecial(t *testing.T) {
	if !anonTemps {
		t.Skip("FIFOs are not made on this backend")
	}
	dir := t.TempDir()
	m := Meta{Kind: KindFIFO, Mode: 0o640, MtimeSec: 77}
	for round, overwrite := range []bool{false, false, true} {
		x, err := NewExtractor(dir, ExtractOptions{Overwrite: overwrite})
		check(t, err)
		err = x.Special(path(t, "d/f"), m)
		if exists := round == 1; errors.Is(err, fs.ErrExist) != exists || !exists && err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		check(t, x.Finish())
		fi, err := os.Lstat(filepath.Join(dir, "d/f"))
		check(t, err)
		if fi.Mode() != fs.ModeNamedPipe|0o640 || fi.ModTime().Unix() != 77 {
			t.Errorf("round %d: %v of %v", round, fi.Mode(), fi.ModTime())
		}
		noTemps(t, dir)
	}
	x, err := NewExtractor(dir, ExtractOptions{})
	check(t, err)
	defer x.Abort()
	if err := x.Special(path(t, "dev"), Meta{Kind: KindChar, Major: 1 << 12}); err == nil {
		t.Error("a device number that the system would cut was taken")
	}
}

// An archive says nothing of this machine: labels, and what a file system keeps for itself, are not taken from it.
func TestForeignXattrsAreNotRestored(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: nobody else may set them at all")
	}
	dir := t.TempDir()
	x, lost := lossy(t, dir, ExtractOptions{KeepSetid: true, SameOwner: true})
	m := Meta{Mode: 0o755, Xattrs: []Xattr{{"trusted.overlay.opaque", []byte("y")}}}
	check(t, x.WriteFile(path(t, "f"), m, []byte("x")))
	check(t, x.Mkdir(path(t, "d"), m, nil))
	check(t, x.Finish())
	for _, name := range []string{"f", "d"} {
		if n, err := unix.Lgetxattr(filepath.Join(dir, name), m.Xattrs[0].Name, nil); err == nil {
			t.Errorf("%s got an attribute of %d bytes", name, n)
		}
	}
	if x.Foreign() != 2 || len(lost) > 0 {
		t.Errorf("%d entries have some; lost: %v", x.Foreign(), lost)
	}
}

// Without its access control list a file gives nobody more than with it.
func TestModeOfWhatGetsNoACL(t *testing.T) {
	list := func(entries ...[3]uint32) []byte {
		b := []byte{2, 0, 0, 0}
		for _, e := range entries {
			b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
			b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
			b = binary.LittleEndian.AppendUint32(b, e[2])
		}
		return b
	}
	const nobody = 1<<32 - 1 // to be refused by the system
	owner, others := [3]uint32{0x01, 7, nobody}, [3]uint32{0x20, 4, nobody}
	for name, c := range map[string]struct {
		mode, want uint32
		acl        []byte
	}{
		"mask":    {0o674, 0o604, list(owner, [3]uint32{aclUser, 7, nobody}, [3]uint32{aclOwn, 0, nobody}, [3]uint32{0x10, 7, nobody}, others)},
		"denied":  {0o2674, 0o600, list(owner, [3]uint32{aclUser, 0, nobody}, [3]uint32{aclOwn, 4, nobody}, [3]uint32{0x10, 7, nobody}, others)},
		"group":   {0o654, 0o644, list(owner, [3]uint32{aclOwn, 4, nobody}, [3]uint32{aclGroup, 6, nobody}, [3]uint32{0x10, 5, nobody}, others)},
		"garbage": {0o664, 0o604, []byte("\x02\x00\x00\x00\x04")},
	} {
		dir := t.TempDir()
		x, lost := lossy(t, dir, ExtractOptions{})
		m := Meta{Mode: c.mode, Xattrs: []Xattr{{xattrACL, c.acl}}}
		check(t, x.WriteFile(path(t, "f"), m, []byte("x")))
		check(t, x.Finish())
		fi, err := os.Stat(filepath.Join(dir, "f"))
		check(t, err)
		if got := uint32(fi.Mode().Perm()); got != c.want || lost["f"] == nil {
			t.Errorf("%s: mode %#o instead of %#o, %v", name, got, c.want, lost["f"])
		}
	}
}

// What is restored of a link never reaches what the link leads to.
func TestXattrsAreNotWrittenThroughLinks(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	check(t, os.WriteFile(target, nil, 0o600))
	if err := unix.Setxattr(target, "user.mine", []byte("y"), 0); err != nil {
		t.Skip("no extended attributes here")
	}
	x, _ := lossy(t, dir, ExtractOptions{Overwrite: true, SameOwner: true})
	check(t, x.Symlink(path(t, "link"), Meta{Target: "target", Xattrs: []Xattr{{"user.theirs", []byte("x")}}}))
	check(t, x.Finish())
	if _, err := unix.Getxattr(target, "user.theirs", nil); err == nil {
		t.Error("the target got an attribute")
	}
}

// What a directory gets later is not kept until then; if it cannot be had, nobody gets more than with it.
func TestLateXattrs(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Setxattr(dir, "user.x", []byte("y"), 0); err != nil {
		t.Skip("no extended attributes here")
	}
	x, lost := lossy(t, dir, ExtractOptions{})
	m := Meta{Mode: 0o775, Xattrs: []Xattr{{"user.large", make([]byte, 1000)}}}
	sick := errors.New("sick")
	check(t, x.Mkdir(path(t, "d"), m, func() ([]Xattr, error) { return []Xattr{{"user.late", []byte("x")}}, nil }))
	check(t, x.Mkdir(path(t, "e"), m, func() ([]Xattr, error) { return nil, sick }))
	for p, m := range x.final {
		if m.Xattrs != nil {
			t.Errorf("%s: %d attributes are kept", p, len(m.Xattrs))
		}
	}
	check(t, x.Finish())
	if n, err := unix.Getxattr(filepath.Join(dir, "d"), "user.late", nil); n != 1 || err != nil || lost["d"] != nil {
		t.Errorf("%d bytes, %v, %v", n, err, lost["d"])
	}
	fi, err := os.Stat(filepath.Join(dir, "e"))
	check(t, err)
	if fi.Mode().Perm() != 0o700 || !errors.Is(lost["e"], sick) {
		t.Errorf("%v, %v", fi.Mode(), lost["e"])
	}
}

// What is kept and has other names, which may lie elsewhere, keeps its metadata; where that is not what it was to have, it
// is said.
func TestKeptFileWithOtherNames(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, name := range []string{"same", "differs"} {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		check(t, os.Chmod(filepath.Join(dir, name), 0o640))
		check(t, os.Link(filepath.Join(dir, name), filepath.Join(other, name)))
	}
	x, lost := lossy(t, dir, ExtractOptions{Resume: true})
	for name, mode := range map[string]uint32{"same": 0o640, "differs": 0o644} {
		f, err := x.OpenExisting(path(t, name))
		check(t, err)
		x.Keep(path(t, name), f.Meta)
		check(t, f.Close())
		m := f.Meta
		m.Mode = mode
		check(t, x.Restore(path(t, name), m))
		fi, err := os.Stat(filepath.Join(other, name))
		check(t, err)
		if fi.Mode().Perm() != 0o640 {
			t.Errorf("%s is %v", name, fi.Mode())
		}
	}
	check(t, x.Finish())
	if lost["same"] != nil || lost["differs"] == nil {
		t.Errorf("lost: %v", lost)
	}
}

// What has other names and would have to change is Tied, by what the options restore; what has none, or is as it is to be, is not.
func TestTied(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		check(t, os.Chmod(filepath.Join(dir, name), 0o644))
		check(t, os.Symlink("x", filepath.Join(dir, name+"-link")))
		check(t, unix.Mkfifo(filepath.Join(dir, name+"-pipe"), 0o644))
	}
	for _, name := range []string{"two", "two-link", "two-pipe"} {
		check(t, os.Link(filepath.Join(dir, name), filepath.Join(dir, name+"-again")))
	}
	xattrs := unix.Setxattr(filepath.Join(dir, "two"), "user.have", []byte("1"), 0) == nil
	have := []Xattr{{"user.have", []byte("1")}}
	mode, time := func(m *Meta) { m.Mode ^= 0o40 }, func(m *Meta) { m.MtimeNsec ^= 1 }
	for _, c := range []struct {
		name   string
		change func(m *Meta)
		opt    ExtractOptions
		tied   bool
		xattrs bool
	}{
		{name: "one", change: mode}, {name: "one-link", change: time}, {name: "one-pipe", change: mode},
		{name: "two", change: func(*Meta) {}},
		{name: "two", change: mode, tied: true},
		{name: "two", change: mode, opt: ExtractOptions{NoPermissions: true}},
		{name: "two", change: func(m *Meta) { m.Mode |= modeSetuid }},
		{name: "two", change: func(m *Meta) { m.Mode |= modeSetuid }, opt: ExtractOptions{KeepSetid: true}, tied: true},
		{name: "two", change: time, tied: true},
		{name: "two", change: time, opt: ExtractOptions{NoTimes: true}},
		{name: "two", change: func(m *Meta) { m.UID++ }},
		{name: "two", change: func(m *Meta) { m.UID++ }, opt: ExtractOptions{SameOwner: true}, tied: os.Geteuid() == 0},
		{name: "two", change: func(m *Meta) { m.Xattrs = nil }, tied: true, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Xattrs = []Xattr{{"user.have", []byte("2")}} }, tied: true, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Xattrs = append(m.Xattrs, Xattr{"user.more", nil}) }, tied: true, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Xattrs = append(m.Xattrs, Xattr{"trusted.more", nil}) }, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Xattrs = append(m.Xattrs, Xattr{xattrCapability, nil}) }, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Xattrs = append(m.Xattrs, Xattr{xattrCapability, nil}) }, opt: ExtractOptions{KeepSetid: true}, tied: true, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Xattrs = append(m.Xattrs, Xattr{xattrACL, nil}) }, tied: true, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Xattrs = append(m.Xattrs, Xattr{xattrACL, nil}) }, opt: ExtractOptions{NoPermissions: true}, xattrs: true},
		{name: "two", change: func(m *Meta) { m.Mode, m.XattrsErr = 0, errors.New("damaged") }},
		{name: "two-link", change: mode}, {name: "two-link", change: time, tied: linksHaveTimes},
		{name: "two-pipe", change: mode, tied: true},
	} {
		if c.xattrs && !xattrs {
			continue
		}
		c.opt.Resume = true
		x, _ := lossy(t, dir, c.opt)
		now, err := x.DescribeExisting(path(t, c.name))
		check(t, err)
		want := now
		if xattrs && c.name == "two" {
			want.Xattrs = slices.Clone(have)
		}
		c.change(&want)
		if got, err := x.Tied(path(t, c.name), now, want); got != c.tied || err != nil {
			t.Errorf("%s, %+v with %+v: %v, %v", c.name, want, c.opt, got, err)
		}
		check(t, x.Finish())
	}
}
