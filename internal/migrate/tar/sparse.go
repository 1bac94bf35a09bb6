package tar

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// maxPieces bounds the pieces of a sparse file.
const maxPieces = 1 << 20

// piece is a stretch of data in a sparse file.
type piece struct{ off, len int64 }

// oldPieces reads GNU's map in the header and the blocks after it.
func oldPieces(t *stream, h *header) (list []piece, err error) {
	at := t.at
	b, more := h.sparse, h.more
	for {
		for ; len(b) >= 24; b = b[24:] {
			off, ok1 := number(b[:12])
			n, ok2 := number(b[12:24])
			if !ok1 || !ok2 {
				return nil, corrupt(at, "the map of a sparse file is malformed")
			}
			if b[0] == 0 && off == 0 && n == 0 {
				break
			}
			list = append(list, piece{off, n})
		}
		if !more {
			return list, nil
		}
		if len(list) > maxPieces {
			return nil, corrupt(at, "the map of a sparse file has too many pieces")
		}
		block, err := t.block()
		if err != nil {
			return nil, err
		}
		b, more = bytes.Clone(block[:504]), block[504] != 0
	}
}

// paxPieces reads the map of one of the formats that pax headers announce. sparse is false when they announce none. The
// map of the last format stands before the data; used is how many bytes it takes.
func paxPieces(t *stream, records map[string]string, pairs []string, size int64) (list []piece, real, used int64, sparse bool, err error) {
	bad := func() ([]piece, int64, int64, bool, error) {
		return nil, 0, 0, true, corrupt(t.at, "the map of a sparse file is malformed")
	}
	num := func(s string) (int64, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil && n >= 0 && n <= format.MaxFileSize
	}
	var ok bool
	switch major := records["GNU.sparse.major"]; {
	case major == "1" && records["GNU.sparse.minor"] == "0":
		if real, ok = num(records["GNU.sparse.realsize"]); !ok {
			return bad()
		}
		list, used, err = t.leadingMap(size)
		return list, real, used, true, err
	case major != "" && major != "0":
		return nil, 0, 0, true, corrupt(t.at, "it is a sparse file of the unknown format %q", major)
	case records["GNU.sparse.size"] != "":
		if real, ok = num(records["GNU.sparse.size"]); !ok {
			return bad()
		}
	case records["GNU.sparse.realsize"] != "":
		if real, ok = num(records["GNU.sparse.realsize"]); !ok {
			return bad()
		}
	default:
		return nil, 0, 0, false, nil
	}
	if m := records["GNU.sparse.map"]; m != "" {
		pairs = strings.Split(m, ",")
	}
	if len(pairs)%2 != 0 || len(pairs) > 2*maxPieces {
		return bad()
	}
	for i := 0; i < len(pairs); i += 2 {
		off, ok1 := num(pairs[i])
		n, ok2 := num(pairs[i+1])
		if !ok1 || !ok2 {
			return bad()
		}
		list = append(list, piece{off, n})
	}
	return list, real, 0, true, nil
}

// leadingMap reads a map that stands before the data: decimal numbers, a line each, in whole blocks.
func (t *stream) leadingMap(size int64) (list []piece, used int64, err error) {
	at := t.at
	bad := func() ([]piece, int64, error) { return nil, 0, corrupt(at, "the map of a sparse file is malformed") }
	var b []byte
	next := func() (int64, bool, error) {
		for {
			if i := bytes.IndexByte(b, '\n'); i >= 0 {
				n, err := strconv.ParseInt(string(b[:i]), 10, 64)
				b = b[i+1:]
				return n, err == nil && n >= 0 && n <= format.MaxFileSize, nil
			}
			if len(b) > 32 || used >= size {
				return 0, false, nil
			}
			block, err := t.block()
			if err != nil {
				return 0, false, err
			}
			b = append(bytes.Clone(b), block...)
			used += blockSize
		}
	}
	count, ok, err := next()
	if err != nil || !ok || count > maxPieces {
		if err != nil {
			return nil, 0, err
		}
		return bad()
	}
	for range count {
		var p piece
		for _, v := range []*int64{&p.off, &p.len} {
			if *v, ok, err = next(); err != nil {
				return nil, 0, err
			} else if !ok {
				return bad()
			}
		}
		list = append(list, p)
	}
	return list, used, nil
}

// runs makes stretches of data and holes of the pieces, whose data add up to stored bytes.
func runs(list []piece, real, stored, at int64) ([]index.SparseRun, error) {
	out := make([]index.SparseRun, 0, len(list)+1)
	pos, data := int64(0), int64(0)
	last := index.SparseRun{}
	for _, p := range list {
		if p.off < pos || p.len > real-p.off {
			return nil, corrupt(at, "the map of a sparse file has pieces out of order, or beyond its end")
		}
		last.Hole = p.off - pos
		out = append(out, last)
		last = index.SparseRun{Data: p.len}
		data += p.len
		pos = p.off + p.len
	}
	if data != stored {
		return nil, corrupt(at, "the pieces of a sparse file have %d bytes, its data %d", data, stored)
	}
	last.Hole = real - pos
	return append(out, last), nil
}

// filled reads data with zeros in those holes that a map of runs has and the one to be stored has not: it is bounded.
type filled struct {
	r    io.Reader
	runs []index.SparseRun // what is left
	kept []index.SparseRun
	pos  int64 // in the file
	at   int64 // where the first of kept begins
	zero int64
}

// fill puts zeros into the data that r gives, where that is needed.
func fill(r io.ReadCloser, runs, kept []index.SparseRun) io.ReadCloser {
	holes := 0
	for _, x := range runs {
		if x.Hole > 0 {
			holes++
		}
	}
	for _, x := range kept {
		if x.Hole > 0 {
			holes--
		}
	}
	if holes == 0 {
		return r
	}
	return struct {
		io.Reader
		io.Closer
	}{&filled{r: r, runs: slices.Clone(runs), kept: kept}, r}
}

// isKept reports whether the hole at a position is one that is stored as a hole. Positions only grow.
func (f *filled) isKept(pos int64) bool {
	for len(f.kept) > 0 {
		hole := f.at + f.kept[0].Data
		if hole >= pos {
			return hole == pos && f.kept[0].Hole > 0
		}
		f.at = hole + f.kept[0].Hole
		f.kept = f.kept[1:]
	}
	return false
}

func (f *filled) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if f.zero > 0 {
			n := min(int64(len(p)), f.zero)
			clear(p[:n])
			f.zero -= n
			return int(n), nil
		}
		if len(f.runs) == 0 {
			return f.r.Read(p) // nothing is left but its end
		}
		x := &f.runs[0]
		if x.Data > 0 {
			n, err := f.r.Read(p[:min(int64(len(p)), x.Data)])
			x.Data -= int64(n)
			f.pos += int64(n)
			if err == io.EOF {
				err = corrupt(f.pos, "the data of a sparse file end too early")
				if n > 0 {
					err = nil // the next call finds out what is missing
				}
			}
			return n, err
		}
		if x.Hole > 0 && !f.isKept(f.pos) {
			f.zero = x.Hole
		}
		f.pos += x.Hole
		f.runs = f.runs[1:]
	}
	return 0, nil
}
