package lockbox

import (
	"context"
	"iter"

	"lockbox/internal/index"
	"lockbox/internal/store"
)

// Lookup returns the entry at a stored path, whatever bytes it has. No link is followed.
func (a *Archive) Lookup(name string) (Entry, error) {
	if err := a.gate.enter(); err != nil {
		return Entry{}, failure("lookup", a.name, name, err)
	}
	defer a.gate.leave()
	p, err := parse(name)
	if err != nil {
		return Entry{}, failure("lookup", a.name, name, err)
	}
	gen := a.s.Generation()
	e, err := a.s.Get(p)
	if err != nil {
		return Entry{}, a.failure("lookup", name, gen, err)
	}
	return a.entry(&e), nil
}

// Entries yields the entry at a stored path, if there is one, and everything below it, in ascending order: a
// directory, what is below it, then the rest. "" is the whole archive. Where nothing is stored nothing is yielded. It
// stops after the first error. Directories that were not stored themselves are not among the entries.
func (a *Archive) Entries(under string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		p, err := parseDir(under)
		if err == nil {
			err = a.gate.enter()
		}
		if err != nil {
			yield(Entry{}, failure("list", a.name, under, err))
			return
		}
		inside := true
		defer func() {
			if inside {
				a.gate.leave()
			}
		}()
		gen := a.s.Generation()
		for e, err := range a.s.List(p) {
			var out Entry
			if err == nil {
				out = a.entry(&e)
			}
			err = a.failure("list", under, gen, err)
			// The caller's part may take as long as it likes: Close does not wait for it.
			inside = false
			a.gate.leave()
			if !yield(out, err) {
				return
			}
			if err := a.gate.enter(); err != nil {
				yield(Entry{}, failure("list", a.name, under, err))
				return
			}
			inside = true
		}
	}
}

// own returns what the archive has stored of an entry that came from it.
func (a *Archive) own(e *Entry) (*index.Entry, error) {
	if e.src == nil || e.from != a {
		return nil, invalid("the entry does not come from this handle")
	}
	return e.src, nil
}

// ownFile is own for what only files have.
func (a *Archive) ownFile(e *Entry) (*index.Entry, error) {
	src, err := a.own(e)
	if err == nil && src.Kind != index.File {
		err = invalid("it is a %v", src.Kind)
	}
	return src, err
}

// OpenEntry opens a file by an entry that came from this handle, without looking it up again.
func (a *Archive) OpenEntry(e Entry) (*File, error) {
	if err := a.gate.enter(); err != nil {
		return nil, failure("open", a.name, e.Path, err)
	}
	defer a.gate.leave()
	gen := a.s.Generation()
	src, err := a.ownFile(&e)
	var f *File
	if err == nil {
		f, err = a.openFile(e.Path, src, gen)
	}
	if err != nil {
		return nil, a.failure("open", e.Path, gen, err)
	}
	return f, nil
}

// Xattrs returns the extended attributes of an entry that came from this handle, whatever their size.
func (a *Archive) Xattrs(ctx context.Context, e Entry) ([]Xattr, error) {
	if err := a.gate.enter(); err != nil {
		return nil, failure("read", a.name, e.Path, err)
	}
	defer a.gate.leave()
	gen := a.s.Generation()
	src, err := a.own(&e)
	if err != nil {
		return nil, failure("read", a.name, e.Path, err)
	}
	xs, err := a.s.Xattrs(ctx, src)
	return xattrs(xs), a.failure("read", e.Path, gen, err)
}

// Digest returns the BLAKE3-256 of a file's bytes, as it is stored, by an entry that came from this handle. That of a
// sparse file, one with holes, is of its map and its data, and equal to no other file's.
func (a *Archive) Digest(e Entry) (Digest, error) {
	if err := a.gate.enter(); err != nil {
		return Digest{}, failure("digest", a.name, e.Path, err)
	}
	defer a.gate.leave()
	gen := a.s.Generation()
	src, err := a.ownFile(&e)
	if err != nil {
		return Digest{}, failure("digest", a.name, e.Path, err)
	}
	d, err := a.s.Digest(src)
	return Digest(d), a.failure("digest", e.Path, gen, err)
}

// Piece is a part of a file as Bulk delivers it.
type Piece struct {
	Entry Entry
	Off   int64  // in the file, with its holes
	Data  []byte // verified; valid during the call only
	Err   error  // why this part cannot be had; Data is empty then
}

// Bulk reads files whole, each frame of the archive once, whatever files it holds: this is how to extract much. The
// archive's workers call fn concurrently, with the pieces of all files in no particular order, as io.WriterAt takes
// them; with Options.Jobs 1 there is one call at a time. Of a sparse file only the data comes: what no piece covers
// is zeros. Entries that are not files are passed over, and a file without bytes gives one piece without data. What
// is damaged comes as a piece with Err and the rest goes on; fn's error and one of entries end it, and are returned
// as they are. The entries come from this handle: a.Entries("docs"), or a choice of them.
func (a *Archive) Bulk(ctx context.Context, entries iter.Seq2[Entry, error], fn func(Piece) error) error {
	if err := a.gate.enter(); err != nil {
		return failure("read", a.name, "", err)
	}
	defer a.gate.leave()
	gen := a.s.Generation()
	stored := func(yield func(index.Entry, error) bool) {
		for e, err := range entries {
			var src *index.Entry
			if err == nil {
				if src, err = a.own(&e); err != nil {
					err = failure("read", a.name, e.Path, err)
				}
			}
			if err != nil {
				yield(index.Entry{}, err)
				return
			}
			if !yield(*src, nil) {
				return
			}
		}
	}
	return a.s.Bulk(ctx, stored, func(p store.Piece) error {
		out := Piece{Entry: a.entry(p.Entry), Off: p.Off, Data: p.Data}
		out.Err = a.failure("read", out.Entry.Path, gen, p.Err)
		return fn(out)
	})
}
