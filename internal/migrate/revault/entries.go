package revault

import (
	"context"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/pathsafe"
)

const (
	defaultMaxEntries = 1 << 20

	restart = 128 // each of these entries has its path in full

	flagDeleted = 1
	flagSymlink = 2
	flagMode    = 4
	flagDir     = 8

	defaultFileMode    = 0o600
	defaultDirMode     = 0o700
	defaultSymlinkMode = 0o777
)

// record is an entry as the table of contents has it.
type record struct {
	flags  uint8
	path   string
	size   uint64
	page   int64 // of a symbolic link
	object uint64
	mode   uint32
	chunks []chunk
}

// tableOfContents gives each record to each, in order. A leaf is checked as a whole before any of it is.
func (a *Archive) tableOfContents(ctx context.Context, each func(*record) error) error {
	n := int64(0)
	w := walker{ps: a.pages, kind: treeTOC, lost: a.loseSubtree(treeTOC)}
	w.leaf = func(c *format.Cursor, b bounds) error {
		whole := *c
		if err := readLeaf(&whole, b, func(*record) error { return nil }); err != nil {
			return err
		}
		return readLeaf(c, b, func(r *record) error {
			if n++; n > a.maxEntries {
				return source.TooManyEntries(a.maxEntries)
			}
			if r.flags&flagDeleted != 0 {
				return nil
			}
			return each(r)
		})
	}
	return w.walk(ctx, a.root.toc)
}

// readLeaf reads a leaf of the table of contents. Its errors are of kind ErrCorrupt, or what each returned.
func readLeaf(c *format.Cursor, b bounds, each func(*record) error) error {
	entries, n := c.Uvarint(math.MaxUint32), c.Uvarint(math.MaxUint32)
	if n > uint64(c.Len())/37 {
		c.Fail("descriptors of frames do not fit")
		return c.Err()
	}
	frames := make([]descriptor, n)
	for i := range frames {
		frames[i] = readDescriptor(c)
	}
	if entries > uint64(c.Len())/6 {
		c.Fail("entries do not fit")
	}
	if err := c.Err(); err != nil {
		return err
	}
	previous := ""
	for i := range entries {
		r := readRecord(c, previous, i%restart == 0, frames)
		if c.Err() == nil && (!b.hold(r.path) || i > 0 && r.path <= previous) {
			c.Fail("entries are not in order")
		}
		if err := c.Err(); err != nil {
			return err
		}
		previous = r.path
		if err := each(&r); err != nil {
			return err
		}
	}
	return c.Done()
}

func readRecord(c *format.Cursor, previous string, whole bool, frames []descriptor) record {
	r := record{flags: c.U8()}
	if r.flags > flagDeleted|flagSymlink|flagMode|flagDir || r.flags&(flagSymlink|flagDir) == flagSymlink|flagDir {
		c.Fail("flags of an entry are unknown")
	}
	shared := uint64(0)
	if !whole {
		shared = c.Uvarint(uint64(len(previous)))
	}
	suffix := c.Bytes(int(c.Uvarint(maxPath - min(shared, maxPath))))
	if c.Err() == nil {
		r.path = previous[:shared] + string(suffix)
	}
	if !utf8.ValidString(r.path) {
		c.Fail("a path is not UTF-8")
	}
	r.size = c.Uvarint(math.MaxUint64)
	r.page = int64(c.Uvarint(uint64(format.MaxLogicalEnd)))
	length := c.Uvarint(math.MaxUint64)
	r.object = c.Uvarint(math.MaxUint64)
	switch {
	case r.flags&flagMode != 0:
		r.mode = uint32(c.Uvarint(0o777))
	case r.flags&flagDir != 0:
		r.mode = defaultDirMode
	case r.flags&flagSymlink != 0:
		r.mode = defaultSymlinkMode
	default:
		r.mode = defaultFileMode
	}
	n := c.Uvarint(uint64(c.Len()) / 5)
	switch {
	case r.flags&flagDir != 0 && (r.size|uint64(r.page)|length|r.object|n) != 0:
		c.Fail("a directory has content")
	case r.flags&flagSymlink != 0 && (n != 0 || r.page == 0 || length == 0 || r.object == 0):
		c.Fail("a symbolic link has content or no target")
	}
	r.chunks = readChunks(c, n, r.size, frames)
	return r
}

// readChunks reads the n chunks of a file. Those without a byte are checked and left out.
func readChunks(c *format.Cursor, n, size uint64, frames []descriptor) []chunk {
	var chunks []chunk
	end := uint64(0)
	for range n {
		c.Bytes(int(c.Uvarint(maxPath))) // the path when it was written
		at := c.Uvarint(size)
		length := c.Uvarint(min(size-at, maxFrame))
		off, at32 := c.Uvarint(maxFrame), c.Uvarint(math.MaxUint32)
		if c.Err() != nil {
			return nil
		}
		if at32 >= uint64(len(frames)) || off+length > uint64(frames[at32].plain) || at < end {
			c.Fail("chunks of a file overlap or lie outside their frames")
			return nil
		}
		end = at + length
		if length > 0 && at <= math.MaxInt64-maxFrame {
			chunks = append(chunks, chunk{int64(at), int64(length), &frames[at32], int(off)})
		}
	}
	return chunks
}

// entry makes of a record what a migration stores.
func (a *Archive) entry(r *record) *source.Entry {
	e := &source.Entry{Name: r.path}
	path, err := archivePath(r.path)
	if err != nil {
		e.Err = err
		return e
	}
	e.Entry = a.plainEntry(path, index.File, r.mode)
	switch {
	case r.flags&flagDir != 0:
		e.Entry.Kind = index.Dir
	case r.flags&flagSymlink != 0:
		e.Entry.Kind = index.Symlink
		if e.Entry.Target, err = a.target(r, path); err != nil {
			e.Err = ofEntry(err, r.path)
		}
	case r.size > uint64(format.MaxFileSize):
		e.Err = ofEntry(corrupt("entry", -1, "a length of %d bytes is more than any file has", r.size), r.path)
	default:
		e.Entry.Size = int64(r.size)
		e.Entry.Sparse = holes(r.chunks, int64(r.size))
		chunks := r.chunks
		e.Open = func() (io.ReadCloser, error) { return &content{a: a, path: r.path, chunks: chunks}, nil }
	}
	return e
}

// plainEntry has what every entry of the new archive gets: the old one stored no times and no owners.
func (a *Archive) plainEntry(path pathsafe.Path, kind index.Kind, mode uint32) index.Entry {
	e := index.Entry{Path: path, Kind: kind, Mode: mode}
	if !a.mtime.IsZero() {
		e.HasMtime, e.MtimeSec, e.MtimeNsec = true, a.mtime.Unix(), uint32(a.mtime.Nanosecond())
	}
	return e
}

// target reads where a symbolic link leads, relative to where it stands.
func (a *Archive) target(r *record, path pathsafe.Path) (string, error) {
	p, err := a.pages.shared(r.page, maxOtherPage)
	if err != nil {
		return "", err
	}
	payload, err := p.object(kindSymlink, r.object)
	if err != nil {
		return "", err
	}
	c := format.NewCursor(payload, "reVault symbolic link", r.page)
	own, target := str16(c), str16(c)
	if err := c.Done(); err != nil {
		return "", err
	}
	if own != r.path {
		return "", corrupt("symbolic link", r.page, "it belongs to %q", own)
	}
	to, err := archivePath(target)
	if err != nil {
		return "", err
	}
	return relative(path, to), nil
}

// holes returns the sparse map of a file: what no chunk covers is zeros. It is nil when there is no hole.
func holes(chunks []chunk, size int64) []index.SparseRun {
	var runs []index.SparseRun
	end := int64(0)
	hole := func(n int64) {
		if n == 0 {
			return
		}
		if len(runs) == 0 {
			runs = append(runs, index.SparseRun{})
		}
		runs[len(runs)-1].Hole += n
	}
	for _, k := range chunks {
		hole(k.at - end)
		if len(runs) == 0 || runs[len(runs)-1].Hole > 0 {
			runs = append(runs, index.SparseRun{})
		}
		runs[len(runs)-1].Data += k.n
		end = k.at + k.n
	}
	hole(size - end)
	if !slices.ContainsFunc(runs, func(r index.SparseRun) bool { return r.Hole > 0 }) {
		return nil
	}
	return runs
}
