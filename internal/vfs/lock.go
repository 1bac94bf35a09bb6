package vfs

import (
	"io/fs"
	"math"
	"slices"
	"sync"
)

// span is a range of bytes. Both ends fit an int64, so last never overflows.
type span struct{ off, n int64 }

func (s span) last() int64          { return s.off + (s.n - 1) }
func (s span) overlaps(o span) bool { return s.off <= o.last() && o.off <= s.last() }

func (s span) valid() bool { return s.off >= 0 && s.n > 0 && s.n-1 <= math.MaxInt64-s.off }

// held is what one handle has locked. It gives every system the same rules: POSIX merges, splits and converts
// the overlapping locks of a handle, Windows stacks them or blocks on them; here they cannot arise.
type held struct {
	mu     sync.Mutex
	closed bool
	spans  []span
}

// try calls lock for a range that the handle may lock, and remembers it on success.
func (h *held) try(s span, lock func() (bool, error)) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false, fs.ErrClosed
	}
	if !s.valid() || slices.ContainsFunc(h.spans, s.overlaps) {
		return false, ErrLockRange
	}
	ok, err := lock()
	if ok && err == nil {
		h.spans = append(h.spans, s)
	}
	return ok && err == nil, err
}

// release calls unlock for a range that the handle holds, and forgets it on success.
func (h *held) release(s span, unlock func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fs.ErrClosed
	}
	i := slices.Index(h.spans, s)
	if i < 0 {
		return ErrLockRange
	}
	if err := unlock(); err != nil {
		return err
	}
	h.spans = slices.Delete(h.spans, i, i+1)
	return nil
}

// close calls unlock for every range still held and refuses everything from then on. It returns
// the first error, and false when it was closed already.
func (h *held) close(unlock func(span) error) (first error, open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, false
	}
	h.closed = true
	for _, s := range h.spans {
		if err := unlock(s); err != nil && first == nil {
			first = err
		}
	}
	h.spans = nil
	return first, true
}

// fileLocks are the locks on a file in memory, by the handle that has each.
type fileLocks []fileLock

type fileLock struct {
	span
	exclusive bool
	owner     File
}

// take reports whether nobody's lock stands against a new one, which then is there.
func (ls *fileLocks) take(s span, exclusive bool, owner File) bool {
	for _, l := range *ls {
		if l.overlaps(s) && (l.exclusive || exclusive) {
			return false
		}
	}
	*ls = append(*ls, fileLock{s, exclusive, owner})
	return true
}

func (ls *fileLocks) drop(s span, owner File) {
	*ls = slices.DeleteFunc(*ls, func(l fileLock) bool { return l.owner == owner && l.span == s })
}
