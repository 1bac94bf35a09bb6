package sevenzip

import (
	"context"
	"errors"
	"io"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// block is the folder that an iteration is reading: its streams come one after the other.
type block struct {
	ctx    context.Context // of the iteration
	a      *archive
	folder int // -1 before the first
	r      io.Reader
	next   int      // the stream that r stands before, or in, when cur is not read to its end
	cur    *checked // the stream before next
	err    error    // r cannot be read further
}

// stream returns what opens stream i.
func (b *block) stream(i int) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		if err := b.seek(i); err != nil {
			return nil, b.a.blame(b.folder, err)
		}
		return &content{b.a, b.folder, b.cur}, nil
	}
}

// seek makes cur the stream i, decoding what stands before it in its block.
func (b *block) seek(i int) error {
	h := b.a.head
	s := h.streams[i]
	if s.folder != b.folder {
		f := &h.folders[s.folder]
		b.folder, b.next, b.cur, b.err = s.folder, f.first, nil, nil
		if b.r, b.err = b.a.openFolder(f); b.err != nil {
			return b.err
		}
	}
	if i < b.next {
		return errors.New("the content was already read")
	}
	for b.err == nil {
		if b.cur != nil {
			// What is wrong with a content is said where it is read; here only matters whether the next can be reached.
			if err := unpack.Drain(b.ctx, b.cur); err != nil && b.cur.left > 0 {
				b.err = err
				break
			}
		}
		t := h.streams[b.next]
		b.cur = &checked{r: b.r, left: t.size, crc: t.crc, hasCRC: t.hasCRC}
		b.next++
		if b.next > i {
			return nil
		}
	}
	return b.err
}

// content is a stream that is being read.
type content struct {
	a      *archive
	folder int
	c      *checked
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.c.Read(p)
	if err == io.EOF && c.c.hasCRC {
		c.a.proven = c.a.proven || c.a.head.folders[c.folder].encrypted()
	}
	return n, c.a.blame(c.folder, err)
}

func (c *content) Close() error { return nil }

// blame makes the passphrase answer for damage as long as nothing that it opened came out whole: 7z has no other
// way to tell.
func (a *archive) blame(folder int, err error) error {
	if !errors.Is(err, format.ErrCorrupt) || a.proven || folder < 0 || !a.head.folders[folder].encrypted() {
		return err
	}
	return source.Undecided("7z content", err)
}
