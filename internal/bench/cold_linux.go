package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func drop(f *os.File) error {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &os.PathError{Op: "fadvise", Path: f.Name(), Err: err}
	}
	return nil
}

// cached reports whether a page of a file can be read without waiting for a device. The system may begin to read
// ahead when it is asked, so this is for trying things out, never for files that are measured.
func cached(f *os.File, off int64) (bool, error) {
	_, err := unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 1)}, off, unix.RWF_NOWAIT)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	}
	return false, err
}

// coldWorks tries on a file of its own whether dropping has an effect in dir.
func coldWorks(dir string) error {
	if kind := fileSystemOf(dir); kind == "tmpfs" || kind == "ramfs" {
		return &NoColdError{fmt.Sprintf("%s is on %s, whose files are in memory and nowhere else", filepath.Dir(dir), kind)}
	}
	name := filepath.Join(dir, "cold")
	const size = 4 * mib
	f0 := Raw("", size, 1)
	if err := os.WriteFile(name, f0.Load().base, 0o600); err != nil {
		return err
	}
	kept, asked := 0, 0
	err := withFile(name, os.O_RDWR, func(f *os.File) error {
		if err := f.Sync(); err != nil {
			return err
		}
		for off := int64(0); off < size; off += mib {
			if err := drop(f); err != nil {
				return err
			}
			asked++
			switch in, err := cached(f, off+mib/2); {
			case errors.Is(err, unix.EOPNOTSUPP):
				return &NoColdError{fmt.Sprintf("%s in %s does not tell what is cached, so an effect cannot be shown", fileSystemOf(dir), dir)}
			case err != nil:
				return err
			case in:
				kept++
			}
		}
		return nil
	})
	if err = errors.Join(err, os.Remove(name)); err != nil {
		return err
	}
	if kept > 0 {
		return &NoColdError{fmt.Sprintf("%s in %s kept %d of %d pages that were dropped", fileSystemOf(dir), dir, kept, asked)}
	}
	return nil
}

// fileSystemOf names the kind of file system that a directory is on.
func fileSystemOf(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "an unknown file system"
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	}
	return fmt.Sprintf("a file system of type %#x", uint32(st.Type))
}
