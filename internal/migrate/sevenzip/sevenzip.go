package sevenzip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// Format is the name of the format in verdicts and reports.
const Format = "7z"

// maxStub is how long the program in front of a self-extracting archive may be.
const maxStub = 1 << 20

// Probe looks for the start header, at the beginning or, behind a program for Windows, within a megabyte.
func Probe(in source.Input) source.Verdict {
	off, err := find(in)
	if err != nil || off < 0 {
		return source.Verdict{}
	}
	return source.Verdict{Format: Format, Supported: true}
}

// find returns where the start header is, or -1.
func find(in source.Input) (int64, error) {
	b := make([]byte, min(maxStub+startSize, max(in.Size, 0)))
	n, err := in.ReadAt(b[:min(len(b), 6)], 0)
	if err != nil && err != io.EOF || n < 2 {
		return -1, err
	}
	if string(b[:n]) == magic {
		return 0, nil
	}
	if string(b[:2]) != "MZ" {
		return -1, nil
	}
	if n, err = in.ReadAt(b, 0); err != nil && err != io.EOF {
		return -1, err
	}
	for at := 0; ; at++ {
		k := bytes.Index(b[at:n], []byte(magic))
		if k < 0 {
			return -1, nil
		}
		at += k
		if _, err := readStart(in, int64(at)); err == nil {
			return int64(at), nil
		}
	}
}

type archive struct {
	in         source.Input
	base       int64
	maxFiles   int
	info       source.Info
	head       *header
	ask        func() ([]byte, error)
	passphrase string
	asked      bool
	proven     bool // something encrypted came out right with the passphrase
}

// Open reads the directory of the archive, asking for the passphrase when anything in it is encrypted.
func Open(ctx context.Context, in source.Input, o source.Options) (source.Archive, error) {
	off, err := find(in)
	if err != nil {
		return nil, err
	}
	if off < 0 {
		return nil, corrupt("the input is no 7z archive")
	}
	s, err := readStart(in, off)
	if err != nil {
		return nil, err
	}
	if !s.inside(in) {
		return nil, format.Corrupt("7z start header", off, "the directory stands behind the end of the file: it was cut off, or it is the first of several volumes (join them: cat NAME.7z.0* > NAME.7z)")
	}
	a := &archive{in: in, base: s.base, maxFiles: maxFiles, ask: o.Passphrase}
	if o.MaxEntries > 0 && o.MaxEntries < maxFiles {
		a.maxFiles = int(o.MaxEntries)
	}
	a.info = source.Info{Format: Format}
	register()
	if a.head, err = a.readHeader(s); err != nil {
		return nil, err
	}
	if err := a.survey(off, s.offset+s.size); err != nil {
		return nil, err
	}
	return a, ctx.Err()
}

// survey checks the blocks, and asks for the passphrase if one of them needs it.
func (a *archive) survey(off, tail int64) error {
	h := a.head
	a.info.Entries, a.info.Lost = int64(len(h.files)), h.unknown
	if off > 0 {
		a.info.Notes = append(a.info.Notes, source.Before(off))
	}
	if tail < a.in.Size {
		a.info.Lost = append(a.info.Lost, fmt.Sprintf("%d bytes that follow the end of the archive", a.in.Size-tail))
	}
	var total, work int64
	seen := map[string]bool{}
	unchecked := 0
	for i, s := range h.streams {
		if i == 0 || s.folder != h.streams[i-1].folder {
			h.folders[s.folder].first = i
		}
		if !s.hasCRC && s.size > 0 {
			unchecked++
		}
		if s.size > format.MaxFileSize-total {
			return corrupt("its contents are longer than any archive")
		}
		total += s.size
	}
	a.info.Bytes = total
	if unchecked > 0 {
		a.info.Notes = append(a.info.Notes, fmt.Sprintf("%d contents have no checksum, so damage to them cannot be seen", unchecked))
	}
	for i := range h.folders {
		f := &h.folders[i]
		f.bad = f.check()
		if !f.encrypted() {
			continue
		}
		a.info.Encrypted = true
		for _, c := range f.coders {
			if c.id != coderAES || f.bad != nil {
				continue
			}
			if key := string(c.props[:1]) + string(c.props[2:len(c.props)-ivLen(c.props)]); !seen[key] {
				seen[key] = true
				work += derivations(c.props)
			}
		}
		if work > maxDerivations {
			return fmt.Errorf("%w: work to derive keys from the passphrase", source.ErrLimit)
		}
	}
	if a.info.Encrypted {
		return a.unlock()
	}
	return nil
}

// unlock asks for the passphrase, once.
func (a *archive) unlock() error {
	if a.asked {
		return nil
	}
	if a.ask == nil {
		return source.NoPassphrase("7z archive")
	}
	p, err := a.ask()
	if err != nil {
		return err
	}
	// The library wants a string, and remembers the keys it derives: this cannot be wiped.
	a.passphrase, a.asked = string(p), true
	return nil
}

func (a *archive) Info() source.Info { return a.info }

func (a *archive) Close() error { return nil }

// Entries implements source.Archive. Blocks are decoded once, in the order of the entries, which is theirs.
func (a *archive) Entries(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		b := &block{ctx: ctx, a: a, folder: -1}
		for i := range a.head.files {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			e := a.entry(&a.head.files[i], b)
			if e.Err == nil && e.Entry.Path.IsZero() {
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (a *archive) entry(f *file, b *block) *source.Entry {
	e := &source.Entry{Name: f.text()}
	// A name from Windows has slashes in the archive; one with a backslash comes from a Unix system, or from an attacker.
	e.Entry.Path, e.Err = source.Path(strings.TrimSuffix(e.Name, "/"), f.unix())
	if err := f.describe(e); e.Err == nil {
		e.Err = err
	}
	var open func() (io.ReadCloser, error)
	var size int64
	if f.hasStream {
		size = a.head.streams[f.stream].size
		open = b.stream(f.stream)
	}
	switch {
	case e.Err != nil:
	case e.Entry.Path.IsZero() && e.Entry.Kind != index.Dir:
		e.Err = errors.New("it is no directory, and has the name of the top")
	case e.Entry.Kind == index.File:
		e.Entry.Size, e.Open = size, open
		if open == nil {
			e.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }
		} else if err := a.head.folders[a.head.streams[f.stream].folder].bad; err != nil {
			e.Err = err
		}
	case e.Entry.Kind == index.Symlink:
		e.Err = target(&e.Entry, open, size)
	case size > 0:
		e.Err = corrupt("%q has content, and is a %v", e.Name, e.Entry.Kind)
	}
	return e
}

// target reads what a symbolic link points to, which is its content.
func target(x *index.Entry, open func() (io.ReadCloser, error), size int64) error {
	if open == nil || size == 0 || size > format.MaxTarget {
		return corrupt("the target of the symbolic link is %d bytes long", size)
	}
	r, err := open()
	if err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	x.Target = string(b)
	if strings.IndexByte(x.Target, 0) >= 0 {
		return corrupt("the target of the symbolic link has a zero byte")
	}
	return nil
}

func unsupported(err error) bool {
	return errors.Is(err, unpack.ErrUnsupported) || errors.Is(err, unpack.ErrWindow) || errors.Is(err, source.ErrLimit)
}
