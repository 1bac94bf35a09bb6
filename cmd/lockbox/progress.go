package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"lockbox/internal/index"
)

const (
	progressDelay = 500 * time.Millisecond // shorter work shows nothing
	progressEvery = 100 * time.Millisecond
	progressCells = 24 // of the bar
)

// progress draws how much is done. Its methods may be called from any goroutine, and on nil, which
// draws nothing. Work only counts; one goroutine draws.
type progress struct {
	w      io.Writer
	label  string
	amount func(int64) string // done, total and rate in words
	always bool
	now    func() time.Time
	done   atomic.Int64
	total  atomic.Int64 // -1: not known

	mu    sync.Mutex
	start time.Time
	shown int // columns that are on the screen
	quit  chan struct{}
	wg    sync.WaitGroup
}

// startProgress begins to draw how many bytes are done, if anything is to be drawn at all. endProgress ends it.
func (a *app) startProgress(label string, total int64) { a.startCounting(label, humanBytes, total) }

// startCounting is startProgress for any amount.
func (a *app) startCounting(label string, amount func(int64) string, total int64) {
	switch a.g.progress.value {
	case "never":
		return
	case "auto":
		if a.g.quiet || !isTerminal(a.sys.stderr) || a.sys.getenv("TERM") == "dumb" {
			return
		}
	}
	p := &progress{w: a.sys.stderr, label: label, amount: amount, always: a.g.progress.value == "always", now: a.now, quit: make(chan struct{})}
	p.total.Store(total)
	p.start = p.now()
	a.bar = p
	a.say.mu.Lock()
	a.say.bar = p
	a.say.mu.Unlock()
	p.wg.Go(p.run)
}

// endProgress takes the bar off the screen; with "always" its last state stays.
func (a *app) endProgress() {
	p := a.bar
	if p == nil {
		return
	}
	a.bar = nil
	a.say.mu.Lock()
	a.say.bar = nil
	a.say.mu.Unlock()
	close(p.quit)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.always {
		p.draw()
		_, _ = io.WriteString(p.w, "\n")
	} else {
		p.clear()
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progress) add(n int64) {
	if p != nil {
		p.done.Add(n)
	}
}

func (p *progress) set(done, total int64) {
	if p != nil {
		p.done.Store(done)
		p.total.Store(total)
	}
}

// expect sets what there is to do, once that is known.
func (p *progress) expect(total int64) {
	if p != nil {
		p.total.Store(total)
	}
}

// expectAll expects what entries weigh together.
func (p *progress) expectAll(ctx context.Context, entries iter.Seq2[index.Entry, error], weight func(*index.Entry) int64) error {
	if p == nil {
		return nil
	}
	var total int64
	for e, err := range during(ctx, entries) {
		if err != nil {
			return err
		}
		total += weight(&e)
	}
	p.expect(total)
	return nil
}

// countOf prints a number of things.
func countOf(n int64) string { return comma(uint64(max(n, 0))) }

func (p *progress) run() {
	if !p.always {
		select {
		case <-p.quit:
			return
		case <-time.After(progressDelay):
		}
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		p.mu.Lock()
		p.draw()
		p.mu.Unlock()
		select {
		case <-p.quit:
			return
		case <-tick.C:
		}
	}
}

// draw shows the current state; mu is held. Errors are of no use here: a bar that cannot be drawn
// must not end the work.
func (p *progress) draw() {
	line := progressLine(p.label, p.amount, p.done.Load(), p.total.Load(), p.now().Sub(p.start))
	// A line as wide as the terminal would wrap, and then it could not be taken back.
	if f, ok := p.w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			line = line[:min(len(line), width-1)]
		}
	}
	_, _ = io.WriteString(p.w, "\r"+line+strings.Repeat(" ", max(p.shown-len(line), 0)))
	p.shown = len(line)
}

// progressLine is what is shown of work that has come so far in this time. It is ASCII, one column a byte.
func progressLine(label string, amount func(int64) string, done, total int64, spent time.Duration) string {
	rate := ""
	perSecond := 0.0
	if s := spent.Seconds(); s >= 0.1 {
		perSecond = float64(done) / s
		rate = ", " + amount(int64(perSecond)) + "/s"
	}
	if total < 0 {
		return label + " " + amount(done) + " so far" + rate
	}
	if total == 0 { // an empty bar would claim that all is done
		return label + " " + amount(done) + rate
	}
	done = min(done, total)
	part := float64(done) / float64(total)
	bar := strings.Repeat("#", int(part*progressCells))
	line := fmt.Sprintf("%s %3d%% [%-*s] %s of %s%s", label, int(part*100), progressCells, bar, amount(done), amount(total), rate)
	if perSecond > 0 && done < total {
		// Beyond a day nobody plans by it.
		if left := float64(total-done) / perSecond; left < 86400 {
			line += fmt.Sprintf(", %v left", time.Duration(left+1)*time.Second)
		}
	}
	return line
}

// clear takes the bar off the screen; mu is held. Spaces work on terminals without escape sequences too.
func (p *progress) clear() {
	if p.shown > 0 {
		_, _ = io.WriteString(p.w, "\r"+strings.Repeat(" ", p.shown)+"\r")
		p.shown = 0
	}
}

// aside runs fn with the bar off the screen.
func (p *progress) aside(fn func()) {
	if p == nil {
		fn()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fn()
}
