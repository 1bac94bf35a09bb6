package hostfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"lockbox/internal/pathsafe"
)

// Item is one thing that a walk found. With Err set it could not be taken, and only Path, Kind as far
// as known, and Host mean anything; Err names the host path. An Item with an error may follow the
// Item of the same directory: then that directory could not be listed.
//
// XattrErr says why the extended attributes are not all there; the rest of the Item is sound. Of a regular file
// Xattrs and Sparse are those of its Source.
type Item struct {
	Path pathsafe.Path
	Meta
	Err      error
	XattrErr error

	dir    *node  // where it lies; nil when it was never found
	name   string // its name there
	host   string // an operand as the user wrote it; else it follows from dir and name
	follow bool   // it was reached through a link
	sub    *unit  // what lies in it, while the walk has not yielded it
}

// Host returns the host path, for messages.
func (it *Item) Host() string {
	if it.host != "" || it.dir == nil {
		return it.host
	}
	return joinHost(it.dir.host, it.name)
}

func joinHost(dir, name string) string {
	switch {
	case dir == "":
		return name
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name
}

// Open opens a regular file for reading. It fails with ErrChanged when the name now leads to something
// else than what the walk saw. It may be called from any goroutine, also when the walk is over.
func (it *Item) Open() (*Source, error) {
	if it.Err != nil {
		return nil, it.Err
	}
	if it.Kind != KindFile {
		return nil, &fs.PathError{Op: "open", Path: it.Host(), Err: fmt.Errorf("it is a %s, not a file", it.Kind)}
	}
	d, err := it.dir.dirs.acquire(it.dir)
	if err != nil {
		return nil, err
	}
	defer it.dir.dirs.release(d)
	f, err := d.open(it.name, it.follow)
	if err != nil {
		// What stood there was a regular file: if it is none now, that is why opening failed.
		if now, lerr := d.lookup(it.name, it.follow); lerr == nil && now.Kind != KindFile {
			err = it.replaced(&now)
		}
		return nil, &fs.PathError{Op: "open", Path: it.Host(), Err: err}
	}
	m, err := f.meta()
	if err == nil && !m.sameObject(&it.Meta) {
		err = it.replaced(&m)
	}
	if err == nil {
		it.dir.owners.fill(&m)
		m.Sparse, err = it.dir.holes(f, &m)
	}
	if err != nil {
		_ = f.close()
		return nil, &fs.PathError{Op: "open", Path: it.Host(), Err: err}
	}
	s := newSource(m, f, it)
	s.Xattrs, s.XattrErr = it.dir.fileXattrs(f, m.Dev)
	return s, nil
}

func newSource(m Meta, f *hfile, it *Item) *Source {
	s := &Source{Meta: m, f: f, item: it, rest: m.Sparse, want: m.DataSize()}
	if m.Sparse == nil {
		s.left = m.Size
	}
	return s
}

// LoadXattrs reads the extended attributes of a regular file that is not going to be opened.
func (it *Item) LoadXattrs() error {
	d, err := it.dir.dirs.acquire(it.dir)
	if err != nil {
		return err
	}
	defer it.dir.dirs.release(d)
	it.Xattrs, err = it.dir.xattrs(it, d.dir)
	return err
}

func (it *Item) replaced(now *Meta) error {
	if now.Kind != it.Kind {
		return fmt.Errorf("%w: it was replaced by a %s", ErrChanged, now.Kind)
	}
	return fmt.Errorf("%w: it was replaced by another %s", ErrChanged, now.Kind)
}

// Source is an open regular file. Meta is what it was when it was opened; reading gives its data without the
// holes, and ends after Size bytes even if the file grows. Check tells whether what was read can be relied on. A
// Source is for one goroutine, and Close must be called.
type Source struct {
	Meta
	XattrErr error // why the extended attributes are not all there

	f    *hfile
	item *Item
	rest []Run // what comes after the stretch that is being read
	at   int64 // where the next byte stands in the file
	left int64 // bytes of the stretch from there on
	hole int64 // what follows them
	want int64 // bytes of data in all
	n    int64 // those that were read
	more bool  // there are bytes although the size is 0
}

// Read fills p as far as the file goes.
func (s *Source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for s.left == 0 && len(s.rest) > 0 {
		s.at += s.hole
		s.left, s.hole = s.rest[0].Data, s.rest[0].Hole
		s.rest = s.rest[1:]
	}
	if s.left == 0 {
		if s.Size > 0 {
			return 0, io.EOF
		}
		// A file that claims to be empty may be one whose size the system does not know.
		var probe [1]byte
		n, err := s.f.readAt(probe[:], 0)
		s.more = s.more || n > 0
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, s.fail("read", err)
		}
		return 0, io.EOF
	}
	n, err := s.f.readAt(p[:min(int64(len(p)), s.left)], s.at)
	s.n, s.at, s.left = s.n+int64(n), s.at+int64(n), s.left-int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, s.fail("read", err)
	}
	if n == 0 {
		return 0, io.EOF // it shrank; Check says so
	}
	return n, nil
}

// Check is called when Read has returned io.EOF. It fails with ErrChanged, naming what differs, unless
// exactly its data was read and the file is still as it was when it was opened.
func (s *Source) Check() error {
	now, err := s.f.meta()
	if err != nil {
		return s.fail("check", err)
	}
	switch {
	case !now.sameObject(&s.Meta):
		err = fmt.Errorf("%w: it is another file now", ErrChanged)
	case now.Size != s.Size:
		err = fmt.Errorf("%w: its size went from %d to %d", ErrChanged, s.Size, now.Size)
	case s.n != s.want:
		err = fmt.Errorf("%w: it gave %d bytes instead of %d", ErrChanged, s.n, s.want)
	case s.more:
		err = fmt.Errorf("%w: it has bytes although its size is 0", ErrChanged)
	case now.MtimeSec != s.MtimeSec || now.MtimeNsec != s.MtimeNsec:
		err = fmt.Errorf("%w: it was modified", ErrChanged)
	default:
		return nil
	}
	return s.fail("read", err)
}

// Close closes the file.
func (s *Source) Close() error {
	if err := s.f.close(); err != nil {
		return s.fail("close", err)
	}
	return nil
}

func (s *Source) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: s.item.Host(), Err: err}
}
