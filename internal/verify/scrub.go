package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// ScrubOptions say how an archive is scrubbed.
type ScrubOptions struct {
	MaxAge time.Duration // every byte is to be read again within this time
	Rate   int64         // bytes a second at most; 0: no bound
	// Damage hears of every finding at once: what a reader has learnt to trust it may trust no more.
	Damage func(Finding)
	Pass   func(Pass) // hears of the end of every pass; nil: nobody does
	// Hold keeps the archive's current generation, and with it every later one, from being wiped while a
	// pass reads it; nil: nobody but the caller changes the archive.
	Hold  func(context.Context) (Holder, error)
	Clock Clock // nil: the system's
	// As in Options; Unlock is asked in every pass.
	Unlock  seal.Unlock
	Signers []seal.PublicKey
}

// Holder holds a generation, as an open handle of the store does.
type Holder interface {
	// Recheck returns an error when the archive was changed and what was read may have been wiped.
	Recheck() error
	Close() error
}

// Pass is one reading of everything that an archive's generation consists of.
type Pass struct {
	Summary
	Began time.Time
	Took  time.Duration
	// Age is the time since the pass before began, in the first one since this one did: no byte was left unread
	// for longer. It exceeds MaxAge when the rate is too low for the archive.
	Age time.Duration
	// Cached says that the system could not be asked to forget what it has cached: bytes may have come from
	// memory and not from the device.
	Cached bool
}

// KindUnreadable is the kind of a finding of Scrub alone, its last: the archive cannot be read at all.
const KindUnreadable = "unreadable"

// errMoved ends a pass whose findings may be another process's work.
var errMoved = errors.New("the archive changed while it was read")

// Scrub reads a whole archive again and again, checks it as Run does with Full, and reports what has rotted.
// Its reads pass by every cache of lockbox and, where the system allows it, by the system's own. Passes begin
// half of MaxAge apart. While one takes no more than the other half, no byte is left unread for longer than MaxAge.
// A pass reads the generation that is current when it begins.
//
// It ends with ctx, whose error it returns, or when it cannot go on: the file cannot be read, or is damaged
// at its root, which it also reports to Damage; or the archive is busy (format.ErrBusy).
func Scrub(ctx context.Context, f File, o ScrubOptions) error {
	if o.MaxAge <= 0 || o.Rate < 0 || o.Damage == nil {
		return fmt.Errorf("scrubbing needs a time above 0 (%v), no rate below 0 (%d) and somebody to tell", o.MaxAge, o.Rate)
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	var last time.Time
	for {
		began := o.Clock.Now()
		if last.IsZero() {
			last = began
		}
		p := Pass{Began: began}
		err := p.run(ctx, f, &o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if !errors.Is(err, format.ErrBusy) {
				o.Damage(Finding{Kind: KindUnreadable, Detail: err.Error(), Offset: -1})
			}
			return err
		}
		now := o.Clock.Now()
		p.Took, p.Age, last = now.Sub(began), now.Sub(last), began
		if o.Pass != nil {
			o.Pass(p)
		}
		if wait := o.MaxAge/2 - p.Took; wait > 0 {
			if err := o.Clock.Sleep(ctx, wait); err != nil {
				return err
			}
		}
	}
}

// run makes a pass, anew when another process changed under it what it found fault with.
func (p *Pass) run(ctx context.Context, f File, o *ScrubOptions) error {
	for range 10 {
		err := p.try(ctx, f, o)
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return &format.Error{Kind: format.ErrBusy, Offset: -1, Detail: "the archive changed faster than it could be checked"}
}

func (p *Pass) try(ctx context.Context, f File, o *ScrubOptions) (err error) {
	moved := func() bool { return false }
	if o.Hold != nil {
		held, err := o.Hold(ctx)
		if err != nil {
			return fmt.Errorf("opening the archive: %w", err)
		}
		moved = func() bool { return held.Recheck() != nil }
		defer func() { err = errors.Join(err, held.Close()) }()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	again := false
	// What somebody else has the system cache later is read from the device then, after the pass began.
	system, ok := f.(vfs.Uncacher)
	p.Cached = !ok || system.Uncache() != nil
	p.Summary, err = Run(ctx, f, Options{Full: true, Rate: o.Rate, Clock: o.Clock, Unlock: o.Unlock, Signers: o.Signers, Finding: func(found Finding) {
		if again = again || moved(); again {
			cancel()
		} else {
			o.Damage(found)
		}
	}})
	if again || err != nil && moved() {
		return errMoved
	}
	return err
}
