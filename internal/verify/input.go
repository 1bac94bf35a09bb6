package verify

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is where time comes from.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or earlier with ctx's error when that ends.
	Sleep(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Work is what a check has done.
type Work struct {
	Reads, BytesRead uint64 // of the file
	Nodes            uint64 // parsed; those that several passes need count each time
	Frames           uint64 // compressed ones, decoded
	Blocks           uint64 // tags checked over frames' bytes
}

// input is the file as a check reads it: every read is counted, and none comes before its bytes are due.
type input struct {
	File
	ctx   context.Context
	rate  int64 // bytes a second; 0: no bound
	clock Clock
	reads atomic.Uint64
	bytes atomic.Uint64

	mu  sync.Mutex
	due time.Time // when as much time has passed as what was read so far takes
}

func newInput(ctx context.Context, f File, o *Options) *input {
	in := &input{File: f, ctx: ctx, rate: o.Rate, clock: o.Clock}
	if in.clock == nil {
		in.clock = systemClock{}
	}
	return in
}

func (in *input) ReadAt(b []byte, off int64) (int, error) {
	if in.rate > 0 {
		if err := in.pace(len(b)); err != nil {
			return 0, err
		}
	}
	n, err := in.File.ReadAt(b, off)
	in.reads.Add(1)
	in.bytes.Add(uint64(n))
	return n, err
}

// paceSlack is how far reading may run ahead of its rate, and how much of what it lags behind it may make up
// for: sleeps that are shorter take longer than they should, and many small reads would suffer.
const paceSlack = 50 * time.Millisecond

// pace waits until n more bytes may be read.
func (in *input) pace(n int) error {
	in.mu.Lock()
	now := in.clock.Now()
	if oldest := now.Add(-paceSlack); in.due.Before(oldest) {
		in.due = oldest
	}
	in.due = in.due.Add(time.Duration(float64(n) / float64(in.rate) * float64(time.Second)))
	wait := in.due.Sub(now)
	in.mu.Unlock()
	if wait < paceSlack {
		return nil
	}
	return in.clock.Sleep(in.ctx, wait)
}
