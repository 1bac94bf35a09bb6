package store

import (
	"context"
	"fmt"
	"io"
	"sync"
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
	content index.Content
	last    atomic.Pointer[openFrame]           // the frame of the latest read: windows move little
	raw     [rawSlots]atomic.Pointer[openFrame] // raw frames by number, whose tables are small
}

// rawSlots is how many raw frames a File keeps ready beside the shared cache.
const rawSlots = 8

// openFrame is a frame that a File has just read from: decoded, or raw with its table.
type openFrame struct {
	ref   frameRef
	plain []byte
	table *frames.Table
}

// Open returns a file for reading at any position.
func (a *Archive) Open(e *index.Entry) (*File, error) {
	if e.Kind != index.File {
		return nil, fmt.Errorf("%s: not a regular file", e.Path)
	}
	if err := readable(e); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	f := &File{a: a, v: a.view(), path: e.Path.String(), size: e.Size}
	if e.Content == 0 {
		return f, nil
	}
	var err error
	if f.content, err = a.content(f.v, e.Content); err != nil {
		return nil, f.at(err)
	}
	if f.content.Size != e.Size {
		return nil, f.at(format.Corrupt("entry", -1, "its size disagrees with its content's"))
	}
	return f, nil
}

// readable refuses a file that this version cannot give back as it was.
func readable(e *index.Entry) error {
	if len(e.Sparse) > 0 {
		return &format.Error{Kind: format.ErrVersion, Record: "entry", Offset: -1, Detail: "it is a sparse file, which this version cannot read"}
	}
	return nil
}

// at adds the file's path to an error.
func (f *File) at(err error) error { return fmt.Errorf("%s: %w", f.path, err) }

// Size is the file's length in bytes.
func (f *File) Size() int64 { return f.size }

// ReadAt implements io.ReaderAt. Every byte it returns was verified after it was read; when it fails,
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
		k, err := f.readFrame(p[n:], off+int64(n), streaming)
		if err != nil {
			return n, f.at(err)
		}
		n += k
	}
	return n, nil
}

// readFrame reads from the one frame that holds position off.
func (f *File) readFrame(p []byte, off int64, streaming bool) (int, error) {
	number, in, avail := f.content.Locate(off)
	p = p[:min(int64(len(p)), avail)]
	if streaming && in == 0 {
		if done, err := f.decodeInto(p, number); done || err != nil {
			return len(p), err
		}
	}
	of, err := f.open(number)
	if err != nil {
		return 0, err
	}
	if in < 0 || in+int64(len(p)) > int64(of.ref.Plain) || len(p) == 0 {
		return 0, format.Corrupt("content", -1, "it reaches past the end of frame %d", number)
	}
	if of.table != nil {
		return len(p), f.a.readRaw(&of.ref, of.table, p, in)
	}
	if of.plain == nil {
		return len(p), f.a.readSmallRaw(&of.ref, p, in)
	}
	f.a.stats.BytesCopied.Add(uint64(len(p)))
	return copy(p, of.plain[in:]), nil
}

// decodeInto decodes a compressed frame straight into p when p takes all of it.
func (f *File) decodeInto(p []byte, number uint64) (bool, error) {
	ref, err := f.a.frame(f.v, number)
	if err != nil || ref.Codec == frames.Raw || int(ref.Plain) != len(p) {
		return false, err
	}
	buf := getBuf(int(ref.Stored))
	defer putBuf(buf)
	if err := f.a.pread(*buf, ref.storedOff(f.a.suite.TagSize()), "frame"); err != nil {
		return false, err
	}
	return true, f.a.decodeFrame(&ref, *buf, p)
}

// open returns a frame ready for reading: a compressed one decoded, a raw one with its table.
func (f *File) open(number uint64) (*openFrame, error) {
	if of := f.last.Load(); of != nil && of.ref.Number == number {
		f.a.stats.CacheHits.Add(1)
		return of, nil
	}
	slot := &f.raw[number%rawSlots]
	if of := slot.Load(); of != nil && of.ref.Number == number {
		f.a.stats.CacheHits.Add(1)
		return of, nil
	}
	ref, err := f.a.frame(f.v, number)
	if err != nil {
		return nil, err
	}
	of := &openFrame{ref: ref}
	switch {
	case ref.BlockShift != 0:
		if of.table, err = f.a.table(&ref); err == nil {
			slot.Store(of)
			return of, nil
		}
	case ref.Codec != frames.Raw:
		of.plain, err = f.a.plainFrame(&ref)
	}
	if err != nil {
		return nil, err
	}
	f.last.Store(of)
	return of, nil
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

// CopyRange writes n bytes from off on to w, in order, and returns how many it wrote. Frames are read
// and decoded ahead by the handle's workers. Before damage is met a correct prefix may have been
// written, never a wrong byte.
func (f *File) CopyRange(ctx context.Context, w io.Writer, off, n int64) (int64, error) {
	if off < 0 || n < 0 {
		return 0, f.at(fmt.Errorf("negative range"))
	}
	n = min(n, max(f.size-off, 0))
	jobs := f.a.opt.Jobs
	if jobs == 1 || n <= 2*rawUnit {
		return f.copySerial(ctx, w, off, n)
	}
	type chunk struct {
		buf  *[]byte
		err  error
		done chan struct{}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	queue := make(chan *chunk, 2*jobs) // bounds what is read ahead
	slots := make(chan struct{}, jobs)
	wg.Go(func() {
		defer close(queue)
		for at := off; at < off+n; {
			size := f.chunkAt(at, off+n)
			c := &chunk{done: make(chan struct{})}
			select {
			case queue <- c:
			case <-ctx.Done():
				return
			}
			slots <- struct{}{}
			start := at
			wg.Go(func() {
				c.buf = getBuf(int(size))
				_, c.err = f.read(*c.buf, start, true)
				<-slots
				close(c.done)
			})
			at += size
		}
	})
	var written int64
	for c := range queue {
		<-c.done
		if c.err != nil {
			return written, c.err
		}
		k, err := w.Write(*c.buf)
		putBuf(c.buf)
		written += int64(k)
		if err != nil {
			return written, err
		}
		if err := ctx.Err(); err != nil {
			return written, err
		}
	}
	return written, ctx.Err()
}

// chunkAt is how much to read at once from at on: up to the end of the frame there.
func (f *File) chunkAt(at, end int64) int64 {
	_, _, avail := f.content.Locate(at)
	return min(max(avail, 1), end-at, rawUnit)
}

func (f *File) copySerial(ctx context.Context, w io.Writer, off, n int64) (written int64, err error) {
	buf := getBuf(int(min(max(n, 1), rawUnit)))
	defer putBuf(buf)
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return written, err
		}
		p := (*buf)[:min(int64(len(*buf)), f.chunkAt(off, off+n))]
		if _, err := f.read(p, off, true); err != nil {
			return written, err
		}
		k, err := w.Write(p)
		written += int64(k)
		if err != nil {
			return written, err
		}
		off, n = off+int64(len(p)), n-int64(len(p))
	}
	return written, nil
}
