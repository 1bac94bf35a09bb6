package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// meta is what the host gets of an entry, but for extended attributes that stand in a content.
func (r *extractor) meta(e *index.Entry) hostfs.Meta {
	m := hostfs.Meta{
		Kind: hostfs.Kind(e.Kind), Mode: e.Mode, MtimeSec: e.MtimeSec, MtimeNsec: e.MtimeNsec,
		Size: e.Size, Target: e.Target, Major: e.Major, Minor: e.Minor,
		HasOwner: e.HasOwner, UID: e.UID, GID: e.GID, User: e.User, Group: e.Group,
		Sparse: hostRuns(e.Sparse), Xattrs: hostXattrs(e.Xattrs),
	}
	if e.LinkGroup != 0 {
		m.Nlink = 2 // at least
	}
	if !e.HasMtime {
		now := r.a.now()
		m.MtimeSec, m.MtimeNsec = now.Unix(), uint32(now.Nanosecond())
	}
	return m
}

// wholeMeta is meta with all extended attributes, which may have to be read from the archive; those of a directory are
// read when it gets them. That they are damaged does not cost the bytes beside them.
func (r *extractor) wholeMeta(ctx context.Context, e *index.Entry) (hostfs.Meta, error) {
	m := r.meta(e)
	if e.XattrsContent == 0 || e.Kind == index.Dir {
		return m, nil
	}
	xs, err := r.ar.Xattrs(ctx, e)
	switch err = lostXattrs(err); {
	case errors.Is(err, format.ErrCorrupt):
		m.XattrsErr = err
	case err != nil:
		return m, err
	}
	m.Xattrs = hostXattrs(xs)
	return m, nil
}

// lostXattrs says of what an error is.
func lostXattrs(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("its extended attributes, among which there may have been an access control list: %w", err)
}

// laterXattrs reads a directory's extended attributes when it gets them, at the end: a small archive may have large
// sets for many directories. nil for those that stand in the entry itself.
func (r *extractor) laterXattrs(ctx context.Context, e *index.Entry) func() ([]hostfs.Xattr, error) {
	if e.XattrsContent == 0 {
		return nil
	}
	of := index.Entry{Path: e.Path, Kind: e.Kind, XattrsContent: e.XattrsContent}
	ctx = context.WithoutCancel(ctx) // directories get what is theirs after an interrupt, too
	return func() ([]hostfs.Xattr, error) {
		xs, err := r.ar.Xattrs(ctx, &of)
		return hostXattrs(xs), lostXattrs(err)
	}
}

// leader is the one of a link group of which the others become names: the first that --resume keeps, else the first.
type leader struct {
	path   pathsafe.Path // as stored
	record format.Digest
	kept   bool
}

// recordOf identifies all that is stored of an entry but its path.
func recordOf(e *index.Entry) format.Digest { return blake3.Sum256(index.AppendEntry(nil, e)) }

// findLeaders chooses which name of each file is written. It remembers one for each link group.
func (r *extractor) findLeaders(ctx context.Context) error {
	if !r.grouped {
		return nil
	}
	leaders := make(map[uint64]leader)
	for e, err := range during(ctx, r.sel.entries()) {
		if err != nil {
			return err
		}
		if e.Kind != index.File || e.LinkGroup == 0 {
			continue
		}
		// What --skip-existing leaves alone may be anything, what --resume keeps has been compared.
		to, ok := r.target(&e)
		kept := ok && r.x.Skipped(to)
		if !ok || kept && !r.opt.resume {
			continue
		}
		if l, known := leaders[e.LinkGroup]; !known || kept && !l.kept {
			leaders[e.LinkGroup] = leader{e.Path, recordOf(&e), kept}
		}
	}
	r.leaders = leaders
	return nil
}

// leads returns the stored path of the file that an entry is another name of, the zero path when it is written itself.
// Entries of one group that differ, which no version of this program writes, are files of their own.
func (r *extractor) leads(e *index.Entry) pathsafe.Path {
	if e.LinkGroup == 0 {
		return pathsafe.Path{}
	}
	l, ok := r.leaders[e.LinkGroup]
	if !ok || l.path == e.Path || l.record != recordOf(e) {
		return pathsafe.Path{}
	}
	return l.path
}

// writeFiles writes the files, then makes the further names of those that have several.
func (r *extractor) writeFiles(ctx context.Context) error {
	err := r.ar.Bulk(ctx, r.files(ctx, func(e *index.Entry) bool { return r.leads(e).IsZero() }), func(p store.Piece) error { return r.piece(ctx, p) })
	if err != nil || len(r.leaders) == 0 {
		return err
	}
	copies := make(map[pathsafe.Path]bool)
	for e, err := range r.files(ctx, func(e *index.Entry) bool { return !r.leads(e).IsZero() }) {
		if err != nil {
			return err
		}
		switch err := r.link(&e); {
		case err == nil:
			r.w.count(0)
		case errors.Is(err, hostfs.ErrNoLink):
			copies[e.Path] = true
		default:
			if err := r.w.failed(&e, err); err != nil {
				return err
			}
		}
	}
	if len(copies) == 0 {
		return ctx.Err()
	}
	r.a.note(exitSkipped)
	r.a.say.Warnf("%s in %s could not be made hard links and were written as copies", plural(uint64(len(copies)), "file", "files"), quoted(r.opt.dest))
	return r.ar.Bulk(ctx, r.files(ctx, func(e *index.Entry) bool { return copies[e.Path] }), func(p store.Piece) error { return r.piece(ctx, p) })
}

// files yields some of the files that are to be written.
func (r *extractor) files(ctx context.Context, take func(*index.Entry) bool) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		for e, err := range r.wanted(ctx, index.File) {
			if (err != nil || take(&e)) && !yield(e, err) {
				return
			}
		}
	}
}

// link makes an entry another name of its file.
func (r *extractor) link(e *index.Entry) error {
	first := index.Entry{Path: r.leads(e), Kind: index.File}
	if why := r.w.faults[first.Path]; why != nil {
		return fmt.Errorf("it is a hard link of %s: %w", quoted(first.Path.String()), why)
	}
	from, _ := r.target(&first)
	to, _ := r.target(e)
	return r.x.Link(from, to)
}
