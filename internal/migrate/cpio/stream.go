package cpio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"hash"
	"io"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// stream reads headers and contents in order. An archive may end and another follow, with zero bytes between; the last
// may be compressed, with everything behind its beginning.
type stream struct {
	ctx    context.Context
	r      *bufio.Reader
	unpack io.ReadCloser // nil while the input is read itself
	off    int64         // in the plain bytes
	cur    *content
	ended  bool // an archive has; only another, or nothing, may follow
	number int  // of the archive
	most   int64
}

// newStream begins at the beginning. It gives no more than most bytes of what is compressed.
func newStream(ctx context.Context, in source.Input, most int64) *stream {
	return &stream{ctx: ctx, most: most, r: bufio.NewReaderSize(io.NewSectionReader(in, 0, in.Size), 64<<10)}
}

func (s *stream) close() {
	if s.unpack != nil {
		_ = s.unpack.Close() // nothing is written, and what was read was checked
	}
}

func (s *stream) corrupt(detail string, args ...any) error {
	return format.Corrupt("cpio archive", s.off, detail, args...)
}

// next returns the next header and name, or io.EOF behind the last archive.
func (s *stream) next() (*header, string, error) {
	if s.cur != nil {
		if err := s.cur.skip(s.ctx); err != nil {
			return nil, "", err
		}
	}
	for {
		if err := s.ctx.Err(); err != nil {
			return nil, "", err
		}
		if err := s.begin(); err != nil {
			return nil, "", err
		}
		head, err := s.r.Peek(newcSize)
		if err != nil && err != io.EOF {
			return nil, "", err
		}
		l := layoutOf(head)
		if l == 0 || len(head) < l.headSize() {
			return nil, "", s.corrupt("no header where one should be")
		}
		h, err := parse(l, head[:l.headSize()], s.off)
		if err != nil {
			return nil, "", err
		}
		if err := s.skip(int64(l.headSize())); err != nil {
			return nil, "", err
		}
		b := make([]byte, h.nameLen)
		if err := s.full(b); err != nil {
			return nil, "", err
		}
		if err := s.skip(l.pad(int64(l.headSize() + h.nameLen))); err != nil {
			return nil, "", err
		}
		if b[len(b)-1] != 0 || bytes.IndexByte(b, 0) != len(b)-1 {
			return nil, "", s.corrupt("a name that does not end where its length says")
		}
		name := string(b[:len(b)-1])
		s.cur = &content{s: s, left: h.size, pad: l.pad(h.size), sum: h.sum, summed: h.layout == crc && source.UnixKind(h.mode, 0) == index.File}
		s.ended = false
		if name != trailer {
			return h, name, nil
		}
		if h.size != 0 {
			return nil, "", s.corrupt("the last entry of an archive has content")
		}
		s.ended = true
		s.number++
	}
}

// begin stands before a header, or returns io.EOF where an archive has ended and nothing but zero bytes follows.
func (s *stream) begin() error {
	if !s.ended {
		if s.off == 0 && s.unpack == nil {
			return s.decompress()
		}
		return nil
	}
	for {
		if _, err := s.r.Peek(1); err != nil {
			return err // io.EOF is the end
		}
		b, err := s.r.Peek(s.r.Buffered())
		if err != nil {
			return err
		}
		zeros := len(b) - len(bytes.TrimLeft(b, "\x00"))
		if zeros == 0 {
			break
		}
		if err := s.skip(int64(zeros)); err != nil {
			return err
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
	return s.decompress()
}

// decompress goes on with what the rest of the input unpacks to, if it is compressed.
func (s *stream) decompress() error {
	head, err := s.r.Peek(unpack.HeadLen)
	if err != nil && err != io.EOF {
		return err
	}
	if s.unpack != nil || len(head) < 6 || layoutOf(head) != 0 {
		return nil
	}
	kind := unpack.Probe(head)
	if kind == "" {
		return nil
	}
	z, err := unpack.NewReader(kind, s.r, 0)
	if err != nil {
		return err
	}
	s.unpack, s.r = z, bufio.NewReaderSize(source.Limit(z, s.most), 64<<10)
	return nil
}

// skip passes n bytes that must be there.
func (s *stream) skip(n int64) error {
	k, err := s.r.Discard(int(n))
	s.off += int64(k)
	return s.early(err)
}

func (s *stream) full(b []byte) error {
	n, err := io.ReadFull(s.r, b)
	s.off += int64(n)
	return s.early(err)
}

func (s *stream) early(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return s.corrupt("it ends too early")
	}
	return err
}

// content is the bytes of one entry, checked against their sum where the layout has one.
type content struct {
	s         *stream
	left, pad int64
	sum, got  uint32
	summed    bool
	digest    hash.Hash // of files that have more names
	opened    bool
	err       error
}

var errOpened = errors.New("the content was already read")

func (c *content) open() (io.ReadCloser, error) {
	if c.opened || c.s.cur != c {
		return nil, errOpened
	}
	c.opened = true
	return c, nil
}

func (c *content) Read(p []byte) (int, error) {
	if c.err != nil || len(p) == 0 {
		return 0, c.err
	}
	if c.left == 0 {
		c.err = io.EOF
		if c.summed && c.got != c.sum {
			c.err = format.Corrupt("cpio content", c.s.off, "its sum does not match")
		}
		return 0, c.err
	}
	n, err := c.s.r.Read(p[:min(int64(len(p)), c.left)])
	if c.summed {
		for _, b := range p[:n] {
			c.got += uint32(b)
		}
	}
	if c.digest != nil {
		c.digest.Write(p[:n])
	}
	c.left -= int64(n)
	c.s.off += int64(n)
	if err != nil {
		c.err = c.s.early(err)
	}
	return n, c.err
}

func (c *content) Close() error { return nil }

// skip passes what was not read. Damage that its sum shows is the entry's.
func (c *content) skip(ctx context.Context) error {
	if c.err == nil {
		if err := unpack.Drain(ctx, c); err != nil && c.left > 0 {
			return err
		}
	}
	if c.left > 0 {
		return c.err
	}
	return c.s.skip(c.pad)
}
