package store

import (
	"encoding/binary"
	"iter"

	"lockbox/internal/format"
)

// A transaction may hold records of millions of things. What holds them grows by chunks: a slice that grows
// is there twice for a moment, and once more until it is collected.

// chunked is a list that grows by chunks.
type chunked[T any] struct {
	chunks [][]T
	n      int
}

const chunkShift = 11

func (l *chunked[T]) len() int { return l.n }

// at returns an element, which may be changed.
func (l *chunked[T]) at(i int) *T { return &l.chunks[i>>chunkShift][i&(1<<chunkShift-1)] }

func (l *chunked[T]) add(v T) {
	k := l.n >> chunkShift
	if k == len(l.chunks) {
		var chunk []T // the first one grows: most transactions are small
		if k > 0 {
			chunk = make([]T, 0, 1<<chunkShift)
		}
		l.chunks = append(l.chunks, chunk)
	}
	l.chunks[k] = append(l.chunks[k], v)
	l.n++
}

func (l *chunked[T]) all() iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for i := range l.n {
			if !yield(i, l.at(i)) {
				return
			}
		}
	}
}

// arena is bytes that stay where they are, in chunks.
type arena struct {
	chunks [][]byte
	size   int
}

const arenaChunk = 1 << 20

// add copies b and returns its position.
func (a *arena) add(b []byte) (pos uint64) {
	last := len(a.chunks) - 1
	if last < 0 || cap(a.chunks[last])-len(a.chunks[last]) < len(b) {
		a.chunks = append(a.chunks, make([]byte, 0, max(min(a.size, arenaChunk), len(b), 4096)))
		last++
	}
	c := a.chunks[last]
	a.chunks[last] = append(c, b...)
	a.size += len(b)
	return uint64(last)<<32 | uint64(len(c))
}

func (a *arena) at(pos uint64, n int) []byte {
	b := a.chunks[pos>>32]
	off := int(uint32(pos))
	return b[off : off+n : off+n]
}

// duplicates finds contents of a transaction by their digests. It holds their places in the list alone: a map
// would take several times the memory.
type duplicates struct {
	slots []uint32 // 1 + place, 0: empty; a power of two of them
	n     int
}

func (d *duplicates) slot(digest *format.Digest) int {
	return int(binary.LittleEndian.Uint64(digest[:]) & uint64(len(d.slots)-1))
}

// find returns the place of a content that something refers to.
func (d *duplicates) find(l *chunked[newContent], digest *format.Digest, size int64) (int, bool) {
	if len(d.slots) == 0 {
		return 0, false
	}
	for s := d.slot(digest); d.slots[s] != 0; s = (s + 1) & (len(d.slots) - 1) {
		i := int(d.slots[s] - 1)
		if c := l.at(i); c.digest == *digest && c.size == size && c.refs > 0 {
			return i, true
		}
	}
	return 0, false
}

// add enters the content at a place.
func (d *duplicates) add(l *chunked[newContent], i int) {
	if d.n >= len(d.slots)/4*3 {
		old := d.slots
		d.slots = make([]uint32, max(2*len(old), 64))
		for _, place := range old {
			if place != 0 {
				d.put(l, place)
			}
		}
	}
	d.put(l, uint32(i+1))
	d.n++
}

func (d *duplicates) put(l *chunked[newContent], place uint32) {
	s := d.slot(&l.at(int(place - 1)).digest)
	for d.slots[s] != 0 {
		s = (s + 1) & (len(d.slots) - 1)
	}
	d.slots[s] = place
}
