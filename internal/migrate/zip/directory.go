package zip

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
)

// Signatures of the records, and their lengths without what varies.
const (
	sigLocal    = 0x04034b50
	sigCentral  = 0x02014b50
	sigEnd      = 0x06054b50
	sigEnd64    = 0x06064b50
	sigLocate64 = 0x07064b50
	sigSpanned  = 0x08074b50

	lenLocal    = 30
	lenCentral  = 46
	lenEnd      = 22
	lenEnd64    = 56
	lenLocate64 = 20

	needsHidden = 62 // the version of the Zip64 end record that says, behind its fields, how the directory is encrypted
)

var le = binary.LittleEndian

// end is where the directory stands. Offsets in the archive count from base: what stands before is the program of an
// archive that unpacks itself.
type end struct {
	base, off, size int64 // of the directory; off is a position in the file
	count           uint64
	comment         string
	after           int64 // bytes that follow the end record
}

func corrupt(off int64, detail string, args ...any) error {
	return format.Corrupt("ZIP archive", off, detail, args...)
}

// What is known about archives that cannot be read, though nothing need be wrong with them.
var (
	errParts  = errors.New("it is one of several parts of an archive: join them with the program that made them first")
	errHidden = errors.New("its directory is encrypted by PKWARE's own scheme, which is not read")
)

// findEnd looks for the end record. nil without an error when there is none.
func findEnd(in source.Input) (*end, error) {
	n := min(in.Size, lenEnd+math.MaxUint16)
	tail := make([]byte, n)
	if _, err := in.ReadAt(tail, in.Size-n); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var last error
	for i := len(tail) - lenEnd; i >= 0; i-- {
		if le.Uint32(tail[i:]) != sigEnd {
			continue
		}
		comment := int(le.Uint16(tail[i+20:]))
		if comment > len(tail)-i-lenEnd {
			continue
		}
		e, err := readEnd(in, tail[i:i+lenEnd], in.Size-n+int64(i))
		if err != nil {
			last = err // perhaps only bytes that look like one
			continue
		}
		e.comment = string(tail[i+lenEnd:][:comment])
		e.after = int64(len(tail) - i - lenEnd - comment)
		return e, nil
	}
	return nil, last
}

// readEnd makes sense of an end record at a position in the file.
func readEnd(in source.Input, b []byte, at int64) (*end, error) {
	disk, first := le.Uint16(b[4:]), le.Uint16(b[6:])
	e := &end{count: uint64(le.Uint16(b[10:])), size: int64(le.Uint32(b[12:]))}
	off, limit := int64(le.Uint32(b[16:])), at
	here := uint64(le.Uint16(b[8:]))
	// Some programs write the record of Zip64 only where the old one has no room, others also because an entry is large, or
	// might have become so. It stands between the directory and its end in any case.
	found, pos, err := readEnd64(in, at)
	needed := disk == math.MaxUint16 || first == math.MaxUint16 || here == math.MaxUint16 || e.count == math.MaxUint16 || e.size == math.MaxUint32 || off == math.MaxUint32
	if err != nil && needed {
		return nil, err
	}
	if found != nil {
		if le.Uint16(found[14:]) >= needsHidden && le.Uint64(found[4:]) > lenEnd64-12 {
			return nil, errHidden
		}
		if le.Uint32(found[16:]) != 0 || le.Uint32(found[20:]) != 0 {
			return nil, errParts
		}
		count, here64, size, o := le.Uint64(found[32:]), le.Uint64(found[24:]), le.Uint64(found[40:]), le.Uint64(found[48:])
		if size > uint64(in.Size) || o > uint64(in.Size) {
			return nil, corrupt(pos, "the directory does not lie in the file")
		}
		if (e.count != math.MaxUint16 && e.count != count) || (e.size != math.MaxUint32 && uint64(e.size) != size) || (off != math.MaxUint32 && uint64(off) != o) {
			return nil, corrupt(pos, "the end record and that of Zip64 have different directories")
		}
		e.count, here, e.size, off, limit = count, here64, int64(size), int64(o), pos
		if disk == math.MaxUint16 {
			disk = 0
		}
		if first == math.MaxUint16 {
			first = 0
		}
	}
	if disk != 0 || first != 0 || here != e.count {
		return nil, errParts
	}
	if e.size > limit {
		return nil, corrupt(at, "the directory does not lie in the file")
	}
	// The directory stands right before its end; where that is not where it says, the difference stands before all.
	e.off = limit - e.size
	e.base = e.off - off
	if e.base < 0 {
		return nil, corrupt(at, "the directory does not stand where the archive says")
	}
	if e.count > uint64(e.size)/lenCentral {
		return nil, corrupt(at, "%d entries do not fit into a directory of %d bytes", e.count, e.size)
	}
	if e.count > 0 {
		var sig [4]byte
		if _, err := in.ReadAt(sig[:], e.off); err != nil {
			return nil, err
		}
		if le.Uint32(sig[:]) != sigCentral {
			return nil, corrupt(e.off, "no directory stands there; perhaps it is encrypted")
		}
	}
	return e, nil
}

// readEnd64 reads the end record of Zip64 that belongs to an end record at that position; nil when there is none.
func readEnd64(in source.Input, at int64) (b []byte, pos int64, err error) {
	var loc [lenLocate64]byte
	if at < lenLocate64+lenEnd64 {
		return nil, 0, nil
	}
	if _, err := in.ReadAt(loc[:], at-lenLocate64); err != nil {
		return nil, 0, err
	}
	if le.Uint32(loc[:]) != sigLocate64 {
		return nil, 0, nil
	}
	if le.Uint32(loc[4:]) != 0 || le.Uint32(loc[16:]) > 1 {
		return nil, 0, errParts
	}
	b = make([]byte, lenEnd64)
	// Where it says, or right before its locator when something stands before the archive.
	for _, pos := range []uint64{le.Uint64(loc[8:]), uint64(at - lenLocate64 - lenEnd64)} {
		if pos > uint64(at-lenLocate64-lenEnd64) {
			continue
		}
		if _, err := in.ReadAt(b, int64(pos)); err != nil {
			return nil, 0, err
		}
		// Its own length counts from after that field and may take in data of a private kind.
		if le.Uint32(b) == sigEnd64 && pos+12+le.Uint64(b[4:]) == uint64(at-lenLocate64) {
			return b, int64(pos), nil
		}
	}
	return nil, 0, corrupt(at-lenLocate64, "the Zip64 end record is missing")
}

// header is an entry as the directory has it.
type header struct {
	raw     string // the name's bytes
	extra   string
	comment string
	madeBy  uint8 // the system
	flags   uint16
	method  uint16
	dosTime uint16
	dosDate uint16
	crc     uint32
	packed  int64
	size    int64
	attrs   uint32
	off     int64 // of the local header, in the file
	limit   int64 // where the next entry, or the directory, begins
	shared  bool  // another entry begins at the same place or inside this one
	bad     error // why it cannot be taken
}

// Bits of flags.
const (
	flagEncrypted  = 1 << 0
	flagEOS        = 1 << 1 // LZMA: an end marker follows
	flagDescriptor = 1 << 3
	flagPatch      = 1 << 5
	flagStrong     = 1 << 6
	flagUTF8       = 1 << 11
	flagMasked     = 1 << 13
)

// span is where an entry lies: all that is kept of it in memory, for there may be millions.
type span struct {
	off, reach, limit int64 // its beginning; how far it reaches at least; what begins behind it
	bad, shared       bool
}

// readDirectory reads all headers, and hands each out before it is known what it shares.
func readDirectory(in source.Input, e *end, most int64, see func(*header)) ([]span, error) {
	if most > 0 && e.count > uint64(most) {
		return nil, source.TooManyEntries(most)
	}
	r := newReader(in, e)
	list := make([]span, 0, min(e.count, 1<<16))
	for range e.count {
		h, err := r.header(e)
		if err != nil {
			return nil, err
		}
		see(h)
		list = append(list, span{off: h.off, reach: h.off + lenLocal + int64(len(h.raw)) + h.packed, bad: h.bad != nil})
	}
	if r.left() {
		return nil, corrupt(r.off, "the directory goes on after its last entry")
	}
	findShared(list, e.off)
	return list, nil
}

// headers reads the directory again. see says whether it wants more.
func (a *archive) headers(see func(*header) bool) error {
	r := newReader(a.in, a.end)
	for i := range a.spans {
		h, err := r.header(a.end)
		if err != nil {
			return err
		}
		s := &a.spans[i]
		if h.off != s.off || (h.bad != nil) != s.bad {
			return corrupt(r.off, "the directory changed while it was read")
		}
		h.limit, h.shared = s.limit, s.shared
		if !see(h) {
			return nil
		}
	}
	return nil
}

// header reads the next one.
func (r *reader) header(e *end) (*header, error) {
	at := r.off
	b, err := r.next(lenCentral)
	if err != nil {
		return nil, err
	}
	if le.Uint32(b) != sigCentral {
		return nil, corrupt(at, "an entry of the directory is missing")
	}
	h := &header{
		madeBy: b[5], flags: le.Uint16(b[8:]), method: le.Uint16(b[10:]), dosTime: le.Uint16(b[12:]), dosDate: le.Uint16(b[14:]),
		crc: le.Uint32(b[16:]), packed: int64(le.Uint32(b[20:])), size: int64(le.Uint32(b[24:])), attrs: le.Uint32(b[38:]),
	}
	n, x, c, disk, off := int(le.Uint16(b[28:])), int(le.Uint16(b[30:])), int(le.Uint16(b[32:])), le.Uint16(b[34:]), int64(le.Uint32(b[42:]))
	if b, err = r.next(n + x + c); err != nil {
		return nil, err
	}
	text := string(b)
	h.raw, h.extra, h.comment = text[:n], text[n:n+x], text[n+x:]
	if err := h.zip64(&off, &disk); err != nil {
		h.bad = err
	}
	switch {
	case h.bad != nil:
	case disk != 0:
		h.bad = errParts
	case off > e.off-e.base-lenLocal || h.packed > e.off:
		h.bad = corrupt(at, "its data do not lie in the file")
	}
	h.off = off + e.base
	return h, nil
}

// zip64 takes from the Zip64 field what has no room in the header.
func (h *header) zip64(off *int64, disk *uint16) error {
	f, ok := field(h.extra, 0x0001)
	take := func(v *int64) error {
		if len(f) < 8 || le.Uint64([]byte(f[:8])) > 1<<62 {
			return corrupt(-1, "its Zip64 field is too short or too large")
		}
		*v, f = int64(le.Uint64([]byte(f[:8]))), f[8:]
		return nil
	}
	for _, v := range []*int64{&h.size, &h.packed, off} {
		if *v == math.MaxUint32 && ok {
			if err := take(v); err != nil {
				return err
			}
		}
	}
	if *disk == math.MaxUint16 && len(f) >= 4 {
		*disk = uint16(min(le.Uint32([]byte(f[:4])), math.MaxUint16))
	}
	return nil
}

// findShared finds for each entry where the next begins, and the entries that share bytes: a bomb is made that way,
// and two programs would not agree on what such an archive holds.
func findShared(list []span, end int64) {
	order := make([]int32, 0, len(list))
	for i := range list {
		if !list[i].bad {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(list[a].off, list[b].off) })
	var reach int64 // how far the entries before reach at least
	from := int32(-1)
	for k, i := range order {
		s := &list[i]
		s.limit = end
		if k+1 < len(order) {
			s.limit = list[order[k+1]].off
		}
		if from >= 0 && s.off < reach {
			s.shared, list[from].shared = true, true
		}
		if s.reach > reach {
			reach, from = s.reach, i
		}
		if s.limit == s.off {
			s.shared = true
		}
	}
}

// field finds a field among extra ones.
func field(extra string, id uint16) (string, bool) {
	for len(extra) >= 4 {
		k, n := le.Uint16([]byte(extra[:2])), int(le.Uint16([]byte(extra[2:4])))
		if n > len(extra)-4 {
			return "", false
		}
		if k == id {
			return extra[4 : 4+n], true
		}
		extra = extra[4+n:]
	}
	return "", false
}

// reader reads records one after the other through one buffer.
type reader struct {
	r   io.Reader
	buf bytes.Buffer
	off int64
	b   []byte
}

func newReader(in source.Input, e *end) *reader {
	return &reader{r: io.NewSectionReader(in, e.off, e.size), off: e.off}
}

func (r *reader) next(n int) ([]byte, error) {
	if r.b == nil {
		r.b = make([]byte, 256<<10)
	}
	for r.buf.Len() < n {
		k, err := r.r.Read(r.b)
		r.buf.Write(r.b[:k])
		if k == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = corrupt(r.off, "the directory is cut short")
			}
			return nil, err
		}
	}
	r.off += int64(n)
	return r.buf.Next(n), nil
}

// left reports whether there is more.
func (r *reader) left() bool {
	if r.buf.Len() > 0 {
		return true
	}
	var b [1]byte
	n, _ := r.r.Read(b[:]) // what cannot be read was not needed
	return n > 0
}
