package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
)

// Tx is a transaction. Nothing of it is visible, to this handle either, before Commit returns. It is
// for one goroutine.
type Tx struct {
	a       *Archive
	base    *view
	gen     uint64 // of the root it will publish
	attempt format.ID
	salt    []byte // of an encrypted archive's commit block
	space   space
	out     writeBuffer
	nodeSeq uint32
	done    bool
	err     error // the first failure; the transaction can only be rolled back

	entries entryOps
	scratch []byte
	moved   bool // an existing entry was removed, replaced or renamed: what is superseded held deleted things

	firstContent uint64 // number of the first content of this transaction
	fresh        chunked[newContent]
	changed      map[uint64]*index.Content // committed contents with other references or runs
	dupes        duplicates                // of fresh
	sound        map[uint64]bool           // committed frames looked at before sharing: do they verify
	sizes        map[int64]bool            // sizes of this transaction's large contents

	firstFrame uint64
	nextFrame  uint64
	frames     chunked[index.Frame] // this transaction's, from firstFrame on; written by the ordered writer
	gone       map[uint64]bool      // frames, committed or new, that nothing references any more
	packs      [packClasses]*pack   // open packs
	openPacks  [packClasses]uint64  // what the next root will say
	pipe       *pipeline

	retired   []journal.Planned            // extents of the base generation that this one supersedes
	unused    []journal.Planned            // extents written in this transaction and dropped again
	compact   *rearrangement               // nil but in a compaction's transactions
	keys      *journal.KeyDir              // the key directory to be written, or nil
	restage   bool                         // it does nothing but fill the stage set
	signKey   seal.Signer                  // signs this generation and those that come; nil: the handle's
	links     map[pathsafe.Path]linkTarget // what further sources may be links of
	groups    uint64                       // link groups numbered
	regrouped map[uint64]bool              // numbers of committed link groups that this transaction's entries have
	prove     func() error                 // of CommitProven
	sum       Summary
	nodes     int64 // change of the bytes in nodes' extents
}

// Summary is what a transaction did.
type Summary struct {
	Generation               uint64
	Root                     format.Digest
	Added, Replaced, Removed int   // entries
	PlainBytes               int64 // read from sources
	StoredBytes              int64 // written as frames, stored lengths
	SharedBytes              int64 // of contents that removed entries had and other entries still have
}

// newContent is a content of this transaction; compact, for a transaction may have millions.
type newContent struct {
	digest format.Digest
	size   int64
	frame  uint64 // 0: in an open pack
	off    int64
	refs   uint32
	unit   uint32
}

// Begin starts a transaction on a handle opened for writing. The archive must be as the handle left
// it: something else's change is refused.
func (a *Archive) Begin(ctx context.Context) (*Tx, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.writer:
		return nil, errors.New("archive is open for reading only")
	case a.closed:
		return nil, fs.ErrClosed
	case a.poison != nil:
		return nil, a.poison
	case a.tx != nil:
		return nil, errors.New("a transaction is already open")
	}
	if err := a.changeable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := a.unchanged(); err != nil {
		return nil, err
	}
	if a.temp == nil && !a.copies.AllEqual() && !skip(stageReusedUnmirrored) {
		// Stage extents may be written only when every copy is past them.
		if err := a.mirror(); err != nil {
			return nil, err
		}
	}
	if n := len(a.cur.commit.Retire); n > retireSoft || totalLen(a.cur.commit.Retire) > retireBytes {
		if err := a.tidy(); err != nil {
			return nil, err
		}
	}
	t, err := a.begin()
	if err == nil && a.mendKeys {
		t.keys = &journal.KeyDir{Slots: a.cur.keys.Slots}
	}
	return t, err
}

// begin makes the transaction itself.
func (a *Archive) begin() (*Tx, error) {
	v := a.cur
	k := &v.commit.Counters
	t := &Tx{a: a, base: v, gen: v.super.Generation + 1, out: writeBuffer{a: a},
		firstContent: k.NextContent, firstFrame: k.NextFrame, nextFrame: k.NextFrame,
		changed: map[uint64]*index.Content{}, sizes: map[int64]bool{}, sound: map[uint64]bool{}, gone: map[uint64]bool{},
	}
	if t.gen > maxGen {
		return nil, format.Corrupt("superblock", 0, "generation %d is out of range", t.gen)
	}
	if err := a.checkNext(v); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(a.opt.Entropy, t.attempt[:]); err != nil {
		return nil, fmt.Errorf("drawing an attempt id: %w", err)
	}
	if v.super.Suite.Encrypted() {
		t.salt = make([]byte, journal.SaltSize)
		if _, err := io.ReadFull(a.opt.Entropy, t.salt); err != nil {
			return nil, fmt.Errorf("drawing a salt: %w", err)
		}
	}
	for i := range t.openPacks {
		t.openPacks[i] = journal.NoFrame
		if i < len(v.commit.OpenPacks) {
			t.openPacks[i] = v.commit.OpenPacks[i]
		}
	}
	if v.super.KeyDirLen == 0 {
		t.keys = v.keys // of an archive that is being created
	}
	t.space.end = v.super.End
	if a.temp == nil {
		quiet := newQuiet(a.f)
		for _, p := range v.commit.Stage {
			ok, err := quiet.below(p.Generation)
			if err != nil {
				return nil, err
			}
			if ok {
				ok = a.unowned(v, &p) == nil
			}
			if ok {
				// Proven now; whoever owned it before no longer matters.
				p.Kind, p.Owner = journal.OwnerNone, 0
				t.space.usable = append(t.space.usable, p)
			} else {
				t.space.held = append(t.space.held, p)
			}
		}
		t.space.usable = join(t.space.usable)
		if a.clean && !skip(noMarkClear) {
			// The mark says that nothing was written since: not true from the first staged byte on.
			if err := journal.ClearMark(writerAt{a}); err != nil {
				return nil, err
			}
			a.clean = false
		}
	}
	a.tx = t
	return t, nil
}

// checkNext refuses counters that would give a number out again.
func (a *Archive) checkNext(v *view) error {
	for tree, next := range map[index.Tree]uint64{index.Contents: v.commit.Counters.NextContent, index.Frames: v.commit.Counters.NextFrame} {
		it := index.NewIter(a, tree, v.tree(tree))
		if !it.SeekLE(nil) {
			if err := it.Err(); err != nil {
				return err
			}
			continue
		}
		if last, err := index.DecodeNumKey(it.Key()); err != nil || last >= next {
			return errors.Join(err, format.Corrupt("commit block", v.super.CommitOff, "the next number in the tree %v is %d, but %d is in use", tree, next, last))
		}
	}
	return nil
}

// fail records the first failure of the transaction.
func (t *Tx) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}

func (t *Tx) usableErr() error {
	switch {
	case t.done:
		return errors.New("the transaction has ended")
	case t.err != nil:
		return t.err
	}
	return t.a.poison
}

// Remove deletes one entry of the committed generation; fs.ErrNotExist when there is none.
func (t *Tx) Remove(p pathsafe.Path) error {
	if err := t.usableErr(); err != nil {
		return err
	}
	if _, err := t.a.getEntry(t.base, p); err != nil {
		return err
	}
	t.entries.remove(p)
	return nil
}

// Move gives one entry of the committed generation another path. Its content stays where it is.
func (t *Tx) Move(from, to pathsafe.Path) error {
	if err := t.usableErr(); err != nil {
		return err
	}
	e, err := t.a.getEntry(t.base, from)
	if err != nil || from == to {
		return err
	}
	if err := t.referCommitted(&e, 1); err != nil {
		return err
	}
	t.entries.remove(from)
	e.Path = to
	t.entries.put(&e) // its record was in the tree
	return nil
}

// Commit makes the transaction the archive's state. When it returns nil, the new generation survives a
// power cut. When it fails before publication, the archive is as it was; when the error comes from the
// publication itself the handle is poisoned, and the archive is exactly the old or exactly the new
// generation. ctx is honoured up to the commit point.
func (t *Tx) Commit(ctx context.Context) (Summary, error) {
	a := t.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := t.usableErr(); err != nil {
		return Summary{}, err
	}
	err := t.commit(ctx)
	if err != nil {
		return Summary{}, errors.Join(err, t.rollback())
	}
	t.done = true
	a.tx = nil
	a.opt.SignKey = t.signer()
	a.written = t.space.given
	a.mendKeys = a.mendKeys && t.keys == nil
	t.stopPipe()
	return t.sum, nil
}

// idle reports that the transaction has nothing to publish.
func (t *Tx) idle() bool {
	if len(t.entries.ops) > 0 || len(t.gone) > 0 || t.frames.len() > 0 || t.compact != nil || t.restage || t.keys != nil || t.signKey != nil {
		return false
	}
	for _, c := range t.fresh.all() {
		if c.refs > 0 {
			return false
		}
	}
	return true
}

// abandon ends a transaction that publishes nothing.
func (t *Tx) abandon() error { return t.a.scrub(t) }

// Rollback ends the transaction; the archive stays as it was. What was staged is overwritten.
func (t *Tx) Rollback() error {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	if t.done {
		return nil
	}
	return t.rollback()
}

func (t *Tx) rollback() error {
	t.done = true
	t.a.tx = nil
	t.stopPipe()
	if t.a.temp != nil || t.a.poison != nil {
		return nil // the file has no name yet, or the next writer's recovery wipes what was staged
	}
	return t.a.scrub(t)
}

// Write implements index.Sink: it seals a node and stores it.
func (t *Tx) Write(tree index.Tree, _ int, b []byte) (index.Ref, error) {
	if t.nodeSeq == math.MaxUint32 {
		return index.Ref{}, errors.New("one transaction has written 2^32 nodes: a number more would be one twice, and with it a nonce")
	}
	ref := index.Ref{Len: uint32(len(b)), Seq: t.nodeSeq, Attempt: t.attempt}
	t.nodeSeq++
	size := format.AlignUp(int64(len(b)), t.a.sector)
	ext := t.space.alloc(size, false)
	ref.Off = ext.Off
	buf := getBuf(int(size))
	defer putBuf(buf)
	clear((*buf)[copy(*buf, b):])
	index.SealNode(t.a.suite, t.a.id, tree, &ref, *buf, t.a.sector)
	t.nodes += size
	t.a.stats.NodesWritten.Add(1)
	return ref, t.out.write(*buf, ext.Off)
}

// Retire implements index.Sink.
func (t *Tx) Retire(tree index.Tree, _ int, ref index.Ref) {
	p := journal.Planned{Generation: t.gen, Kind: journal.OwnerNode, Owner: uint64(tree),
		Extent: format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), t.a.sector)}}
	t.nodes -= p.Len
	if ref.Attempt == t.attempt {
		p.Kind, p.Owner = journal.OwnerNone, 0
		t.unused = append(t.unused, p)
		return
	}
	if skip(reuseRetiredAtOnce) {
		t.space.usable = append(t.space.usable, p)
		return
	}
	t.retired = append(t.retired, p)
}

var _ index.Sink = (*Tx)(nil)
