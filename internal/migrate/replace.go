package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"lockbox/internal/journal"
	"lockbox/internal/vfs"
)

// Replacing an old archive by its successor goes so, with a sync of the directory after each step: the new archive is
// made under a name of its own, complete and proven; the old file gets its second name; the new file takes the first one.
// So at every moment the name stands for the old archive or the new one, whole, and whoever runs it again finishes it or
// begins anew. Where a file can have one name only, there is a moment at which the name stands for nothing; then both are
// there under the others.

// NewName is what the new archive is called until it takes the old one's name.
func NewName(name string) string { return name + ".migrate-new" }

// BackupName is what the old archive is called from then on.
func BackupName(name string) string { return name + ".bak" }

// ErrNotOurs is the kind of a file that stands in the way and that no migration has left.
var ErrNotOurs = errors.New("a file of that name exists")

// Resume looks at what an earlier replacement of name may have left. done says that it is replaced, now or already;
// otherwise what is left is gone, and it can begin. The old archive is never touched.
func Resume(fsys vfs.FS, name string) (done bool, err error) {
	isNew, err := isLockbox(fsys, name)
	there := !errors.Is(err, fs.ErrNotExist)
	if err != nil && there {
		return false, err
	}
	ready, readyErr := isLockbox(fsys, NewName(name))
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
		// A second name of the old archive that the interrupted run gave it, or something else.
		same, err := sameFile(fsys, name, BackupName(name))
		if err == nil && (!same || !ready) {
			err = taken(BackupName(name), false)
		}
		if err == nil {
			err = fsys.Remove(BackupName(name))
		}
		if err != nil {
			return false, err
		}
	}
	if ready {
		err = fsys.Remove(NewName(name))
	} else if readyErr == nil {
		err = taken(NewName(name), false)
	}
	if err == nil && (ready || backup) {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	return false, err
}

func taken(name string, ours bool) error {
	if ours {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotOurs, filepath.Base(name))
}

// Exchange gives the new archive, which is complete under NewName, the old one's name.
func Exchange(fsys vfs.FS, in *Input) error {
	name := in.name
	if err := in.unchanged(); err != nil {
		return errors.Join(err, fsys.Remove(NewName(name)))
	}
	if err := fsys.SetRights(name, NewName(name)); err != nil {
		return err
	}
	err := fsys.Link(name, BackupName(name))
	moved := errors.Is(err, vfs.ErrNoLinks)
	if moved {
		if there, e := exists(fsys, BackupName(name)); e != nil || there {
			return errors.Join(e, taken(BackupName(name), !there))
		}
		err = fsys.Rename(name, BackupName(name))
	}
	if err != nil {
		return err
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
