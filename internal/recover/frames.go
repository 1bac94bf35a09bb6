package recover

import (
	"slices"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/frames"
)

// headerAt reads the header of the frame at off. It is not checked but for its form.
func (s *salvage) headerAt(off int64) (frames.Info, bool) {
	h := make([]byte, frames.HeaderSize(s.tag))
	s.read(h, off)
	i, ok, err := frames.DecodeHeader(h, s.suite, s.archive, off)
	return i, ok && err == nil
}

// members reads a frame's member table and checks it together with the header. buf is scratch.
func (s *salvage) members(p *place, id format.ID, buf *[]byte) ([]frames.Member, bool) {
	used := p.Used(s.tag)
	if p.off < format.DataStart || used > s.size-p.off {
		return nil, false
	}
	// Only what the header's tag covers is read; what stands between does not matter to it.
	b := grow(buf, int(used))
	s.read(b[:frames.HeaderSize(s.tag)], p.off)
	table := used - int64(p.MemberTable)
	s.read(b[table:], p.off+table)
	ms, err := frames.CheckHeader(b, s.suite, id, &p.Info, p.off)
	return ms, err == nil
}

func grow(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n, max(n, 2*cap(*b)))
	}
	return (*b)[:n]
}

// loaded is a frame's bytes, stored or plain, and what is known of them.
type loaded struct {
	data   []byte
	lost   bool  // none of them can be used
	unsure bool  // raw bytes whose tags are lost: only a digest can tell
	bad    []int // blocks that do not verify; zeros stand there
	shift  uint8

	checked frames.Checked // of a frame with one tag that verifies
}

func (l *loaded) whole() bool { return !l.lost && !l.unsure && len(l.bad) == 0 }

// touched reports whether bytes from..to of the frame touch what does not verify.
func (l *loaded) touched(from, to int64) bool {
	k, _ := slices.BinarySearch(l.bad, int(from>>l.shift))
	return k < len(l.bad) && l.bad[k] <= int((to-1)>>l.shift)
}

// stored reads and checks a frame's stored bytes. They stand in buf.
func (s *salvage) stored(p *place, id format.ID, buf *[]byte) loaded {
	b := grow(buf, int(p.Stored)+p.TableSize(s.tag))
	s.read(b, p.off+int64(frames.HeaderSize(s.tag)))
	l := loaded{data: b[:p.Stored], shift: p.BlockShift}
	if p.BlockShift == 0 {
		var err error
		l.checked, err = frames.Check(s.suite, id, &p.Info, l.data)
		l.lost = err != nil
		return l
	}
	table, err := frames.CheckTable(s.suite, id, &p.Info, b[p.Stored:])
	if err != nil {
		l.lost = s.suite.Hider() != nil // what is enciphered does not open without its tags
		l.unsure = !l.lost
		return l
	}
	for k := range p.Blocks() {
		lo, hi := table.BlockRange(k)
		if table.Open(k, l.data[lo:hi]) != nil {
			l.bad = append(l.bad, k)
		}
	}
	return l
}

// load reads a frame and gives its plain bytes.
func (s *salvage) load(p *place) *loaded {
	var buf []byte
	l := s.stored(p, s.archive, &buf)
	if l.lost || p.Codec == frames.Raw {
		return &l
	}
	plain := make([]byte, p.Plain, int(p.Plain)+frames.Slack)
	err := l.checked.Decode(plain)
	return &loaded{data: plain, lost: err != nil}
}

// frameCache keeps the frames that were read last, as small files that stand together mostly share one.
// Whoever needs a frame that another worker is reading waits for it.
type frameCache struct {
	s     *salvage
	mu    sync.Mutex
	slots map[place]*slot
	order []place // oldest first
	size  int64
}

type slot struct {
	once sync.Once
	l    *loaded
}

const frameCacheBytes = 24 << 20

func (c *frameCache) get(p *place) *loaded {
	c.mu.Lock()
	sl := c.slots[*p]
	if sl == nil {
		if c.slots == nil {
			c.slots = make(map[place]*slot)
		}
		sl = new(slot)
		c.slots[*p] = sl
		c.order = append(c.order, *p)
		c.size += int64(p.Plain) + int64(p.Stored)
		for c.size > frameCacheBytes && len(c.order) > 1 {
			old := c.order[0]
			c.order = c.order[1:]
			delete(c.slots, old)
			c.size -= int64(old.Plain) + int64(old.Stored)
		}
	}
	c.mu.Unlock()
	sl.once.Do(func() { sl.l = c.s.load(p) })
	return sl.l
}
