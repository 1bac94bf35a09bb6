package recover

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/seal"
)

// share is what a frame holds of a content: len bytes from in on of its plain bytes, which are those from
// pos on of the content.
type share struct {
	content uint64
	pos     int64
	holder  uint32 // index in parts.holders
	in, len uint32
}

func (x *share) end() int64 { return x.pos + int64(x.len) }

// parts says where contents are whose own records are lost, as the frames' member tables have it.
type parts struct {
	holders  []foundFrame
	shares   []share // by content, position, frame number
	prefixes []prefixed
}

// prefixed is what the digests tree keeps of a content's digest.
type prefixed struct {
	content uint64
	prefix  [8]byte
}

// gather reads the member tables of the given frames and of those that only the scan knows, and keeps what
// they say of contents whose records are lost.
func (s *salvage) gather(live []foundFrame) error {
	p := &s.parts
	var buf []byte
	add := func(f foundFrame, pl place) {
		ms, ok := s.members(&pl, s.archive, &buf)
		if !ok {
			return
		}
		in, used := uint32(0), false
		for _, m := range ms {
			if m.Content > 0 && m.Len > 0 && s.lostContents.has(m.Content) {
				p.shares = append(p.shares, share{m.Content, m.Off, uint32(len(p.holders)), in, uint32(m.Len)})
				used = true
			}
			in += uint32(m.Len)
		}
		if used {
			p.holders = append(p.holders, f)
		}
	}
	for _, f := range live {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if pl, a := s.frameAt(f.number); a == present {
			add(f, pl)
		}
	}
	for i := range s.found {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		f := s.found[i]
		if !s.lostFrames.has(f.number) || !s.allowed(&f) {
			continue
		}
		if info, ok := s.headerAt(f.off); ok {
			add(f, place{info, f.off})
		}
	}
	slices.SortFunc(p.shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(a.content, b.content), cmp.Compare(a.pos, b.pos),
			cmp.Compare(p.holders[a.holder].number, p.holders[b.holder].number), cmp.Compare(a.holder, b.holder))
	})
	return nil
}

// of gives the shares of a content.
func (p *parts) of(content uint64) []share {
	lo, ok := slices.BinarySearchFunc(p.shares, content, func(x share, n uint64) int { return cmp.Compare(x.content, n) })
	hi := lo
	for ok && hi < len(p.shares) && p.shares[hi].content == content {
		hi++
	}
	return p.shares[lo:hi]
}

func (p *parts) sortPrefixes() {
	slices.SortFunc(p.prefixes, func(a, b prefixed) int { return cmp.Compare(a.content, b.content) })
}

func (p *parts) prefix(content uint64) ([8]byte, bool) {
	i, ok := slices.BinarySearchFunc(p.prefixes, content, func(x prefixed, n uint64) int { return cmp.Compare(x.content, n) })
	if !ok {
		return [8]byte{}, false
	}
	return p.prefixes[i].prefix, true
}

// maxChains is how many ways to put a content together are tried.
const maxChains = 8

// chains puts shares together to what may be the content: from its first byte on, without a break. Frames of
// the index exclude all others.
func (p *parts) chains(shares []share) (chains [][]share, live bool) {
	all := slices.Clone(shares)
	of := func(x *share) *foundFrame { return &p.holders[x.holder] }
	if slices.ContainsFunc(all, func(x share) bool { return of(&x).live }) {
		all = slices.DeleteFunc(all, func(x share) bool { return !of(&x).live })
		live = true
	}
	same := func(a, b share) bool {
		// The same frame twice: it was moved, and its old place is still there.
		return a.pos == b.pos && of(&a).number == of(&b).number && of(&a).attempt == of(&b).attempt
	}
	whole := func(x *share) int {
		if of(x).whole {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b share) int {
		return cmp.Or(cmp.Compare(a.pos, b.pos), cmp.Compare(of(&a).number, of(&b).number),
			bytes.Compare(of(&a).attempt[:], of(&b).attempt[:]), cmp.Compare(whole(&a), whole(&b)))
	})
	all = slices.CompactFunc(all, same)
	at := int64(0)
	for i := range all {
		if all[i].pos != at {
			at = -1
			break
		}
		at = all[i].end()
	}
	if at > 0 {
		return [][]share{all}, live
	}
	// Several readings, or gaps: the frames of a content come from one transaction and have consecutive numbers.
	slices.SortStableFunc(all, func(a, b share) int {
		return cmp.Or(bytes.Compare(of(&a).attempt[:], of(&b).attempt[:]), cmp.Compare(of(&a).number, of(&b).number))
	})
	var cur []share
	flush := func() {
		if len(cur) > 0 && len(chains) < maxChains {
			chains = append(chains, cur)
		}
		cur = nil
	}
	for _, x := range all {
		n := len(cur)
		switch {
		case n > 0 && x.pos == cur[n-1].end() && of(&x).attempt == of(&cur[n-1]).attempt && of(&x).number == of(&cur[n-1]).number+1:
			cur = append(cur, x)
		case x.pos == 0:
			flush()
			cur = []share{x}
		default:
			flush()
		}
	}
	flush()
	return chains, live
}

// ended reports whether a chain can be shown to reach the end of its content, whose size is not known.
func (s *salvage) ended(chain []share) bool {
	p := &s.parts
	last := &chain[len(chain)-1]
	f := p.holders[last.holder]
	info, ok := s.headerAt(f.off)
	if !ok {
		return false
	}
	// A pack holds its contents whole, and a frame that others follow holds as much as the first: a power of two.
	if info.Class != frames.NoPack || last.len != chain[0].len || bits.OnesCount32(last.len) != 1 {
		return true
	}
	if m := s.base.commit; m != nil && s.base.verified && f.number+1 == m.Counters.NextFrame {
		return true
	}
	// What follows the frame belongs to something else.
	var buf []byte
	other := func(pl place) bool {
		ms, ok := s.members(&pl, s.archive, &buf)
		return ok && pl.Attempt == info.Attempt && !slices.ContainsFunc(ms, func(m frames.Member) bool { return m.Content == last.content })
	}
	if pl, a := s.frameAt(f.number + 1); a == present && other(pl) {
		return true
	}
	for _, v := range s.variants(f.number + 1) {
		if i, ok := s.headerAt(v.off); ok && other(place{i, v.off}) {
			return true
		}
	}
	return false
}

// digestOf tells a digest, whole or what the digests tree keeps of it, that a content must have.
type digestOf struct {
	known int // bytes of sum that are known
	sum   format.Digest
	suite seal.Suite // not nil: sum begins with what this makes of the digest
}

// partOf is a digest of which the digests tree's prefix is known.
func (s *salvage) partOf(prefix [8]byte) digestOf {
	d := digestOf{suite: s.suite}
	d.known = copy(d.sum[:], prefix[:])
	return d
}

func (d *digestOf) matches(sum *format.Digest) bool {
	if d.suite != nil && d.known > 0 {
		return d.suite.Prefix(sum) == [8]byte(d.sum[:])
	}
	return string(sum[:d.known]) == string(d.sum[:d.known])
}
