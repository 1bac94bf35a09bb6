//go:build linux && !hostfs_portable

package hostfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// dir is an open directory; every name is looked up in it. The os.File closes the descriptor when the
// last user of a walk lets go of it without a chance to say so.
type dir struct {
	f        *os.File
	fd       int
	searched error // why the directory could only be opened for lookups, not for listing
	inherits bool  // what is made in it gets an access control list that nobody asked for
}

const openDirFlags = unix.O_DIRECTORY | unix.O_CLOEXEC

// openTop opens a directory by a path of the user's, links and all.
func openTop(path string) (*dir, error) { return openDirAt(unix.AT_FDCWD, path, 0) }

// sub opens the directory name. Unless follow is set a link is refused.
func (d *dir) sub(name string, follow bool) (*dir, error) {
	if follow {
		return openDirAt(d.fd, name, 0)
	}
	return openDirAt(d.fd, name, unix.O_NOFOLLOW)
}

// makeOpenable does nothing: a directory is opened here whatever its mode is.
func (d *dir) makeOpenable(string, *Meta) error { return nil }

func openDirAt(at int, name string, flags int) (*dir, error) {
	fd, err := openat(at, name, unix.O_RDONLY|openDirFlags|flags, 0)
	var searched error
	if err == unix.EACCES {
		// A directory that may be searched but not listed still leads to names that are known.
		searched = err
		fd, err = openat(at, name, unix.O_PATH|openDirFlags|flags, 0)
	}
	if err != nil {
		return nil, err
	}
	return &dir{f: os.NewFile(uintptr(fd), name), fd: fd, searched: searched}, nil
}

func openat(at int, name string, flags int, perm uint32) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (d *dir) close() error { return d.f.Close() }

// names lists the directory in no order; it can be called once.
func (d *dir) names() ([]string, error) {
	if d.searched != nil {
		return nil, d.searched
	}
	return d.f.Readdirnames(-1)
}

func (d *dir) meta() (Meta, error) { return fstat(d.fd) }

// folds reports whether the directory is marked as one in which names are compared without regard to case.
func (d *dir) folds() bool {
	const casefold = 0x40000000 // FS_CASEFOLD_FL
	flags, err := unix.IoctlGetUint32(d.fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&casefold != 0
}

// lookup describes what name is, or what it leads to.
func (d *dir) lookup(name string, follow bool) (Meta, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flags = 0
	}
	var st unix.Stat_t
	for {
		err := unix.Fstatat(d.fd, name, &st, flags)
		if err == nil {
			return metaOfStat(&st), nil
		}
		if err != unix.EINTR {
			return Meta{}, err
		}
	}
}

func fstat(fd int) (Meta, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(fd, &st)
		if err == nil {
			return metaOfStat(&st), nil
		}
		if err != unix.EINTR {
			return Meta{}, err
		}
	}
}

func metaOfStat(st *unix.Stat_t) Meta {
	m := Meta{
		Mode:     uint32(st.Mode) & modeAll,
		MtimeSec: int64(st.Mtim.Sec), MtimeNsec: uint32(st.Mtim.Nsec),
		HasOwner: true, UID: uint64(st.Uid), GID: uint64(st.Gid),
		Dev: uint64(st.Dev), Ino: uint64(st.Ino), Nlink: uint64(st.Nlink),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		m.Kind, m.Size, m.blocks = KindFile, st.Size, st.Blocks
	case unix.S_IFDIR:
		m.Kind = KindDir
	case unix.S_IFLNK:
		m.Kind = KindSymlink
	case unix.S_IFIFO:
		m.Kind = KindFIFO
	case unix.S_IFCHR:
		m.Kind = KindChar
		m.Major, m.Minor = uint64(unix.Major(uint64(st.Rdev))), uint64(unix.Minor(uint64(st.Rdev)))
	case unix.S_IFBLK:
		m.Kind = KindBlock
		m.Major, m.Minor = uint64(unix.Major(uint64(st.Rdev))), uint64(unix.Minor(uint64(st.Rdev)))
	case unix.S_IFSOCK:
		m.Kind = KindSocket
	}
	return m
}

// readlink returns a link's target; the system bounds it to a page.
func (d *dir) readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	for {
		n, err := unix.Readlinkat(d.fd, name, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", err
		}
		if n == len(buf) {
			return "", unix.ENAMETOOLONG
		}
		return string(buf[:n]), nil
	}
}

// hfile is an open regular file.
type hfile struct{ fd int }

// do calls fn with the descriptor.
func (f *hfile) do(fn func(fd int) error) error { return fn(f.fd) }

// open opens name for reading without waiting for anything, whatever name has become meanwhile. The
// caller checks what it got.
func (d *dir) open(name string, follow bool) (*hfile, error) {
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := openat(d.fd, name, flags, 0)
	if err != nil {
		return nil, err
	}
	return &hfile{fd}, nil
}

func (f *hfile) close() error        { return unix.Close(f.fd) }
func (f *hfile) meta() (Meta, error) { return fstat(f.fd) }

// readAt fills p from off on unless the file ends; 0 bytes and io.EOF are its end.
func (f *hfile) readAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		// The kernel moves at most about 2 GiB in one call; asking for less keeps every count an int.
		m, err := unix.Pread(f.fd, p[n:min(len(p), n+1<<30)], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if m == 0 {
			if n == 0 {
				return 0, io.EOF
			}
			break
		}
		n += m
	}
	return n, nil
}

func (f *hfile) writeAt(p []byte, off int64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(f.fd, p[:min(len(p), 1<<30)], off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func (d *dir) mkdir(name string, perm uint32) error { return unix.Mkdirat(d.fd, name, perm) }
func (d *dir) remove(name string) error             { return unix.Unlinkat(d.fd, name, 0) }

// move renames from to to within the directory. Without replace an existing name is fs.ErrExist.
func (d *dir) move(from, to string, replace bool) error {
	if replace {
		return unix.Renameat(d.fd, from, d.fd, to)
	}
	err := unix.Renameat2(d.fd, from, d.fd, to, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS && err != unix.EOPNOTSUPP {
		return err
	}
	// A file system without that flag: a second name cannot replace anything either.
	if err := unix.Linkat(d.fd, from, d.fd, to, 0); err == nil {
		return d.remove(from)
	} else if errors.Is(err, fs.ErrExist) {
		return err
	}
	return moveByClaim(d, from, to)
}

// claim creates name, which must not exist, as an empty file.
func (d *dir) claim(name string) error {
	fd, err := openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// createNamed creates the file name, which must not exist.
func (d *dir) createNamed(name string, perm uint32) (*hfile, error) {
	fd, err := openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if err != nil {
		return nil, err
	}
	return &hfile{fd}, nil
}

// createAnon creates a file without a name, which vanishes unless link gives it one. It returns
// errNoAnon where the file system has no such files.
func (d *dir) createAnon(perm uint32) (*hfile, error) {
	fd, err := openat(d.fd, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, perm)
	switch err {
	case nil:
		return &hfile{fd}, nil
	case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL, unix.ENOENT:
		return nil, errNoAnon
	}
	return nil, err
}

// link gives an anonymous file a name, which must not exist.
func (d *dir) link(f *hfile, name string) error {
	err := unix.Linkat(f.fd, "", d.fd, name, unix.AT_EMPTY_PATH)
	if err != unix.ENOENT && err != unix.EPERM {
		return err
	}
	// Older kernels want a privilege for that, but not for the same file's name under /proc.
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(f.fd), d.fd, name, unix.AT_SYMLINK_FOLLOW)
}
