//go:build linux || darwin

package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// osTemp is a file on its way to a name. It works through a descriptor of the directory, so that
// what is opened, named and synced is one and the same directory.
type osTemp struct {
	*osFile
	dir  int
	base string
	temp string // name in dir until published, "" while anonymous
	ways []giveName

	mu        sync.Mutex
	published bool
	closed    bool
}

// giveName gives the file from the name to, without replacing anything.
type giveName func(dir int, from, to string) error

func (o osFS) CreateTemp(name string, perm fs.FileMode) (Temp, error) {
	parent, base := filepath.Split(name)
	if base == "" || base == "." || base == ".." {
		return nil, pathErr("create", name, fs.ErrInvalid)
	}
	if parent == "" {
		parent = "."
	}
	dir, err := openDir(parent)
	if err != nil {
		return nil, pathErr("create", name, err)
	}
	t := &osTemp{dir: dir, base: base, ways: giveNames[o.skip:]}
	if !o.named {
		t.osFile, err = openAnonymous(dir, name, perm)
	}
	if err == nil && t.osFile == nil {
		// Only here can an earlier run have left something. What cannot be removed is no fault of this one.
		_, _ = CleanStale(parent)
		t.osFile, t.temp, err = openNamed(dir, name, perm)
	}
	if err != nil {
		_ = unix.Close(dir) // nothing was written through it
		return nil, pathErr("create", name, err)
	}
	return t, nil
}

// openNamed creates a temporary file that is visible in dir, locked for as long as its maker lives.
func openNamed(dir int, name string, perm fs.FileMode) (*osFile, string, error) {
	for range tempAttempts {
		temp := tempName()
		f, err := openRegular(dir, temp, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, perm)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		// Between the two steps another run may have taken the file for a leftover.
		ok, err := f.TryLock(tempLockOff, 1, true)
		if err == nil && ok {
			var is bool
			if is, err = namesFile(dir, temp, f); err == nil && is {
				return f, temp, nil
			}
		}
		if errors.Is(err, ErrLockUnsupported) {
			return f, temp, nil // and nobody can lock it to remove it
		}
		_ = unix.Unlinkat(dir, temp, 0) // it may be gone already
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, "", err
		}
	}
	return nil, "", fs.ErrExist
}

// namesFile reports whether name in dir is the open file f.
func namesFile(dir int, name string, f *osFile) (bool, error) {
	var named, open unix.Stat_t
	err := unix.Fstatat(dir, name, &named, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return false, nil
	}
	if err == nil {
		err = control(f.f, func(fd uintptr) error { return unix.Fstat(int(fd), &open) })
	}
	return err == nil && named.Dev == open.Dev && named.Ino == open.Ino, err
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
	if err := t.giveName(); err != nil {
		return pathErr("publish", t.name, err)
	}
	t.published = true
	var err error
	if t.temp != "" {
		// Where locks are refused it is not held.
		if err = t.Unlock(tempLockOff, 1); errors.Is(err, ErrLockRange) {
			err = nil
		}
	}
	return errors.Join(pathErr("publish", t.name, syncDirFd(t.dir)), err)
}

func (t *osTemp) giveName() (err error) {
	if t.temp == "" {
		return linkAnonymous(t.osFile, t.dir, t.base)
	}
	for _, way := range t.ways {
		err = ignoreEINTR(func() error { return way(t.dir, t.temp, t.base) })
		// A file system without hard links says EPERM or EMLINK.
		if !notOffered(err) && err != unix.EPERM && err != unix.EMLINK {
			return err
		}
	}
	return err
}

// giveNames are tried in order. The last works everywhere, but a run killed in the middle of it
// leaves an empty file under the final name.
var giveNames = []giveName{renameNoReplace, linkAndUnlink, reserveAndRename}

func linkAndUnlink(dir int, from, to string) error {
	if err := unix.Linkat(dir, from, dir, to, 0); err != nil {
		return err
	}
	// The file has its name. Should the old one stay, CleanStale removes it once the file is closed.
	_ = unix.Unlinkat(dir, from, 0)
	return nil
}

func reserveAndRename(dir int, from, to string) error {
	fd, err := unix.Openat(dir, to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_ = unix.Close(fd) // empty and about to be replaced
	if err := unix.Renameat(dir, from, dir, to); err != nil {
		_ = unix.Unlinkat(dir, to, 0) // the error that led here is the one that matters
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
	if t.temp != "" && !t.published {
		// Still under its lock, so that nobody else removes it at the same time.
		if err = unix.Unlinkat(t.dir, t.temp, 0); err == unix.ENOENT {
			err = nil
		}
		err = pathErr("remove", strings.TrimSuffix(t.name, t.base)+t.temp, err)
	}
	return errors.Join(err, t.osFile.Close(), pathErr("close", t.name, unix.Close(t.dir)))
}
