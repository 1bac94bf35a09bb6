package verify

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"lockbox/internal/format"
)

// State is how far a pass over an archive has come: a reading of every frame and of all wiped space that may take
// many runs. A run reads what the pass has not read; what was written where the pass had been already shows by another
// sum and is read again. The zero value begins with the first pass. It holds no names, no sizes of files and no
// digests of contents, so that it may stand beside an encrypted archive; it is not authenticated.
type State struct {
	Archive    format.ID
	Generation uint64        // of the last run
	Root       format.Digest // of the last run
	Pass       uint64        // the number of the pass, from 1
	Began      time.Time     // when it began; zero when it is still to begin
	Read       uint64        // bytes of the file that its runs have read
	Last       Complete      // the pass before

	born      int64    // when the file of the last run came to be; 0: the system does not tell
	nextFrame uint64   // frames from this number on came after the pass began
	end       int64    // and so did the file from here on
	free      int64    // wiped extents were read up to here
	done      []unit   // ascending
	bad       []uint64 // frames in which damage was found, ascending
	fill      []int64  // where wiped space was found not to be wiped
}

// sameBirth reports whether two times, 0 for none, can be that of one file. It leaves room for file systems that tell a time
// more coarsely after they were mounted anew.
func sameBirth(a, b int64) bool {
	const room = int64(100 * time.Millisecond) // FAT and exFAT keep ten
	return a == b || a != 0 && b != 0 && max(a, b)-min(a, b) <= room
}

// Complete is a pass that has come to its end. All is zero when there was none.
type Complete struct {
	Pass         uint64
	Began, Ended time.Time
}

// unit is the frames of unitFrames numbers and what they were when they were read.
type unit struct {
	id, sum uint64
	bytes   uint64 // of the file; not stored
}

const (
	// unitFrames bounds what a run reads at least, and what it reads again when one frame has moved; a unit takes some ten
	// bytes of the state.
	unitFrames = 8
	// What is remembered of damage. More than that shows again when the next pass comes by.
	mostBad  = 1 << 16
	mostFill = 1 << 10
	// mostAgain is how many units with damage are read again however late it is, so that their entries are named.
	mostAgain = 16
)

// since says why a state that was stored is not one of this archive's past, or "".
func (s *State) since(archive format.ID, generation uint64, root format.Digest) string {
	switch {
	case s.Archive != archive:
		return "it is that of another archive"
	case s.Generation > generation:
		return fmt.Sprintf("it knows generation %d, the archive has gone back to %d", s.Generation, generation)
	case s.Generation == generation && s.Root != root:
		return fmt.Sprintf("it knows another generation %d than the archive's", generation)
	}
	return ""
}

// begun reports whether a run has left something in the state.
func (s *State) begun() bool { return s.Pass > 0 }

// Append appends the state to b, as DecodeState reads it:
//
//	archive id (16), generation (8), root (32), pass (8), began (8), read (8), last pass: number (8), began (8), ended (8),
//	next frame (8), end (8), free (8), number of units (8), for each the difference of ids (uvarint) and the sum (8),
//	number of bad frames (8), differences (uvarints), number of fill offsets (8), offsets (8 each), when the file came to
//	be (8)
//
// Times are seconds since 1970, the last one nanoseconds, 0 for none.
func (s *State) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = append(b, s.Archive[:]...)
	b = append(le.AppendUint64(b, s.Generation), s.Root[:]...)
	for _, v := range []uint64{s.Pass, seconds(s.Began), s.Read, s.Last.Pass, seconds(s.Last.Began), seconds(s.Last.Ended),
		s.nextFrame, uint64(s.end), uint64(s.free), uint64(len(s.done))} {
		b = le.AppendUint64(b, v)
	}
	last := uint64(0)
	for _, u := range s.done {
		b = le.AppendUint64(binary.AppendUvarint(b, u.id-last), u.sum)
		last = u.id
	}
	b, last = le.AppendUint64(b, uint64(len(s.bad))), 0
	for _, n := range s.bad {
		b = binary.AppendUvarint(b, n-last)
		last = n
	}
	b = le.AppendUint64(b, uint64(len(s.fill)))
	for _, off := range s.fill {
		b = le.AppendUint64(b, uint64(off))
	}
	return le.AppendUint64(b, uint64(s.born))
}

// DecodeState reads what Append wrote. Its error is of kind ErrCorrupt.
func DecodeState(b []byte) (*State, error) {
	c := format.NewCursor(b, "state of a pass", -1)
	s := &State{Archive: c.ID(), Generation: c.U64(), Root: c.Digest(), Pass: c.U64(), Began: readTime(c), Read: c.U64()}
	s.Last = Complete{Pass: c.U64(), Began: readTime(c), Ended: readTime(c)}
	s.nextFrame, s.end, s.free = c.U64(), c.I64(), c.I64()
	if s.Pass == 0 {
		c.Fail("no pass has number 0")
	}
	const perUnit, perBad, perFill = 9, 1, 8
	s.done = make([]unit, readCount(c, perUnit))
	last := uint64(0)
	for i := range s.done {
		last += ascending(c, i, last)
		s.done[i] = unit{id: last, sum: c.U64()}
	}
	last = 0
	s.bad = make([]uint64, readCount(c, perBad))
	for i := range s.bad {
		last += ascending(c, i, last)
		s.bad[i] = last
	}
	s.fill = make([]int64, readCount(c, perFill))
	for i := range s.fill {
		s.fill[i] = c.I64()
	}
	s.born = int64(c.U64())
	if len(s.bad) > mostBad || len(s.fill) > mostFill {
		c.Fail("too many places")
	}
	if err := c.Done(); err != nil {
		return nil, err
	}
	return s, nil
}

// readCount reads a number of records that take at least size bytes each: no more than there are bytes for.
func readCount(c *format.Cursor, size int) int {
	n := c.U64()
	if n > uint64(c.Len()/size) {
		c.Fail("more records than bytes")
		return 0
	}
	return int(n)
}

// ascending reads the distance from last, the i-th of a list, to a number that is higher.
func ascending(c *format.Cursor, i int, last uint64) uint64 {
	d := c.Uvarint(^last)
	if i > 0 && d == 0 {
		c.Fail("numbers that do not ascend")
	}
	return d
}

func readTime(c *format.Cursor) time.Time {
	if v := c.I64(); v > 0 {
		return time.Unix(v, 0)
	}
	return time.Time{}
}

func seconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(t.Unix(), 1))
}

// next is the state with which the pass after this one begins.
func (s *State) next(ended time.Time) *State {
	return &State{Archive: s.Archive, Generation: s.Generation, Root: s.Root, born: s.born, Pass: s.Pass + 1,
		Last: Complete{Pass: s.Pass, Began: s.Began, Ended: ended}, bad: s.bad, fill: s.fill}
}

func (s *State) isBad(frame uint64) bool {
	_, ok := slices.BinarySearch(s.bad, frame)
	return ok
}
