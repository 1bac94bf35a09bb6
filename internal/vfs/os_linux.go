package vfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const ofdSetLock = unix.F_OFD_SETLK

// syncFile leaves out times, which nothing here depends on: syncing them would cost a journal
// transaction for every overwritten superblock. The size is part of what fdatasync makes durable.
func syncFile(f *os.File) error {
	return pathErr("sync", f.Name(), control(f, func(fd uintptr) error {
		return ignoreEINTR(func() error { return unix.Fdatasync(int(fd)) })
	}))
}

// openAnonymous returns a file without a name, or nil and no error where the file system has none or
// where it could not be given a name later.
func openAnonymous(dir int, name string, perm fs.FileMode) (*osFile, error) {
	f, err := openRegular(dir, ".", name, unix.O_RDWR|unix.O_TMPFILE, perm)
	// A kernel or file system that does not know the flag opens the directory instead, or fails to.
	if notOffered(err) || errors.Is(err, ErrNotRegular) || err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = control(f.f, func(fd uintptr) error {
		var there, here unix.Stat_t
		if err := unix.Stat(procName(fd), &there); err != nil {
			return err
		}
		if err := unix.Fstat(int(fd), &here); err != nil {
			return err
		}
		if there.Dev != here.Dev || there.Ino != here.Ino {
			return unix.ENOENT
		}
		return nil
	})
	if err != nil { // no /proc
		return nil, f.Close()
	}
	return f, nil
}

func procName(fd uintptr) string { return "/proc/self/fd/" + strconv.Itoa(int(fd)) }

// linkAnonymous goes by way of /proc, because naming a descriptor directly is a privilege on many
// kernels.
func linkAnonymous(f *osFile, dir int, base string) error {
	return control(f.f, func(fd uintptr) error {
		return ignoreEINTR(func() error {
			return unix.Linkat(unix.AT_FDCWD, procName(fd), dir, base, unix.AT_SYMLINK_FOLLOW)
		})
	})
}

func renameNoReplace(dir int, from, to string) error {
	return unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE)
}
