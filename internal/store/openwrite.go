package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/vfs"
)

// OpenWrite opens an archive for changing: it takes the writer lock and, when the last writer did not
// close in order, repairs first.
func OpenWrite(ctx context.Context, name string, o Options) (*Archive, error) {
	o = o.withDefaults()
	f, err := o.FS.Open(name, true)
	if errors.Is(err, fs.ErrNotExist) && finishNaming(o.FS, name) {
		f, err = o.FS.Open(name, true)
	}
	if err != nil {
		return nil, err
	}
	a := newArchive(name, f, o)
	a.writer = true
	if err := a.openWrite(ctx); err != nil {
		a.forget()
		return nil, errors.Join(err, f.Close())
	}
	if a.leftover = a.rotationLeft(); a.leftover {
		a.dirty = true
	}
	return a, nil
}

func (a *Archive) openWrite(ctx context.Context) error {
	if err := a.lockWriter(ctx); err != nil {
		return err
	}
	// The file may have been replaced while this process waited for the lock.
	if same, err := a.f.SameFile(a.name); err != nil {
		return err
	} else if !same {
		return &format.Error{Kind: format.ErrChanged, Offset: -1, Detail: "its path came to name another file while it was opened"}
	}
	c, err := journal.ReadCopies(a.f)
	if err != nil {
		return err
	}
	if err := c.Current.Writable(); err != nil {
		return err
	}
	a.copies = c
	if a.cur, err = a.enter(ctx, c.Current); err != nil {
		return err
	}
	size, err := a.f.Size()
	if err != nil {
		return err
	}
	marked, err := journal.Marked(a.f, c.Current)
	if err != nil {
		return err
	}
	a.clean = marked && c.AllEqual()
	if a.clean && (size == c.Current.End || skip(sizeNotChecked)) {
		// Retired extents may wait for a reader that has gone by now.
		a.dirty = len(a.cur.commit.Retire) > 0 || a.cur.commit.Counters.Pending > 0
		return nil
	}
	return a.recover(ctx)
}

func (a *Archive) lockWriter(ctx context.Context) error {
	err := lockWait(ctx, a.f, writerLock, true, a.opt.LockTimeout)
	if errors.Is(err, vfs.ErrLockUnsupported) {
		return fmt.Errorf("this file system refuses locks, so the archive cannot be changed safely here: %w", err)
	}
	return err
}

// Create makes a new, empty archive. It has no name until its first Commit; closing it before that
// leaves nothing behind. fs.ErrExist when the name is taken.
func Create(ctx context.Context, name string, o Options, c CreateOptions) (*Archive, error) {
	o = o.withDefaults()
	if c.Sector == 0 {
		c.Sector = 512
	}
	if !format.SectorOK(c.Sector) {
		return nil, fmt.Errorf("a sector has 512 or 4096 bytes, not %d", c.Sector)
	}
	if len(c.Slots) > 0 && c.Reproducible {
		return nil, errReproducible
	}
	if f, err := o.FS.Open(name, false); err == nil {
		return nil, errors.Join(&fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}, f.Close())
	}
	temp, err := o.FS.CreateTemp(name, 0o666)
	if err != nil {
		return nil, err
	}
	o.Reproducible = c.Reproducible
	a := newArchive(name, temp, o)
	a.writer, a.temp = true, temp
	if err := a.initialise(ctx, c); err != nil {
		a.forget()
		return nil, errors.Join(err, temp.Close())
	}
	return a, nil
}

// initialise makes generation 0, which exists in memory only: the base of the first transaction.
func (a *Archive) initialise(ctx context.Context, c CreateOptions) error {
	if err := a.lockWriter(ctx); err != nil {
		return err
	}
	var id format.ID
	if _, err := io.ReadFull(a.opt.Entropy, id[:]); err != nil {
		return fmt.Errorf("drawing an archive id: %w", err)
	}
	a.id, a.sector = id, c.Sector
	s := &journal.Super{Sector: c.Sector, Archive: id, End: format.DataStart}
	keys, err := a.protect(s, c.Slots)
	if err != nil {
		return err
	}
	m := &journal.Commit{Options: journal.Options{Level: uint8(c.Level), Padding: c.Padding, Reproducible: c.Reproducible}}
	m.Counters.NextContent, m.Counters.NextFrame = 1, 1
	a.cur = &view{super: s, commit: m, keys: keys, root: func() format.Digest { return format.Digest{} }}
	a.copies = &journal.Copies{}
	// The front's pages are whole from the start, so that the file has no holes there.
	return a.writeAt(make([]byte, format.DataStart), 0)
}

// recover repairs an archive whose last writer did not close in order (R1 to R5): it verifies everything
// that the newest root names, makes that root durable in every copy, and wipes what an unfinished
// transaction may have written. It changes no state and can be repeated.
func (a *Archive) recover(ctx context.Context) error {
	// R1: what another process left in the page cache is not yet on the disk.
	if err := a.syncUnless(noRecoverySync); err != nil {
		return err
	}
	if err := a.syncName(); err != nil {
		return err
	}
	// R2: nothing is overwritten before all of the metadata and the ownership map are known to be sound.
	if err := a.checkAll(ctx); err != nil {
		return fmt.Errorf("the archive was not closed in order and cannot be repaired: %w", err)
	}
	// R3: the pair that holds the root first, bad copies before good ones, each synced by itself, so that
	// at every moment a good copy of the newest root is on the disk.
	s := a.cur.super
	first := journal.Pair(s.Generation)
	if !a.copies.Holds(first, 0) && !a.copies.Holds(first, 1) {
		first = 1 - first
	}
	for _, pair := range []int{first, 1 - first} {
		order := []int{0, 1}
		if a.copies.Holds(pair, 0) && !a.copies.Holds(pair, 1) {
			order = []int{1, 0}
		}
		if skip(goodCopyFirstInRecovery) {
			order[0], order[1] = order[1], order[0]
		}
		for _, n := range order {
			if a.copies.Holds(pair, n) && skip(noRewriteInRecovery) {
				continue
			}
			if err := journal.WriteCopy(writerAt{a}, s, pair, n); err != nil {
				return err
			}
			if err := a.syncUnless(oneSyncInRecovery); err != nil {
				return err
			}
		}
	}
	a.copies = a.copies.Written(s, 0, 1)
	// R4: what the unfinished transaction may have written, and what was planned to be wiped.
	due, err := a.wipeable()
	if err != nil {
		return err
	}
	if skip(noRecoveryWipe) {
		due = nil
	}
	for _, p := range due {
		if err := a.wipe(p.Extent); err != nil {
			return err
		}
	}
	if len(due) > 0 {
		if err := a.syncFile(); err != nil {
			return err
		}
	}
	if err := a.truncate(); err != nil {
		return err
	}
	// R5: the mark says that all of this returned.
	if err := journal.WriteMark(writerAt{a}, s); err != nil {
		return err
	}
	a.clean = true
	a.dirty = len(a.cur.commit.Retire) > 0 || a.cur.commit.Counters.Pending > 0
	return nil
}

// syncName makes the archive's name durable: whoever created it may have been killed before that. Where
// the directory may not be read, it cannot be synced, and nothing is known of its creator.
func (a *Archive) syncName() error {
	if skip(noNameSyncInRecovery) {
		return nil
	}
	name := a.name
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	err := a.opt.FS.SyncDir(filepath.Dir(name))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return a.poisoned(err)
	}
	return nil
}

// wipeable returns the extents of the stage and the retire set that no reader needs.
func (a *Archive) wipeable() (due []journal.Planned, err error) {
	quiet := newQuiet(a.f)
	for _, set := range [][]journal.Planned{a.cur.commit.Retire, a.cur.commit.Stage} {
		for _, p := range set {
			ok, err := quiet.below(p.Generation)
			if err != nil {
				return nil, err
			}
			if ok {
				due = append(due, p)
			}
		}
	}
	return due, nil
}

// checkAll verifies every node and record of the current root and that every byte of the archive has
// exactly one owner.
func (a *Archive) checkAll(ctx context.Context) error {
	v := a.cur
	var own index.Ownership
	own.Add(v.super.CommitExtent(), index.OwnerCommit, 0)
	if v.keys != nil {
		own.Add(v.super.KeyDirExtent(), index.OwnerKeyDir, 0)
	}
	for _, p := range v.commit.Stage {
		own.Add(p.Extent, index.OwnerStage, 0)
	}
	for _, p := range v.commit.Retire {
		own.Add(p.Extent, index.OwnerRetire, 0)
	}
	for tree := index.Entries; tree <= index.Free; tree++ {
		err := index.Walk(a, tree, v.tree(tree), func(level int, ref index.Ref, n *index.Node, _, _ []byte) error {
			own.Add(format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), a.sector)}, index.OwnerNode, uint64(tree))
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := n.Check(); err != nil || level > 0 {
				return err
			}
			s := n.Scan()
			for s.Next() {
				if err := a.checkRecord(&own, tree, s.Key(), s.Value()); err != nil {
					return err
				}
			}
			return s.Err()
		})
		if err != nil {
			return err
		}
	}
	return own.Check(format.DataStart, v.super.End)
}

// checkRecord decodes one record, and notes the extent that it owns.
func (a *Archive) checkRecord(own *index.Ownership, tree index.Tree, key, value []byte) error {
	switch tree {
	case index.Entries:
		_, err := index.DecodeEntry(key, value)
		return err
	case index.Contents:
		_, err := index.DecodeContent(value)
		return err
	case index.Digests:
		_, _, err := index.DecodeDigestKey(key)
		return err
	case index.Frames:
		n, err := index.DecodeNumKey(key)
		if err != nil {
			return err
		}
		r, err := index.DecodeFrame(value, a.suite.TagSize(), a.sector)
		own.Add(r.Ext, index.OwnerFrame, n)
		return err
	case index.Free:
		e, err := index.DecodeFree(key, value)
		own.Add(e.Ext, index.OwnerFree, 0)
		return err
	}
	return nil
}
