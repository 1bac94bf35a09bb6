package recover

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/journal"
)

const (
	frameMarker  = "LBXF\r\n\x1a\n"
	commitMarker = "LBXC"
	stride       = 512     // extents begin at multiples of this, whatever the archive's sector size
	scanChunk    = 1 << 20 // bytes looked at in one go
	maxBlocks    = 64      // commit blocks remembered, those of the highest generations
	maxArchives  = 64      // archive ids told apart while the archive's own is not known
)

// foundFrame is a frame whose header and member table verify.
type foundFrame struct {
	number  uint64
	off     int64
	attempt format.ID
	live    bool  // a record of the index names it
	whole   bool  // its stored bytes verify, too
	id      uint8 // which archive it belongs to, while that is being found out
}

// block is what looks like a commit block.
type block struct {
	generation uint64
	off        int64
	len        uint32
	attempt    format.ID // of a sealed one
}

// scanner goes through the file from sector to sector.
type scanner struct {
	s       *salvage
	commits bool // commit blocks are wanted, too
	ids     []format.ID
	count   []uint64
	aligned bool // nothing stood at an odd multiple of 512
	budget  int64
	blocks  []block
	frame   []byte
}

// scan searches the file for frames, except where the index has some already, and, when no state is known,
// for commit blocks. unknown says that the archive's id is not known: then it is the one that most frames
// have. What it finds stands in s.found, by number, whole frames of each number first.
func (s *salvage) scan(unknown bool) (*scanner, error) {
	s.scanned, s.rep.Scanned = true, true
	sc := &scanner{s: s, commits: s.base.super == nil, aligned: true}
	// A frame is verified once and then passed over. Only what overlaps, which is left of frames whose place was
	// used again or made to keep this busy, is read more than once.
	sc.budget = s.readBudget()
	s.mu.Lock()
	s.total = s.size
	s.mu.Unlock()
	slices.SortFunc(s.known, func(a, b format.Extent) int { return cmp.Compare(a.Off, b.Off) })
	known := s.known
	buf := make([]byte, scanChunk)
	for at := int64(format.DataStart); at < s.size; {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		b := buf[:min(scanChunk, s.size-at)]
		s.read(b, at)
		pos := int64(0)
		for pos < int64(len(b)) {
			off := at + pos
			for len(known) > 0 && known[0].Off < off {
				known = known[1:]
			}
			step := int64(stride)
			if len(known) > 0 && known[0].Off == off {
				step = max(known[0].Len, stride)
			} else if head := b[pos:]; len(head) >= 8 {
				switch {
				case s.suite.Hider() != nil:
					step = max(sc.hidden(off, unknown), stride)
				case string(head[:8]) == frameMarker:
					step = max(sc.at(off, unknown), stride)
				case string(head[:4]) == commitMarker && sc.commits:
					sc.block(off)
				}
			}
			pos += format.AlignUp(step, stride)
		}
		s.advance(pos)
		at += pos
	}
	sc.finish(unknown)
	return sc, nil
}

// at looks at what begins like a frame and returns how many bytes need not be searched.
func (sc *scanner) at(off int64, unknown bool) int64 {
	s := sc.s
	h := make([]byte, frames.HeaderSize(s.tag))
	s.read(h, off)
	id := format.ID(h[8:24])
	if s.suite.Hider() != nil {
		id = s.archive
	}
	if !unknown && id != s.archive {
		return 0
	}
	info, ok, err := frames.DecodeHeader(h, s.suite, id, off)
	if !ok || err != nil {
		return 0
	}
	if sc.budget -= info.Used(s.tag); sc.budget < 0 {
		return 0
	}
	p := place{info, off}
	if _, ok := s.members(&p, id, &sc.frame); !ok {
		return 0
	}
	f := foundFrame{number: info.Number, off: off, attempt: info.Attempt}
	if unknown {
		k := slices.Index(sc.ids, id)
		if k < 0 {
			if k = len(sc.ids); k == maxArchives {
				return 0
			}
			sc.ids, sc.count = append(sc.ids, id), append(sc.count, 0)
		}
		sc.count[k]++
		f.id = uint8(k)
	}
	l := s.stored(&p, id, &sc.frame)
	f.whole = l.whole()
	s.found = append(s.found, f)
	sc.aligned = sc.aligned && off%4096 == 0
	if !f.whole {
		return 0 // another frame may have been written into its place
	}
	return format.AlignUp(info.Used(s.tag), stride)
}

// hidden looks for a frame or a commit block where nothing shows what is there, and returns how many bytes
// need not be searched.
func (sc *scanner) hidden(off int64, unknown bool) int64 {
	s := sc.s
	if n := sc.at(off, unknown); n > 0 || !sc.commits {
		return n
	}
	h := make([]byte, journal.CommitHeadSize)
	s.read(h, off)
	head, ok := journal.RevealCommit(h, s.suite.Hider())
	if !ok || head.Plain > format.MaxCommitBlock {
		return 0
	}
	sc.note(block{head.Generation, off, uint32(journal.SealedLen(head.Plain, s.suite, s.sector)), head.Attempt})
	return 0
}

// block notes what begins like a commit block. Its length follows from its fields.
func (sc *scanner) block(off int64) {
	s := sc.s
	h := make([]byte, 16)
	s.read(h, off)
	if binary.LittleEndian.Uint16(h[4:]) != 1 || binary.LittleEndian.Uint16(h[6:]) != 0 {
		return
	}
	n := int64(len(h))
	for last := uint16(0); n < format.MaxCommitBlock; {
		s.read(h[:8], off+n)
		tag, size := binary.LittleEndian.Uint16(h), int64(binary.LittleEndian.Uint32(h[4:]))
		if tag <= last || n+8+size > min(format.MaxCommitBlock, s.size-off) {
			break
		}
		last = tag
		n += 8 + size
	}
	s.read(h, off)
	sc.note(block{binary.LittleEndian.Uint64(h[8:]), off, uint32(n), format.ID{}})
}

func (sc *scanner) note(b block) {
	sc.blocks = append(sc.blocks, b)
	sc.aligned = sc.aligned && b.off%4096 == 0
	if len(sc.blocks) > 2*maxBlocks {
		sc.sort()
	}
}

// sort puts the blocks of the highest generations first and keeps some of them.
func (sc *scanner) sort() {
	slices.SortStableFunc(sc.blocks, func(a, b block) int { return cmp.Compare(b.generation, a.generation) })
	sc.blocks = sc.blocks[:min(len(sc.blocks), maxBlocks)]
}

func (sc *scanner) finish(unknown bool) {
	s := sc.s
	sc.sort()
	if unknown && len(sc.ids) > 0 {
		best := 0
		for k, n := range sc.count {
			if n > sc.count[best] {
				best = k
			}
		}
		s.archive = sc.ids[best]
		s.found = slices.DeleteFunc(s.found, func(f foundFrame) bool { return int(f.id) != best })
	}
	slices.SortFunc(s.found, func(a, b foundFrame) int {
		whole := 0
		if a.whole != b.whole {
			whole = 1
			if a.whole {
				whole = -1
			}
		}
		return cmp.Or(cmp.Compare(a.number, b.number), whole, bytes.Compare(a.attempt[:], b.attempt[:]), cmp.Compare(a.off, b.off))
	})
	if sc.budget < 0 {
		s.note("the search for frames was cut short: too many overlap")
	}
}

// sector is the sector size that what was found suggests.
func (sc *scanner) sector() int64 {
	if sc.aligned {
		return 4096
	}
	return 512
}

// variants are the frames of a number that the scan found.
func (s *salvage) variants(number uint64) []foundFrame {
	lo, ok := slices.BinarySearchFunc(s.found, number, func(f foundFrame, n uint64) int { return cmp.Compare(f.number, n) })
	hi := lo
	for ok && hi < len(s.found) && s.found[hi].number == number {
		hi++
	}
	return s.found[lo:hi]
}

// allowed reports whether what an unnamed frame holds may be shown at all. With a state to go by, frames
// that are younger than it were never committed, unless the newest superblock names their transaction.
func (s *salvage) allowed(f *foundFrame) bool {
	if m := s.base.commit; m != nil && (s.base.verified || s.rep.Origin == OriginScan) {
		return f.number < m.Counters.NextFrame || s.newest != nil && f.attempt == s.newest.Attempt
	}
	return true
}
