package store

import (
	"context"
	"errors"
	"fmt"
	"io"

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
		if n, err := t.duplicate(d, entry.Size); n != 0 || err != nil {
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
	firstFrame := t.nextFrame
	u := unit(t.level())
	h := blake3.New()
	size := int64(0)
	number := t.firstContent + uint64(len(t.fresh))
	drop := func(serr error) (uint64, bool, error, error) {
		for f := firstFrame; f < t.nextFrame; f++ {
			t.gone[f] = true
		}
		return 0, false, serr, ctx.Err()
	}
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return 0, false, nil, err
		}
		buf := t.pipe.plain(rawUnit)
		k, rerr := readFull(r, (*buf)[:u])
		if first && k == u && u < rawUnit {
			// What does not compress is read in large pieces; the first frame's worth decides for the file.
			if looksRandom((*buf)[:k]) {
				u = rawUnit
				var more int
				more, rerr = readFull(r, (*buf)[k:u])
				k += more
			}
		}
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return drop(rerr)
		}
		if k > 0 {
			h.Write((*buf)[:k])
			*buf = (*buf)[:k]
			t.dispatch(&job{info: frames.Info{Class: frames.NoPack}, plain: buf,
				members: []frames.Member{{Content: number, Off: size, Len: int64(k)}}})
			size += int64(k)
		}
		if k < u {
			break
		}
		if err := t.pipe.failure(); err != nil {
			return 0, false, nil, err
		}
	}
	if cerr := r.Check(); cerr != nil {
		return drop(fmt.Errorf("%w: %w", ErrSourceChanged, cerr))
	}
	if entry.Size >= 0 && size != entry.Size {
		return drop(fmt.Errorf("%w: %d bytes read of %d", ErrSourceChanged, size, entry.Size))
	}
	it.entry.Size = size
	if size == 0 {
		return 0, false, nil, nil
	}
	var d format.Digest
	h.Sum(d[:0])
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
	c := newContent{digest: d, size: size, frame: firstFrame, refs: 1}
	if size > int64(u) {
		c.unit = uint32(u)
	}
	t.sizes[size] = true
	return t.newContent(c, it.src.NoDedup), false, nil, nil
}

// readFull reads until b is full; io.EOF when the source ended first, with what was read.
func readFull(r io.Reader, b []byte) (int, error) {
	n, err := io.ReadFull(r, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
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
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return d, e, err
		}
	}
	if err := r.Check(); err != nil {
		return d, e, fmt.Errorf("%w: %w", ErrSourceChanged, err)
	}
	if size != e.Size {
		return d, e, fmt.Errorf("%w: %d bytes read of %d", ErrSourceChanged, size, e.Size)
	}
	h.Sum(d[:0])
	return d, e, nil
}
