//go:build linux && !hostfs_portable

package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// object is something whose metadata is restored. bare means that the descriptor only stands for it: most calls
// refuse that, but take its name under /proc, which leads to this object and no other.
type object struct {
	fd   int
	bare bool
}

func (o object) proc() string { return "/proc/self/fd/" + strconv.Itoa(o.fd) }

func (o object) chown(uid, gid int) error {
	return unix.Fchownat(o.fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

func (o object) chmod(mode uint32) error {
	if !o.bare {
		return unix.Fchmod(o.fd, mode)
	}
	err := unix.Fchmodat(o.fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP {
		err = unix.Chmod(o.proc(), mode) // before Linux 6.6
	}
	return err
}

func (o object) setXattr(name string, value []byte) error {
	if o.bare {
		return unix.Setxattr(o.proc(), name, value, 0)
	}
	return unix.Fsetxattr(o.fd, name, value, 0)
}

// xattrs reads the extended attributes.
func (o object) xattrs() ([]Xattr, error) {
	if !o.bare {
		return fdXattrs(o.fd)
	}
	return readXattrs(
		func(b []byte) (int, error) { return unix.Listxattr(o.proc(), b) },
		func(name string, b []byte) (int, error) { return unix.Getxattr(o.proc(), name, b) },
	)
}

// removeXattr removes an attribute if there is one.
func (o object) removeXattr(name string) (err error) {
	if o.bare {
		err = unix.Removexattr(o.proc(), name)
	} else {
		err = unix.Fremovexattr(o.fd, name)
	}
	if err == unix.ENODATA || err == unix.EOPNOTSUPP {
		return nil
	}
	return err
}

// times leaves the time of last access alone.
func times(m *Meta) ([]unix.Timespec, error) {
	t, err := unix.TimeToTimespec(m.Mtime())
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, t}, err
}

// setTime sets the time of last modification.
func (o object) setTime(m *Meta) error {
	ts, err := times(m)
	if err != nil {
		return err
	}
	err = unix.UtimesNanoAt(o.fd, "", ts, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		// Kernels before 5.8 know no empty path here.
		err = unix.UtimesNanoAt(unix.AT_FDCWD, o.proc(), ts, 0)
	}
	if err != nil {
		return err
	}
	return m.checkTime(func() (Meta, error) { return fstat(o.fd) })
}

// settle is called before the time is set.
func (o object) settle() error { return nil }

func (d *dir) object() object { return object{d.fd, d.searched != nil} }

func (d *dir) fileObject(f *hfile, _ string) object { return object{fd: f.fd} }

// node opens what was just made under a name, for its metadata alone: a device does not notice.
func (d *dir) node(name string, kind Kind) (object, func(), error) {
	fd, err := openat(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return object{}, nil, err
	}
	m, err := fstat(fd)
	if err == nil && (m.Kind != kind || m.Nlink != 1) {
		err = fmt.Errorf("%w: it was replaced by another %s", ErrChanged, m.Kind)
	}
	if err != nil {
		_ = unix.Close(fd)
		return object{}, nil, err
	}
	return object{fd, true}, func() { _ = unix.Close(fd) }, nil
}

// findDefaults finds out what a directory gives to what is made in it.
func (d *dir) findDefaults() {
	var n int
	var err error
	if d.searched != nil {
		n, err = unix.Getxattr(d.object().proc(), xattrDefaultACL, nil)
	} else {
		n, err = unix.Fgetxattr(d.fd, xattrDefaultACL, nil)
	}
	d.inherits = err == nil && n > 0
}

// linksHaveTimes says that a link's own time can be set.
const linksHaveTimes = true

func (d *dir) symlink(target, name string) error { return unix.Symlinkat(target, d.fd, name) }

// linkTime sets the time of a link itself where the system can.
func (d *dir) linkTime(name string, m *Meta) error {
	ts, err := times(m)
	if err != nil {
		return err
	}
	err = unix.UtimesNanoAt(d.fd, name, ts, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return nil
	}
	if err != nil {
		return err
	}
	return m.checkTime(func() (Meta, error) { return d.lookup(name, false) })
}

// mknod makes a FIFO or a device.
func (d *dir) mknod(name string, m *Meta) error {
	mode := map[Kind]uint32{KindFIFO: unix.S_IFIFO, KindChar: unix.S_IFCHR, KindBlock: unix.S_IFBLK}[m.Kind]
	var dev uint64
	if m.Kind != KindFIFO {
		// What the call takes has 12 bits for the one and 20 for the other.
		if m.Major >= 1<<12 || m.Minor >= 1<<20 {
			return fmt.Errorf("this system has no device %d:%d", m.Major, m.Minor)
		}
		dev = unix.Mkdev(uint32(m.Major), uint32(m.Minor))
	}
	return unix.Mknodat(d.fd, name, mode|0o600, int(dev))
}

// hardlink gives a file of d a second name in another directory. The file system may not be able to: ErrNoLink.
func (x *Extractor) hardlink(from, to *dir, base, name, _, _ string) error {
	err := unix.Linkat(from.fd, base, to.fd, name, 0)
	switch err {
	case unix.EPERM, unix.EXDEV, unix.EMLINK, unix.EOPNOTSUPP, unix.ENOSYS:
		return fmt.Errorf("%w: %w", ErrNoLink, err)
	}
	return err
}

// truncate gives a file its size; what was not written is a hole.
func (f *hfile) truncate(size int64) error { return unix.Ftruncate(f.fd, size) }

// xattrs reads the extended attributes of a name without opening what it leads to.
func (d *dir) xattrs(name string, kind Kind, follow bool) ([]Xattr, error) {
	path := d.object().proc() + "/" + name
	list, get := unix.Llistxattr, unix.Lgetxattr
	if follow {
		list, get = unix.Listxattr, unix.Getxattr
	}
	xs, err := readXattrs(
		func(b []byte) (int, error) { return list(path, b) },
		func(name string, b []byte) (int, error) { return get(path, name, b) },
	)
	if !errors.Is(err, fs.ErrNotExist) || kind != KindDir && kind != KindFile {
		return xs, err
	}
	// There may be no /proc.
	f, err := d.open(name, follow)
	if err != nil {
		return nil, err
	}
	defer f.close()
	return f.xattrs()
}
