package verify

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// Part is what a check with a State has read of a pass, and what is left of it.
type Part struct {
	State      *State    // with which the next run goes on
	Anew       string    // why the state that was given could not be used, or ""
	Pass       uint64    // the number of the pass
	Began      time.Time // its first run
	Ended      time.Time // its last run; zero while it is not complete
	Read, Left uint64    // bytes of the file that its runs have read, and have still to read
	// Later is how many bytes were written since the pass came by, or began, and were not read in this run: the next pass
	// reads them. It is 0 after a run that had time enough.
	Later      uint64
	NextFrame  uint64 // where the pass goes on; 0 when no frame is left
	Uncompared uint64 // contents that this run read in part only: their blocks were checked, their digests were not by it
}

// Complete reports whether the pass has come to its end.
func (p *Part) Complete() bool { return !p.Ended.IsZero() }

// portion chooses what a run reads and keeps account of it. The order is: one unit that is due, however late it is;
// frames in which damage was found before, some of them also however late it is; what else the pass has not read of what there was when it began, by
// number; wiped space, by offset; and what was written since. So the pass ends however fast the archive grows, and
// what grows is not read at the cost of the rest, but never later than in the pass that follows.
type portion struct {
	c     *checker
	old   *State // what the run began with
	part  Part
	units []unit          // all that exist, ascending
	wiped []format.Extent // free ones, ascending
	again []damagedFrame  // those of the state that are there still

	reader  *reader
	frames  framesPass
	records *lookup
	queue   []int // units in the order in which they were handed to the reader
	free    int64 // wiped extents were read up to here
	bytes   uint64
	fill    []int64
}

// damagedFrame is a frame in which damage was found by an earlier run.
type damagedFrame struct {
	number uint64
	off    int64
}

// newPortion prepares the run. What a state knows of another archive is no use here.
func newPortion(c *checker, old *State) *portion {
	p := &portion{c: c, old: old}
	if !old.begun() {
		p.old = &State{Pass: 1}
	} else if p.part.Anew = old.since(c.super.Archive, c.super.Generation, c.sum.Root); p.part.Anew != "" {
		p.old = &State{Pass: 1}
	} else if !sameBirth(old.born, c.o.Born) {
		p.part.Anew = "it is about another file than is there now, which is a copy, or was made by key rotate"
		p.old = &State{Pass: 1, bad: old.bad, fill: old.fill} // damage is copied with the rest; where it was not, that shows
	}
	s := *p.old
	s.Archive, s.Generation, s.Root, s.born = c.super.Archive, c.super.Generation, c.sum.Root, c.o.Born
	if s.Began.IsZero() {
		s.Began = c.f.clock.Now()
		s.nextFrame, s.end = c.commit.Counters.NextFrame, c.super.End
	}
	p.part.State, p.part.Pass, p.part.Began = &s, s.Pass, s.Began
	p.free = s.free
	return p
}

// late reports whether no more reading is to be begun.
func (c *checker) late() bool {
	return !c.o.Until.IsZero() && !c.f.clock.Now().Before(c.o.Until)
}

// frame notes a frame that the tree has.
func (p *portion) frame(number uint64, rec *index.Frame) {
	id := number / unitFrames
	if n := len(p.units); n == 0 || p.units[n-1].id != id {
		p.units = append(p.units, unit{id: id})
	}
	u := &p.units[len(p.units)-1]
	var buf [128]byte
	b := buf[:0]
	for _, v := range []uint64{u.sum, number, uint64(rec.Ext.Off), uint64(rec.Ext.Len)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(append(b, rec.Attempt[:]...), rec.Commitment[:]...)
	sum := blake3.Sum256(b)
	u.sum = binary.LittleEndian.Uint64(sum[:])
	u.bytes += uint64(rec.Ext.Len)
	if p.old.isBad(number) {
		p.again = append(p.again, damagedFrame{number, rec.Ext.Off})
	}
}

// portionPass reads what is due.
func (c *checker) portionPass() (err error) {
	p := c.portion
	p.reader = newReader(c)
	p.records = c.lookup(index.Frames)
	p.frames = framesPass{c: c, contents: c.lookup(index.Contents), data: p.reader, quiet: true}
	p.expect()
	defer func() { p.conclude(err) }()
	if err := p.reader.run(p.feed); err != nil {
		return err
	}
	return p.reader.deferred()
}

// Kinds of units.
const (
	isRead  = iota // the pass has read it as it is
	isDue          // the pass has not read it
	isSince        // it was written since the pass came by, or began
)

func (p *portion) kind(u *unit) int {
	i, ok := search(p.old.done, u.id)
	switch {
	case ok && p.old.done[i].sum == u.sum:
		return isRead
	case ok, u.id > p.part.State.nextFrame/unitFrames:
		return isSince
	}
	return isDue
}

// expect sets what progress is measured by.
func (p *portion) expect() {
	n := p.unwiped()
	for i := range p.units {
		if p.kind(&p.units[i]) != isRead {
			n += p.units[i].bytes
		}
	}
	p.c.rep.total = p.c.rep.done + int64(min(n, uint64(p.c.size)))
}

// unwiped is how many bytes of wiped space the pass has not read.
func (p *portion) unwiped() (n uint64) {
	for _, e := range p.wiped {
		n += uint64(max(p.limit(e)-max(e.Off, p.free), 0))
	}
	return n
}

// limit is where the pass's part of a wiped extent ends.
func (p *portion) limit(e format.Extent) int64 { return min(e.End(), p.c.size, p.part.State.end) }

// at finds the unit of a number.
func (p *portion) at(number uint64) (int, bool) { return search(p.units, number/unitFrames) }

func search(list []unit, id uint64) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(u unit, id uint64) int { return cmp.Compare(u.id, id) })
}

// feed gives the reader what is due until it is late. Of what the pass has not read it gives at least one unit, or else
// one piece of wiped space, so that runs that are too short end the pass all the same.
func (p *portion) feed() error {
	given := make(map[int]bool)
	// give hands out the units of a kind, at most so many.
	give := func(kind, most int) error {
		for i := range p.units {
			if given[i] || p.kind(&p.units[i]) != kind {
				continue
			}
			if most--; most < 0 || !p.reader.must && p.c.late() {
				break
			}
			given[i] = true
			if err := p.unit(i); err != nil {
				return err
			}
		}
		return nil
	}
	p.reader.must = true
	if err := give(isDue, 1); err != nil {
		return err
	}
	must := len(given) == 0
	most := len(given) + mostAgain
	for _, f := range p.again {
		i, ok := p.at(f.number)
		if !ok || given[i] {
			continue
		}
		if p.reader.must && len(given) == most {
			if err := p.mustNot(); err != nil {
				return err
			}
		}
		if !p.reader.must && p.c.late() {
			break
		}
		given[i] = true
		if err := p.unit(i); err != nil {
			return err
		}
	}
	if err := p.mustNot(); err != nil {
		return err
	}
	if err := p.refill(); err != nil {
		return err
	}
	if err := give(isDue, len(p.units)); err != nil {
		return err
	}
	if err := p.space(must); err != nil {
		return err
	}
	return give(isSince, len(p.units))
}

// mustNot ends what is read however late it is.
func (p *portion) mustNot() error {
	p.reader.must = false
	return p.reader.flush() // or more would be read with it
}

// unit gives the reader a unit's frames. What is wrong with the records was reported before.
func (p *portion) unit(i int) error {
	first := p.units[i].id * unitFrames
	for number := first; number-first < unitFrames; number++ {
		rec, f, err := p.records.frameAt(number)
		if err != nil {
			return err
		}
		if f != present {
			continue
		}
		whole, err := p.frames.claim(number, &rec)
		if err != nil {
			return err
		}
		if err := p.reader.add(job{info: infoOf(number, &rec), ext: rec.Ext, listed: whole}, p.frames.shares); err != nil {
			return err
		}
	}
	p.queue = append(p.queue, i)
	p.reader.unitDone()
	return nil
}

// piece is how much wiped space is read before the clock is looked at.
const piece = 1 << 20

// space reads wiped space from where the pass has come to. must: one piece even when it is late.
func (p *portion) space(must bool) error {
	c := p.c
	for _, e := range p.wiped {
		end := p.limit(e)
		told := false
		for at := max(e.Off, p.free); at < end; at = p.free {
			if !must && c.late() {
				return nil
			}
			must = false
			n := min(piece, end-at)
			// What was found before, or in this extent, is not told again.
			if !told && !slices.ContainsFunc(p.fill, func(off int64) bool { return off >= at && off < at+n }) {
				bad, err := p.wipedPiece(at, n)
				if err != nil {
					return err
				}
				told = bad
			} else if err := c.ctx.Err(); err != nil {
				return err
			}
			c.rep.advance(n)
			p.free = at + n
			p.bytes += uint64(n)
		}
	}
	return nil
}

// refill looks again at wiped space that was found not to be wiped.
func (p *portion) refill() error {
	for _, off := range p.old.fill {
		i, ok := slices.BinarySearchFunc(p.wiped, off, func(e format.Extent, off int64) int { return cmp.Compare(e.Off, off) })
		if !ok {
			i--
		}
		if i < 0 || off >= min(p.wiped[i].End(), p.c.size) {
			continue
		}
		if _, err := p.wipedPiece(off, min(piece, min(p.wiped[i].End(), p.c.size)-off)); err != nil {
			return err
		}
	}
	return nil
}

func (p *portion) wipedPiece(off, n int64) (bad bool, err error) {
	at, err := p.c.zero(format.Extent{Off: off, Len: n}, "a wiped free extent")
	if at >= 0 && len(p.fill) < mostFill && !slices.Contains(p.fill, at) {
		p.fill = append(p.fill, at)
	}
	return at >= 0, err
}

// conclude puts down what was read, also after an error.
func (p *portion) conclude(failed error) {
	c, s := p.c, p.part.State
	read, kept := make(map[int]bool), make(map[int]bool)
	for k, i := range p.queue[:p.reader.confirmed] {
		read[i], kept[i] = true, k < p.reader.kept
	}
	var done []unit
	due := false
	for i := range p.units {
		u := &p.units[i]
		kind := p.kind(u)
		switch {
		case kept[i]:
			done = append(done, *u)
			if kind != isRead {
				p.bytes += u.bytes
			}
			continue
		case kind == isDue:
			if !due {
				p.part.NextFrame, due = max(u.id*unitFrames, 1), true
			}
			p.part.Left += u.bytes
			continue
		case kind == isSince:
			p.part.Later += u.bytes
		}
		// A unit that has changed stays as it was when it was read: the pass owes it nothing more.
		if k, ok := search(p.old.done, u.id); ok {
			done = append(done, p.old.done[k])
		}
	}
	bad := p.reader.damagedFrames()
	var unseen []damagedFrame
	for _, f := range p.again {
		if i, ok := p.at(f.number); ok && !read[i] && !slices.Contains(bad, f.number) {
			unseen = append(unseen, f)
		}
	}
	for _, f := range unseen {
		bad = append(bad, f.number)
	}
	slices.Sort(bad)
	s.bad = bad[:min(len(bad), mostBad)]
	s.done, s.free, s.fill = done, p.free, p.fill
	s.Read += p.bytes
	p.part.Read = s.Read
	p.part.Left += p.unwiped()
	p.part.Uncompared = p.reader.uncompared()
	c.sum.Bytes = uint64(p.reader.bytes.Load())
	c.sum.Part = &p.part
	if failed != nil {
		return
	}
	p.remind(unseen)
	if p.part.Left == 0 && !due {
		p.part.Ended = c.f.clock.Now()
		p.part.State = s.next(p.part.Ended)
	}
}

// remind reports frames that were damaged when they were read last and that this run did not come to. Whose bytes they
// hold is known; which of them are damaged is not, so nobody's are said to be.
func (p *portion) remind(unseen []damagedFrame) {
	for _, f := range unseen {
		p.c.find(KindFrame, f.off, "frame %d was damaged when it was read last, and there was no time to read it again", f.number)
	}
}
