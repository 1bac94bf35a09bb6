package store

import (
	"encoding/binary"
	"sort"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// dataMap is a sparse file's map, made for looking positions up. nil is that of a file without holes.
type dataMap struct {
	runs []dataRun // in file order; the last, which is empty, stands where the file ends
}

// dataRun is n bytes of data: from off on of the file, from pos on of its content.
type dataRun struct{ off, pos, n int64 }

func newDataMap(e *index.Entry) *dataMap {
	if e.Sparse == nil {
		return nil
	}
	runs := make([]dataRun, 0, len(e.Sparse)+1)
	var off, pos int64
	for _, r := range e.Sparse {
		if r.Data > 0 {
			runs = append(runs, dataRun{off, pos, r.Data})
		}
		off, pos = off+r.Data+r.Hole, pos+r.Data
	}
	return &dataMap{append(runs, dataRun{off: off, pos: pos})}
}

// at finds a position of the file. In data it gives the position in the content, and in a hole -1; n is how many
// bytes, up to most, of the same sort follow there.
func (m *dataMap) at(off, most int64) (pos, n int64) {
	if m == nil {
		return off, most
	}
	i := sort.Search(len(m.runs), func(i int) bool { return m.runs[i].off > off })
	if i > 0 {
		if r := m.runs[i-1]; off < r.off+r.n {
			return r.pos + off - r.off, min(most, r.off+r.n-off)
		}
	}
	return -1, min(most, m.runs[i].off-off)
}

// from finds a position of the content: its position in the file, and how many bytes, up to most, follow there
// before a hole does.
func (m *dataMap) from(pos, most int64) (off, n int64) {
	if m == nil {
		return pos, most
	}
	i := sort.Search(len(m.runs), func(i int) bool { return m.runs[i].pos > pos })
	r := m.runs[i-1]
	return r.off + pos - r.pos, min(most, r.pos+r.n-pos)
}

// sparseDigest is the domain of what stands in for the digest of a sparse file.
const sparseDigest = "lockbox 2026-11-30 sparse file v1"

// digestSparse covers a sparse file's map and, by its digest, the data: nobody wants to hash a hole.
func digestSparse(e *index.Entry, data format.Digest) (d format.Digest) {
	h := blake3.NewDeriveKey(sparseDigest)
	var b []byte
	for _, r := range e.Sparse {
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(r.Data))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Hole))
		_, _ = h.Write(b) // a hash has no errors
	}
	_, _ = h.Write(data[:])
	h.Sum(d[:0])
	return d
}
