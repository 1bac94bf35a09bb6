package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ofdSetLock is F_OFD_SETLK of sys/fcntl.h (macOS 12 and later), which x/sys does not define.
const ofdSetLock = 90

// syncFile asks the drive to empty its cache as well, which plain fsync does not do here; file
// systems without that request, such as network mounts, get the plain one.
func syncFile(f *os.File) error {
	return pathErr("sync", f.Name(), control(f, func(fd uintptr) error {
		return ignoreEINTR(func() error {
			_, err := unix.FcntlInt(fd, unix.F_FULLFSYNC, 0)
			if notOffered(err) || err == unix.ENOTTY {
				err = unix.Fsync(int(fd))
			}
			return err
		})
	}))
}

// openAnonymous: the system has no files without a name.
func openAnonymous(int, string, fs.FileMode) (*osFile, error) { return nil, nil }

// linkAnonymous is never reached, because openAnonymous makes no file.
func linkAnonymous(*osFile, int, string) error { return unix.ENOTSUP }

func renameNoReplace(dir int, from, to string) error {
	return unix.RenameatxNp(dir, from, dir, to, unix.RENAME_EXCL)
}
