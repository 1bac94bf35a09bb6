package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// RotateOptions say how to rotate.
type RotateOptions struct {
	Slots    []seal.NewSlot          // who can open the archive from now on
	SignKey  seal.Signer             // signs a signed archive from now on; nil: Options.SignKey
	Progress func(done, total int64) // bytes of frames
}

// RotateSummary is what a rotation did.
type RotateSummary struct {
	Generation    uint64
	Root          format.Digest
	Before, After int64 // bytes of the file
	// Held says that a reader still needs the old file: the next change overwrites and removes it.
	Held bool
}

// Rotate encrypts an archive anew, under a new content key, so that whoever had the old one can read nothing
// that comes from now on. It writes a new file beside the archive, durable and whole, gives the old one a
// second name, then the new one the archive's name, and overwrites and removes the old one. Interrupted
// before that exchange it has changed nothing; after it, the next writer finishes it. A file with a second name
// is refused (ErrSecondName): overwriting would reach what that shows. Contents are not
// compressed anew; whatever does not verify ends it, and the archive stays as it was.
func Rotate(ctx context.Context, name string, o Options, r RotateOptions) (sum RotateSummary, err error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if len(r.Slots) == 0 {
		return sum, errors.New("a rotation needs at least one key slot for the new key")
	}
	a, err := OpenWrite(ctx, name, o)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if a.key == nil {
		return sum, errors.New("the archive is not encrypted: it has no key to rotate")
	}
	if err := a.changeable(); err != nil {
		return sum, err
	}
	if err := a.Tidy(); err != nil { // and what an earlier rotation has left
		return sum, err
	}
	if sum.Before, err = a.f.Size(); err != nil {
		return sum, err
	}
	if err := a.onlyName(); err != nil {
		return sum, err
	}
	root, err := a.rewrite(ctx, r)
	if err != nil {
		return sum, err
	}
	sum.Generation, sum.Root = a.cur.super.Generation+1, root
	if err := a.exchange(); err != nil {
		return sum, err
	}
	if sum.Held, err = a.eraseOld(); err != nil {
		return sum, &TidyError{err}
	}
	f, err := a.opt.FS.Open(name, false)
	if err != nil {
		return sum, err
	}
	sum.After, err = f.Size()
	return sum, errors.Join(err, f.Close())
}

// ErrSecondName is the kind of a rotation that another name of the file stands against.
var ErrSecondName = errors.New("the file has another name, a hard link, which would show nothing but zeros afterwards")

// onlyName refuses a file with another name: the rotation would overwrite what that shows too. A name that an
// interrupted rotation has given it is gone by now.
func (a *Archive) onlyName() error {
	if n, err := a.f.Names(); err != nil || n <= 1 {
		return err
	}
	return ErrSecondName
}

// The names beside the archive's that a rotation uses.
func newName(name string) string { return name + ".rekey-new" }
func oldName(name string) string { return name + ".rekey-old" }

// exchange gives the rewritten file the archive's name. From its first rename on, the new state is the
// archive's. The handle is of the old file, and called by its new name, from then on.
func (a *Archive) exchange() error {
	fsys, dir := a.opt.FS, filepath.Dir(a.name)
	err := a.unchanged()
	if err == nil {
		err = a.onlyName()
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(newName(a.name)))
	}
	if err := fsys.SetRights(a.name, newName(a.name)); err != nil {
		return err
	}
	err = fsys.Link(a.name, oldName(a.name))
	if errors.Is(err, vfs.ErrNoLinks) {
		err = fsys.Rename(a.name, oldName(a.name))
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err == nil {
		err = fsys.Rename(newName(a.name), a.name)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return a.poisoned(fmt.Errorf("exchanging the old archive for the new one: %w: %w", ErrOutcomeUnknown, err))
	}
	a.name = oldName(a.name)
	a.dirty, a.clean = false, false
	return nil
}

// eraseOld overwrites the file of the handle, which has given its name to another one, the keys first, and
// removes it; held says that a reader still needs it. What tells the file apart stays until it is removed.
func (a *Archive) eraseOld() (held bool, err error) {
	busy, err := readersBelow(a.f, a.cur.super.Generation+1)
	if err != nil || busy {
		return true, err
	}
	// Whoever has opened the old file and not yet read it waits, and then finds that it has another name.
	if ok, err := a.f.TryLock(publishLock, 1, true); err != nil || !ok {
		return true, err
	}
	size, err := a.f.Size()
	if err != nil {
		return false, err
	}
	for _, e := range []format.Extent{a.cur.super.KeyDirExtent(), {Off: format.DataStart, Len: size - format.DataStart}} {
		if err := a.wipe(e); err != nil {
			return false, err
		}
		if err := a.syncFile(); err != nil {
			return false, err
		}
	}
	if err := a.opt.FS.Remove(a.name); err != nil {
		return false, err
	}
	return false, a.opt.FS.SyncDir(filepath.Dir(a.name))
}

// left is what an interrupted rotation of this archive calls its files: they stand beside the archive itself, also
// when it was opened through a symbolic link.
func (a *Archive) left() [2]string {
	name := a.name
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	return [2]string{newName(name), oldName(name)}
}

// beside opens a file that a rotation of this archive may have left; nil when there is none. A symbolic link is
// none: what it leads to, another copy of the archive perhaps, would be overwritten.
func (a *Archive) beside(name string) *Archive {
	if fi, err := os.Lstat(name); err == nil && !fi.Mode().IsRegular() {
		return nil
	}
	f, err := a.opt.FS.Open(name, true)
	if err != nil {
		return nil
	}
	c, err := journal.ReadCopies(f)
	if err != nil || c.Current.Archive != a.id {
		_ = f.Close() // somebody else's; nothing was written
		return nil
	}
	return &Archive{name: name, f: f, opt: a.opt, cur: &view{super: c.Current}, writer: true}
}

// rotationLeft reports whether an interrupted rotation has left a file.
func (a *Archive) rotationLeft() bool {
	if a.key == nil {
		return false
	}
	for _, name := range a.left() {
		if b := a.beside(name); b != nil {
			_ = b.f.Close()
			return true
		}
	}
	return false
}

// finishRotation removes what an interrupted rotation has left: a new file that did not come to bear the
// archive's name, further names of the archive itself, or the old file, which is overwritten first. The
// writer lock of the archive keeps rotations that still run away.
func (a *Archive) finishRotation() error {
	for _, name := range a.left() {
		b := a.beside(name)
		if b == nil {
			continue
		}
		same, err := b.f.SameFile(a.name)
		held := false
		switch {
		case err != nil:
		case same || b.cur.super.Generation > a.cur.super.Generation:
			if err = a.opt.FS.Remove(name); err == nil {
				err = a.opt.FS.SyncDir(filepath.Dir(name))
			}
		default:
			var mine bool // else whoever exchanged the files is still at it
			if mine, err = b.f.TryLock(writerLock, 1, true); mine && err == nil {
				held, err = b.eraseOld()
			}
			held = held || !mine
		}
		if err := errors.Join(err, b.f.Close()); err != nil {
			return fmt.Errorf("finishing an interrupted key rotation: %w", err)
		}
		if held {
			return nil
		}
	}
	a.leftover = false
	return nil
}

// finishNaming gives the archive its name where a rotation was interrupted between the two renames that it
// needs on a system without hard links: both files are there, and the archive is not.
func finishNaming(fsys vfs.FS, name string) bool {
	for _, n := range []string{oldName(name), newName(name)} {
		f, err := fsys.Open(n, false)
		if err != nil {
			return false
		}
		_, err = journal.ReadCopies(f)
		if errors.Join(err, f.Close()) != nil {
			return false
		}
	}
	return fsys.Rename(newName(name), name) == nil && fsys.SyncDir(filepath.Dir(name)) == nil
}
