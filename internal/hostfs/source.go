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
type Item struct {
	Path pathsafe.Path
	Meta
	Err error

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
	if err != nil {
		_ = f.close()
		return nil, &fs.PathError{Op: "open", Path: it.Host(), Err: err}
	}
	return &Source{Meta: m, f: f, item: it}, nil
}

func (it *Item) replaced(now *Meta) error {
	if now.Kind != it.Kind {
		return fmt.Errorf("%w: it was replaced by a %s", ErrChanged, now.Kind)
	}
	return fmt.Errorf("%w: it was replaced by another %s", ErrChanged, now.Kind)
}

// Source is an open regular file. Meta is what it was when it was opened; reading ends after Size
// bytes even if the file grows. Check tells whether what was read can be relied on. A Source is for
// one goroutine, and Close must be called.
type Source struct {
	Meta
	f    *hfile
	item *Item
	n    int64
	more bool // there are bytes although the size is 0
}

// Read fills p as far as the file goes.
func (s *Source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	left := s.Size - s.n
	if left <= 0 {
		if s.Size > 0 {
			return 0, io.EOF
		}
		// A file that claims to be empty may be one whose size the system does not know.
		var probe [1]byte
		n, err := s.f.read(probe[:])
		s.more = s.more || n > 0
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, s.fail("read", err)
		}
		return 0, io.EOF
	}
	n, err := s.f.read(p[:min(int64(len(p)), left)])
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, s.fail("read", err)
	}
	if n == 0 {
		return 0, io.EOF // it shrank; Check says so
	}
	return n, nil
}

// Check is called when Read has returned io.EOF. It fails with ErrChanged, naming what differs, unless
// exactly Size bytes were read and the file is still as it was when it was opened.
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
	case s.n != s.Size:
		err = fmt.Errorf("%w: it gave %d bytes instead of %d", ErrChanged, s.n, s.Size)
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
