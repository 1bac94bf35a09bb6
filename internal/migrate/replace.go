package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/vfs"
)

// Replacing an old archive by its successor goes so, with a sync of the directory after each step: the new archive is
// made under a name of its own, complete and proven; the old file gets its second name; the new file takes the first one.
// So at every moment the name stands for the old archive or the new one, whole, and whoever runs it again finishes it or
// begins anew. Where a file can have one name only, there is a moment at which the name stands for nothing; then both are
// there under the others.
//
// Of two at once, the one that comes later finds the first name of the new archive taken, or the old one replaced, and has
// changed nothing. What is of a new archive is only touched under a lock on it, so that nobody takes the work of
// a running migration for what a killed one has left; and the second name of the old file is never taken away.

// NewName is what the new archive is called until it takes the old one's name.
func NewName(name string) string { return name + ".migrate-new" }

// BackupName is what the old archive is called from then on.
func BackupName(name string) string { return name + ".bak" }

// ErrNotOurs is the kind of a file that stands in the way and that no migration has left.
var ErrNotOurs = errors.New("a file of that name exists")

// Resume looks at what an earlier replacement of name may have left. done says that it is replaced, now or already;
// otherwise what is left is gone, and it can begin. The old archive is never touched.
func Resume(fsys vfs.FS, name string) (done bool, err error) {
	ready, readyErr := false, error(fs.ErrNotExist)
	held, err := hold(fsys, name)
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, held()) }()
		ready, readyErr = isLockbox(fsys, NewName(name))
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	isNew, err := isLockbox(fsys, name)
	there := !errors.Is(err, fs.ErrNotExist)
	if err != nil && there {
		return false, err
	}
	if readyErr != nil && !errors.Is(readyErr, fs.ErrNotExist) {
		return false, readyErr
	}
	backup, err := exists(fsys, BackupName(name))
	if err != nil {
		return false, err
	}
	switch {
	case !there && ready && backup:
		// Interrupted between two renames.
		return true, rename(fsys, NewName(name), name)
	case !there:
		return false, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case isNew && backup:
		if ready {
			// A power cut may leave a renamed file with both names.
			if same, err := sameFile(fsys, name, NewName(name)); err != nil || !same {
				return true, errors.Join(err, taken(NewName(name), same))
			}
			if err := fsys.Remove(NewName(name)); err != nil {
				return true, err
			}
		}
		return true, fsys.SyncDir(filepath.Dir(name))
	case isNew:
		return false, nil // whoever asks finds that it is no old archive
	}
	if backup {
		// A second name of the old archive, which is all that a backup is, or something else.
		if same, err := sameFile(fsys, name, BackupName(name)); err != nil || !same {
			return false, errors.Join(err, taken(BackupName(name), same))
		}
	}
	switch {
	case ready:
		err = fsys.Remove(NewName(name))
		if err == nil {
			err = fsys.SyncDir(filepath.Dir(name))
		}
	case readyErr == nil:
		err = taken(NewName(name), false)
	}
	return false, err
}

// exchangeLock is the byte of a new archive that is locked while it stands under NewName and something is done about it:
// beyond the end of any file, and apart from those that the store locks.
const exchangeLock = int64(1) << 61

// hold keeps others away from the new archive under NewName, and returns what lets go of it. Where the system has no
// locks, or the file is one that only its reader's rights are for, nobody is kept away.
func hold(fsys vfs.FS, name string) (release func() error, err error) {
	f, err := fsys.Open(NewName(name), true)
	if errors.Is(err, fs.ErrPermission) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	ok, err := f.TryLock(exchangeLock, 1, true)
	if errors.Is(err, vfs.ErrLockUnsupported) {
		ok, err = true, nil
	}
	if err == nil && ok {
		ok, err = f.SameFile(NewName(name)) // it may have been renamed, or removed
	}
	if err == nil && !ok {
		err = &format.Error{Kind: format.ErrBusy, Offset: -1, Detail: "another migration of it is at work"}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

func taken(name string, ours bool) error {
	if ours {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotOurs, filepath.Base(name))
}

// Exchange gives the new archive, which is complete under NewName, the old one's name.
func Exchange(fsys vfs.FS, in *Input) (err error) {
	name := in.name
	held, err := hold(fsys, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held()) }()
	if err := in.unchanged(); err != nil {
		return errors.Join(err, fsys.Remove(NewName(name)))
	}
	if err := fsys.SetRights(name, NewName(name)); err != nil {
		return err
	}
	moved := false
	err = fsys.Link(name, BackupName(name))
	if errors.Is(err, vfs.ErrNoLinks) {
		if there, e := exists(fsys, BackupName(name)); e != nil {
			return e
		} else if !there {
			moved, err = true, fsys.Rename(name, BackupName(name))
		} else {
			err = fs.ErrExist
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if same, err := in.f.SameFile(BackupName(name)); !moved && (err != nil || !same) {
		return errors.Join(err, taken(BackupName(name), same))
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return err
	}
	if err := rename(fsys, NewName(name), name); err != nil {
		if there, e := exists(fsys, name); moved && e == nil && !there {
			err = errors.Join(err, rename(fsys, BackupName(name), name))
		}
		return err
	}
	return nil
}

func rename(fsys vfs.FS, from, to string) error {
	if err := fsys.Rename(from, to); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(to))
}

// isLockbox reports whether a file is an archive of this program.
func isLockbox(fsys vfs.FS, name string) (bool, error) {
	f, err := fsys.Open(name, false)
	if err != nil {
		return false, err
	}
	_, err = journal.ReadCopies(f)
	return err == nil, f.Close()
}

func exists(fsys vfs.FS, name string) (bool, error) {
	f, err := fsys.Open(name, false)
	switch {
	case err == nil:
		return true, f.Close()
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, vfs.ErrNotRegular):
		return true, nil
	}
	return false, err
}

func sameFile(fsys vfs.FS, a, b string) (bool, error) {
	f, err := fsys.Open(a, false)
	if err != nil {
		return false, err
	}
	same, err := f.SameFile(b)
	return same, errors.Join(err, f.Close())
}
