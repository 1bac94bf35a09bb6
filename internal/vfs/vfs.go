package vfs

import (
	"errors"
	"io"
	"io/fs"
)

var (
	// ErrLockUnsupported: the file system refuses byte-range locks.
	ErrLockUnsupported = errors.New("the file system does not support locks")
	// ErrNotRegular: the name stands for a directory, a device, a FIFO or the like.
	ErrNotRegular = errors.New("not a regular file")
	// ErrReadOnly: the handle was opened for reading only.
	ErrReadOnly = errors.New("opened for reading only")
	// ErrNoLinks: the file system knows one name a file.
	ErrNoLinks = errors.New("the file system does not support hard links")
	// ErrLockRange: the range is empty, leaves 0..1<<63-1, or is at odds with what the handle holds.
	ErrLockRange = errors.New("invalid lock range")
)

// File is an open regular file. Its methods may be called concurrently. Errors wrap an
// *fs.PathError, except io.EOF; after Close they match fs.ErrClosed.
type File interface {
	io.ReaderAt
	// WriteAt writes all of p or returns an error.
	io.WriterAt
	Size() (int64, error)
	// Truncate sets the size; what it adds reads as zeros.
	Truncate(size int64) error
	// Sync makes everything written and the size durable. After an error the state on the device is
	// unknown and another call cannot repair it. On a handle for reading it does what the system allows.
	Sync() error
	// Close releases the handle's locks. It is not a sync.
	Close() error
	Stat() (fs.FileInfo, error)
	// SameFile reports whether name, symbolic links followed, stands for this open file. A name that
	// stands for nothing gives false and no error.
	SameFile(name string) (bool, error)
	// Names is how many names the file has, as far as the system counts them; 0 and 1 are one.
	Names() (uint64, error)

	// TryLock locks n bytes at off for this handle, without waiting: false means that another handle,
	// in this process or elsewhere, holds a conflicting lock. The range may lie past the end of the
	// file. A handle must not lock a byte that it holds already, whatever the kind, and an exclusive
	// lock needs a writable handle: what systems make of either differs.
	TryLock(off, n int64, exclusive bool) (bool, error)
	// Unlock releases exactly one range that TryLock has locked.
	Unlock(off, n int64) error
}

// Temp is a new file that has no name yet. It is open for reading and writing.
type Temp interface {
	File
	// Publish gives the file its final name and syncs the directory. Nothing is ever replaced: when
	// the name is taken, by whatever kind of file, the error matches fs.ErrExist. The caller has
	// synced the file before; Publish does not do it again. The handle stays open and is an ordinary File
	// from then on. An error after the naming (SameFile of the final name tells) means that the file is there
	// but may not survive a power cut. Closing an unpublished Temp leaves nothing behind.
	Publish() error
}

// FS opens, creates and removes files.
type FS interface {
	// Open opens an existing regular file, following symbolic links. It does not wait for anything:
	// a FIFO, a device or a directory is refused with ErrNotRegular.
	Open(name string, writable bool) (File, error)
	// CreateTemp creates the file that is to become name, in name's directory. perm is subject to
	// the umask.
	CreateTemp(name string, perm fs.FileMode) (Temp, error)
	// Remove removes a file or a symbolic link, never a directory.
	Remove(name string) error
	// Link gives the file from a second name. Nothing is replaced: when to is taken, the error matches
	// fs.ErrExist; ErrNoLinks where a file can have one name only.
	Link(from, to string) error
	// Rename gives the file from the name to, whatever that stood for, open handles of which stay valid.
	// Where the system cannot replace an open file, to is removed first. Neither is durable before SyncDir.
	Rename(from, to string) error
	// SetRights gives the file to the mode of the file from and, as far as that is allowed, its owner.
	SetRights(from, to string) error
	// SyncDir makes the names in a directory durable, as far as the system offers that.
	SyncDir(dir string) error
}

// OS returns the host's file system.
func OS() FS { return osFS{} }

func pathErr(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
