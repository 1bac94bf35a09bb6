package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/store"
)

// sparseComparison compares an open file of the host with a stored one where either has holes. Digests do not tell, as
// they cover where the holes are, and one system makes others than another. What is a hole on both sides is not read.
type sparseComparison struct {
	stored *store.File
	host   *hostfs.Source
	a, b   []byte
}

// storedError says that it is the archive that cannot be read.
type storedError struct{ err error }

func (e *storedError) Error() string {
	return fmt.Sprintf("its stored bytes cannot be read: %v", e.err)
}
func (e *storedError) Unwrap() error { return e.err }

func sameSparse(ctx context.Context, ar *store.Archive, e *index.Entry, f *hostfs.Source) error {
	stored, err := ar.Open(e)
	if err != nil {
		return &storedError{err}
	}
	a, b := comparisons.Get().(*[]byte), comparisons.Get().(*[]byte)
	defer comparisons.Put(a)
	defer comparisons.Put(b)
	c := sparseComparison{stored: stored, host: f, a: *a, b: *b}
	here := dataRanges(f.Sparse, f.Size)
	for _, r := range here {
		if err := c.data(ctx, r.from, r.to); err != nil {
			return err
		}
	}
	for _, r := range dataRanges(hostRuns(e.Sparse), e.Size) {
		for _, gap := range without(r, &here) {
			if err := c.hole(ctx, gap.from, gap.to); err != nil {
				return err
			}
		}
	}
	return f.Check()
}

// span is a stretch of a file.
type span struct{ from, to int64 }

// dataRanges are the stretches of a file of some size that are no holes; a file without a map is one.
func dataRanges(runs []hostfs.Run, size int64) []span {
	if len(runs) == 0 {
		return []span{{0, size}}
	}
	var list []span
	at := int64(0)
	for _, r := range runs {
		if r.Data > 0 {
			list = append(list, span{at, at + r.Data})
		}
		at += r.Data + r.Hole
	}
	return list
}

// without returns what is left of r when the spans of list are taken from it. Both ascend from call to call: spans that
// end before r are dropped from the list.
func without(r span, list *[]span) (left []span) {
	for len(*list) > 0 && (*list)[0].to <= r.from {
		*list = (*list)[1:]
	}
	for _, s := range *list {
		if s.from >= r.to {
			break
		}
		if s.from > r.from {
			left = append(left, span{r.from, s.from})
		}
		r.from = max(r.from, s.to)
	}
	if r.from < r.to {
		left = append(left, r)
	}
	return left
}

// data compares a stretch that the host has.
func (c *sparseComparison) data(ctx context.Context, from, to int64) error {
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := c.host.Read(c.a[:min(int64(len(c.a)), to-from)])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return c.host.Check() // it shrank
		}
		if err := c.read(n, from); err != nil {
			return err
		}
		if !slices.Equal(c.a[:n], c.b[:n]) {
			return errDiffers
		}
		from += int64(n)
	}
	return nil
}

// hole demands zeros of a stretch of the archive's data.
func (c *sparseComparison) hole(ctx context.Context, from, to int64) error {
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(int64(len(c.b)), to-from))
		if err := c.read(n, from); err != nil {
			return err
		}
		if slices.ContainsFunc(c.b[:n], func(b byte) bool { return b != 0 }) {
			return errDiffers
		}
		from += int64(n)
	}
	return nil
}

// read reads n stored bytes.
func (c *sparseComparison) read(n int, from int64) error {
	if _, err := c.stored.ReadAt(c.b[:n], from); err != nil && !errors.Is(err, io.EOF) {
		return &storedError{err}
	}
	return nil
}
