package store

import (
	"context"
	"fmt"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// Xattrs returns an entry's extended attributes, also those that stand in a content: verified, and at most
// index.MaxXattrsContent bytes. They are not to be changed.
func (a *Archive) Xattrs(ctx context.Context, e *index.Entry) ([]index.Xattr, error) {
	if e.XattrsContent == 0 {
		return e.Xattrs, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// A content is read as a file that has it is.
	f := &File{a: a, v: a.view(), path: e.Path.String()}
	if err := a.contentInto(&f.content, f.v, e.XattrsContent); err != nil {
		return nil, f.at(err)
	}
	if f.size = f.content.Size; f.size > index.MaxXattrsContent {
		return nil, f.at(format.Corrupt("entry", -1, "its extended attributes have %d bytes, more than there may be", f.size))
	}
	b := make([]byte, f.size)
	if _, err := f.read(b, 0, true); err != nil {
		return nil, err
	}
	xs, err := index.DecodeXattrs(b)
	if err != nil {
		return nil, f.at(err)
	}
	return xs, nil
}

// placeXattrs moves a set of extended attributes that is too large for a record into a content. bad says why it cannot
// be stored at all.
func (t *Tx) placeXattrs(e *index.Entry, noDedup bool) (bad, err error) {
	size := index.XattrsSize(e.Xattrs)
	if size <= index.MaxXattrs {
		return nil, nil
	}
	if bad := index.CheckXattrs(e.Xattrs); bad != nil {
		return bad, nil
	}
	b := getBuf(size)
	*b = index.AppendXattrs((*b)[:0], e.Xattrs)
	it := &item{src: Source{NoDedup: noDedup}, entry: index.Entry{Size: int64(size)}, digest: blake3.Sum256(*b)}
	defer it.recycle()
	var n uint64
	if size <= smallMax {
		it.data = b
		n, _, err = t.storeSmall(it)
	} else {
		for rest := *b; len(rest) > 0; {
			u := getBuf(min(len(rest), unit(t.level())))
			rest = rest[copy(*u, rest):]
			it.units = append(it.units, u)
		}
		putBuf(b)
		n, _, err = t.storeUnits(it)
	}
	e.Xattrs, e.XattrsContent = nil, n
	return nil, err
}

// keepXattrs lets an entry have the content with the extended attributes of the committed entry old, if those are the
// same. It takes no reference.
func (t *Tx) keepXattrs(e, old *index.Entry) error {
	if old.XattrsContent == 0 || index.XattrsSize(e.Xattrs) <= index.MaxXattrs {
		return nil
	}
	c, err := t.a.content(t.base, old.XattrsContent)
	if err != nil {
		return fmt.Errorf("%s: %w", old.Path, err)
	}
	if c.Digest == blake3.Sum256(index.AppendXattrs(nil, e.Xattrs)) {
		e.Xattrs, e.XattrsContent = nil, old.XattrsContent
	}
	return nil
}
