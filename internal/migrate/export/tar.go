package export

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

const blockSize = 512

// tarWriter writes pax archives: old headers, and what has no room in them in extended ones. archive/tar cannot write
// sparse files.
type tarWriter struct {
	shared
	w     io.Writer
	block [blockSize]byte
	open  bool // in the middle of an entry
}

func newTarWriter(w io.Writer, s shared) *tarWriter { return &tarWriter{shared: s, w: w} }

// kinds are the letters of headers.
var kinds = map[index.Kind]byte{index.File: '0', index.Symlink: '2', index.CharDevice: '3', index.BlockDevice: '4', index.Dir: '5', index.FIFO: '6'}

func (t *tarWriter) entry(ctx context.Context, e *index.Entry, first pathsafe.Path) error {
	kind, ok := kinds[e.Kind]
	if !ok {
		t.left(e, "tar has no entries of its kind")
		return nil
	}
	records := map[string]string{}
	xattrs, err := t.ar.Xattrs(ctx, e)
	if err != nil {
		return err
	}
	for _, x := range xattrs {
		if strings.ContainsAny(x.Name, "=") {
			t.lost(e, fmt.Sprintf("its attribute %q, whose name tar cannot write", x.Name))
			continue
		}
		records["SCHILY.xattr."+x.Name] = string(x.Value)
	}
	if e.HasBirth {
		records["LIBARCHIVE.creationtime"] = paxTime(e.BirthSec, e.BirthNsec)
	}
	if e.HasWinAttrs {
		records["MSWINDOWS.fileattr"] = strconv.FormatUint(e.WinAttrs, 10)
	}
	if e.HasBSDFlags {
		t.lost(e, "its BSD flags")
	}
	name, link, size := e.Path.String(), e.Target, int64(0)
	if e.Kind == index.Dir {
		name += "/"
	}
	var m []byte
	switch {
	case !first.IsZero():
		kind, link = '1', first.String()
	case e.Kind == index.File && e.Sparse != nil:
		m = sparseMap(e.Sparse)
		size = int64(len(m)) + e.DataSize()
		maps.Copy(records, map[string]string{
			"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name, "GNU.sparse.realsize": strconv.FormatInt(e.Size, 10),
		})
		name = path.Join(path.Dir(name), "GNUSparseFile.0", path.Base(name))
	case e.Kind == index.File:
		size = e.Size
	}
	if err := t.header(e, kind, name, link, size, records); err != nil {
		return err
	}
	t.sum.Entries++
	if kind != '0' || size == 0 {
		return nil
	}
	t.open = true
	if _, err := t.w.Write(m); err != nil {
		return err
	}
	if err := t.data(ctx, e); err != nil {
		return err
	}
	t.open = false
	return t.zeros(-size & (blockSize - 1))
}

// data writes a file's bytes without its holes.
func (t *tarWriter) data(ctx context.Context, e *index.Entry) error {
	if e.DataSize() == 0 {
		return nil
	}
	f, err := t.ar.Open(e)
	if err != nil {
		return err
	}
	if e.Sparse == nil {
		return t.copy(ctx, t.w, f, 0, e.Size)
	}
	off := int64(0)
	for _, r := range e.Sparse {
		if r.Data > 0 {
			if err := t.copy(ctx, t.w, f, off, r.Data); err != nil {
				return err
			}
		}
		off += r.Data + r.Hole
	}
	return nil
}

// sparseMap is what stands before the data of a sparse file in GNU's format 1.0: the number of pieces, then offset and
// length of each, a line each, in whole blocks. A last piece of nothing says how long the file is.
func sparseMap(runs []index.SparseRun) []byte {
	var lines []byte
	n, off := 0, int64(0)
	piece := func(off, size int64) {
		lines = strconv.AppendInt(append(strconv.AppendInt(lines, off, 10), '\n'), size, 10)
		lines = append(lines, '\n')
		n++
	}
	for _, r := range runs {
		if r.Data > 0 {
			piece(off, r.Data)
		}
		off += r.Data + r.Hole
	}
	if runs[len(runs)-1].Hole > 0 {
		piece(off, 0)
	}
	b := append(append(strconv.AppendInt(nil, int64(n), 10), '\n'), lines...)
	return append(b, make([]byte, -len(b)&(blockSize-1))...)
}

// header writes the headers of an entry.
func (t *tarWriter) header(e *index.Entry, kind byte, name, link string, size int64, records map[string]string) error {
	var h header
	h.text(0, 100, name, "path", records)
	h.number(100, 8, uint64(e.Mode), "", records)
	h.number(108, 8, e.UID, "uid", records)
	h.number(116, 8, e.GID, "gid", records)
	h.number(124, 12, uint64(size), "size", records)
	if e.HasMtime && e.MtimeSec >= 0 && e.MtimeNsec == 0 {
		h.number(136, 12, uint64(e.MtimeSec), "mtime", records)
	} else {
		h.number(136, 12, uint64(min(max(e.MtimeSec, 0), 1<<33-1)), "", records)
		if e.HasMtime {
			records["mtime"] = paxTime(e.MtimeSec, e.MtimeNsec)
		}
	}
	h.text(157, 100, link, "linkpath", records)
	h.text(265, 32, e.User, "uname", records)
	h.text(297, 32, e.Group, "gname", records)
	if e.HasDevice {
		h.number(329, 8, e.Major, "SCHILY.devmajor", records)
		h.number(337, 8, e.Minor, "SCHILY.devminor", records)
	}
	if len(records) > 0 {
		var b []byte
		for k := range records {
			if !strings.HasPrefix(k, "SCHILY.xattr.") && !utf8.ValidString(records[k]) {
				records["hdrcharset"] = "BINARY"
				break
			}
		}
		for _, k := range slices.Sorted(maps.Keys(records)) {
			b = appendRecord(b, k, records[k])
		}
		var x header
		copy(x[:100], "PaxHeaders.0/"+path.Base(e.Path.String()))
		x.number(100, 8, 0o644, "", nil)
		x.number(124, 12, uint64(len(b)), "", nil)
		if err := t.write(&x, 'x'); err != nil {
			return err
		}
		if _, err := t.w.Write(append(b, make([]byte, -len(b)&(blockSize-1))...)); err != nil {
			return err
		}
	}
	return t.write(&h, kind)
}

// header is a block of the kind that every tar reads.
type header [blockSize]byte

// text fills in a text, and a record for one that is too long or not ASCII.
func (h *header) text(at, n int, s, key string, records map[string]string) {
	plain := len(s) <= n
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] < utf8.RuneSelf
	}
	if !plain {
		records[key] = s
	}
	copy(h[at:at+n], s)
}

// number fills in an octal number, and a record for one that has no room.
func (h *header) number(at, n int, v uint64, key string, records map[string]string) {
	if v >= 1<<(3*(n-1)) {
		records[key] = strconv.FormatUint(v, 10)
		v = 0
	}
	copy(h[at:], fmt.Sprintf("%0*o", n-1, v))
}

func (t *tarWriter) write(h *header, kind byte) error {
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	_, err := t.w.Write(h[:])
	return err
}

// appendRecord adds a record of an extended header, which begins with its own length.
func appendRecord(b []byte, key, value string) []byte {
	rest := len(key) + len(value) + 3 // space, =, line end
	n := rest + len(strconv.Itoa(rest))
	if len(strconv.Itoa(n)) > len(strconv.Itoa(rest)) {
		n++
	}
	return fmt.Appendf(b, "%d %s=%s\n", n, key, value)
}

func paxTime(sec int64, nsec uint32) string {
	sign := ""
	if sec < 0 && nsec > 0 {
		sec, nsec = sec+1, 1_000_000_000-nsec
		if sec == 0 {
			sign = "-"
		}
	}
	s := sign + strconv.FormatInt(sec, 10)
	if nsec > 0 {
		s += strings.TrimRight(fmt.Sprintf(".%09d", nsec), "0")
	}
	return s
}

func (t *tarWriter) zeros(n int64) error {
	_, err := t.w.Write(t.block[:n])
	return err
}

// broken leaves a block that is no header where an entry would begin: some programs take a missing end for an end.
func (t *tarWriter) broken() {
	if !t.open {
		_, _ = t.w.Write([]byte(strings.Repeat("\xff", blockSize))) // another error is under way
	}
}

func (t *tarWriter) end() error {
	if err := t.zeros(blockSize); err != nil {
		return err
	}
	return t.zeros(blockSize)
}
