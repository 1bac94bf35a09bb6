package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ReplaceFile gives a small file new content, or makes it: whoever opens name finds the old content or the new one,
// whole, also after a power cut, and nothing of the new one after an error. A file that is replaced keeps its mode,
// and its owner as far as that is allowed; perm, subject to the umask, is for one that is made. Anything but a
// regular file is refused.
func ReplaceFile(name string, perm fs.FileMode, data []byte) (err error) {
	was, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !was.Mode().IsRegular():
		return pathErr("replace", name, ErrNotRegular)
	}
	dir := filepath.Dir(name)
	// A killed run may have left its file there. What cannot be removed is no fault of this one.
	_, _ = CleanStale(dir)
	temp := filepath.Join(dir, tempName())
	f, err := OS().CreateTemp(temp, perm)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// With a name, and not locked, another run would take it for a leftover. Where locks are refused none can; and one
	// that has a name already is locked until it is published.
	_, _ = f.TryLock(tempLockOff, 1, true)
	if err := f.Publish(); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	_, _ = f.TryLock(tempLockOff, 1, true)
	if was != nil {
		if err := OS().SetRights(name, temp); err != nil {
			return errors.Join(err, removeIfThere(temp))
		}
	}
	if err := OS().Rename(temp, name); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	return OS().SyncDir(dir)
}

func removeIfThere(name string) error {
	if err := OS().Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
