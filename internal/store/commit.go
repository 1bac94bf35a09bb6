package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/vfs"
)

// This file holds the protocol of ARCHITECTURE.md: every write and sync that publishes, mirrors, wipes or
// truncates, in its order. The steps are cited by their numbers.

// commit turns what was added, removed and moved into a new root and publishes it.
func (t *Tx) commit(ctx context.Context) error {
	a := t.a
	if err := a.unchanged(); err != nil { // before the first node is written
		return err
	}
	treeStart := time.Now()
	if err := t.sortEntries(); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	// A transaction that changes nothing publishes nothing, except for a new archive's first root.
	if a.temp == nil && t.idle() {
		t.sum.Generation, t.sum.Root = a.cur.super.Generation, a.cur.root()
		return t.abandon()
	}
	roots, k, err := t.trees(ctx)
	if err != nil {
		return err
	}
	t.retireKeys()
	retire, edits, err := t.sets(&roots, &k)
	if err != nil {
		return err
	}
	if roots[index.Free-1], err = edits.apply(&k); err != nil {
		return err
	}
	k.NodeBytes = uint64(int64(k.NodeBytes) + t.nodes)
	since(&a.stats.tree, treeStart)
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &journal.Commit{Counters: k, Options: t.base.commit.Options, Retire: retire, OpenPacks: t.openPacks[:]}
	c.Carry(t.base.commit)
	if err := t.publish(ctx, c, roots); err != nil {
		return err
	}
	t.sum.Generation, t.sum.Root = a.cur.super.Generation, a.cur.root()
	return nil
}

// publish writes the commit block and publishes it (C2, C3). The new archive's first root is written into
// all copies before the file gets its name.
func (t *Tx) publish(ctx context.Context, c *journal.Commit, roots [5]index.Root) error {
	a := t.a
	defer since(&a.stats.commit, time.Now())
	c.Salt = t.salt
	c.Options.Reproducible = c.Options.Reproducible && a.opt.Reproducible
	for _, r := range roots {
		c.Trees = r.Append(c.Trees, a.suite.TagSize())
	}
	s := *t.base.super
	v := &view{super: &s, commit: c, keys: t.base.keys, roots: roots}
	if t.keys != nil {
		v.keys = t.keys
		if err := t.writeKeys(&s); err != nil {
			return err
		}
	} else if s.KeyDirLen > 0 && t.rebuilds() {
		if err := t.keepKeys(&s); err != nil {
			return err
		}
	}
	ext, size, err := t.placeCommit(ctx, c)
	if err != nil {
		return err
	}
	s.Generation, s.Attempt, s.End = t.gen, t.attempt, t.space.end
	s.CommitOff, s.CommitLen = ext.Off, uint32(size)
	s.PrevRoot = t.base.root()
	block := c.Encode(t.gen)
	v.root = rootOf(&s, block)
	if block, err = a.sign(ctx, v, block, t.signer()); err != nil {
		return err
	}
	stored := journal.SealCommit(block, &s, a.suite)
	if int64(len(stored)) != size {
		return errors.New("internal error: commit block changed its length")
	}
	s.CommitHash = journal.Sum(stored)

	// C2: the commit block, after everything it names; then everything durable at once.
	if err := t.out.write(append(stored, make([]byte, ext.Len-size)...), ext.Off); err != nil {
		return err
	}
	if err := t.out.flush(); err != nil {
		return err
	}
	if a.temp != nil {
		return a.publishNew(ctx, v, t.prove)
	}
	if skip(wipeBeforePublish) {
		for _, p := range c.Retire {
			_ = a.wipe(p.Extent)
		}
	}
	if err := a.syncUnless(noSync1); err != nil { // sync 1
		return err
	}
	// The last moment to turn back; an interrupted command has changed nothing.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := a.unchanged(); err != nil {
		return err
	}
	return a.publishPair(ctx, v)
}

// publishPair writes both copies of the pair that does not hold the current generation and syncs them
// (C3). Readers read the copies under the shared publish lock, so none takes a generation whose sync
// has not returned.
func (a *Archive) publishPair(ctx context.Context, v *view) error {
	err := lockWait(ctx, a.f, publishLock, true, max(a.opt.LockTimeout, time.Second))
	if err != nil {
		return fmt.Errorf("waiting for readers to finish opening: %w", err)
	}
	pair := journal.Pair(v.super.Generation)
	for n := range 2 {
		if skip(singleSlotInPlace) {
			_ = journal.WriteCopy(writerAt{a}, v.super, 1-pair, n)
		}
		if err = journal.WriteCopy(writerAt{a}, v.super, pair, n); err != nil {
			break
		}
	}
	if err == nil {
		err = a.syncUnless(noSync2) // sync 2
	}
	if e := a.f.Unlock(publishLock, 1); err == nil && e != nil {
		err = a.poisoned(e)
	}
	if err != nil {
		return fmt.Errorf("publishing generation %d: %w: %w", v.super.Generation, ErrOutcomeUnknown, err)
	}
	a.cur, a.copies = v, a.copies.Written(v.super, pair)
	a.trust.Store(&trust{v: v}) // before anything is wiped
	if skip(singleSlotInPlace) {
		a.copies = a.copies.Written(v.super, 1-pair)
	}
	a.dirty, a.clean = true, false
	return nil
}

// publishNew writes the first root of a created archive into all copies, syncs, and gives the file its
// name (C10).
func (a *Archive) publishNew(ctx context.Context, v *view, prove func() error) error {
	for pair := range 2 {
		for n := range 2 {
			if err := journal.WriteCopy(writerAt{a}, v.super, pair, n); err != nil {
				return err
			}
		}
	}
	if err := a.syncUnless(noSyncBeforeName); err != nil {
		return err
	}
	if prove != nil {
		if err := a.proven(v, prove); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	// The name becomes durable after it can be seen: until then readers wait for the publish lock.
	err := lockWait(ctx, a.f, publishLock, true, 0)
	noLocks := errors.Is(err, vfs.ErrLockUnsupported)
	if err != nil && !noLocks {
		return err
	}
	if err := a.temp.Publish(); err != nil {
		err = fmt.Errorf("giving the archive its name: %w", err)
		// It may have its name nonetheless, and a power cut may take that away, whatever the next process
		// stores under it and syncs. So the name goes now, while nobody can have got past the locks.
		if same, e := a.f.SameFile(a.name); e == nil && same {
			err = errors.Join(err, a.opt.FS.Remove(a.name))
		}
		return a.poisoned(err)
	}
	if !noLocks {
		if err := a.f.Unlock(publishLock, 1); err != nil {
			return a.poisoned(err)
		}
	}
	a.temp = nil
	a.cur, a.copies = v, (&journal.Copies{}).Written(v.super, 0, 1)
	a.trust.Store(&trust{v: v})
	// Only now: whoever finds the mark may rely on the name as well. Without it the next writer repairs what
	// needs no repair; the archive is there all the same.
	a.clean = journal.WriteMark(writerAt{a}, v.super) == nil
	return nil
}

// mirror brings the other pair up to date (C4): sync 3, then the clean mark, which needs none.
func (a *Archive) mirror() error {
	if a.copies.AllEqual() || skip(noMirror) {
		return nil
	}
	s := a.cur.super
	for pair := range 2 {
		for n := range 2 {
			if a.copies.Holds(pair, n) {
				continue
			}
			if err := journal.WriteCopy(writerAt{a}, s, pair, n); err != nil {
				return err
			}
		}
	}
	if skip(markBeforeSync3) {
		_ = journal.WriteMark(writerAt{a}, s)
	}
	if err := a.syncUnless(noSync3); err != nil { // sync 3
		return err
	}
	a.copies = a.copies.Written(s, 0, 1)
	if err := journal.WriteMark(writerAt{a}, s); err != nil {
		return err
	}
	a.clean = true
	return nil
}

// tidy mirrors the superblock and, when something is retired that held deleted content, overwrites it
// (C5 to C8). It leaves what a reader of an older generation still needs to the next chance.
func (a *Archive) tidy() error {
	defer since(&a.stats.tidy, time.Now())
	if err := a.unchanged(); err != nil {
		return err
	}
	if !skip(wipeUnmirrored) {
		if err := a.mirror(); err != nil { // before anything destructive
			return err
		}
	}
	if a.leftover {
		if err := a.finishRotation(); err != nil {
			return err
		}
	}
	if a.changeable() != nil {
		return nil // what a checkpoint has to record waits for whoever can sign it
	}
	// Stage extents may hold older copies of what was deleted; they are wiped in the first batch.
	for stage := true; len(a.cur.commit.Retire) > 0 || a.cur.commit.Counters.Pending > 0; stage = false {
		due, err := a.due(a.cur, stage)
		if err != nil || len(due) == 0 {
			return err
		}
		if err := a.wipeBatch(due); err != nil {
			return err
		}
	}
	a.dirty = false
	return a.truncate() // C8
}

// wipeBatch wipes the first of the extents that are due, as many as an interruption may lose, and records
// in a checkpoint that they are free (C6, C7). Never skipped because an extent reads as zeros: after a
// failed sync the cache shows what the disk may not have.
func (a *Archive) wipeBatch(due []journal.Planned) error {
	// The stage set, which comes first, has more only after an interrupted compaction.
	room := max(wipeBatchBytes, totalLen(a.cur.commit.Stage))
	for i := range due {
		p := &due[i]
		if room <= 0 {
			due = due[:i]
			break
		}
		if err := a.unowned(a.cur, p); err != nil {
			return err
		}
		p.Len = min(p.Len, room)
		room -= p.Len
	}
	for _, p := range due {
		if err := a.wipe(p.Extent); err != nil {
			return err
		}
	}
	if err := a.syncUnless(noSyncAfterWipe); err != nil {
		return err
	}
	if err := a.checkpoint(due); err != nil {
		return err
	}
	return a.mirror()
}

// wipeBatchBytes is how much is wiped before a checkpoint records it. Only tests change it.
var wipeBatchBytes int64 = 64 << 20

var zeros [1 << 20]byte

// wipe overwrites an extent with zeros, without a sync.
func (a *Archive) wipe(e format.Extent) error {
	for off := e.Off; off < e.End(); {
		n := min(e.End()-off, int64(len(zeros)))
		if a.readsZero(off, n) {
			off += n
			continue
		}
		if err := a.writeAt(zeros[:n], off); err != nil {
			return err
		}
		a.stats.BytesWiped.Add(uint64(n))
		off += n
	}
	return nil
}

// truncate gives the space past the logical end back (C8): wiped and synced before it is cut off. It may
// only be called when every copy names the current generation.
func (a *Archive) truncate() error {
	size, err := a.f.Size()
	if err != nil {
		return err
	}
	end := a.cur.super.End
	if size <= end {
		return nil
	}
	if busy, err := readersBelow(a.f, a.cur.super.Generation); err != nil || busy {
		return err
	}
	if !skip(noWipeBeforeTruncate) {
		if err := a.wipe(format.Extent{Off: end, Len: size - end}); err != nil {
			return err
		}
	}
	if err := a.syncUnless(noSyncBeforeTruncate); err != nil {
		return err
	}
	if err := a.f.Truncate(end); err != nil {
		return a.poisoned(fmt.Errorf("truncating to %d bytes: %w", end, err))
	}
	return a.syncUnless(noSyncAfterTruncate)
}

// scrub overwrites what a transaction that was not published has staged, and cuts the end off again. The
// archive is as clean as before.
func (a *Archive) scrub(t *Tx) error {
	if skip(noScrub) {
		return nil
	}
	if err := a.unchanged(); err != nil {
		return err // what stands there now is not this handle's to overwrite
	}
	for _, e := range t.space.taken {
		if err := a.wipe(e); err != nil {
			return err
		}
	}
	size, err := a.f.Size()
	if err != nil {
		return err
	}
	if size > a.cur.super.End {
		if err := a.truncate(); err != nil {
			return err
		}
	}
	if !a.copies.AllEqual() || a.clean {
		return nil
	}
	if err := a.syncFile(); err != nil {
		return err
	}
	if err := journal.WriteMark(writerAt{a}, a.cur.super); err != nil {
		return err
	}
	a.clean = true
	return nil
}
