package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// Formats that can be written.
const (
	Tar = "tar"
	Zip = "zip"
)

// Archive is where the bytes come from.
type Archive interface {
	Open(*index.Entry) (*store.File, error)
	Xattrs(context.Context, *index.Entry) ([]index.Xattr, error)
}

// Options say what is written and who hears of it.
type Options struct {
	Format string
	Lost   func(e *index.Entry, what string) // of an entry: what the format cannot hold
	Left   func(e *index.Entry, why string)  // an entry that it cannot hold at all
	Wrote  func(n int64)                     // of a file's bytes, as they are written
}

// Summary says what was written.
type Summary struct {
	Entries uint64
	Bytes   int64 // of files
}

// writer writes one format.
type writer interface {
	// entry writes an entry; first is the path that it is another name of.
	entry(ctx context.Context, e *index.Entry, first pathsafe.Path) error
	// broken makes what was written no archive, as far as that has not happened yet.
	broken()
	end() error
}

// Run writes entries to w, in their order.
func Run(ctx context.Context, ar Archive, entries iter.Seq2[index.Entry, error], w io.Writer, o Options) (sum Summary, err error) {
	s := shared{ar: ar, o: o, sum: &sum}
	var out writer
	switch o.Format {
	case Tar:
		out = newTarWriter(w, s)
	case Zip:
		out = newZipWriter(w, s)
	default:
		return sum, fmt.Errorf("the format %q is not known", o.Format)
	}
	names := make(map[uint64]pathsafe.Path) // the first of each link group
	for e, err := range entries {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			out.broken()
			return sum, err
		}
		first := names[e.LinkGroup]
		if e.LinkGroup != 0 && first.IsZero() {
			names[e.LinkGroup] = e.Path
		}
		if err := out.entry(ctx, &e, first); err != nil {
			out.broken()
			return sum, named(&e, err)
		}
	}
	return sum, out.end()
}

// named is an error with the entry that it is about. One that came up while it was read names it already.
func named(e *index.Entry, err error) error {
	name := pathsafe.Quote(e.Path.String())
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), name+": ") {
		err = inner
	}
	return fmt.Errorf("\"%s\": %w", name, err)
}

// shared is what both writers need.
type shared struct {
	ar  Archive
	o   Options
	sum *Summary
}

func (s *shared) lost(e *index.Entry, what string) {
	if s.o.Lost != nil {
		s.o.Lost(e, what)
	}
}

func (s *shared) left(e *index.Entry, why string) {
	if s.o.Left != nil {
		s.o.Left(e, why)
	}
}

// copy writes a part of a file.
func (s *shared) copy(ctx context.Context, w io.Writer, f *store.File, off, n int64) error {
	if s.o.Wrote != nil {
		w = &counted{w, s.o.Wrote}
	}
	k, err := f.CopyRange(ctx, w, off, n)
	s.sum.Bytes += k
	if err == nil && k != n {
		err = format.Corrupt("content", -1, "it is shorter than its entry says")
	}
	return err
}

// counted tells how many bytes were written.
type counted struct {
	w     io.Writer
	wrote func(int64)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.wrote(int64(n))
	return n, err
}
