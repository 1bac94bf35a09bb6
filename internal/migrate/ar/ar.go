package ar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// Format is the name of the format in verdicts and reports.
const Format = "ar"

const (
	magic     = "!<arch>\n"
	magicThin = "!<thin>\n"

	// A header: name (16), time (12), owner (6), group (6), mode in octal (8), length (10), and two bytes.
	headSize = 60
	headEnd  = "`\n"

	maxNames = 64 << 20 // GNU's table of long names
	maxName  = 64 << 10 // a long name of BSD
)

func corrupt(off int64, detail string, args ...any) error {
	return format.Corrupt("ar header", off, detail, args...)
}

// Probe looks at the first bytes.
func Probe(in source.Input) source.Verdict {
	var b [8]byte
	if n, err := in.ReadAt(b[:], 0); n < len(b) || err != nil && err != io.EOF {
		return source.Verdict{}
	}
	switch string(b[:]) {
	case magic:
		return source.Verdict{Format: Format, Supported: true}
	case magicThin:
		return source.Verdict{Format: Format, Detail: "it is a thin archive: it holds names of other files, and none of their bytes"}
	}
	return source.Verdict{}
}

type archive struct {
	in    source.Input
	info  source.Info
	names []byte // GNU's table of long names
}

// member is a header, and where its content is.
type member struct {
	name       string
	data, size int64
	next       int64
	mtime      int64
	uid, gid   uint64
	mode       uint64
	hasMtime   bool
	hasOwner   bool
	hasMode    bool
}

// Open reads all headers once, as far as they can be read.
func Open(ctx context.Context, in source.Input, o source.Options) (source.Archive, error) {
	switch v := Probe(in); {
	case v.Detail != "":
		return nil, fmt.Errorf("%w: thin ar archives", unpack.ErrUnsupported)
	case !v.Supported:
		return nil, corrupt(0, "the input is no ar archive")
	}
	a := &archive{in: in, info: source.Info{Format: Format, Random: true}}
	symbols := false
	for off := int64(len(magic)); off < in.Size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := a.header(off)
		if errors.Is(err, format.ErrCorrupt) {
			a.info.Entries, a.info.Bytes = -1, -1 // what stands before the damage can be read
			break
		}
		if err != nil {
			return nil, err
		}
		off = m.next
		switch {
		case m.name == "//":
			if a.names != nil || m.size > maxNames {
				return nil, corrupt(m.data-headSize, "a second or an oversized table of long names")
			}
			a.names = make([]byte, m.size) // it stands within the input
			if _, err := in.ReadAt(a.names, m.data); err != nil && err != io.EOF {
				return nil, err
			}
		case m.symbols():
			symbols = true
		default:
			a.info.Entries++
			a.info.Bytes += m.size
			if o.MaxEntries > 0 && a.info.Entries > o.MaxEntries {
				return nil, source.TooManyEntries(o.MaxEntries)
			}
		}
	}
	if symbols {
		a.info.Notes = append(a.info.Notes, "the index of symbols is left out; ranlib makes it anew")
	}
	return a, nil
}

func (m *member) symbols() bool {
	return m.name == "/" || m.name == "/SYM64/" || strings.HasPrefix(m.name, "__.SYMDEF")
}

// field reads a number that is padded with spaces; has is false when there are only those.
func field(b []byte, base, bits int) (v uint64, has bool, err error) {
	s := strings.TrimSpace(string(b))
	if s == "" {
		return 0, false, nil
	}
	v, err = strconv.ParseUint(s, base, bits)
	return v, true, err
}

// header reads the header at off. Its name is as it stands there, but for the long ones of BSD.
func (a *archive) header(off int64) (*member, error) {
	var h [headSize]byte
	if n, err := a.in.ReadAt(h[:], off); n < headSize {
		if err != io.EOF {
			return nil, err
		}
		return nil, corrupt(off, "cut short")
	}
	if string(h[58:]) != headEnd {
		return nil, corrupt(off, "its end mark is missing")
	}
	m := &member{data: off + headSize, name: strings.TrimRight(string(h[:16]), " ")}
	mtime, hasMtime, err1 := field(h[16:28], 10, 62)
	uid, hasUID, err2 := field(h[28:34], 10, 32)
	gid, hasGID, err3 := field(h[34:40], 10, 32)
	mode, hasMode, err4 := field(h[40:48], 8, 32)
	size, hasSize, err5 := field(h[48:58], 10, 62)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil || !hasSize {
		return nil, corrupt(off, "a field is no number")
	}
	m.mtime, m.hasMtime, m.mode, m.hasMode = int64(mtime), hasMtime, mode, hasMode
	m.uid, m.gid, m.hasOwner = uid, gid, hasUID && hasGID
	m.size = int64(size)
	if m.size > a.in.Size-m.data {
		return nil, corrupt(off, "its content reaches behind the end of the file")
	}
	m.next = m.data + m.size + m.size&1
	if n, ok := strings.CutPrefix(m.name, "#1/"); ok {
		k, err := strconv.ParseUint(n, 10, 31)
		if err != nil || int64(k) > m.size || k > maxName {
			return nil, corrupt(off, "the length of its name is out of range")
		}
		b := make([]byte, k)
		if _, err := a.in.ReadAt(b, m.data); err != nil && err != io.EOF {
			return nil, err
		}
		m.name = string(bytes.TrimRight(b, "\x00"))
		m.data += int64(k)
		m.size -= int64(k)
	}
	return m, nil
}

// long resolves a name of GNU: "/N" stands at N in the table, up to a slash; others end in a slash.
func (a *archive) long(name string) (string, error) {
	rest, ok := strings.CutPrefix(name, "/")
	if !ok {
		return strings.TrimSuffix(name, "/"), nil
	}
	at, err := strconv.ParseUint(rest, 10, 31)
	if err != nil || at >= uint64(len(a.names)) {
		return name, corrupt(-1, "the name %q is not in the table of long names", name)
	}
	b := a.names[at:]
	if end := bytes.IndexByte(b, '\n'); end >= 0 {
		b = b[:end]
	}
	return strings.TrimSuffix(string(b), "/"), nil
}

func (a *archive) Info() source.Info { return a.info }

func (a *archive) Close() error { return nil }

// Entries implements source.Archive.
func (a *archive) Entries(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		for off := int64(len(magic)); off < a.in.Size; {
			m, err := a.header(off)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			off = m.next
			if m.name == "//" || m.symbols() {
				continue
			}
			if !yield(a.entry(m), nil) {
				return
			}
		}
	}
}

func (a *archive) entry(m *member) *source.Entry {
	e := &source.Entry{}
	x := &e.Entry
	var bad error
	e.Name, bad = a.long(m.name)
	if x.Path, e.Err = source.Path(e.Name, true); bad != nil {
		e.Err = bad
	}
	x.Kind, x.Mode, x.Size = index.File, 0o644, m.size
	if m.hasMode {
		x.Mode = uint32(m.mode & 0o7777)
	}
	if m.hasMtime {
		x.HasMtime, x.MtimeSec = true, m.mtime
	}
	if m.hasOwner {
		x.HasOwner, x.UID, x.GID = true, m.uid, m.gid
	}
	switch {
	case e.Err != nil:
	case x.Path.IsZero():
		e.Err = errors.New("it has the name of the top")
	case source.UnixKind(m.mode, index.File) != index.File:
		e.Err = fmt.Errorf("it is not a file (mode %o), and ar holds only those", m.mode)
	}
	e.Open = func() (io.ReadCloser, error) {
		return &content{io.NewSectionReader(a.in, m.data, m.size), m.size}, nil
	}
	return e
}

// content notices when the input has become shorter.
type content struct {
	r    io.Reader
	left int64
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); err == io.EOF && c.left > 0 {
		err = format.Corrupt("ar content", -1, "cut short")
	}
	return n, err
}

func (c *content) Close() error { return nil }
