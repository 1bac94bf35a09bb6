package recover

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/store"
)

// blob is a content and how to get at it: by its record, or by what frames say of it.
type blob struct {
	s       *salvage
	number  uint64
	size    int64
	digest  digestOf
	rec     index.Content // without runs when the record is lost
	shares  []share       // in order and without gaps, when it is
	variant int           // which frame of those that have the same number, where the index does not say
}

// at finds the frame that holds position pos, where in the frame's plain bytes that is, and how many bytes
// follow there without a break. n is right whether or not the frame is left.
func (b *blob) at(pos int64) (p place, in, n int64, err error) {
	s := b.s
	if len(b.rec.Runs) == 0 {
		i, ok := slices.BinarySearchFunc(b.shares, pos, func(x share, pos int64) int {
			switch {
			case x.end() <= pos:
				return -1
			case x.pos > pos:
				return 1
			}
			return 0
		})
		if !ok {
			return p, 0, 0, format.Corrupt("content", -1, "nothing holds position %d", pos)
		}
		x := &b.shares[i]
		f := s.parts.holders[x.holder]
		in, n = int64(x.in)+pos-x.pos, x.end()-pos
		if f.live {
			var a answer
			if p, a = s.frameAt(f.number); a == present {
				return p, in, n, nil
			}
		} else if info, ok := s.headerAt(f.off); ok {
			return place{info, f.off}, in, n, nil
		}
		return p, in, n, format.Corrupt("frame", f.off, "frame %d cannot be read", f.number)
	}
	number, in, n := b.rec.Locate(pos)
	if n <= 0 {
		return p, 0, 0, format.Corrupt("content", -1, "nothing holds position %d", pos)
	}
	p, a := s.frameAt(number)
	switch a {
	case present:
		return p, in, n, nil
	case absent:
		return p, in, n, format.Corrupt("frame", -1, "frame %d does not exist", number)
	}
	if vs := s.variants(number); len(vs) > 0 {
		f := vs[min(b.variant, len(vs)-1)]
		if info, ok := s.headerAt(f.off); ok {
			return place{info, f.off}, in, n, nil
		}
	}
	return p, in, n, format.Corrupt("frame", -1, "the record of frame %d is lost, and the frame was not found", number)
}

// piece gives the verified bytes from pos on that stand in one frame, and how many there should be even
// when it fails. They must not be changed.
func (b *blob) piece(pos int64) (data []byte, n int64, err error) {
	p, in, n, err := b.at(pos)
	if err != nil {
		return nil, n, err
	}
	l := b.s.cache.get(&p)
	switch {
	case l.lost, l.unsure && b.digest.known == 0: // then its data may be short, too, which is no news
		return nil, n, format.Corrupt("frame", p.off, "frame %d is damaged", p.Number)
	case in+n > int64(len(l.data)):
		return nil, n, format.Corrupt("content", -1, "it reaches past the end of frame %d", p.Number)
	case l.touched(in, in+n):
		return nil, n, format.Corrupt("frame", p.off, "frame %d is damaged in part", p.Number)
	}
	return l.data[in : in+n], n, nil
}

// sum digests the content.
func (b *blob) sum(ctx context.Context) (d format.Digest, err error) {
	h := blake3.New()
	for pos := int64(0); pos < b.size; {
		if err := ctx.Err(); err != nil {
			return d, err
		}
		data, n, err := b.piece(pos)
		if err != nil {
			return d, err
		}
		h.Write(data)
		pos += n
	}
	h.Sum(d[:0])
	return d, nil
}

// settle decides between frames of equal number that differ: by the digest. It reads the content only where
// there is a choice.
func (b *blob) settle() {
	s := b.s
	if len(s.found) == 0 || len(b.rec.Runs) == 0 {
		return
	}
	most := 0
	for i := range b.rec.Runs {
		r := &b.rec.Runs[i]
		lo, _ := slices.BinarySearchFunc(s.found, r.Frame, func(f foundFrame, n uint64) int {
			if f.number < n {
				return -1
			}
			return 1
		})
		same := 0
		for ; lo < len(s.found) && s.found[lo].number-r.Frame < r.Frames(); lo++ {
			if same++; lo > 0 && s.found[lo-1].number != s.found[lo].number {
				same = 1
			}
			most = max(most, same)
		}
	}
	for v := 0; most > 1 && v < min(most, maxChains); v++ {
		b.variant = v
		if d, err := b.sum(s.ctx); err == nil && b.digest.matches(&d) {
			return
		}
	}
	b.variant = 0
}

// maxRanges bounds how many intact ranges of a file are listed.
const maxRanges = 4096

// intact finds the ranges of the content that verify.
func (b *blob) intact() []Range {
	var rs []Range
	add := func(from, to int64) {
		if k := len(rs); k > 0 && rs[k-1].To == from {
			rs[k-1].To = to
		} else if from < to && k < maxRanges {
			rs = append(rs, Range{from, to})
		}
	}
	s := b.s
	// A content has no more frames than the file can hold, whatever its record says.
	steps := s.size/stride + 1
	for pos := int64(0); pos < b.size && steps > 0 && s.ctx.Err() == nil; steps-- {
		p, in, n, err := b.at(pos)
		if n <= 0 {
			// Between shares that are known something is missing.
			i, _ := slices.BinarySearchFunc(b.shares, pos, func(x share, pos int64) int {
				if x.pos <= pos {
					return -1
				}
				return 1
			})
			if i == len(b.shares) {
				break
			}
			pos = b.shares[i].pos
			continue
		}
		if err == nil {
			b.intactIn(s.cache.get(&p), in, n, pos, add)
		}
		pos += n
	}
	return rs
}

// intactIn adds what verifies of n bytes from in on of a frame, which are those from pos on of the content.
func (b *blob) intactIn(l *loaded, in, n, pos int64, add func(from, to int64)) {
	if l.lost || l.unsure || in+n > int64(len(l.data)) {
		return
	}
	for at := in; at < in+n; {
		to := in + n
		if l.shift > 0 {
			to = min(to, (at>>l.shift+1)<<l.shift)
		}
		if !l.touched(at, to) {
			add(pos+at-in, pos+to-in)
		}
		at = to
	}
}

// reader gives a blob's bytes, and the last of them only when the digest is right.
type reader struct {
	b    *blob
	hash *blake3.Hasher
	pos  int64
	rest []byte // of the current piece
}

func (b *blob) open() *reader { return &reader{b: b, hash: blake3.New()} }

func (r *reader) Read(p []byte) (int, error) {
	b := r.b
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.rest) == 0 {
		if r.pos >= b.size {
			return 0, io.EOF
		}
		if err := b.s.ctx.Err(); err != nil {
			return 0, err
		}
		data, n, err := b.piece(r.pos)
		if err != nil {
			return 0, err
		}
		r.hash.Write(data)
		r.pos += n
		if r.pos >= b.size {
			var d format.Digest
			r.hash.Sum(d[:0])
			if r.pos > b.size || !b.digest.matches(&d) {
				return 0, format.Corrupt("content", -1, "its bytes do not have the digest that was stored")
			}
		}
		b.s.advance(n)
		r.rest = data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) Close() error { return nil }

// Check implements store.Reader: what was read is verified as it is read.
func (r *reader) Check() error { return nil }

// source makes something to store of an entry and its content, which is nil when it has none.
func source(e index.Entry, b *blob) store.Source {
	e.Content, e.XattrsContent = 0, 0
	src := store.Source{Entry: e}
	if b != nil {
		src.Open = func() (store.Reader, index.Entry, error) { return b.open(), e, nil }
	}
	return src
}

// anySize is the size of a content of which no entry says how long it is.
const anySize = -1

// named finds the content of an entry, whose size says how long it must be.
func (s *salvage) named(number uint64, size int64) (*blob, error) {
	b := &blob{s: s, number: number, size: size}
	rec, a := s.contentAt(number)
	switch a {
	case present:
		if size == anySize {
			b.size = rec.Size
		} else if rec.Size != size {
			return nil, fmt.Errorf("its content has %d bytes where it should have %d", rec.Size, size)
		}
		b.rec, b.digest = rec, digestOf{known: len(rec.Digest), sum: rec.Digest}
		b.settle()
		return b, nil
	case absent:
		return nil, fmt.Errorf("content %d does not exist", number)
	}
	shares := s.parts.of(number)
	if len(shares) == 0 {
		return nil, fmt.Errorf("the record of its content, number %d, is lost, and no frame that is left has it", number)
	}
	prefix, sure := s.parts.prefix(number)
	if sure {
		b.digest = s.partOf(prefix)
	}
	chains, live := s.parts.chains(shares)
	for _, c := range chains {
		if end := c[len(c)-1].end(); size == anySize {
			// Where it ends, only the digest tells.
			if b.size = end; !sure {
				break
			}
			b.shares = c
			if d, err := b.sum(s.ctx); err == nil && b.digest.matches(&d) {
				return b, nil
			}
			continue
		} else if end != size {
			continue
		}
		b.shares = c
		if live {
			return b, nil
		}
		if !sure {
			break
		}
		if d, err := b.sum(s.ctx); err == nil && b.digest.matches(&d) {
			return b, nil
		}
	}
	b.shares = nil
	if size == anySize {
		return nil, fmt.Errorf("the record of content %d is lost, and its bytes were not found whole", number)
	}
	if live {
		for _, x := range shares {
			if k := len(b.shares); s.parts.holders[x.holder].live && (k == 0 || x.pos >= b.shares[k-1].end()) && x.end() <= size {
				b.shares = append(b.shares, x)
			}
		}
		return b, fmt.Errorf("the record of its content, number %d, is lost, and so is a part of its bytes", number)
	}
	return nil, &disownedError{number}
}

// disownedError says that frames hold a content that may or may not be an entry's.
type disownedError struct{ number uint64 }

func (e *disownedError) Error() string {
	return fmt.Sprintf("the record of its content, number %d, is lost, and so are the records of the frames that held it; what was found under that number is in lost+found", e.number)
}
