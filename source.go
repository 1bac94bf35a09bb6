package lockbox

import (
	"bytes"
	"fmt"
	"io"

	"lockbox/internal/index"
	"lockbox/internal/store"
)

// peeked is up to how many bytes of a reader of unknown length are read to see whether it ends: such a file goes into
// a pack with others.
const peeked = 128 << 10

// known is up to which length the engine is told in advance what to expect. It may read a longer file twice when it
// knows the length, which a reader does not allow.
const known = 4 << 20

// source makes the engine's source of an entry and its bytes.
func source(e *Entry, r io.Reader) (store.Source, error) {
	rec, err := e.record()
	if err != nil {
		return store.Source{}, err
	}
	if rec.Kind != index.File {
		if r != nil {
			return store.Source{}, invalid("bytes of what is not a file")
		}
		return store.Source{Entry: rec}, nil
	}
	if r == nil {
		return store.Source{}, invalid("a file without a reader")
	}
	in := &input{r: r, size: -1}
	if err := in.measure(); err != nil {
		return store.Source{}, err
	}
	switch {
	case e.Size > 0 && in.size < 0:
		in.size = e.Size
	case e.Size > 0 && e.Size != in.size:
		return store.Source{}, fmt.Errorf("%w: there are %d bytes, the entry says %d", ErrSourceChanged, in.size, e.Size)
	case in.size < 0:
		if err := in.peek(); err != nil {
			return store.Source{}, err
		}
	}
	opened := rec
	opened.Size = in.size
	if rec.Size = in.size; in.size > known && !in.seekable {
		rec.Size = -1
	}
	return store.Source{Entry: rec, Open: func() (store.Reader, index.Entry, error) { return in, opened, in.open() }}, nil
}

// input is what Put reads. There is no later state of it to compare with.
type input struct {
	r        io.Reader
	size     int64 // -1: not known
	start    int64 // where a seekable one stood
	seekable bool
	used     bool
}

// measure finds out what is left to read, if that shows without reading.
func (in *input) measure() error {
	if b, ok := in.r.(*bytes.Buffer); ok {
		in.size = int64(b.Len())
	}
	s, ok := in.r.(io.Seeker)
	if !ok {
		return nil
	}
	start, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil // a pipe has the method too
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	if _, err := s.Seek(start, io.SeekStart); err != nil {
		return err
	}
	if end > start { // else it may be one of those whose length shows only by reading
		in.size, in.start, in.seekable = end-start, start, true
	}
	return nil
}

// peek reads the beginning, to see whether that is all.
func (in *input) peek() error {
	head, err := io.ReadAll(io.LimitReader(in.r, peeked))
	if err != nil {
		return err
	}
	if len(head) < peeked {
		in.size = int64(len(head))
	}
	in.r = io.MultiReader(bytes.NewReader(head), in.r)
	return nil
}

// open begins a reading; a second one only where the reader can be set back.
func (in *input) open() error {
	switch {
	case in.seekable:
		_, err := in.r.(io.Seeker).Seek(in.start, io.SeekStart)
		return err
	case in.used:
		return fmt.Errorf("%w: it has not %d bytes", ErrSourceChanged, in.size)
	}
	in.used = true
	return nil
}

func (in *input) Read(p []byte) (int, error) { return in.r.Read(p) }
func (in *input) Check() error               { return nil }
func (in *input) Close() error               { return nil }
