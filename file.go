package lockbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"lockbox/internal/index"
	"lockbox/internal/store"
)

// File is an open file of an archive: an fs.File that can be read at any position.
type File struct {
	a      *Archive
	f      *store.File
	info   *info
	name   string
	gen    uint64
	pos    int64
	closed atomic.Bool
}

var (
	_ fs.File           = (*File)(nil)
	_ io.ReadSeekCloser = (*File)(nil)
	_ io.ReaderAt       = (*File)(nil)
	_ io.WriterTo       = (*File)(nil)
)

func (a *Archive) openFile(name string, e *index.Entry, gen uint64) (*File, error) {
	f, err := a.s.Open(e)
	if err != nil {
		return nil, err
	}
	return &File{a: a, f: f, info: a.info(name, e), name: name, gen: gen}, nil
}

func (f *File) enter(op string) error {
	err := error(fs.ErrClosed)
	if !f.closed.Load() {
		err = f.a.gate.enter()
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.name, Err: err}
	}
	return nil
}

// Stat describes the file as it was when it was opened.
func (f *File) Stat() (fs.FileInfo, error) {
	if f.closed.Load() {
		return nil, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrClosed}
	}
	return f.info, nil
}

// Size is the file's length in bytes.
func (f *File) Size() int64 { return f.f.Size() }

// Close ends the use of the file. It frees nothing: a File may as well be dropped.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

// ReadAt implements io.ReaderAt. Every byte that it returns was verified after it was read; when it fails, p holds
// nothing else.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.enter("read"); err != nil {
		return 0, err
	}
	defer f.a.gate.leave()
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: invalid("offset %d", off)}
	}
	n, err := f.f.ReadAt(p, off)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, f.a.pathFailure("read", f.name, f.info.entry.Path, f.gen, err)
}

// Read implements io.Reader. For a whole file WriteTo, which io.Copy uses, reads ahead with all workers.
func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if f.closed.Load() {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: fs.ErrClosed}
	}
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = f.pos
	case io.SeekEnd:
		base = f.Size()
	default:
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: invalid("whence %d", whence)}
	}
	if to := base + offset; to >= 0 && (offset <= 0 || to >= base) {
		f.pos = to
		return to, nil
	}
	return 0, &fs.PathError{Op: "seek", Path: f.name, Err: invalid("position %d%+d", base, offset)}
}

// WriteTo implements io.WriterTo: it writes the rest of the file to w, as WriteRange does.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	n, err := f.WriteRange(context.Background(), w, f.pos, max(f.Size()-f.pos, 0))
	f.pos += n
	return n, err
}

// WriteRange writes n bytes from off on to w, in order, or as many as there are, and returns how many. The archive's
// workers read and decode ahead; they call w, one at a time. Before damage is met a correct prefix may have been
// written, never a wrong byte.
func (f *File) WriteRange(ctx context.Context, w io.Writer, off, n int64) (int64, error) {
	if err := f.enter("read"); err != nil {
		return 0, err
	}
	defer f.a.gate.leave()
	if off < 0 || n < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: invalid("%d bytes from offset %d", n, off)}
	}
	to := &sink{w: w}
	written, err := f.f.CopyRange(ctx, to, off, n)
	if to.err != nil {
		return written, to.err // not the archive's
	}
	return written, f.a.pathFailure("read", f.name, f.info.entry.Path, f.gen, err)
}

// sink remembers the error of a writer.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (n int, err error) {
	if n, err = s.w.Write(p); err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = err
	}
	return n, err
}

// wholeFile is up to which size ReadFile trusts what an entry says its file has: beyond that its buffer grows with
// what was really read, so that a forged size costs no memory.
const wholeFile = 64 << 20

func (f *File) readAll() ([]byte, error) {
	size := f.f.Size()
	b := make([]byte, min(size, wholeFile))
	for at := int64(0); at < size; {
		if at == int64(len(b)) {
			grown := make([]byte, min(size, 2*at))
			copy(grown, b)
			b = grown
		}
		n, err := f.f.ReadAt(b[at:], at)
		at += int64(n)
		if err != nil && !(errors.Is(err, io.EOF) && at == size) {
			return nil, err
		}
	}
	return b, nil
}
