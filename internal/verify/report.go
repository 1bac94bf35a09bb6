package verify

import "sync"

// report passes findings and progress on, one at a time, and counts.
type report struct {
	mu         sync.Mutex
	finding    func(Finding)
	progress   func(done, total int64)
	damaged    int
	repairable int

	done, total, shown int64
}

// progressStep is how many bytes pass between two calls of Progress.
const progressStep = 1 << 20

// add reports a finding. fresh says that its entry or structure was not counted as damaged before.
func (r *report) add(f Finding, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case f.Kind == KindRepairable:
		r.repairable++
	case fresh:
		r.damaged++
	}
	if r.finding != nil {
		r.finding(f)
	}
}

// advance notes that n more bytes of the file were checked.
func (r *report) advance(n int64) {
	if r.progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The total comes from counters that may be wrong; what is shown never exceeds it.
	if r.done = min(r.done+n, r.total); r.done-r.shown >= progressStep {
		r.shown = r.done
		r.progress(r.done, r.total)
	}
}

func (r *report) finish() {
	if r.progress != nil {
		r.progress(r.total, r.total)
	}
}

// bitset is a set of small numbers that costs nothing while it is empty.
type bitset []uint64

func (s *bitset) add(n int) {
	for len(*s) <= n/64 {
		*s = append(*s, 0)
	}
	(*s)[n/64] |= 1 << (n % 64)
}

func (s bitset) has(n int) bool { return n/64 < len(s) && s[n/64]>>(n%64)&1 != 0 }
