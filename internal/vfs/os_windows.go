package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

type osFS struct{}

// shareAll lets others read, write, rename and delete the file while it is open here, as they can on
// other systems; what must not happen at the same time is kept apart by locks.
const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

func (osFS) Open(name string, writable bool) (File, error) {
	access := uint32(windows.GENERIC_READ)
	if writable {
		access |= windows.GENERIC_WRITE
	}
	o, err := openRegular(name, name, access, windows.OPEN_EXISTING, 0)
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	return o, nil
}

// openRegular opens or creates path and makes sure that it is a regular file. name is what the handle
// is called in errors.
func openRegular(path, name string, access, disposition, flags uint32) (*osFile, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	// Backup semantics let a directory be opened, so that it can be told from one that is not allowed.
	flags |= windows.FILE_ATTRIBUTE_NORMAL | windows.FILE_FLAG_BACKUP_SEMANTICS
	var h windows.Handle
	err = retrySharing(func() (err error) {
		h, err = windows.CreateFile(p, access, shareAll, nil, disposition, flags, 0)
		return err
	})
	if err != nil {
		return nil, wrapIO(err)
	}
	// Asked before anything else, because other questions can wait for a pipe's other end.
	kind, err := windows.GetFileType(h)
	if err == nil && kind != windows.FILE_TYPE_DISK {
		err = ErrNotRegular
	}
	if err != nil {
		_ = windows.CloseHandle(h) // nothing was written, and the first error is the one that matters
		return nil, err
	}
	o := &osFile{f: os.NewFile(uintptr(h), name), name: name, writable: access&windows.GENERIC_WRITE != 0}
	fi, err := o.f.Stat()
	if err == nil && fi.IsDir() {
		err = fmt.Errorf("%w: is a directory", ErrNotRegular)
	} else if err == nil && !fi.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		_ = o.f.Close()
		return nil, err
	}
	return o, nil
}

func (o *osFile) Names() (uint64, error) {
	if _, err := o.f.Stat(); err != nil { // a closed file has no handle
		return 0, err
	}
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(o.f.Fd()), &info); err != nil {
		return 0, pathErr("stat", o.name, err)
	}
	return uint64(info.NumberOfLinks), nil
}

// openStale opens a leftover for locking, never through a symbolic link.
func openStale(path string) (*osFile, error) {
	f, err := openRegular(path, path, windows.GENERIC_READ|windows.GENERIC_WRITE, windows.OPEN_EXISTING,
		windows.FILE_FLAG_OPEN_REPARSE_POINT)
	return f, pathErr("open", path, err)
}

func (osFS) Link(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) {
		err = pathErr("link", to, ErrNoLinks)
	}
	return err
}

func (osFS) Rename(from, to string) error {
	err := retrySharing(func() error { return os.Rename(from, to) })
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		if err = deleteFile(to); err == nil {
			err = retrySharing(func() error { return os.Rename(from, to) })
		}
	}
	return err
}

// SetRights does nothing: a file has its rights from its directory.
func (osFS) SetRights(string, string) error { return nil }

func (osFS) Remove(name string) error { return pathErr("remove", name, deleteFile(name)) }

func deleteFile(path string) error {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	return retrySharing(func() error { return windows.DeleteFile(p) })
}

// SyncDir checks that dir is a directory and does no more: the system offers no way to flush the names
// in one that works for ordinary users, and NTFS journals them.
func (osFS) SyncDir(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return pathErr("sync", dir, syscall.ENOTDIR)
	}
	return nil
}

func lockFile(f *os.File, off, n int64, exclusive bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := control(f, func(h uintptr) error {
		return windows.LockFileEx(windows.Handle(h), flags, 0, uint32(n), uint32(n>>32), overlapped(off))
	})
	switch {
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	case errors.Is(err, windows.ERROR_NOT_SUPPORTED), errors.Is(err, windows.ERROR_INVALID_FUNCTION):
		return false, fmt.Errorf("%w: %w", ErrLockUnsupported, err)
	}
	return err == nil, err
}

func unlockFile(f *os.File, off, n int64) error {
	return control(f, func(h uintptr) error {
		return windows.UnlockFileEx(windows.Handle(h), 0, uint32(n), uint32(n>>32), overlapped(off))
	})
}

func overlapped(off int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

func syncFile(f *os.File) error { return f.Sync() }

// wrapIO makes a full disk recognisable in the way that works on every system.
func wrapIO(err error) error {
	if errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) {
		return fmt.Errorf("%w (%w)", err, syscall.ENOSPC)
	}
	return err
}

// retrySharing repeats fn for a bounded time while another process, often a virus scanner, has the
// file open in a way that excludes everybody else.
func retrySharing(fn func() error) error {
	const step, tries = 20 * time.Millisecond, 100
	for i := 0; ; i++ {
		err := fn()
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) || i == tries {
			return err
		}
		time.Sleep(step)
	}
}

// osTemp is a file on its way to a name. Until then it has a temporary one in the same directory and
// is locked for as long as its maker lives.
type osTemp struct {
	*osFile
	temp string

	mu        sync.Mutex
	published bool
	closed    bool
}

// CreateTemp has no use for perm: a new file inherits its rights from the directory.
func (osFS) CreateTemp(name string, perm fs.FileMode) (Temp, error) {
	dir, base := filepath.Split(name)
	if base == "" || base == "." || base == ".." {
		return nil, pathErr("create", name, fs.ErrInvalid)
	}
	if dir == "" {
		dir = "."
	}
	// What cannot be removed is no fault of this run.
	_, _ = CleanStale(dir)
	for range tempAttempts {
		temp := filepath.Join(dir, tempName())
		f, err := openRegular(temp, name, windows.GENERIC_READ|windows.GENERIC_WRITE, windows.CREATE_NEW,
			windows.FILE_FLAG_OPEN_REPARSE_POINT)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, pathErr("create", name, err)
		}
		// Between the two steps another run may have taken the file for a leftover.
		ok, err := f.TryLock(tempLockOff, 1, true)
		if err == nil && ok {
			var is bool
			if is, err = f.SameFile(temp); err == nil && is {
				return &osTemp{osFile: f, temp: temp}, nil
			}
		}
		if errors.Is(err, ErrLockUnsupported) {
			return &osTemp{osFile: f, temp: temp}, nil // and nobody can lock it to remove it
		}
		_ = deleteFile(temp) // it may be gone already
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, pathErr("create", name, err)
		}
	}
	return nil, pathErr("create", name, fs.ErrExist)
}

func (t *osTemp) Publish() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return pathErr("publish", t.name, fs.ErrClosed)
	}
	if t.published {
		return pathErr("publish", t.name, fs.ErrInvalid)
	}
	from, err := windows.UTF16PtrFromString(t.temp)
	if err != nil {
		return pathErr("publish", t.name, err)
	}
	to, err := windows.UTF16PtrFromString(t.name)
	if err != nil {
		return pathErr("publish", t.name, err)
	}
	// Writing through takes the place of syncing the directory.
	err = retrySharing(func() error { return windows.MoveFileEx(from, to, windows.MOVEFILE_WRITE_THROUGH) })
	if err != nil {
		return pathErr("publish", t.name, err)
	}
	t.published = true
	// Where locks are refused it is not held.
	if err := t.Unlock(tempLockOff, 1); err != nil && !errors.Is(err, ErrLockRange) {
		return err
	}
	return nil
}

func (t *osTemp) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return pathErr("close", t.name, fs.ErrClosed)
	}
	t.closed = true
	var err error
	if !t.published {
		// Still under its lock, so that nobody else removes it at the same time.
		if err = deleteFile(t.temp); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		err = pathErr("remove", t.temp, err)
	}
	return errors.Join(err, t.osFile.Close())
}
