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
	was, err := replaceable(name)
	if err != nil {
		return err
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

// replaceable returns what has the name, nil when nothing has.
func replaceable(name string) (fs.FileInfo, error) {
	was, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !was.Mode().IsRegular():
		return nil, pathErr("replace", name, ErrNotRegular)
	}
	return was, nil
}

// CheckReplace tells, before the work whose outcome ReplaceFile is to write, what would keep it from that, as far as it
// can be known. It begins a file there and drops it.
func CheckReplace(name string) error {
	if _, err := replaceable(name); err != nil {
		return err
	}
	f, err := OS().CreateTemp(filepath.Join(filepath.Dir(name), tempName()), 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func removeIfThere(name string) error {
	if err := OS().Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
