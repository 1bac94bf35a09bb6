package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
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
		c, err := index.DecodeContent(value)
		if err != nil {
			return false, err
		}
		p := w.t.a.suite.Prefix(&c.Digest)
		w.digests = append(w.digests, [16]byte(append(p[:], key...)))
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
		rec, err := index.DecodeFrame(value, w.a.suite.TagSize(), w.a.sector)
		if err != nil {
			return false, err
		}
		done += rec.Ext.Len
		if err := w.frame(e, binary.BigEndian.Uint64(key), &rec); err != nil {
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
