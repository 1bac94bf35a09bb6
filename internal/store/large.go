package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// storeLarge stores a file in frames of its own, reading it as it goes; sourceErr is a fault of the
// source.
func (t *Tx) storeLarge(ctx context.Context, it *item) (n uint64, dup bool, sourceErr, err error) {
	for range 2 {
		n, dup, sourceErr, err = t.tryLarge(ctx, it)
		if err != nil || sourceErr == nil || !errors.Is(sourceErr, ErrSourceChanged) {
			break
		}
	}
	return n, dup, sourceErr, err
}

func (t *Tx) tryLarge(ctx context.Context, it *item) (n uint64, dup bool, sourceErr, err error) {
	// When an equal content may be there, the file is digested first: reading it twice costs little
	// beside compressing and storing what is there already.
	expect := it.src.Entry.Size
	if !it.src.NoDedup && expect > 0 && (t.sizes[expect] || t.base.tree(index.Digests).Height > 0) {
		d, entry, serr := digestSource(ctx, it.src)
		if serr != nil {
			return 0, false, serr, ctx.Err()
		}
		if n, err := t.duplicate(d, entry.DataSize()); n != 0 || err != nil {
			it.entry = entry
			return n, true, nil, err
		}
	}
	r, entry, serr := it.src.Open()
	if serr != nil {
		return 0, false, serr, nil
	}
	defer r.Close()
	it.entry = entry
	expect = entry.DataSize()
	if entry.Sparse != nil && 0 <= expect && expect <= smallMax {
		// A large file that is mostly hole.
		if _, serr := t.readSmall(it, r, time.Now()); serr != nil || expect == 0 {
			return 0, false, serr, ctx.Err()
		}
		n, dup, err := t.storeSmall(it)
		return n, dup, nil, err
	}
	firstFrame := t.nextFrame
	u := 0
	h := t.newDigester()
	defer h.stop()
	size := int64(0)
	number := t.nextContent()
	drop := func(serr error) (uint64, bool, error, error) {
		for f := firstFrame; f < t.nextFrame; f++ {
			t.gone[f] = true
		}
		return 0, false, serr, ctx.Err()
	}
	for {
		if err := ctx.Err(); err != nil {
			return 0, false, nil, err
		}
		buf, rerr := t.readUnit(r, expect, &u)
		if rerr != nil && rerr != io.EOF {
			putBuf(buf)
			return drop(rerr)
		}
		if k := len(*buf); k > 0 {
			j := unitJob(number, size, buf)
			h.add(j)
			size += int64(k)
			t.dispatch(j)
		} else {
			putBuf(buf)
		}
		if rerr != nil {
			break
		}
		if err := t.pipe.failure(); err != nil {
			return 0, false, nil, err
		}
	}
	if cerr := r.Check(); cerr != nil {
		return drop(fmt.Errorf("%w: %w", ErrSourceChanged, cerr))
	}
	if expect >= 0 && size != expect {
		return drop(fmt.Errorf("%w: %d bytes read of %d", ErrSourceChanged, size, expect))
	}
	if entry.Sparse == nil {
		it.entry.Size = size
	}
	if size == 0 {
		return 0, false, nil, nil
	}
	d := h.sum()
	if !it.src.NoDedup {
		n, err := t.duplicate(d, size)
		if err != nil {
			return 0, false, nil, err
		}
		if n != 0 {
			_, _, _, err := drop(nil)
			return n, true, nil, err
		}
	}
	t.sizes[size] = true
	return t.unitContent(d, size, firstFrame, u, it.src.NoDedup), false, nil, nil
}

// readUnit reads the next frame's worth of a file of that size, -1 when it is not known. The first one decides
// for the whole file: *u, which is 0 before it, becomes the plain length of its frames. io.EOF comes with the
// last unit, which may be empty.
func (t *Tx) readUnit(r io.Reader, size int64, u *int) (*[]byte, error) {
	defer since(&t.a.stats.read, time.Now())
	if *u != 0 {
		buf := getBuf(*u)
		n, err := readFull(r, *buf)
		*buf = (*buf)[:n]
		return buf, err
	}
	*u = unit(t.level())
	most := max(*u, rawUnit)
	if size >= 0 && size < int64(*u) {
		most = *u
	}
	buf := getBuf(most)
	n, err := readFull(r, (*buf)[:*u])
	if err == nil && *u < most && frames.LooksRandom((*buf)[:n]) {
		// What does not compress is read in large pieces.
		*u = most
		var more int
		more, err = readFull(r, (*buf)[n:most])
		n += more
	}
	*buf = (*buf)[:n]
	return buf, err
}

// readUnits reads a file that one worker reads whole.
func (t *Tx) readUnits(it *item, r Reader) error {
	h := t.digesterHere()
	size, expect := int64(0), it.entry.DataSize()
	for u := 0; ; {
		buf, err := t.readUnit(r, expect, &u)
		it.units = append(it.units, buf)
		if err != nil && err != io.EOF {
			return err
		}
		h.write(*buf)
		size += int64(len(*buf))
		if size > expect {
			break // it has grown, nobody knows how far
		}
		if err != nil {
			break
		}
	}
	if err := r.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrSourceChanged, err)
	}
	if size != expect {
		return fmt.Errorf("%w: %d bytes read of %d", ErrSourceChanged, size, expect)
	}
	it.digest = h.sum()
	return nil
}

// storeUnits stores a file that was read whole, in frames of its own.
func (t *Tx) storeUnits(it *item) (n uint64, dup bool, err error) {
	size := it.entry.DataSize()
	if !it.src.NoDedup {
		if n, err := t.duplicate(it.digest, size); n != 0 || err != nil {
			return n, true, err
		}
	}
	firstFrame, number, u, off := t.nextFrame, t.nextContent(), len(*it.units[0]), int64(0)
	for len(it.units) > 0 {
		buf := it.units[0]
		it.units = it.units[1:]
		if len(*buf) == 0 {
			putBuf(buf)
			continue
		}
		j := unitJob(number, off, buf)
		off += int64(len(*buf))
		t.dispatch(j)
	}
	return t.unitContent(it.digest, size, firstFrame, u, it.src.NoDedup), false, t.pipe.failure()
}

func (t *Tx) nextContent() uint64 { return t.firstContent + uint64(t.fresh.len()) }

// unitJob is the frame of a part of a content.
func unitJob(content uint64, off int64, plain *[]byte) *job {
	return &job{info: frames.Info{Class: frames.NoPack}, plain: plain,
		members: []frames.Member{{Content: content, Off: off, Len: int64(len(*plain))}}}
}

// unitContent is the content whose frames, u plain bytes each, begin with the given one.
func (t *Tx) unitContent(d format.Digest, size int64, frame uint64, u int, private bool) uint64 {
	c := newContent{digest: d, size: size, frame: frame, refs: 1}
	if size > int64(u) {
		c.unit = uint32(u)
	}
	return t.newContent(c, private)
}

// digester computes the digest of a file that is read in parts: in a goroutine of its own, so that reading and
// compressing do not wait for it, unless everything is to happen in the caller's.
type digester struct {
	t    *Tx
	h    *blake3.Hasher
	in   chan *job
	done sync.WaitGroup
}

// digesterHere works in the caller's goroutine.
func (t *Tx) digesterHere() *digester { return &digester{t: t, h: blake3.New()} }

func (t *Tx) newDigester() *digester {
	d := t.digesterHere()
	if !t.pipe.serial {
		d.in = make(chan *job, 2)
		d.done.Go(func() {
			for j := range d.in {
				d.write(*j.plain)
				j.release()
			}
		})
	}
	return d
}

// add digests the plain bytes of a job that has not been dispatched yet.
func (d *digester) add(j *job) {
	if d.in == nil {
		d.write(*j.plain)
		return
	}
	j.users.Add(1)
	d.in <- j
}

func (d *digester) write(b []byte) {
	defer since(&d.t.a.stats.digest, time.Now())
	_, _ = d.h.Write(b) // a hash has no errors
}

// stop ends the goroutine. It may be called again.
func (d *digester) stop() {
	if d.in != nil {
		close(d.in)
		d.done.Wait()
		d.in = nil
	}
}

func (d *digester) sum() (sum format.Digest) {
	d.stop()
	d.h.Sum(sum[:0])
	return sum
}

// readFull reads until b is full; io.EOF when the source ended first, with what was read. Nothing but io.EOF itself is an
// end: a source's own io.ErrUnexpectedEOF, or an error that wraps io.EOF, is a fault, also when it comes with the last byte.
func readFull(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Read(b[n:])
		n += k
	}
	if n == len(b) && err == io.EOF {
		err = nil // the next call says so
	}
	return n, err
}

// digestSource reads a source only for its digest.
func digestSource(ctx context.Context, src Source) (d format.Digest, e index.Entry, err error) {
	r, e, err := src.Open()
	if err != nil {
		return d, e, err
	}
	defer r.Close()
	h := blake3.New()
	buf := getBuf(rawUnit)
	defer putBuf(buf)
	size := int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return d, e, err
		}
		n, err := r.Read(*buf)
		h.Write((*buf)[:n])
		size += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return d, e, err
		}
	}
	if err := r.Check(); err != nil {
		return d, e, fmt.Errorf("%w: %w", ErrSourceChanged, err)
	}
	if size != e.DataSize() {
		return d, e, fmt.Errorf("%w: %d bytes read of %d", ErrSourceChanged, size, e.DataSize())
	}
	h.Sum(d[:0])
	return d, e, nil
}
