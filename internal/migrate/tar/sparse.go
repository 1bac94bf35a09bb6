package tar

import (
	"bytes"
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

// runs makes an entry's map of data and holes of the pieces, whose data add up to stored bytes.
func runs(list []piece, real, stored, at int64) ([]index.SparseRun, error) {
	var out []index.SparseRun
	pos, data := int64(0), int64(0)
	cur := index.SparseRun{}
	for _, p := range list {
		if p.off < pos || p.len > real-p.off {
			return nil, corrupt(at, "the map of a sparse file has pieces out of order, or beyond its end")
		}
		if p.len == 0 {
			continue
		}
		if hole := p.off - pos; hole > 0 {
			cur.Hole = hole
			out = append(out, cur)
			cur = index.SparseRun{}
		}
		cur.Data += p.len
		data += p.len
		pos = p.off + p.len
	}
	if data != stored {
		return nil, corrupt(at, "the pieces of a sparse file have %d bytes, its data %d", data, stored)
	}
	if hole := real - pos; hole > 0 {
		cur.Hole = hole
	}
	if cur.Data > 0 || cur.Hole > 0 {
		out = append(out, cur)
	}
	if len(out) == 0 || len(out) == 1 && out[0].Hole == 0 {
		return nil, nil // nothing but data
	}
	return out, nil
}
