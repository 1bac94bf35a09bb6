package store

import (
	"fmt"
	"io"
	"sync/atomic"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// File is a stored file of one generation. It is safe for concurrent use and needs no closing.
type File struct {
	a       *Archive
	v       *view
	path    string
	size    int64
	data    *dataMap
	content index.Content
	run     [1]index.Run              // the runs of most contents
	last    atomic.Pointer[openFrame] // the frame of the latest read: windows move little
}

// Open returns a file for reading at any position.
func (a *Archive) Open(e *index.Entry) (*File, error) {
	if e.Kind != index.File {
		return nil, fmt.Errorf("%s: not a regular file", e.Path)
	}
	f := &File{a: a, v: a.view(), path: e.Path.String(), size: e.Size, data: newDataMap(e)}
	if e.Content == 0 {
		return f, nil
	}
	f.content.Runs = f.run[:0]
	if err := a.contentInto(&f.content, f.v, e.Content); err != nil {
		return nil, f.at(err)
	}
	if f.content.Size != e.DataSize() {
		return nil, f.at(format.Corrupt("entry", -1, "its size disagrees with its content's"))
	}
	return f, nil
}

// at adds the file's path to an error.
func (f *File) at(err error) error { return fmt.Errorf("%s: %w", f.path, err) }

// Size is the file's length in bytes, holes included.
func (f *File) Size() int64 { return f.size }

// ReadAt implements io.ReaderAt; holes read as zeros. Every byte it returns was verified after it was read; when it fails,
// p holds nothing unverified.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.at(fmt.Errorf("negative offset %d", off))
	}
	if off >= f.size {
		return 0, io.EOF
	}
	n64 := min(int64(len(p)), f.size-off)
	want := p[:n64:n64] // what follows is not ours, not even as scratch
	n, err := f.read(want, off, false)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// read fills p, all of which lies in the file. A streaming read decodes whole frames into p, past
// the cache, which a long stream would only empty.
func (f *File) read(p []byte, off int64, streaming bool) (n int, err error) {
	for n < len(p) {
		pos, part := f.data.at(off+int64(n), int64(len(p)-n))
		if pos < 0 {
			clear(p[n : n+int(part)])
			n += int(part)
			continue
		}
		k, err := f.readFrame(p[n:n+int(part)], pos, streaming)
		if err != nil {
			f.a.DropTrust()
			return n, f.at(err)
		}
		n += k
	}
	return n, nil
}

// readFrame reads from the one frame that holds position off of the content.
func (f *File) readFrame(p []byte, off int64, streaming bool) (int, error) {
	number, in, avail := f.content.Locate(off)
	p = p[:min(int64(len(p)), avail)]
	of := f.ready(number, in+int64(len(p)))
	if of == nil {
		ref, err := f.a.frame(f.v, number)
		if err != nil {
			return 0, err
		}
		if streaming && in == 0 && ref.Codec != frames.Raw && len(p) == int(ref.Plain) {
			return len(p), f.a.readWhole(&ref, p)
		}
		if of, err = f.open(&ref, in+int64(len(p))); err != nil {
			return 0, err
		}
	}
	if in < 0 || in+int64(len(p)) > int64(of.ref.Plain) || len(p) == 0 {
		return 0, format.Corrupt("content", -1, "it reaches past the end of frame %d", number)
	}
	if of.plain == nil {
		return len(p), f.readRaw(of, p, in)
	}
	f.a.stats.BytesCopied.Add(uint64(len(p)))
	return copy(p, of.plain[in:]), nil
}

// readSmallRaw reads from a raw frame of a single block: all of it is read and verified each time.
func (a *Archive) readSmallRaw(f *frameRef, p []byte, in int64) error {
	off := f.storedOff(a.suite.TagSize())
	if len(p) == int(f.Stored) {
		err := a.pread(p, off, "frame")
		if err == nil {
			a.stats.BlocksVerified.Add(1)
			_, err = frames.Check(a.suite, a.id, &f.Info, p)
		}
		if err != nil {
			clear(p)
		}
		return err
	}
	buf := getBuf(int(f.Stored))
	defer putBuf(buf)
	if err := a.pread(*buf, off, "frame"); err != nil {
		return err
	}
	a.stats.BlocksVerified.Add(1)
	if _, err := frames.Check(a.suite, a.id, &f.Info, *buf); err != nil {
		return err
	}
	a.stats.BytesCopied.Add(uint64(copy(p, (*buf)[in:])))
	return nil
}
