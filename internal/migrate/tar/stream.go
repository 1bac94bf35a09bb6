package tar

import (
	"bufio"
	"errors"
	"io"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// stream is an archive's blocks in order. Of one that is not compressed, ra is the file, and what is skipped is not read.
type stream struct {
	r    *bufio.Reader // nil when ra is set
	ra   io.ReaderAt
	size int64 // of ra
	at   int64
	buf  [blockSize]byte
	back bool // buf is to be read again
	part int  // bytes of the last block, when the input ended inside it
	zero io.Closer
}

// open begins at the beginning. kind is the compression, "" for none.
func open(in source.Input, kind string, o source.Options) (*stream, error) {
	if kind == "" {
		return &stream{ra: in, size: in.Size}, nil
	}
	z, err := unpack.NewReader(kind, io.NewSectionReader(in, 0, in.Size), 0)
	if err != nil {
		return nil, err
	}
	return &stream{r: bufio.NewReaderSize(source.Limit(z, o.MaxBytes), 256<<10), zero: z}, nil
}

func (t *stream) close() error {
	if t.zero == nil {
		return nil
	}
	return t.zero.Close()
}

// block reads the next block, which is valid until the next call. io.EOF only when there is none at all.
func (t *stream) block() ([]byte, error) {
	var n int
	var err error
	if t.back {
		t.back = false
		t.at += blockSize
		return t.buf[:], nil
	}
	if t.ra != nil {
		n, err = t.ra.ReadAt(t.buf[:], t.at)
		if n == blockSize {
			err = nil
		} else if err == nil {
			err = io.ErrUnexpectedEOF
		}
	} else {
		n, err = io.ReadFull(t.r, t.buf[:])
	}
	t.at += int64(n)
	switch {
	case err == nil:
		return t.buf[:], nil
	case errors.Is(err, io.EOF) && n == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		t.part = n
		return nil, corrupt(t.at, "the archive is cut short")
	}
	return nil, err
}

// unread makes the latest block the next one again.
func (t *stream) unread() { t.back, t.at = true, t.at-blockSize }

// maxNothing is how long an archive of nothing may be: a record of the largest size that tar writes in one piece.
const maxNothing = 1 << 20

// nothing reports whether an archive without an entry has been begun: blocks of zeros, and no end too soon. What goes on
// with anything else is not an archive but the image of a disk perhaps, which begins with zeros too.
func (t *stream) nothing() bool {
	for t.at <= maxNothing {
		b, err := t.block()
		if errors.Is(err, io.EOF) {
			return t.at > blockSize
		}
		if err != nil || !isZero(b) {
			return false
		}
	}
	return false
}

// atHeader reports whether a header or the archive's end comes next. It goes past what is neither.
func (t *stream) atHeader() bool {
	b, err := t.block()
	if err != nil {
		return true // the next reading says what is wrong
	}
	if isZero(b) || isHeader(b) {
		t.unread()
		return true
	}
	return false
}

// skipTo goes on to a position.
func (t *stream) skipTo(at int64) error {
	n := at - t.at
	if n <= 0 {
		return nil
	}
	if t.ra != nil {
		if at > format.AlignUp(t.size, blockSize) {
			return corrupt(t.size, "the archive is cut short")
		}
		t.at = at
		return nil
	}
	k, err := io.CopyN(io.Discard, t.r, n)
	t.at += k
	if errors.Is(err, io.EOF) {
		err = corrupt(t.at, "the archive is cut short")
	}
	return err
}

// bytes reads the next n bytes, and the rest of their last block.
func (t *stream) bytes(n int64) (string, error) {
	b := make([]byte, 0, min(n, 64<<10))
	for int64(len(b)) < n {
		block, err := t.block()
		if err != nil {
			return "", noEOF(err, t.at)
		}
		b = append(b, block...)
	}
	return string(b[:n]), nil
}

func noEOF(err error, at int64) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return corrupt(at, "the archive is cut short")
	}
	return err
}

// body is the next n bytes of a stream, for one reading.
type body struct {
	t      *stream
	n      int64
	closed bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, errors.New("the archive was read on")
	}
	if b.n == 0 {
		return 0, io.EOF
	}
	n, err := b.t.r.Read(p[:min(int64(len(p)), b.n)])
	b.t.at += int64(n)
	b.n -= int64(n)
	if err != nil && b.n == 0 {
		err = nil // the next call says that all is there
	}
	return n, noEOF(err, b.t.at)
}

func (b *body) Close() error { b.closed = true; return nil }
