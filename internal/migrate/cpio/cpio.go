package cpio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// Format is the name of the format in verdicts and reports; a compression stands behind it, as in cpio.gzip.
const Format = "cpio"

const rpmMagic = "\xed\xab\xee\xdb"

// Probe looks for a header at the beginning, of the input or of what it unpacks to.
func Probe(in source.Input) source.Verdict {
	b := make([]byte, newcSize)
	n, err := in.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return source.Verdict{}
	}
	b = b[:n]
	if bytes.HasPrefix(b, []byte(rpmMagic)) {
		return source.Verdict{Format: "rpm", Detail: "it is a package of RPM; rpm2cpio makes a cpio archive of it"}
	}
	if layoutOf(b) != 0 {
		return source.Verdict{Format: Format, Supported: true}
	}
	kind := unpack.Probe(b)
	if kind == "" {
		return source.Verdict{}
	}
	z, err := unpack.NewReader(kind, io.NewSectionReader(in, 0, in.Size), 0)
	if err != nil {
		return source.Verdict{}
	}
	defer z.Close()
	b = make([]byte, newcSize)
	if n, err = io.ReadFull(z, b); err != nil && n < binSize {
		return source.Verdict{}
	}
	if layoutOf(b[:n]) == 0 {
		return source.Verdict{}
	}
	return source.Verdict{Format: Format + "." + kind, Supported: true}
}

type archive struct {
	in   source.Input
	o    source.Options
	info source.Info
}

// Open reads all headers once, as far as they can be read.
func Open(ctx context.Context, in source.Input, o source.Options) (source.Archive, error) {
	v := Probe(in)
	switch {
	case v.Detail != "":
		return nil, fmt.Errorf("%w: %s: %s", unpack.ErrUnsupported, v.Format, v.Detail)
	case !v.Supported:
		return nil, format.Corrupt("cpio archive", 0, "the input is no cpio archive")
	}
	a := &archive{in: in, o: o, info: source.Info{Format: v.Format, Links: true}}
	s := newStream(ctx, in, o.MaxBytes)
	defer s.close()
	for {
		h, _, err := s.next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, format.ErrCorrupt) {
			a.info.Entries, a.info.Bytes = -1, -1 // what stands before the damage can be read
			break
		}
		if err != nil {
			return nil, err
		}
		a.info.Entries++
		a.info.Bytes += h.size // no more than the stream has: it was read
		if o.MaxEntries > 0 && a.info.Entries > o.MaxEntries {
			return nil, source.TooManyEntries(o.MaxEntries)
		}
	}
	return a, nil
}

func (a *archive) Info() source.Info { return a.info }

func (a *archive) Close() error { return nil }

// Entries implements source.Archive.
func (a *archive) Entries(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		s := newStream(ctx, a.in, a.o.MaxBytes)
		defer s.close()
		l := links{}
		for {
			h, name, err := s.next()
			if err == io.EOF {
				l.rest(yield)
				return
			}
			if err != nil {
				if l.cut(yield) {
					yield(nil, err)
				}
				return
			}
			for _, e := range l.add(s, h, name) {
				if e.Err == nil && e.Entry.Path.IsZero() {
					continue
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
