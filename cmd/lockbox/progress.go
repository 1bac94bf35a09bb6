package main

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	progressDelay = 500 * time.Millisecond // shorter work shows nothing
	progressEvery = 100 * time.Millisecond
)

// progress draws how many bytes are done. Its methods may be called from any goroutine, and on nil, which
// draws nothing. Work only counts; one goroutine draws.
type progress struct {
	w      io.Writer
	label  string
	always bool
	done   atomic.Int64
	total  atomic.Int64 // -1: not known

	mu   sync.Mutex
	bar  *progressbar.ProgressBar
	max  int64
	quit chan struct{}
	wg   sync.WaitGroup
}

// startProgress begins to draw, if anything is to be drawn at all. endProgress ends it.
func (a *app) startProgress(label string, total int64) {
	switch a.g.progress.value {
	case "never":
		return
	case "auto":
		if a.g.quiet || !isTerminal(a.sys.stderr) || a.sys.getenv("TERM") == "dumb" {
			return
		}
	}
	p := &progress{w: a.sys.stderr, label: label, always: a.g.progress.value == "always", quit: make(chan struct{})}
	p.total.Store(total)
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
	} else if p.bar != nil {
		_ = p.bar.Clear()
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
	done, total := p.done.Load(), p.total.Load()
	if total == 0 {
		total = -1 // an empty bar would claim that all is done
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(p.label),
			progressbar.OptionShowBytes(true),
			progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(0),
			progressbar.OptionSetPredictTime(total > 0))
		p.max = total
	}
	if total > 0 {
		if total != p.max {
			p.bar.ChangeMax64(total)
			p.max = total
		}
		done = min(done, total)
	}
	_ = p.bar.Set64(done)
}

// aside runs fn with the bar off the screen.
func (p *progress) aside(fn func()) {
	if p == nil {
		fn()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fn()
}
