package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Contender is one way to do a workload. Prepare, if not nil, runs before each sample, outside the timing. Run does
// the work and returns how long it took.
type Contender struct {
	Name    string
	Prepare func() error
	Run     func() (time.Duration, error)
}

// Take lets the contenders take turns: one round that does not count, then n. It returns each one's samples in the
// order of measurement.
func Take(ctx context.Context, n int, cs ...Contender) ([][]time.Duration, error) {
	samples := make([][]time.Duration, len(cs))
	for round := range n + 1 {
		for i, c := range cs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if c.Prepare != nil {
				if err := c.Prepare(); err != nil {
					return nil, fmt.Errorf("%s: %w", c.Name, err)
				}
			}
			runtime.GC() // so that nobody pays for another's garbage
			d, err := c.Run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			if round > 0 {
				samples[i] = append(samples[i], d)
			}
		}
	}
	return samples, nil
}

// at returns the sample below which a part q of all lies.
func at(samples []time.Duration, q float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// Median returns the median of samples, 0 when there are none.
func Median(samples []time.Duration) time.Duration { return at(samples, 0.5) }

// Spread is half the distance between the quartiles, as a part of the median.
func Spread(samples []time.Duration) float64 {
	return float64(at(samples, 0.75)-at(samples, 0.25)) / 2 / float64(max(Median(samples), 1))
}

// timed makes a run of a function whose whole time counts.
func timed(fn func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		begin := time.Now()
		err := fn()
		return time.Since(begin), err
	}
}

// repeated makes a run out of n small ones, each set up and torn down outside the timing; it returns their mean. Work
// of a few microseconds is lost in the clock otherwise.
func repeated[T any](n int, setUp func(i int) (T, error), fn func(T, int) error, tearDown func(T) error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		var total time.Duration
		for i := range n {
			v, err := setUp(i)
			if err != nil {
				return 0, err
			}
			begin := time.Now()
			err = fn(v, i)
			total += time.Since(begin)
			if err != nil {
				_ = tearDown(v) // the first error is the one to tell
				return 0, err
			}
			if err := tearDown(v); err != nil {
				return 0, err
			}
		}
		return total / time.Duration(n), nil
	}
}

// whole is for runs that need no setting up: everything is part of fn.
func whole(n int, fn func(i int) error) func() (time.Duration, error) {
	return repeated(n, func(int) (struct{}, error) { return struct{}{}, nil },
		func(_ struct{}, i int) error { return fn(i) }, func(struct{}) error { return nil })
}
