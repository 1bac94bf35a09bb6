package store

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// rewrite writes the handle's generation to a new file beside it, under a new content key, and returns its root.
func (a *Archive) rewrite(ctx context.Context, r RotateOptions) (format.Digest, error) {
	fi, err := a.f.Stat()
	if err != nil {
		return format.Digest{}, err
	}
	name := newName(a.name)
	temp, err := a.opt.FS.CreateTemp(name, fi.Mode().Perm())
	if err != nil {
		return format.Digest{}, err
	}
	o := a.opt
	o.ExpectRoot, o.Signers = nil, nil
	if r.SignKey != nil {
		o.SignKey = r.SignKey
	}
	b := newArchive(name, temp, o)
	b.writer, b.temp = true, temp
	root, err := b.rewritten(ctx, a, r)
	return root, errors.Join(err, b.Close())
}

// rewritten makes b hold what a holds.
func (b *Archive) rewritten(ctx context.Context, a *Archive, r RotateOptions) (root format.Digest, err error) {
	if err := b.lockWriter(ctx); err != nil {
		return root, err
	}
	old := a.cur
	s := &journal.Super{Sector: a.sector, Archive: a.id, Generation: old.super.Generation, End: format.DataStart,
		MustKnow: old.super.MustKnow, WriteKnow: old.super.WriteKnow, MayIgnore: old.super.MayIgnore}
	if !old.super.Suite.Signed() {
		b.opt.SignKey = nil
	}
	b.id, b.sector = a.id, a.sector
	keys, err := b.protect(s, r.Slots)
	if err != nil {
		return root, err
	}
	m := &journal.Commit{Options: old.commit.Options}
	m.Counters.NextContent, m.Counters.NextFrame = old.commit.Counters.NextContent, old.commit.Counters.NextFrame
	m.Carry(old.commit)
	b.cur = &view{super: s, commit: m, keys: keys, root: old.root}
	b.copies = &journal.Copies{}
	if err := b.writeAt(make([]byte, format.DataStart), 0); err != nil {
		return root, err
	}
	t, err := b.begin()
	if err != nil {
		return root, err
	}
	w := &rewriter{ctx: ctx, a: a, t: t, r: r}
	c, roots, err := w.all()
	if err == nil {
		err = t.publish(ctx, c, roots)
	}
	b.tx, t.done = nil, true
	if err != nil {
		return root, err
	}
	return b.cur.root(), nil
}

// rewriter copies an archive's trees and frames into a transaction of another one.
type rewriter struct {
	ctx     context.Context
	a       *Archive
	t       *Tx
	r       RotateOptions
	k       journal.Counters
	digests [][16]byte // keys
	buf     []byte     // of the latest frame
	err     error
}

func (w *rewriter) all() (c *journal.Commit, roots [5]index.Root, err error) {
	old := w.a.cur
	w.k = old.commit.Counters
	w.k.FrameBytes, w.k.FreeBytes, w.k.Pending = 0, 0, 0
	b := w.t.a
	for _, step := range []struct {
		tree index.Tree
		ops  iter.Seq[index.Op]
	}{{index.Frames, w.frames}, {index.Contents, w.contents}, {index.Digests, w.digestKeys}, {index.Entries, w.entries}} {
		roots[step.tree-1], err = index.Apply(b, w.t, step.tree, index.Root{}, b.suite.TagSize(), nodeSize, step.ops)
		if err = errors.Join(w.err, err); err != nil {
			return nil, roots, err
		}
	}
	w.k.NodeBytes = uint64(w.t.nodes)
	c = &journal.Commit{Counters: w.k, Options: old.commit.Options, OpenPacks: old.commit.OpenPacks}
	c.Carry(old.commit)
	return c, roots, nil
}

// items calls fn for each item of one of the old trees, until it returns false.
func (w *rewriter) items(tree index.Tree, fn func(key, value []byte) (bool, error)) {
	it := index.NewIter(w.a, tree, w.a.cur.tree(tree))
	for w.a.cur.tree(tree).Height > 0 && it.Next() {
		if w.err = w.ctx.Err(); w.err != nil {
			return
		}
		more, err := fn(it.Key(), it.Value())
		if err != nil {
			w.err = err
		}
		if err != nil || !more {
			return
		}
	}
	w.err = it.Err()
}

func (w *rewriter) entries(yield func(index.Op) bool) {
	w.items(index.Entries, func(key, value []byte) (bool, error) { return yield(index.Op{Key: key, Value: value}), nil })
}

func (w *rewriter) contents(yield func(index.Op) bool) {
	w.items(index.Contents, func(key, value []byte) (bool, error) {
		n, err := index.DecodeNumKey(key)
		if err != nil {
			return false, err
		}
		c, err := index.DecodeContent(value)
		if err != nil {
			return false, err
		}
		w.digests = append(w.digests, [16]byte(index.DigestKey(w.t.a.suite.Prefix(&c.Digest), n)))
		return yield(index.Op{Key: key, Value: value}), nil
	})
}

func (w *rewriter) digestKeys(yield func(index.Op) bool) {
	slices.SortFunc(w.digests, func(x, y [16]byte) int { return bytes.Compare(x[:], y[:]) })
	for i := range w.digests {
		if !yield(index.Op{Key: w.digests[i][:]}) {
			return
		}
	}
}

func (w *rewriter) frames(yield func(index.Op) bool) {
	b, l := w.t.a, w.t.level()
	e, err := frames.NewEncoder(b.suite, b.id, frames.LevelNone, blockShift(b.suite.ID()), b.sector, max(unit(l), maxPack(l), rawUnit))
	if err != nil {
		w.err = err
		return
	}
	e.Pad(w.t.base.commit.Options.Padding)
	total, done := int64(w.a.cur.commit.Counters.FrameBytes), int64(0)
	w.items(index.Frames, func(key, value []byte) (bool, error) {
		n, err := index.DecodeNumKey(key)
		if err != nil {
			return false, err
		}
		rec, err := index.DecodeFrame(value, w.a.suite.TagSize(), w.a.sector)
		if err != nil {
			return false, err
		}
		done += rec.Ext.Len
		if err := w.frame(e, n, &rec); err != nil {
			return false, err
		}
		w.k.FrameBytes += uint64(rec.Ext.Len)
		if w.r.Progress != nil {
			w.r.Progress(done, total)
		}
		return yield(index.Op{Key: key, Value: index.AppendFrame(nil, &rec, b.suite.TagSize(), b.sector)}), nil
	})
}

// frame writes a frame anew and makes rec its new record.
func (w *rewriter) frame(e *frames.Encoder, number uint64, rec *index.Frame) error {
	a := w.a
	ref := toRef(number, rec)
	if err := a.checkRef(&ref); err != nil {
		return err
	}
	if ref.ext.Len > maxExtent {
		return format.Corrupt("frame record", -1, "frame %d: an extent of %d bytes", number, ref.ext.Len)
	}
	buf := getBuf(int(ref.ext.Len))
	defer putBuf(buf)
	if err := a.pread(*buf, ref.ext.Off, "frame"); err != nil {
		return err
	}
	members, err := frames.CheckHeader(*buf, a.suite, a.id, &ref.Info, ref.ext.Off)
	if err != nil {
		return err
	}
	stored, err := openStored(a.suite, a.id, &ref.Info, (*buf)[frames.HeaderSize(a.suite.TagSize()):])
	if err != nil {
		return err
	}
	i := ref.Info
	i.Attempt = w.t.attempt
	w.buf = e.Reseal(w.buf, &i, stored, members)
	ext := w.t.space.alloc(int64(len(w.buf)), false)
	rec.Ext, rec.Attempt, rec.MemberTable, rec.Commitment = ext, i.Attempt, i.MemberTable, i.Commitment
	return w.t.out.write(w.buf, ext.Off)
}

// openStored verifies and opens a frame's stored bytes and table in place and returns the former.
func openStored(s seal.Suite, archive format.ID, i *frames.Info, b []byte) ([]byte, error) {
	stored := b[:i.Stored]
	if i.BlockShift == 0 {
		_, err := frames.Check(s, archive, i, stored)
		return stored, err
	}
	table, err := frames.CheckTable(s, archive, i, b[i.Stored:][:i.TableSize(s.TagSize())])
	if err != nil {
		return nil, err
	}
	return stored, table.Open(0, stored)
}
