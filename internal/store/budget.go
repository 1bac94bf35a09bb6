package store

import (
	"context"
	"sync"
)

// inFlight is how many bytes of files may be read and not yet placed. One file that a worker reads whole
// always fits.
func inFlight(jobs int) int64 { return wholeMax + int64(jobs)*wholeMax }

// budget is a number of bytes that one goroutine takes from and others give back to.
type budget struct {
	mu   sync.Mutex
	more sync.Cond
	free int64
}

func newBudget(n int64) *budget {
	b := &budget{free: n}
	b.more.L = &b.mu
	return b
}

// take waits until n bytes are free; false when ctx ended before. Whoever cancels ctx calls wake.
func (b *budget) take(ctx context.Context, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.free < n {
		if ctx.Err() != nil {
			return false
		}
		b.more.Wait()
	}
	b.free -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.free += n
	b.mu.Unlock()
	b.more.Signal()
}

func (b *budget) wake() {
	b.mu.Lock()
	defer b.mu.Unlock() // or it could fall between another's look at ctx and its wait
	b.more.Broadcast()
}
