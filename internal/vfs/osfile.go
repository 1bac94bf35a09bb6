package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// osFile is an open regular file of the host. What differs between systems is in the functions
// lockFile, unlockFile, syncFile and wrapIO.
type osFile struct {
	f        *os.File
	name     string
	writable bool
	held     held
}

func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }

func (o *osFile) WriteAt(p []byte, off int64) (int, error) {
	if !o.writable {
		return 0, pathErr("write", o.name, ErrReadOnly)
	}
	// os.File goes on after an interrupted or short write until it meets an error.
	n, err := o.f.WriteAt(p, off)
	if err == nil && n < len(p) {
		err = pathErr("write", o.name, io.ErrShortWrite)
	}
	return n, wrapIO(err)
}

// Size asks for the end by seeking there, which costs less than asking for everything that is known of the file. Nothing
// reads or writes where a seek leaves off.
func (o *osFile) Size() (int64, error) { return o.f.Seek(0, io.SeekEnd) }

func (o *osFile) Truncate(size int64) error {
	if !o.writable {
		return pathErr("truncate", o.name, ErrReadOnly)
	}
	return wrapIO(o.f.Truncate(size))
}

func (o *osFile) Sync() error {
	err := syncFile(o.f)
	if err != nil && !o.writable {
		// Not every system syncs for somebody who may not write.
		for _, refused := range []error{fs.ErrPermission, errors.ErrUnsupported, syscall.EINVAL, syscall.EROFS, syscall.EBADF} {
			if errors.Is(err, refused) {
				return nil
			}
		}
	}
	return wrapIO(err)
}

func (o *osFile) Stat() (fs.FileInfo, error) { return o.f.Stat() }

func (o *osFile) SameFile(name string) (bool, error) {
	mine, err := o.f.Stat()
	if err != nil {
		return false, err
	}
	theirs, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, theirs), nil
}

func (o *osFile) TryLock(off, n int64, exclusive bool) (bool, error) {
	if exclusive && !o.writable {
		return false, pathErr("lock", o.name, ErrReadOnly)
	}
	ok, err := o.held.try(span{off, n}, func() (bool, error) { return lockFile(o.f, off, n, exclusive) })
	return ok, pathErr("lock", o.name, err)
}

func (o *osFile) Unlock(off, n int64) error {
	return pathErr("unlock", o.name, o.held.release(span{off, n}, func() error { return unlockFile(o.f, off, n) }))
}

func (o *osFile) Close() error {
	// Closing alone would release the locks late: on Windows at the system's leisure, elsewhere not
	// before a child that is just being started has dropped its copy of the descriptor.
	err, open := o.held.close(func(s span) error { return unlockFile(o.f, s.off, s.n) })
	if !open {
		return pathErr("close", o.name, fs.ErrClosed)
	}
	return errors.Join(pathErr("unlock", o.name, err), o.f.Close())
}

// control calls fn with the descriptor or handle, which stays valid for the duration of the call.
func control(f *os.File, fn func(fd uintptr) error) error {
	sc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := sc.Control(func(fd uintptr) { err = fn(fd) }); cerr != nil {
		return fs.ErrClosed // the only reason for which Control does not call the function
	}
	return err
}
