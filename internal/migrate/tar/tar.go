package tar

import (
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

// suffixes are what names of compressed archives end in.
var suffixes = map[string]string{"": "tar", "gzip": "tar.gz", "bzip2": "tar.bz2", "xz": "tar.xz", "zstd": "tar.zst", "lz4": "tar.lz4", "lzip": "tar.lz", "lzma": "tar.lzma", "compress": "tar.Z"}

// Probe says whether an input is a tar archive, compressed or not.
func Probe(in source.Input) source.Verdict {
	kind, ok := probe(in)
	if !ok {
		return source.Verdict{}
	}
	return source.Verdict{Format: suffixes[kind], Supported: true}
}

// probe finds the compression of a tar archive.
func probe(in source.Input) (kind string, ok bool) {
	head := make([]byte, blockSize)
	n, _ := in.ReadAt(head, 0) // what cannot be read is no tar archive
	if isHeader(head[:n]) {
		return "", true
	}
	if kind = unpack.Probe(head[:n]); suffixes[kind] == "" || kind == "" {
		return "", false
	}
	t, err := open(in, kind, source.Options{})
	if err != nil {
		return "", false
	}
	defer t.close()
	b, err := t.block()
	if err == nil && isZero(b) {
		return kind, t.nothing()
	}
	return kind, err == nil && isHeader(b)
}

type archive struct {
	in   source.Input
	o    source.Options
	kind string
	info source.Info
	seen map[string]bool // notes that were made
}

// Open opens a tar archive.
func Open(_ context.Context, in source.Input, o source.Options) (source.Archive, error) {
	kind, ok := probe(in)
	if !ok {
		return nil, corrupt(0, "no header stands at its beginning")
	}
	return &archive{in: in, o: o, kind: kind, seen: make(map[string]bool), info: source.Info{
		Format: suffixes[kind], Random: kind == "", Repeats: true, Links: true, Entries: -1, Bytes: -1,
	}}, nil
}

func (a *archive) Info() source.Info { return a.info }

func (a *archive) Close() error { return nil }

// maxNotes bounds what is said of the whole archive.
const maxNotes = 100

// note says something of the whole archive, once however often it is read.
func (a *archive) note(list *[]string, text string) {
	if !a.seen[text] && len(a.seen) < maxNotes {
		a.seen[text] = true
		*list = append(*list, text)
	}
}

// Entries implements source.Archive.
func (a *archive) Entries(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		t, err := open(a.in, a.kind, a.o)
		if err != nil {
			yield(nil, err)
			return
		}
		defer t.close()
		if err := a.read(ctx, t, yield); err != nil {
			yield(nil, err)
		}
	}
}

// read reads archives, one behind the other, to the end of the input. It returns nil also when yield wants no more.
func (a *archive) read(ctx context.Context, t *stream, yield func(*source.Entry, error) bool) error {
	global := map[string]string{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, next, err := a.next(t, global)
		switch {
		case errors.Is(err, errEnd):
			more, err := a.after(t)
			if err != nil || !more {
				return err
			}
			clear(global)
			continue
		case err != nil:
			return err
		}
		if e != nil && (e.Err != nil || !e.Entry.Path.IsZero()) && !yield(e, nil) {
			return nil
		}
		if err := t.skipTo(next); err != nil {
			return err
		}
	}
}

// errEnd is the end of an archive.
var errEnd = errors.New("end of archive")

const trailing = "bytes that follow the end of the archive"

// after looks at what follows the end: more says that it is another archive.
func (a *archive) after(t *stream) (more bool, err error) {
	for {
		b, err := t.block()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil && t.part > 0:
			if !isZero(t.buf[:t.part]) {
				a.note(&a.info.Lost, trailing)
			}
			return false, nil
		case err != nil:
			return false, err
		case isZero(b):
			continue
		case isHeader(b):
			a.note(&a.info.Notes, "further archives follow the first; their entries are taken, too (tar reads them with --ignore-zeros)")
			t.unread()
			return true, nil
		}
		a.note(&a.info.Lost, trailing)
		if t.ra != nil {
			return false, nil
		}
		_, err = io.Copy(io.Discard, t.r) // its check sums
		return false, err
	}
}

// next reads the headers of one entry. after is where what follows it begins. No entry and no error: only something that
// was said of the archive.
func (a *archive) next(t *stream, global map[string]string) (e *source.Entry, after int64, err error) {
	x := extended{most: maxRecords}
	for {
		at := t.at
		b, err := t.block()
		if errors.Is(err, io.EOF) {
			return nil, 0, corrupt(at, "the archive's end is missing: it is cut short")
		}
		if err != nil {
			return nil, 0, err
		}
		if isZero(b) {
			if x.records != nil || x.name != "" || x.link != "" || x.acl {
				return nil, 0, corrupt(at, "the archive ends behind an extended header")
			}
			return nil, 0, errEnd
		}
		h, err := parse(b, at)
		if err != nil {
			return nil, 0, err
		}
		h.sparse = []byte(string(h.sparse)) // the block is used again
		switch h.kind {
		case typePax, typeSunPax, typeSunACL, typeGlobal, typeLongName, typeLongLink:
			if x.size += h.size; x.size > maxExtended || h.kind == typeGlobal && h.size > maxForAllSize {
				return nil, 0, corrupt(at, "an extended header of %d bytes is longer than any program writes", h.size)
			}
			s, err := t.bytes(h.size)
			if err != nil {
				return nil, 0, err
			}
			switch h.kind {
			case typeLongName:
				x.name = strings.TrimRight(s, "\x00")
			case typeLongLink:
				x.link = strings.TrimRight(s, "\x00")
			case typeSunACL:
				x.acl = true
			case typeGlobal:
				g := extended{records: global, most: maxForAll}
				if err := g.parsePax(s, at); err != nil {
					return nil, 0, err
				}
				if c := global["comment"]; c != "" {
					a.note(&a.info.Notes, source.Said("comment", c))
				}
				if l := global["SCHILY.volhdr.label"]; l != "" {
					a.note(&a.info.Notes, source.Said("label", l))
				}
			default:
				if err := x.parsePax(s, at); err != nil {
					return nil, 0, err
				}
			}
			continue
		case typeVolume: // GNU's label, and no file
			if x.name != "" {
				h.name = x.name
			}
			a.note(&a.info.Notes, source.Said("label", h.name))
			return nil, t.at + format.AlignUp(h.size, blockSize), nil
		}
		return a.entry(t, &h, &x, x.over(global), at)
	}
}

// entry makes an entry of its headers.
func (a *archive) entry(t *stream, h *header, x *extended, records map[string]string, at int64) (*source.Entry, int64, error) {
	e := &source.Entry{}
	if x.name != "" {
		h.name = x.name
	}
	if x.link != "" {
		h.link = x.link
	}
	var bad error
	e.Lost, bad = apply(records, h, &e.Entry, at)
	if x.acl {
		e.Lost = append(e.Lost, "its access control list")
	}
	if x.records["comment"] != "" {
		e.Lost = append(e.Lost, "its comment")
	}
	if n := records["GNU.sparse.name"]; n != "" {
		h.name = n
	}
	e.Name = h.name
	if headerOnly(h.kind) {
		h.size = 0
	}
	data := t.at
	if h.oldDir() && h.size > 0 {
		// The first programs wrote no data behind a directory, whatever its size says. Taken at its word it would swallow
		// the next entry; where something else follows it has data, which a directory cannot keep.
		if t.atHeader() {
			h.size = 0
		} else {
			e.Lost = append(e.Lost, fmt.Sprintf("%d bytes of data, for it is a directory", h.size))
		}
	}
	// Where the next header stands is known now, whatever is wrong with this entry.
	var list []piece
	real, used, sparse := int64(0), int64(0), false
	if h.kind == typeSparse && h.gnu {
		if _, ok := records["GNU.sparse.major"]; !ok {
			sparse, real = true, h.real
			var err error
			if list, err = oldPieces(t, h); err != nil {
				return nil, 0, noEOF(err, t.at)
			}
			data = t.at
		}
	}
	after := data + format.AlignUp(h.size, blockSize)
	if bad == nil && !sparse {
		list, real, used, sparse, bad = paxPieces(t, records, x.pieces, h.size)
	}
	if bad == nil && used > h.size {
		bad = corrupt(at, "the map of a sparse file is longer than its data")
	}
	if bad == nil {
		bad = describe(e, h)
	}
	if bad == nil && e.Entry.Kind == index.File && e.LinkTo.IsZero() {
		e.Entry.Size = h.size
		a.content(e, t, data+used, h.size-used)
		if sparse {
			bad = holes(e, list, real, h.size-used, at)
		}
	}
	if bad == nil && t.ra != nil && data+h.size > t.size {
		bad = corrupt(t.size, "the archive is cut short inside it")
	}
	e.Err = bad
	return e, after, nil
}

// content gives a file n bytes at a position.
func (a *archive) content(e *source.Entry, t *stream, at, n int64) {
	if t.ra != nil {
		in := a.in
		e.Open = func() (io.ReadCloser, error) {
			return io.NopCloser(&exact{r: io.NewSectionReader(in, at, n), left: n, at: at}), nil
		}
		return
	}
	b := &body{t: t, n: n}
	e.Open = func() (io.ReadCloser, error) {
		if t.at != at || b.closed {
			return nil, errors.New("the archive was read on")
		}
		return b, nil
	}
}

// holes makes a file sparse.
func holes(e *source.Entry, list []piece, real, stored, at int64) error {
	all, err := runs(list, real, stored, at)
	if err != nil {
		return err
	}
	e.Entry.Size, e.Entry.Sparse = real, index.FitSparse(all, index.MaxSparse)
	open, kept := e.Open, e.Entry.Sparse
	e.Open = func() (io.ReadCloser, error) {
		r, err := open()
		if err != nil {
			return nil, err
		}
		return fill(r, all, kept), nil
	}
	return nil
}

// exact makes the end of the file inside a content damage.
type exact struct {
	r        io.Reader
	left, at int64
}

func (x *exact) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	x.left -= int64(n)
	if x.left > 0 {
		err = noEOF(err, x.at)
	}
	return n, err
}
