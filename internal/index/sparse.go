package index

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"

	"lockbox/internal/format"
)

// A sparse map: pairs of uvarints, a stretch of data and the hole after it.

// MaxSparse is how many bytes a sparse map may take in a record. FitSparse makes one fit.
const MaxSparse = 48 << 10

// SparseRun is a stretch of data and the hole after it. Only the first of a file may have no data, only
// the last no hole.
type SparseRun struct{ Data, Hole int64 }

func (r SparseRun) encodedLen() int {
	return uvarintLen64(uint64(r.Data)) + uvarintLen64(uint64(r.Hole))
}

// DataSize is the size of the entry's content: its size without the holes.
func (e *Entry) DataSize() int64 {
	n := e.Size
	for _, r := range e.Sparse {
		n -= r.Hole
	}
	return n
}

func (e *Entry) sparseProblem() string {
	if e.Sparse == nil {
		return ""
	}
	left, size := e.Size, 0
	for i, r := range e.Sparse {
		if r.Data < 0 || r.Hole < 0 || r.Data > left || r.Hole > left-r.Data {
			return "the sparse map goes beyond the size"
		}
		if r.Data == 0 && i > 0 || r.Hole == 0 && (i == 0 || i < len(e.Sparse)-1) {
			return "the sparse map has an empty stretch"
		}
		left -= r.Data + r.Hole
		size += r.encodedLen()
	}
	switch {
	case left != 0 || len(e.Sparse) == 0:
		return "the sparse map does not add up to the size"
	case size > MaxSparse:
		return "the sparse map is too long"
	}
	return ""
}

// FitSparse makes the sparse map of a file whose stretches of data and holes runs has in file order, where any
// may be empty; nil when no hole is left. A map that takes more than maxBytes in a record loses its smallest holes,
// of equal ones the first, as few as will do: they are to be read as data. The same runs give the same map.
func FitSparse(runs []SparseRun, maxBytes int) []SparseRun {
	runs = joinRuns(slices.Clone(runs), nil, 0)
	size := 0
	for _, r := range runs {
		size += r.encodedLen()
	}
	if size > maxBytes {
		bySize := make([]int, len(runs))
		for i := range bySize {
			bySize[i] = i
		}
		slices.SortFunc(bySize, func(i, k int) int { return cmp.Or(cmp.Compare(runs[i].Hole, runs[k].Hole), cmp.Compare(i, k)) })
		rank := make([]int, len(runs))
		for k, i := range bySize {
			rank[i] = k
		}
		// Filling one hole more never makes a map longer: three numbers become their sum.
		fill := sort.Search(len(runs), func(fill int) bool {
			size, r := 0, SparseRun{}
			for i, x := range runs {
				if r.Data += x.Data; rank[i] < fill {
					r.Data += x.Hole
					continue
				}
				r.Hole = x.Hole
				size += r.encodedLen()
				r = SparseRun{}
			}
			if r.Data > 0 {
				size += r.encodedLen()
			}
			return size <= maxBytes
		})
		runs = joinRuns(runs, rank, fill)
	}
	if len(runs) == 0 || runs[0].Hole == 0 {
		return nil
	}
	return runs
}

// joinRuns joins, in place, stretches that follow each other, holes whose rank is below fill being data.
func joinRuns(runs []SparseRun, rank []int, fill int) []SparseRun {
	out := runs[:0]
	for i, r := range runs {
		if rank != nil && rank[i] < fill {
			r = SparseRun{Data: r.Data + r.Hole}
		}
		if n := len(out); n > 0 && (out[n-1].Hole == 0 || r.Data == 0) {
			if last := &out[n-1]; last.Hole == 0 {
				last.Data, last.Hole = last.Data+r.Data, r.Hole
			} else {
				last.Hole += r.Hole
			}
			continue
		}
		if r.Data > 0 || r.Hole > 0 {
			out = append(out, r)
		}
	}
	return out
}

func (w *entryWriter) sparse(runs []SparseRun) {
	if runs == nil {
		return
	}
	n := 0
	for _, r := range runs {
		n += r.encodedLen()
	}
	w.head(tagSparse, n)
	for _, r := range runs {
		w.b = binary.AppendUvarint(binary.AppendUvarint(w.b, uint64(r.Data)), uint64(r.Hole))
	}
}

func readSparse(c *format.Cursor) []SparseRun {
	runs := make([]SparseRun, 0, min(c.Len()/2, 64))
	for c.Len() > 0 {
		data, hole := c.Uvarint(uint64(format.MaxFileSize)), c.Uvarint(uint64(format.MaxFileSize))
		runs = append(runs, SparseRun{int64(data), int64(hole)})
	}
	return runs
}
