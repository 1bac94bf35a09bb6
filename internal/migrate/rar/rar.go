package rar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"github.com/nwaples/rardecode/v2"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// Format is the name of the format in verdicts and reports.
const Format = "rar"

const (
	maxStub     = 1 << 20   // how long the program in front of a self-extracting archive may be
	maxWindow   = 512 << 20 // WinRAR's dictionaries are 32 MiB unless somebody asks for more
	maxExponent = 20        // of a key's derivation: 2^n hashes; WinRAR takes 15
	maxWork     = 1 << 26   // hashes for keys, if every file had its own
)

// find returns where the signature is, at the beginning or behind a program for Windows, and which it is; or -1.
func find(in source.Input) (int64, string, error) {
	b := make([]byte, min(maxStub, max(in.Size, 0)))
	n, err := in.ReadAt(b[:min(len(b), 8)], 0)
	if err != nil && err != io.EOF {
		return -1, "", err
	}
	for _, m := range []string{magic5, magic4, magic14} {
		if bytes.HasPrefix(b[:n], []byte(m)) {
			return 0, m, nil
		}
	}
	if !bytes.HasPrefix(b[:n], []byte("MZ")) {
		return -1, "", nil
	}
	if n, err = in.ReadAt(b, 0); err != nil && err != io.EOF {
		return -1, "", err
	}
	// The program that unpacks has the signatures in it too, so what follows must be the beginning of an archive.
	for at, tries := 0, 0; tries < 100; at, tries = at+1, tries+1 {
		k := bytes.Index(b[at:n], []byte(magic4[:6]))
		if k < 0 {
			break
		}
		at += k
		for _, m := range []string{magic5, magic4} {
			if bytes.HasPrefix(b[at:n], []byte(m)) && walk(in, int64(at)).begins {
				return int64(at), m, nil
			}
		}
	}
	return -1, "", nil
}

// Probe looks for the signature.
func Probe(in source.Input) source.Verdict {
	off, m, err := find(in)
	switch {
	case err != nil || off < 0:
		return source.Verdict{}
	case m == magic14:
		return source.Verdict{Format: Format, Detail: "it is of RAR before 1.5, which nothing but RAR reads"}
	case walk(in, off).volume:
		return source.Verdict{Format: Format, Detail: "it is one of several volumes; unpack them with their own program"}
	}
	return source.Verdict{Format: Format, Supported: true}
}

type archive struct {
	in         source.Input
	off        int64
	info       source.Info
	facts      *facts
	most       int64
	passphrase *string
	proven     bool // something encrypted came out right with the passphrase
	cut        bool // its end is missing
}

// Open reads all headers, asking for the passphrase when one is needed for them or for a content.
func Open(ctx context.Context, in source.Input, o source.Options) (source.Archive, error) {
	off, m, err := find(in)
	if err != nil {
		return nil, err
	}
	if off < 0 || m == magic14 {
		return nil, format.Corrupt("RAR archive", -1, "the input has no signature of RAR 1.5 or later")
	}
	a := &archive{in: in, off: off, facts: walk(in, off), most: o.MaxEntries}
	a.info = source.Info{Format: Format, Links: true, Entries: -1, Bytes: -1}
	switch {
	case a.facts.volume:
		return nil, fmt.Errorf("%w: RAR archives of several volumes", unpack.ErrUnsupported)
	case a.facts.exponent > maxExponent || a.facts.work > maxWork:
		return nil, fmt.Errorf("%w: work to derive keys from the passphrase", source.ErrLimit)
	}
	if a.facts.hidden {
		a.info.Encrypted = true
		if err := a.unlock(o); err != nil {
			return nil, err
		}
	}
	if err := a.survey(ctx); err != nil {
		return nil, err
	}
	if a.info.Encrypted && a.passphrase == nil {
		if err := a.unlock(o); err != nil {
			return nil, err
		}
	}
	a.note()
	return a, nil
}

// survey reads all headers once, as far as they can be read.
func (a *archive) survey(ctx context.Context) error {
	z, in, err := a.reader()
	if err != nil {
		return err
	}
	var n, total int64
	for {
		h, err := a.next(z)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, format.ErrCorrupt) {
			n, total = -1, -1 // what stands before the damage can be read
			break
		}
		if err != nil {
			return err
		}
		if n++; a.most > 0 && n > a.most {
			return source.TooManyEntries(a.most)
		}
		a.info.Encrypted = a.info.Encrypted || h.Encrypted
		switch {
		case h.UnKnownSize || total < 0:
			total = -1
		case h.UnPackedSize < 0 || h.UnPackedSize > format.MaxFileSize-total:
			return format.Corrupt("RAR header", -1, "the contents are longer than any archive")
		default:
			total += h.UnPackedSize
		}
	}
	if in.met {
		if a.cut = a.facts.ends || n == 0; a.cut { // no version writes an archive of nothing
			n, total = -1, -1
		} else if n >= 0 {
			a.info.Notes = append(a.info.Notes, "its end has no mark, as before RAR 3: whether something is missing cannot be told")
		}
	}
	a.info.Entries, a.info.Bytes = n, total
	return nil
}

// note says what the archive has that does not come over.
func (a *archive) note() {
	if a.off > 0 {
		a.info.Notes = append(a.info.Notes, source.Before(a.off))
	}
	if a.facts.hidden {
		a.info.Notes = append(a.info.Notes, "headers are encrypted: comments, owners, access lists and further streams, if there are any, are not seen, nor what follows the end")
	}
	if a.facts.after > 0 {
		a.info.Lost = append(a.info.Lost, fmt.Sprintf("%d bytes that follow the end of the archive", a.facts.after))
	}
	for _, name := range slices.Sorted(maps.Keys(a.facts.services)) {
		n := a.facts.services[name]
		switch name {
		case "CMT":
			a.info.Lost = append(a.info.Lost, "the archive's comment")
		case "ACL":
			a.info.Lost = append(a.info.Lost, fmt.Sprintf("access lists of Windows (%d)", n))
		case "STM":
			a.info.Lost = append(a.info.Lost, fmt.Sprintf("further streams of files of Windows (%d)", n))
		case "UOW":
			a.info.Lost = append(a.info.Lost, fmt.Sprintf("owners of files (%d)", n))
		case "RR", "QO", "AV":
			// What repairs or finds parts of this archive alone.
		default:
			a.info.Lost = append(a.info.Lost, fmt.Sprintf("parts of the unknown kind %q (%d)", name, n))
		}
	}
}

// unlock asks for the passphrase.
func (a *archive) unlock(o source.Options) error {
	if o.Passphrase == nil {
		return source.NoPassphrase("RAR archive")
	}
	p, err := o.Passphrase()
	if err != nil {
		return err
	}
	s := string(p) // the library wants it so, and it cannot be wiped
	a.passphrase = &s
	return nil
}

// ending is the archive's bytes. It notices when more is wanted than there are: the library takes that for the end of the
// archive where a block of the older layout could begin.
type ending struct {
	*io.SectionReader
	met bool
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.SectionReader.Read(p)
	e.met = e.met || n == 0 && err == io.EOF
	return n, err
}

func (a *archive) reader() (z *rardecode.Reader, in *ending, err error) {
	in = &ending{SectionReader: io.NewSectionReader(a.in, a.off, a.in.Size-a.off)}
	opts := []rardecode.Option{rardecode.MaxDictionarySize(maxWindow), rardecode.BufferSize(64 << 10)}
	if a.passphrase != nil {
		opts = append(opts, rardecode.Password(*a.passphrase))
	}
	err = unpack.Guard("RAR archive", func() (err error) {
		z, err = rardecode.NewReader(in, opts...)
		return err
	})
	return z, in, a.kind(err, a.facts.hidden)
}

// next returns the next header, or io.EOF.
func (a *archive) next(z *rardecode.Reader) (h *rardecode.FileHeader, err error) {
	err = unpack.Guard("RAR header", func() (err error) {
		h, err = z.Next()
		return err
	})
	if err == nil && a.facts.hidden {
		a.proven = true
	}
	if err == io.EOF {
		return nil, err
	}
	return h, a.kind(err, a.facts.hidden)
}

// kind makes of what the library says an error of our kinds. In what is encrypted, damage can come from a wrong
// passphrase as long as nothing has proven it right: older archives have no other way to tell.
func (a *archive) kind(err error, encrypted bool) error {
	var disk *fs.PathError
	is := func(list ...error) bool {
		return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &disk):
		return disk
	case is(rardecode.ErrArchiveEncrypted, rardecode.ErrArchivedFileEncrypted):
		return source.NoPassphrase("RAR archive")
	case is(rardecode.ErrBadPassword):
		return &format.Error{Kind: format.ErrAuth, Record: "RAR archive", Offset: -1, Detail: "it does not open with this passphrase"}
	case is(rardecode.ErrDictionaryTooLarge, rardecode.ErrPlatformIntSize):
		return fmt.Errorf("%w: %w", unpack.ErrWindow, err)
	case is(rardecode.ErrMultiVolume):
		return fmt.Errorf("%w: RAR archives of several volumes", unpack.ErrUnsupported)
	case is(rardecode.ErrUnknownDecoder, rardecode.ErrUnsupportedDecoder, rardecode.ErrMultipleDecoders,
		rardecode.ErrUnknownVersion, rardecode.ErrUnknownEncryptMethod):
		return fmt.Errorf("%w: %w", unpack.ErrUnsupported, err)
	case encrypted && !a.proven:
		return source.Undecided("RAR archive", err)
	case is(format.ErrCorrupt):
		return err
	case is(io.EOF, io.ErrUnexpectedEOF):
		return format.Corrupt("RAR archive", -1, "it ends too early")
	}
	return format.Corrupt("RAR archive", -1, "%v", err)
}

func (a *archive) Info() source.Info { return a.info }

func (a *archive) Close() error { return nil }

// Entries implements source.Archive.
func (a *archive) Entries(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		z, _, err := a.reader()
		if err != nil {
			yield(nil, err)
			return
		}
		seen := map[string]bool{}
		for number := 0; ; number++ {
			h, err := a.next(z)
			if err == io.EOF && !a.cut {
				return
			}
			if err == io.EOF {
				err = format.Corrupt("RAR archive", -1, "its end is missing: it is cut short")
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			c := a.content(z, h, number)
			e := a.entry(h, c, seen)
			if a.facts.unchecked[number] && e.Err == nil && e.Open != nil {
				e.Lost = append(e.Lost, "its only checksum is one that is not checked here: damage would not be seen")
			}
			if e.Err != nil || !e.Entry.Path.IsZero() {
				if !yield(e, nil) {
					return
				}
			}
			if e.Err == nil {
				seen[e.Entry.Path.String()] = true
			}
			// What follows in a solid archive is decoded with the help of this.
			_ = unpack.Drain(ctx, c) // damage is the entry's, and comes again where it matters
		}
	}
}

// content is what the library gives for one file, checked to be as long as its header says.
type content struct {
	a         *archive
	r         io.Reader
	left      int64 // -1 when only reading tells
	encrypted bool
	hash      *blake2sp // nil where the library checks
	want      [blakeSize]byte
	opened    bool
	err       error
}

func (a *archive) content(z *rardecode.Reader, h *rardecode.FileHeader, number int) *content {
	c := &content{a: a, r: unpack.Guarded("RAR content", readOnly{z}), left: h.UnPackedSize, encrypted: h.Encrypted}
	if h.UnKnownSize {
		c.left = -1
	}
	if want, ok := a.facts.sums[number]; ok {
		c.hash, c.want = newBlake2sp(), want
	}
	return c
}

// readOnly hides that the library's reader can also write to a writer, on which way it checks nothing.
type readOnly struct{ io.Reader }

func (c *content) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	if c.left >= 0 {
		if int64(n) > c.left {
			n, err = int(c.left), format.Corrupt("RAR content", -1, "it is longer than its header says")
		}
		c.left -= int64(n)
		if err == io.EOF && c.left > 0 {
			err = format.Corrupt("RAR content", -1, "it is shorter than its header says")
		}
	}
	if c.hash != nil {
		if c.hash.write(p[:n]); err == io.EOF && c.hash.sum() != c.want {
			err = format.Corrupt("RAR content", -1, "its BLAKE2sp sum is another one")
		}
	}
	if err == io.EOF {
		c.err = io.EOF
		c.a.proven = c.a.proven || c.encrypted
	} else {
		c.err = c.a.kind(err, c.encrypted)
	}
	return n, c.err
}

func (c *content) Close() error { return nil }

func (c *content) open() (io.ReadCloser, error) {
	if c.opened {
		return nil, errors.New("the content was already read")
	}
	c.opened = true
	return c, nil
}
