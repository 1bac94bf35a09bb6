package verify

import (
	"slices"
	"sync"
)

// deferredMost is how long a content may be that a run of a pass reads a second time to compare its digest.
const deferredMost = 64 << 20

// account is what a reader knows of the units that a run of a pass gives it. All but the damaged frames is the
// walk's own.
type account struct {
	must      bool // what is added now is read however late it is
	handed    int  // units whose frames were all added
	confirmed int  // of them, those up to which everything was read
	kept      int  // of these, those that the next run need not read
	cut       bool // a batch was not read to its end
	open      []*stream

	mu      sync.Mutex
	damaged map[uint64]bool // frames
}

// unitDone notes that all frames of a unit were added.
func (r *reader) unitDone() {
	r.handed++
	if r.batch != nil {
		return // its end is still to be flushed
	}
	if n := len(r.flight); n > 0 {
		r.flight[n-1].units = r.handed
	} else if !r.cut {
		r.confirmed = r.handed
	}
}

// confirm takes note of a batch that is done. whole is false when its workers may have passed over it.
func (r *reader) confirm(b *batch, whole bool) {
	r.cut = r.cut || !whole || b.cut.Load()
	if !r.cut {
		r.confirmed = b.units
	}
}

// begun notes where a content's digest begins.
func (r *reader) begun(s *stream) {
	s.first = r.handed
	const tidyAt = 1 << 10
	if len(r.open) >= tidyAt {
		r.open = slices.DeleteFunc(r.open, (*stream).ended)
	}
	r.open = append(r.open, s)
}

func (s *stream) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hash == nil
}

// rewind leaves the contents that the end of the time has cut in two to the next run as a whole, unless that would
// cost this one more than half of what it has read: then their digests are not compared.
func (r *reader) rewind(failed bool) {
	r.kept = r.confirmed
	if !failed && !r.c.late() {
		return
	}
	for _, s := range r.open {
		if s.first >= max(r.confirmed/2, 1) && !s.ended() {
			r.kept = min(r.kept, s.first) // they stand in the order in which they begin
			return
		}
	}
}

// damagedIn notes a frame in which damage was found.
func (r *reader) damagedIn(frame uint64) {
	if r.c.portion == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damaged == nil {
		r.damaged = make(map[uint64]bool)
	}
	if len(r.damaged) < mostBad {
		r.damaged[frame] = true
	}
}

// damagedFrames lists them.
func (r *reader) damagedFrames() (list []uint64) {
	for n := range r.damaged {
		list = append(list, n)
	}
	return list
}

// uncompared counts the contents of which something was read that the next run need not read, and whose digests were
// not compared by this run.
func (r *reader) uncompared() (n uint64) {
	t := &r.c.contents
	for rank, f := range t.flags {
		if f&isGiven != 0 && !t.known.has(rank) && !t.isBad(rank) {
			n++
		}
	}
	for _, s := range r.open {
		if s.first < r.kept && !s.ended() {
			n++
		}
	}
	return n
}
