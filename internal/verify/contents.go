package verify

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"lockbox/internal/index"
)

// contents is what the cross checks need of every content, in ascending order of numbers: 29 bytes each.
// A content's position in these arrays is its rank.
type contents struct {
	num    []uint64
	size   []int64  // 0: its record cannot be read
	prefix []uint64 // the first bytes of its digest, as the digests tree has them
	left   []uint32 // references that no entry has claimed yet
	flags  []uint8
	parts  uint64 // shares in frames, of all contents

	mu     sync.Mutex // guards what follows, which workers find out
	known  bitset     // the bytes were compared with the digest
	bad    bitset
	reason map[int]string // why, for the first of them
}

const (
	hasDigest  = 1 << iota // the digests tree has its key
	isSelected             // its bytes are to be read
	isDeferred             // its bytes are not read in the order of frames, but on their own
	isNamed                // a finding names an entry that has it
	isXattrs               // an entry has its extended attributes in it
	isWhole                // one frame holds all of it
	isTouched              // a run of a pass has read of it
	isGiven                // and was not given all of it in order
)

// maxReasons bounds how many damaged contents are remembered with a reason.
const maxReasons = 4096

// rank finds a content by its number.
func (t *contents) rank(n uint64) (int, bool) {
	// Numbers are dense in an archive that nothing was removed from.
	if len(t.num) > 0 {
		if i := n - t.num[0]; i < uint64(len(t.num)) && t.num[i] == n {
			return int(i), true
		}
	}
	return slices.BinarySearch(t.num, n)
}

// markBad notes that a content's bytes are not there. The first reason stays.
func (t *contents) markBad(rank int, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bad.has(rank) {
		return
	}
	t.bad.add(rank)
	if t.reason == nil {
		t.reason = make(map[int]string)
	}
	if len(t.reason) < maxReasons {
		t.reason[rank] = reason
	}
}

// settle makes bad what should have been read and was not, for whatever reason: nothing that was asked for
// is passed over in silence.
func (t *contents) settle() {
	for r, f := range t.flags {
		if f&isSelected != 0 && !t.known.has(r) {
			t.markBad(r, "its bytes could not be reached")
		}
	}
}

func (t *contents) isBad(rank int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bad.has(rank)
}

func (t *contents) why(rank int) string {
	if r, ok := t.reason[rank]; ok {
		return r
	}
	return "its bytes are damaged"
}

// contentsPass reads the contents tree.
func (c *checker) contentsPass() error {
	t := &c.contents
	// A record takes 40 bytes and more, so a count is believed only as far as the file could hold it.
	most := uint64(c.size / 40)
	n := int(min(c.roots[index.Contents].Count, most))
	t.num, t.size, t.prefix = make([]uint64, 0, n), make([]int64, 0, n), make([]uint64, 0, n)
	t.left, t.flags = make([]uint32, 0, n), make([]uint8, 0, n)
	return c.walk(index.Contents, false, func(key, value []byte) error {
		number := binary.BigEndian.Uint64(key)
		if number == 0 {
			c.find(KindContent, -1, "content number 0")
			return nil
		}
		c.sum.Contents++
		c.got.NextContent = number
		rec, err := index.DecodeContent(value)
		flags := uint8(0)
		if c.o.Only == nil {
			flags = isSelected
		}
		t.num = append(t.num, number)
		t.size = append(t.size, rec.Size)
		prefix := c.suite.Prefix(&rec.Digest)
		t.prefix = append(t.prefix, binary.BigEndian.Uint64(prefix[:]))
		t.left = append(t.left, uint32(rec.Refs))
		t.flags = append(t.flags, flags)
		if err != nil {
			c.broken[index.Contents] = true
			t.markBad(len(t.num)-1, "the record of its content cannot be read")
			return c.damage(KindContent, -1, fmt.Errorf("content %d: %w", number, err))
		}
		if rec.Refs > math.MaxUint32 {
			c.find(KindContent, -1, "content %d: %d references", number, rec.Refs)
		}
		c.got.PlainBytes += uint64(rec.Size)
		for i := range rec.Runs {
			// More frames than fit in the file are as wrong as any number, and must not overflow.
			t.parts = min(t.parts+min(rec.Runs[i].Frames(), most+1), 1<<62)
		}
		return nil
	})
}

// digestsPass shows that the digests tree has exactly one key for each content.
func (c *checker) digestsPass() error {
	t := &c.contents
	err := c.walk(index.Digests, false, func(key, _ []byte) error {
		number := binary.BigEndian.Uint64(key[8:])
		r, ok := t.rank(number)
		switch {
		case !ok && !c.broken[index.Contents]:
			c.find(KindContent, -1, "the digests tree has content %d, which does not exist", number)
		case ok && t.size[r] > 0 && t.prefix[r] != binary.BigEndian.Uint64(key):
			c.find(KindContent, -1, "the digests tree has content %d under another digest", number)
		case ok:
			t.flags[r] |= hasDigest
		}
		return nil
	})
	if err != nil || c.broken[index.Digests] {
		return err
	}
	for r, f := range t.flags {
		if f&hasDigest == 0 {
			c.find(KindContent, -1, "content %d has no key in the digests tree", t.num[r])
		}
	}
	return nil
}

// share is what one frame holds of a content: length bytes from off on of the frame's plain bytes, which
// are those from pos on of the content.
type share struct{ off, pos, length int64 }

// shareFrom finds the share of a content that begins at byte off of a frame or, unless exact, the first
// that begins there or later. Where a run goes on in the next frame, this one must hold exactly its unit.
func shareFrom(rec *index.Content, frame uint64, off, plain int64, exact bool) (s share, ok bool) {
	base := int64(0)
	take := func(x share) {
		if x.off == off || !exact && x.off > off && (!ok || x.off < s.off) {
			if x.length <= plain-x.off {
				s, ok = x, true
			}
		}
	}
	for i := range rec.Runs {
		r := &rec.Runs[i]
		switch {
		case r.Unit == 0:
			if r.Frame == frame {
				take(share{r.Off, base, r.Len})
			}
		case off == 0 && frame >= r.Frame && frame-r.Frame < r.Frames():
			at := int64(frame-r.Frame) * r.Unit
			if n := min(r.Unit, r.Len-at); n == r.Len-at || plain == r.Unit {
				take(share{0, base + at, n})
			}
		}
		if ok && s.off == off {
			break
		}
		base += r.Len
	}
	return s, ok
}

// shares calls fn for each share of a content in order, until fn returns false.
func shares(rec *index.Content, fn func(frame uint64, s share, last bool, unit int64) bool) {
	base := int64(0)
	for i := range rec.Runs {
		r := &rec.Runs[i]
		if r.Unit == 0 {
			if !fn(r.Frame, share{r.Off, base, r.Len}, true, 0) {
				return
			}
		} else {
			for k := uint64(0); k < r.Frames(); k++ {
				at := int64(k) * r.Unit
				n := min(r.Unit, r.Len-at)
				if !fn(r.Frame+k, share{0, base + at, n}, at+n == r.Len, r.Unit) {
					return
				}
			}
		}
		base += r.Len
	}
}

// contentAt looks a content's record up. What cannot be decoded was reported when the tree was walked.
func (l *lookup) contentAt(number uint64) (rec index.Content, f found, err error) {
	value, f, err := l.find(number)
	if err != nil || f != present {
		return rec, f, err
	}
	if rec, err = index.DecodeContent(value); err != nil {
		return rec, unreadable, nil
	}
	return rec, present, nil
}

// frameAt looks a frame's record up, as contentAt does a content's.
func (l *lookup) frameAt(number uint64) (rec index.Frame, f found, err error) {
	value, f, err := l.find(number)
	if err != nil || f != present {
		return rec, f, err
	}
	if rec, err = index.DecodeFrame(value, l.c.tag, l.c.super.Sector); err != nil {
		return rec, unreadable, nil
	}
	if info := infoOf(number, &rec); l.c.frameProblem(&info, rec.Ext) != "" {
		return rec, unreadable, nil
	}
	return rec, present, nil
}

// strayPass looks for the contents whose shares no frame has answered for and returns how many it found.
// Its cost is bounded by stopping once many more shares were looked at than frames have members.
func (c *checker) strayPass(members uint64) (strays int, err error) {
	t := &c.contents
	frames := c.lookup(index.Frames)
	budget := 4*(members+uint64(len(t.num))) + 1<<16
	err = c.walk(index.Contents, true, func(key, value []byte) error {
		number := binary.BigEndian.Uint64(key)
		r, ok := t.rank(number)
		rec, err := index.DecodeContent(value)
		if !ok || err != nil || budget == 0 {
			return nil
		}
		var fatal error
		shares(&rec, func(frame uint64, s share, last bool, unit int64) bool {
			if budget == 0 {
				c.partial = true
				return false
			}
			budget--
			f, state, err := frames.frameAt(frame)
			bad := ""
			switch {
			case err != nil:
				fatal = err
				return false
			case state == absent:
				bad = fmt.Sprintf("frame %d does not exist", frame)
			case state == unreadable:
				bad = fmt.Sprintf("the record of frame %d cannot be read", frame)
			case s.off+s.length > int64(f.Plain):
				bad = fmt.Sprintf("it reaches past the end of frame %d", frame)
			case !last && int64(f.Plain) != unit:
				bad = fmt.Sprintf("frame %d holds %d bytes, its run's unit is %d", frame, f.Plain, unit)
			case !slices.Contains(f.Contents, number):
				c.find(KindContent, -1, "content %d: frame %d does not list it", number, frame)
				t.flags[r] |= isDeferred
				strays++
				return false
			default:
				return true
			}
			t.markBad(r, bad)
			strays++
			if state != unreadable {
				c.find(KindContent, -1, "content %d: %s", number, bad)
			}
			return false
		})
		return fatal
	})
	return strays, err
}
