package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// contender is one way to do a workload. prepare, if not nil, runs before each sample, outside the timing. run
// does the work and returns how long it took.
type contender struct {
	name    string
	prepare func() error
	run     func() (time.Duration, error)
}

// stat is what the samples of a contender come to.
type stat struct {
	name    string
	samples []time.Duration
}

func (s *stat) at(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s.samples))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

func (s *stat) median() time.Duration { return s.at(0.5) }

// String is the median with half the distance between the quartiles.
func (s *stat) String() string {
	m := s.median()
	spread := 100 * float64(s.at(0.75)-s.at(0.25)) / 2 / float64(max(m, 1))
	return fmt.Sprintf("%s ±%.0f%%", duration(m), spread)
}

func duration(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// compare lets the contenders take turns: one round that does not count, then n.
func (b *bench) compare(n int, cs ...contender) ([]stat, error) {
	stats := make([]stat, len(cs))
	for round := range n + 1 {
		for i, c := range cs {
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
			if c.prepare != nil {
				if err := c.prepare(); err != nil {
					return nil, fmt.Errorf("%s: %w", c.name, err)
				}
			}
			runtime.GC() // so that nobody pays for another's garbage
			d, err := c.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			stats[i].name = c.name
			if round > 0 {
				stats[i].samples = append(stats[i].samples, d)
			}
		}
	}
	for _, st := range stats {
		r := rawSamples{Workload: b.current, Contender: st.name}
		for _, d := range st.samples {
			r.Nanoseconds = append(r.Nanoseconds, d.Nanoseconds())
		}
		b.raw = append(b.raw, r)
	}
	return stats, nil
}

// rawSamples is what the tables were made from, in the order of measurement.
type rawSamples struct {
	Workload    string  `json:"workload"`
	Contender   string  `json:"contender"`
	Nanoseconds []int64 `json:"nanoseconds"`
}

func writeRaw(name string, rs []rawSamples) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, r := range rs {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return os.WriteFile(name, buf.Bytes(), 0o644)
}

// timed makes a run of a function whose whole time counts.
func timed(fn func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		begin := time.Now()
		err := fn()
		return time.Since(begin), err
	}
}

// repeated makes a run out of n small ones, each set up outside the timing; it returns their mean. Work of a few
// microseconds is lost in the clock otherwise.
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
				return 0, err
			}
			if err := tearDown(v); err != nil {
				return 0, err
			}
		}
		return total / time.Duration(n), nil
	}
}

// fastest returns the stat with the smallest median.
func fastest(ss []stat) stat {
	return slices.MinFunc(ss, func(x, y stat) int { return int(x.median() - y.median()) })
}
