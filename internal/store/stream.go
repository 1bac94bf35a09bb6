package store

import (
	"context"
	"fmt"
	"io"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/frames"
)

const (
	// serialRange is up to how many bytes CopyRange reads without other workers.
	serialRange = 512 << 10
	// rawPiece is how much of a raw frame is read at once: what was read is still in the CPU's cache when it
	// is verified and written on.
	rawPiece = int64(128 << 10)
	// aheadPerJob is how many chunks may be read ahead for each worker.
	aheadPerJob = 4
)

// CopyRange writes n bytes from off on to w, in order, holes as zeros, and returns how many it wrote. Frames are read
// and decoded ahead by the handle's workers, which also call w: one at a time. Before damage is met a
// correct prefix may have been written, never a wrong byte. w may be given bytes that others share.
func (f *File) CopyRange(ctx context.Context, w io.Writer, off, n int64) (int64, error) {
	if off < 0 || n < 0 {
		return 0, f.at(fmt.Errorf("negative range"))
	}
	n = min(n, max(f.size-off, 0))
	if jobs := f.a.opt.Jobs; jobs > 1 && n > serialRange {
		return f.copyParallel(ctx, w, off, n, jobs)
	}
	return f.copySerial(ctx, w, off, n)
}

func (f *File) copySerial(ctx context.Context, w io.Writer, off, n int64) (written int64, err error) {
	var s stretch
	defer s.release()
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return written, err
		}
		p, err := f.stretch(&s, off, n)
		if err != nil {
			f.a.DropTrust()
			return written, f.at(err)
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

// stretch is what a stream has in hands: a buffer for what is read beside the cache, and the lock of the
// packReader whose bytes it was given.
type stretch struct {
	buf  *[]byte
	pack *packReader
}

func (s *stretch) release() {
	s.unlock()
	if s.buf != nil {
		putBuf(s.buf)
	}
}

func (s *stretch) unlock() {
	if s.pack != nil {
		s.pack.mu.Unlock()
		s.pack = nil
	}
}

func (s *stretch) grow(n int) []byte {
	if s.buf == nil || cap(*s.buf) < n+frames.Slack {
		if s.buf != nil {
			putBuf(s.buf)
		}
		s.buf = getBuf(n)
	}
	return (*s.buf)[:n]
}

// stretch returns verified bytes of the file from off on, at least one and at most n, valid until s is used
// again: those of a frame that is ready or belongs into the cache, where they stand, else in s.
func (f *File) stretch(s *stretch, off, n int64) ([]byte, error) {
	s.unlock()
	pos, n := f.data.at(off, n)
	if pos < 0 {
		return hole[:min(n, int64(len(hole)))], nil
	}
	number, in, avail := f.content.Locate(pos)
	if n = min(n, avail); n <= 0 {
		return nil, format.Corrupt("content", -1, "it has no byte %d", pos)
	}
	pays := false
	if s.pack = f.packReader(); s.pack != nil {
		pays = s.pack.touch(f.v, number, in, n)
		if p := s.pack.at(in, n); p != nil {
			f.a.stats.CacheHits.Add(1)
			return p, nil
		}
	}
	of := f.ready(number, in+n)
	if of == nil || pays && of.plain == nil {
		ref, err := f.a.frame(f.v, number)
		if err != nil {
			return nil, err
		}
		if ref.Codec != frames.Raw && in == 0 && n == int64(ref.Plain) {
			// A long stream would only empty the cache.
			p := s.grow(int(n))
			return p, f.a.readWhole(&ref, p)
		}
		if pays {
			if err := s.pack.load(f.a, &ref); err != nil {
				return nil, err
			}
			if p := s.pack.at(in, n); p != nil {
				return p, nil
			}
		}
		if of, err = f.open(&ref, in+n); err != nil {
			return nil, err
		}
	}
	s.unlock()
	if in < 0 || in+n > int64(of.ref.Plain) {
		return nil, format.Corrupt("content", -1, "it reaches past the end of frame %d", number)
	}
	if of.plain != nil {
		return of.plain[in : in+n], nil
	}
	piece := max(rawPiece, int64(1)<<of.ref.BlockShift)
	p := s.grow(int(min(n, piece-in%piece)))
	return p, f.readRaw(of, p, in)
}

// hole is what is written of one. It is not the zeros that wipe: it goes out of this package.
var hole [rawUnit]byte

// ahead is a stream that several workers read ahead and write in order.
type ahead struct {
	f *File
	w io.Writer

	mu      sync.Mutex
	room    sync.Cond // something was written, or the stream has ended
	at, end int64     // what nobody has taken yet
	taken   int       // chunks that workers have taken
	given   int       // chunks that were written
	chunks  []chunk   // chunk k, once it is read, at k modulo the length
	writing bool      // one of the workers is writing
	written int64
	err     error
}

type chunk struct {
	buf   *[]byte // nil: not read yet, or a hole
	empty int     // bytes of a hole
	err   error
}

// copyParallel is CopyRange with workers. Each takes the next chunk, reads it, and if nobody is writing writes
// what is due: nobody waits for anybody as long as there is room ahead.
func (f *File) copyParallel(ctx context.Context, w io.Writer, off, n int64, jobs int) (int64, error) {
	c := &ahead{f: f, w: w, at: off, end: off + n, chunks: make([]chunk, aheadPerJob*jobs)}
	c.room.L = &c.mu
	var wg sync.WaitGroup
	for range jobs - 1 {
		wg.Go(func() { c.work(ctx) })
	}
	c.work(ctx)
	wg.Wait()
	for _, k := range c.chunks {
		if k.buf != nil {
			putBuf(k.buf)
		}
	}
	return c.written, c.err
}

func (c *ahead) work(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.err == nil && c.at < c.end && c.taken-c.given == len(c.chunks) {
			c.room.Wait()
		}
		if err := ctx.Err(); err != nil {
			c.fail(err)
		}
		if c.err != nil || c.at == c.end {
			return
		}
		k, at := c.taken, c.at
		size, empty := c.f.chunkAt(at, c.end)
		c.taken, c.at = k+1, at+size
		c.mu.Unlock()

		next := chunk{empty: int(size)}
		if !empty {
			next = chunk{buf: getBuf(int(size))}
			_, next.err = c.f.read(*next.buf, at, true)
		}

		c.mu.Lock()
		c.chunks[k%len(c.chunks)] = next
		if !c.writing {
			c.writing = true
			c.write(ctx)
			c.writing = false
		}
	}
}

// write writes what is due until the context ends. It is called with the lock, which it gives back while it writes.
func (c *ahead) write(ctx context.Context) {
	for c.err == nil {
		k := &c.chunks[c.given%len(c.chunks)]
		due := *k
		data := hole[:due.empty] // no chunk is longer
		if due.buf != nil {
			data = *due.buf
		}
		if len(data) == 0 {
			return
		}
		*k = chunk{}
		c.mu.Unlock()
		n, err := 0, due.err
		if err == nil {
			if n, err = c.w.Write(data); err == nil {
				err = ctx.Err()
			}
		}
		if due.buf != nil {
			putBuf(due.buf)
		}
		c.mu.Lock()
		c.written += int64(n)
		c.given++
		if err != nil {
			c.fail(err)
		}
		c.room.Broadcast()
	}
}

func (c *ahead) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.room.Broadcast()
}

// chunkAt is how much to read at once from at on: up to the end of the frame or the hole there.
func (f *File) chunkAt(at, end int64) (n int64, empty bool) {
	pos, n := f.data.at(at, min(end-at, rawUnit))
	if pos < 0 {
		return n, true
	}
	_, _, avail := f.content.Locate(pos)
	return min(max(avail, 1), n), false
}
