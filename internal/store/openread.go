package store

import (
	"context"
	"errors"
	"fmt"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/vfs"
)

// Open opens an archive for reading one generation. It writes nothing.
func Open(ctx context.Context, name string, o Options) (*Archive, error) {
	o = o.withDefaults()
	f, err := o.FS.Open(name, false)
	if err != nil {
		return nil, err
	}
	a := newArchive(name, f, o)
	if err := a.openRead(ctx); err != nil {
		a.forget()
		if same, e := f.SameFile(name); e == nil && !same && errors.Is(err, format.ErrCorrupt) {
			err = &format.Error{Kind: format.ErrChanged, Offset: -1, Detail: "its path came to name another file while it was opened"}
		}
		return nil, errors.Join(err, f.Close())
	}
	return a, nil
}

func newArchive(name string, f vfs.File, o Options) *Archive {
	a := &Archive{name: name, opt: o}
	a.f = countedFile{f, &a.stats}
	a.cache.budget, a.cache.stats = o.CacheBytes, &a.stats
	return a
}

// openRead takes the current generation under the publish lock, so that it cannot be one whose
// publication is not yet synced, and then holds it against cleanup. It writes nothing,
// but syncs when it is not certain that the generation is durable.
func (a *Archive) openRead(ctx context.Context) error {
	for range 100 {
		err := lockWait(ctx, a.f, publishLock, false, a.opt.LockTimeout)
		if skip(readerIgnoresPublishLock) && errors.Is(err, format.ErrBusy) {
			err = vfs.ErrLockUnsupported
		}
		noLocks := errors.Is(err, vfs.ErrLockUnsupported)
		if err != nil && !noLocks {
			return err
		}
		c, err := journal.ReadCopies(a.f)
		if !noLocks {
			if e := a.f.Unlock(publishLock, 1); err == nil {
				err = e
			}
		}
		if err != nil {
			return err
		}
		gen := c.Current.Generation
		if gen > maxGen {
			return format.Corrupt("superblock", 0, "generation %d is out of range", gen)
		}
		if !noLocks {
			ok, err := a.f.TryLock(genBase+int64(gen), 1, false)
			if err != nil {
				return err
			}
			if !ok {
				continue // a cleanup is looking at this range; it takes a moment
			}
			moved, err := c.Moved(a.f)
			if moved && err == nil {
				var again *journal.Copies
				if again, err = journal.ReadCopies(a.f); err == nil {
					moved = again.Current.Generation != gen
				}
			}
			if err != nil {
				return err
			}
			if moved {
				if err := a.f.Unlock(genBase+int64(gen), 1); err != nil {
					return err
				}
				continue
			}
			a.locked = true
		}
		if err := a.lasting(c); err != nil {
			return err
		}
		a.copies = c
		a.cur, err = a.enter(ctx, c.Current)
		return err
	}
	return &format.Error{Kind: format.ErrBusy, Offset: -1, Detail: "the archive changed faster than it could be opened"}
}

// lasting makes sure that no power cut takes back the generation that a reader is given: a writer that was killed
// while it published, or before the name of a new archive was durable, has left it in the system's cache.
func (a *Archive) lasting(c *journal.Copies) error {
	first, sure := c.Current.Generation == 1, c.AllEqual()
	if first {
		sure = sure && c.Marked()
	}
	if sure || skip(noReaderSync) {
		return nil
	}
	if err := a.f.Sync(); err != nil {
		return fmt.Errorf("making the state that is read durable: %w", err)
	}
	if first {
		return a.syncName()
	}
	return nil
}

// Recheck tells a reader that could not lock its generation whether what it read may have been wiped
// meanwhile. It is to be called before success is reported.
func (a *Archive) Recheck() error {
	if a.writer || a.locked {
		return nil
	}
	c, err := journal.ReadCopies(a.f)
	if err != nil {
		return err
	}
	if *c.Current != *a.view().super {
		return &format.Error{Kind: format.ErrChanged, Offset: -1, Detail: "another process committed while it was read, and this file system has no locks; read again"}
	}
	return nil
}
