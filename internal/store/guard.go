package store

import (
	"fmt"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/journal"
)

// Every write and sync of an archive goes through this file: the first that fails poisons the handle.

// writeAt writes to the archive file. The first failure poisons the handle.
func (a *Archive) writeAt(b []byte, off int64) error {
	if a.poison != nil {
		return a.poison
	}
	if a.ceiling > 0 && off+int64(len(b)) > a.ceiling {
		return errCeiling
	}
	_, err := a.f.WriteAt(b, off)
	if err != nil {
		return a.poisoned(fmt.Errorf("writing %d bytes at offset %d: %w", len(b), off, err))
	}
	return nil
}

// syncFile makes everything written so far durable. A failed sync is never tried again: what reached
// the disk is unknown.
func (a *Archive) syncFile() error {
	if a.poison != nil {
		return a.poison
	}
	defer since(&a.stats.sync, time.Now())
	err := a.f.Sync()
	if err != nil && skip(retrySync) {
		err = a.f.Sync()
	}
	if err != nil {
		return a.poisoned(fmt.Errorf("syncing: %w", err))
	}
	return nil
}

// poisoned makes the handle refuse everything but Close.
func (a *Archive) poisoned(err error) error {
	if a.poison == nil && !skip(noPoison) {
		a.poison = &format.Error{Kind: format.ErrPoisoned, Offset: -1, Detail: err.Error()}
	}
	return err
}

// writerAt lets the journal write through the handle's checks and counters.
type writerAt struct{ a *Archive }

func (w writerAt) WriteAt(b []byte, off int64) (int, error) {
	if err := w.a.writeAt(b, off); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unchanged refuses an archive that something else has changed since this handle last looked (C0): the
// path names another file, the copies differ, or the file is shorter than its root says. The handle is
// poisoned then: what it would overwrite or wipe may belong to somebody by now.
func (a *Archive) unchanged() error {
	if a.temp != nil || skip(noChangeCheck) {
		return nil
	}
	same, err := a.f.SameFile(a.name)
	if err != nil {
		return err
	}
	changed := func(detail string) error {
		return a.poisoned(&format.Error{Kind: format.ErrChanged, Offset: -1, Detail: detail})
	}
	if !same {
		return changed("its path now names another file")
	}
	c, err := journal.ReadCopies(a.f)
	if err != nil {
		return err
	}
	if !c.Same(a.copies) {
		return changed("its superblocks are not those of this handle's last commit")
	}
	size, err := a.f.Size()
	if err != nil {
		return err
	}
	if size < a.cur.super.End {
		return changed("it was truncated")
	}
	return nil
}
