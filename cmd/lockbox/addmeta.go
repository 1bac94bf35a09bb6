package main

import (
	"bytes"
	"context"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// entryOf is what is stored of something the walk found.
func entryOf(p pathsafe.Path, m *hostfs.Meta) index.Entry {
	e := index.Entry{
		Path: p, Kind: index.Kind(m.Kind), Mode: m.Mode,
		HasMtime: true, MtimeSec: m.MtimeSec, MtimeNsec: m.MtimeNsec, Size: m.Size, Target: m.Target,
		HasOwner: m.HasOwner, UID: m.UID, GID: m.GID, User: m.User, Group: m.Group,
		HasBirth: m.HasBirth, BirthSec: m.BirthSec, BirthNsec: m.BirthNsec,
		HasWinAttrs: m.HasWinAttrs, WinAttrs: m.WinAttrs, HasBSDFlags: m.HasBSDFlags, BSDFlags: m.BSDFlags,
		Sparse: storedRuns(m.Sparse), Xattrs: storedXattrs(m.Xattrs),
	}
	if e.Kind == index.CharDevice || e.Kind == index.BlockDevice {
		e.HasDevice, e.Major, e.Minor = true, m.Major, m.Minor
	}
	return e
}

// converted is a list in the words of another package, nil when it is empty.
func converted[From, To any](list []From, one func(From) To) []To {
	if len(list) == 0 {
		return nil
	}
	out := make([]To, len(list))
	for i, x := range list {
		out[i] = one(x)
	}
	return out
}

func storedXattrs(xs []hostfs.Xattr) []index.Xattr {
	return converted(xs, func(x hostfs.Xattr) index.Xattr { return index.Xattr(x) })
}

func hostXattrs(xs []index.Xattr) []hostfs.Xattr {
	return converted(xs, func(x index.Xattr) hostfs.Xattr { return hostfs.Xattr(x) })
}

func storedRuns(runs []hostfs.Run) []index.SparseRun {
	return converted(runs, func(r hostfs.Run) index.SparseRun { return index.SparseRun(r) })
}

func hostRuns(runs []index.SparseRun) []hostfs.Run {
	return converted(runs, func(r index.SparseRun) hostfs.Run { return hostfs.Run(r) })
}

// fitSparse leaves as many holes as a record has room for.
func fitSparse(runs []hostfs.Run) []hostfs.Run {
	return hostRuns(index.FitSparse(storedRuns(runs), index.MaxSparse))
}

// inode is how the system tells files apart.
type inode struct{ dev, ino uint64 }

// linker finds the files of a walk that have several names. It remembers a file until it has seen all of them.
type linker struct {
	off   bool // names are not brought together
	loose bool // links are followed, so that a file may have more names here than the system says
	files map[inode]*linked
}

// linked is a file of which not all names have been seen.
type linked struct {
	first pathsafe.Path
	group uint64 // of what is stored under the first name, in a dry run
	left  uint64

	size, sec int64
	nsec      uint32
}

// several reports whether an item is a file with other names.
func (l *linker) several(it *hostfs.Item) bool {
	return !l.off && it.Kind == hostfs.KindFile && it.Nlink > 1 && it.Ino != 0
}

// other returns the file of an item when another name of it was seen before. What has another size or time is no
// such name, or no more: it is read, because some file systems give one number to two files.
func (l *linker) other(it *hostfs.Item) *linked {
	if !l.several(it) {
		return nil
	}
	id := inode{it.Dev, it.Ino}
	f := l.files[id]
	if f == nil {
		return nil
	}
	if f.size != it.Size || f.sec != it.MtimeSec || f.nsec != it.MtimeNsec {
		return nil
	}
	if f.left--; f.left == 0 && !l.loose {
		delete(l.files, id)
	}
	return f
}

// begin remembers the first name of a file that has several.
func (l *linker) begin(it *hostfs.Item, group uint64) {
	if l.files == nil {
		l.files = make(map[inode]*linked)
	}
	l.files[inode{it.Dev, it.Ino}] = &linked{
		first: it.Path, group: group, left: it.Nlink - 1, size: it.Size, sec: it.MtimeSec, nsec: it.MtimeNsec,
	}
}

// source makes the source of an item that is to be stored; p says what is stored already.
func (r *adder) source(it *hostfs.Item, e index.Entry, p *pending, tx *store.Tx) store.Source {
	src := store.Source{Entry: e, NoDedup: r.opt.noDedup}
	if f := r.links.other(it); f != nil {
		src.LinkTo, src.Stored, p.keep = f.first, p.old, p.old != nil
		p.reading = new(reading)
		src.Open = r.opener(*it, 0, nil, p.reading) // for when the first name is gone by then
		return src
	}
	if r.links.several(it) {
		if src.Entry.LinkGroup = tx.NewLinkGroup(); src.Entry.LinkGroup != 0 {
			r.links.begin(it, 0)
		}
	}
	if p.keep = r.opt.update && upToDate(&it.Meta, p.old); p.keep {
		src.Stored = p.old
		r.loadXattrs(it, &src.Entry, p)
	} else {
		p.probe = r.newProbe(&src.Entry, p)
	}
	if it.Kind == hostfs.KindFile {
		p.reading = new(reading)
		src.Open = r.opener(*it, src.Entry.LinkGroup, p.probe, p.reading)
	}
	return src
}

// loadXattrs reads the extended attributes of a file that is not going to be read.
func (r *adder) loadXattrs(it *hostfs.Item, e *index.Entry, p *pending) {
	p.noXattrs = it.LoadXattrs()
	e.Xattrs = storedXattrs(it.Xattrs)
}

// opener opens an item for the engine.
func (r *adder) opener(it hostfs.Item, group uint64, p *probe, seen *reading) func() (store.Reader, index.Entry, error) {
	return func() (store.Reader, index.Entry, error) {
		f, err := openItem(&it)
		if err != nil {
			return nil, index.Entry{}, err
		}
		seen.noXattrs = f.XattrErr
		e := entryOf(it.Path, &f.Meta)
		e.LinkGroup = group
		r.repro.normalise(&e)
		p.begin(&e)
		return &countedSource{f, r.a.bar, p, seen}, e, nil
	}
}

// sameRecord reports whether an entry that was to be stored is the stored one, as far as the engine may have made them
// the same: it keeps the link group, and puts a large set of extended attributes into a content.
func (r *adder) sameRecord(ctx context.Context, now index.Entry, old *index.Entry) bool {
	if now.LinkGroup != 0 && old.LinkGroup != 0 && !r.claimed[old.LinkGroup] {
		now.LinkGroup = old.LinkGroup
	}
	if old.XattrsContent != 0 && now.Xattrs != nil {
		xs, err := r.ar.Xattrs(ctx, old)
		if err == nil && bytes.Equal(index.AppendXattrs(nil, xs), index.AppendXattrs(nil, now.Xattrs)) {
			now.Xattrs, now.XattrsContent = nil, old.XattrsContent
		}
	}
	if !bytes.Equal(index.AppendEntry(nil, &now), index.AppendEntry(nil, old)) {
		return false
	}
	if now.LinkGroup != 0 { // two files may have been one
		if r.claimed == nil {
			r.claimed = make(map[uint64]bool)
		}
		r.claimed[now.LinkGroup] = true
	}
	return true
}
