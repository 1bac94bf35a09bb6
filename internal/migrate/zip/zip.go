package zip

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
)

// Probe says whether an input is a ZIP archive: by its beginning, or by an end record that leads to a directory, wherever
// both stand in what was put around them.
func Probe(in source.Input) source.Verdict {
	var head [4]byte
	n, _ := in.ReadAt(head[:], 0) // what cannot be read is no ZIP archive
	sig := le.Uint32(head[:])
	begins := n == 4 && (sig == sigLocal || sig == sigEnd || sig == sigEnd64 || sig == sigSpanned)
	e, err := findEnd(in)
	switch {
	case begins && (err == errParts || err == errHidden):
		return source.Verdict{Format: "zip", Detail: err.Error()}
	case e != nil && e.count > 0, begins:
		return source.Verdict{Format: "zip", Supported: true}
	}
	return source.Verdict{}
}

type archive struct {
	in         source.Input
	info       source.Info
	end        *end
	spans      []span            // of the entries, in the directory's order
	names      encoding.Encoding // of names that do not say theirs; nil: ZIP's own
	passphrase []byte
}

// Open reads an archive's directory.
func Open(ctx context.Context, in source.Input, o source.Options) (source.Archive, error) {
	a := &archive{in: in, info: source.Info{Format: "zip", Random: true}}
	if o.Encoding != "" {
		enc, err := ianaindex.IANA.Encoding(o.Encoding)
		if err != nil || enc == nil {
			return nil, fmt.Errorf("the encoding %q is not known", o.Encoding)
		}
		a.names = enc
	}
	e, err := findEnd(in)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, corrupt(in.Size, "its end is missing: it is cut short, or only a part of an archive")
	}
	if e.after > 0 {
		a.info.Lost = append(a.info.Lost, fmt.Sprintf("%d bytes that follow the end of the archive", e.after))
	}
	if e.comment != "" {
		a.info.Notes = append(a.info.Notes, source.Said("comment", e.comment))
	}
	switch {
	case e.base > 0 && startsEntry(in):
		a.info.Lost = append(a.info.Lost, fmt.Sprintf("another ZIP archive of %d bytes, which stands before this one", e.base))
	case e.base > 0:
		a.info.Notes = append(a.info.Notes, source.Before(e.base))
	}
	a.end = e
	locked, tidied := false, false
	a.spans, err = readDirectory(in, e, o.MaxEntries, func(h *header) {
		if h.bad == nil {
			a.info.Bytes += min(h.size, math.MaxInt64-a.info.Bytes)
		}
		a.info.Encrypted = a.info.Encrypted || h.flags&flagEncrypted != 0
		locked = locked || h.flags&(flagEncrypted|flagStrong|flagMasked) == flagEncrypted
		if name, err := a.name(h); err == nil {
			tidied = tidied || a.slashed(h, name) != name
		}
	})
	if err != nil {
		return nil, err
	}
	if tidied {
		a.info.Notes = append(a.info.Notes, "names have backslashes, which are read as the slashes that they are where the archive was made")
	}
	a.info.Entries = int64(len(a.spans))
	if locked {
		if err := a.unlock(ctx, o); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// startsEntry reports whether an entry stands at the very beginning.
func startsEntry(in source.Input) bool {
	var b [4]byte
	n, _ := in.ReadAt(b[:], 0) // what cannot be read is no entry
	return n == 4 && le.Uint32(b[:]) == sigLocal
}

// unlock gets the passphrase and tries it on the first entry that needs it.
func (a *archive) unlock(ctx context.Context, o source.Options) (err error) {
	if o.Passphrase == nil {
		return source.NoPassphrase("ZIP archive")
	}
	if a.passphrase, err = o.Passphrase(); err != nil {
		return err
	}
	var wrong error
	err = a.headers(func(h *header) bool {
		if h.flags&flagEncrypted == 0 || h.takes() != nil {
			return true
		}
		l, err := readLocal(a.in, h)
		if err != nil {
			return true // the entry will say so
		}
		if _, _, err := a.decrypted(h, l, io.NewSectionReader(a.in, l.data, h.packed)); errors.Is(err, format.ErrAuth) {
			wrong = err
		}
		return false
	})
	return cmp.Or(wrong, err, ctx.Err())
}

func (a *archive) Info() source.Info { return a.info }

func (a *archive) Close() error { return nil }

// takes is nil, or why an entry cannot be taken, as far as the directory tells.
func (h *header) takes() error {
	switch {
	case h.bad != nil:
		return h.bad
	case h.shared:
		return corrupt(h.off, "it shares bytes with another entry, as no program writes it and bombs do")
	case h.flags&(flagStrong|flagMasked) != 0:
		return errors.New("it is encrypted by PKWARE's own scheme, which is not read")
	case h.flags&flagPatch != 0:
		return errors.New("it is a patch to another file")
	case h.size > format.MaxFileSize:
		return corrupt(h.off, "its length is out of range")
	}
	method := h.method
	if method == methodAES {
		f, err := parseAES(h.extra)
		if err != nil {
			return err
		}
		method = f.method
	}
	switch method {
	case 0, 8, 9, 12, 14, 20, 93, 95:
		return nil
	}
	return errUnknownMethod(method)
}

// Entries implements source.Archive.
func (a *archive) Entries(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		var stopped error
		err := a.headers(func(h *header) bool {
			if stopped = ctx.Err(); stopped != nil {
				return false
			}
			e, err := a.entry(h)
			if err != nil {
				e.Err = err
			}
			// An entry without a path and without an error is the top itself.
			return e.Err == nil && e.Entry.Path.IsZero() || yield(e, nil)
		})
		if err = cmp.Or(err, stopped); err != nil {
			yield(nil, err)
		}
	}
}

func (a *archive) entry(h *header) (*source.Entry, error) {
	e := &source.Entry{Name: h.raw}
	name, err := a.name(h)
	if err != nil {
		return e, fmt.Errorf("its name cannot be decoded: %w", err)
	}
	e.Name, name = name, a.slashed(h, name)
	if e.Entry.Path, err = source.Path(name, unixHost(h.madeBy)); err != nil {
		return e, err
	}
	if err := h.takes(); err != nil {
		return e, err
	}
	l, err := readLocal(a.in, h)
	if err != nil {
		return e, err
	}
	e.Lost = describe(h, l, strings.HasSuffix(name, "/"), &e.Entry)
	if e.Entry.Path.IsZero() && e.Entry.Kind != index.Dir {
		return e, errors.New("it is no directory, and has the name of the top")
	}
	open := func() (io.ReadCloser, error) { return a.open(h, l) }
	switch e.Entry.Kind {
	case index.File:
		e.Entry.Size = h.size
		e.Open = open
	case index.Symlink:
		b, err := readAll(open, format.MaxTarget)
		if err != nil {
			return e, err
		}
		return e, target(&e.Entry, b)
	case index.Dir:
		if h.size > 0 {
			return e, corrupt(h.off, "it is a directory with content")
		}
	case index.FIFO:
	default:
		return e, fmt.Errorf("it is a special file (%v), of which ZIP says too little", e.Entry.Kind)
	}
	return e, nil
}

// readAll reads a short content to its end.
func readAll(open func() (io.ReadCloser, error), most int64) ([]byte, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(r, most+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > most {
		return nil, corrupt(-1, "the target of the symbolic link is longer than %d bytes", most)
	}
	return b.Bytes(), nil
}

// damaged makes what a decoder says damage, but for what the file system says.
func damaged(h *header, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) || errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrAuth) || errors.Is(err, format.ErrVersion) {
		return err
	}
	return corrupt(h.off, "its compressed data: %v", err)
}
