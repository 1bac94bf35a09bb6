package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		spent       time.Duration
		want        string
	}{
		{0, -1, 0, "adding 0 B"},
		{5_000_000, -1, 2 * time.Second, "adding 5.0 MB, 2.5 MB/s"},
		{0, 0, time.Second, "adding 0 B, 0 B/s"},
		{0, 1000, 0, "adding   0% [                        ] 0 B of 1.0 kB"},
		{500, 1000, time.Second, "adding  50% [############            ] 500 B of 1.0 kB, 500 B/s, 2s left"},
		{1000, 1000, time.Second, "adding 100% [########################] 1.0 kB of 1.0 kB, 1.0 kB/s"},
		{2000, 1000, 0, "adding 100% [########################] 1.0 kB of 1.0 kB"},
		{1, 1 << 40, time.Second, "adding   0% [                        ] 1 B of 1.1 TB, 1 B/s"},
		{1 << 30, 1 << 40, time.Minute, "adding   0% [                        ] 1.1 GB of 1.1 TB, 18 MB/s, 17h3m1s left"},
	} {
		if got := progressLine("adding", c.done, c.total, c.spent); got != c.want {
			t.Errorf("%d of %d after %v:\n%q, want\n%q", c.done, c.total, c.spent, got, c.want)
		}
	}
}

// A message appears on a line of its own, and a shorter line leaves nothing of a longer one.
func TestProgressLeavesNothingBehind(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(100, 0)
	p := &progress{w: &out, label: "adding", now: func() time.Time { return now }, start: now}
	p.set(123_456_789, -1)
	p.draw()
	p.set(1, -1)
	p.draw()
	p.aside(func() { _, _ = io.WriteString(&out, "message\n") })
	p.aside(func() { _, _ = io.WriteString(&out, "another\n") })
	p.draw()
	p.clear()
	if got := screen(out.String()); got != "message\nanother\n" {
		t.Errorf("the screen shows %q", got)
	}
}

// screen is what a terminal shows after s, which moves only by carriage returns and line feeds.
func screen(s string) string {
	var b strings.Builder
	line, at := []byte{}, 0
	for i := range len(s) {
		switch s[i] {
		case '\r':
			at = 0
		case '\n':
			b.WriteString(strings.TrimRight(string(line), " ") + "\n")
			line, at = line[:0], 0
		default:
			if at == len(line) {
				line = append(line, ' ')
			}
			line[at] = s[i]
			at++
		}
	}
	b.WriteString(strings.TrimRight(string(line), " "))
	return b.String()
}
