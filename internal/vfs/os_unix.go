//go:build linux || darwin

package vfs

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// osFS is the host's file system. The zero value uses the best the system offers; the fields let tests
// take the ways that are for file systems which offer less.
type osFS struct {
	named bool // do without anonymous files
	skip  int  // do without the first ways of naming a file
}

func (osFS) Open(name string, writable bool) (File, error) {
	flags := unix.O_RDONLY
	if writable {
		flags = unix.O_RDWR
	}
	o, err := openRegular(unix.AT_FDCWD, name, name, flags, 0)
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	return o, nil
}

// openRegular opens or creates path, relative to dir, and makes sure that it is a regular file. name is
// what the handle is called in errors.
func openRegular(dir int, path, name string, flags int, perm fs.FileMode) (*osFile, error) {
	var fd int
	// Without O_NONBLOCK a FIFO would wait for its other end; a terminal must not become ours.
	err := ignoreEINTR(func() (err error) {
		fd, err = unix.Openat(dir, path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, uint32(perm.Perm()))
		return err
	})
	switch {
	case err == unix.EISDIR || err == unix.ENXIO: // a directory for writing; a socket
		return nil, kindError{err}
	case err != nil:
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = kindError{unix.EISDIR}
		}
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0) // none of the flags that can be set, O_NONBLOCK above all
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was written, and the first error is the one that matters
		return nil, err
	}
	return &osFile{f: os.NewFile(uintptr(fd), name), name: name, writable: flags&unix.O_ACCMODE == unix.O_RDWR}, nil
}

func (o *osFile) Names() (uint64, error) {
	fi, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return uint64(fi.Sys().(*syscall.Stat_t).Nlink), nil
}

// kindError is the system's way of saying that a name is no regular file.
type kindError struct{ err error }

func (e kindError) Error() string        { return ErrNotRegular.Error() + ": " + e.err.Error() }
func (e kindError) Is(target error) bool { return target == ErrNotRegular }
func (e kindError) Unwrap() error        { return e.err }

func (osFS) Remove(name string) error {
	return pathErr("remove", name, ignoreEINTR(func() error { return unix.Unlink(name) }))
}

func (osFS) Link(from, to string) error {
	err := ignoreEINTR(func() error { return unix.Link(from, to) })
	if notOffered(err) || err == unix.EPERM || err == unix.EMLINK {
		err = ErrNoLinks
	}
	return pathErr("link", to, err)
}

func (osFS) Rename(from, to string) error {
	return pathErr("rename", from, ignoreEINTR(func() error { return unix.Rename(from, to) }))
}

func (osFS) SetRights(from, to string) error {
	var st unix.Stat_t
	if err := unix.Stat(from, &st); err != nil {
		return pathErr("stat", from, err)
	}
	_ = unix.Chown(to, int(st.Uid), int(st.Gid)) // only some may
	return pathErr("chmod", to, unix.Chmod(to, uint32(st.Mode)&0o777))
}

func (osFS) SyncDir(dir string) error {
	fd, err := openDir(dir)
	if err != nil {
		return pathErr("sync", dir, err)
	}
	err = syncDirFd(fd)
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return pathErr("sync", dir, err)
}

func openDir(dir string) (fd int, err error) {
	err = ignoreEINTR(func() error {
		fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// syncDirFd makes the names in an open directory durable. Some network and user-space file systems
// have no such operation and say so; there is nothing better to do on them.
func syncDirFd(fd int) error {
	err := ignoreEINTR(func() error { return unix.Fsync(fd) })
	if notOffered(err) {
		return nil
	}
	return err
}

func lockFile(f *os.File, off, n int64, exclusive bool) (bool, error) {
	kind := int16(unix.F_RDLCK)
	if exclusive {
		kind = unix.F_WRLCK
	}
	err := setLock(f, kind, off, n)
	switch {
	case err == unix.EAGAIN || err == unix.EACCES:
		return false, nil
	case lockUnsupported(err):
		return false, lockError{err}
	}
	return err == nil, err
}

func unlockFile(f *os.File, off, n int64) error { return setLock(f, unix.F_UNLCK, off, n) }

// setLock uses open file description locks: the classic ones belong to the process, and closing any
// descriptor of the file would drop them. It is called with the lock of held, so the descriptor stays open.
func setLock(f *os.File, kind int16, off, n int64) error {
	lk := unix.Flock_t{Type: kind, Whence: 0, Start: off, Len: n}
	return ignoreEINTR(func() error { return unix.FcntlFlock(f.Fd(), ofdSetLock, &lk) })
}

func lockUnsupported(err error) bool {
	return notOffered(err) || err == unix.ENOLCK || err == unix.EOVERFLOW
}

// notOffered reports whether err is one of the ways in which systems say that they, or a file system,
// do not have an operation. ENOTSUP and EOPNOTSUPP are one number on Linux and two on macOS.
func notOffered(err error) bool {
	return err == unix.EINVAL || err == unix.ENOSYS || err == unix.ENOTSUP || err == unix.EOPNOTSUPP
}

type lockError struct{ err error }

func (e lockError) Error() string        { return ErrLockUnsupported.Error() + ": " + e.err.Error() }
func (e lockError) Is(target error) bool { return target == ErrLockUnsupported }
func (e lockError) Unwrap() error        { return e.err }

func wrapIO(err error) error { return err }

func ignoreEINTR(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

// openStale opens a leftover for locking, never through a symbolic link.
func openStale(path string) (*osFile, error) {
	f, err := openRegular(unix.AT_FDCWD, path, path, unix.O_RDWR|unix.O_NOFOLLOW, 0)
	return f, pathErr("open", path, err)
}
