package main

import (
	"context"
	"fmt"
	"time"

	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// How many damaged places of an archive people are told of one by one, and how many stand in a report.
const (
	findingsShown    = 1000
	findingsReported = 100_000
)

// one checks one archive, until its time is over.
func (v *verifying) one(ctx context.Context, o *outcome, until time.Time) error {
	f, err := vfs.OS().Open(o.name, false)
	if err != nil {
		return v.a.openFailure(o.name, err)
	}
	defer f.Close()
	for range 10 {
		again, err := v.generation(ctx, f, o, until)
		if err != nil || !again {
			return err
		}
	}
	return &failure{code: exitBusy, err: fmt.Errorf("%s changed faster than it could be checked", quoted(o.name))}
}

// generation checks the archive's current generation while it holds that generation against cleanup. It
// reports again, and nothing else, when another one was committed before that.
func (v *verifying) generation(ctx context.Context, f vfs.File, out *outcome, until time.Time) (again bool, err error) {
	a, name := v.a, out.name
	out.check, out.ended = nil, false
	o := a.readOptions(name)
	o.ExpectRoot = nil // it is compared with what the check finds
	held, openErr := store.Open(ctx, name, o)
	if openErr == nil {
		a.meter.watch(held)
		defer func() {
			a.meter.take(held)
			held.Close()
		}()
		if err := a.lockedAsAsked(held, name); err != nil {
			return false, err
		}
	} else if ctx.Err() != nil {
		return false, ctx.Err()
	} else if code := codeOf(openErr); code == exitAuth || code == exitBusy || hasWords(openErr) {
		// Without the hold, what another process overwrites meanwhile would look like damage.
		return false, a.openFailure(name, openErr)
	}
	check, missing, err := v.newCheck(ctx, held, name)
	if err != nil {
		return false, readingFailure(name, err)
	}
	check.opt.Until = until
	if v.state != nil {
		check.opt.Born = vfs.BornOf(f)
	}
	a.startProgress("verifying", -1)
	sum, err := check.run(ctx, f, a.jobs(), a.bar)
	a.endProgress()
	a.meter.add(store.Counters{Reads: sum.Work.Reads, BytesRead: sum.Work.BytesRead, NodesDecoded: sum.Work.Nodes,
		FramesDecoded: sum.Work.Frames, BlocksVerified: sum.Work.Blocks})
	if openErr == nil {
		in, ierr := held.Info()
		if ierr == nil && err == nil && sum.Generation != in.Generation {
			return true, nil
		}
		if rerr := held.Recheck(); rerr != nil && (err != nil || sum.Damaged > 0) {
			return true, nil // what it found may be the other process's work
		}
	}
	out.check, out.ended = check, err == nil
	for _, op := range missing {
		out.code = worse(out.code, exitMissing)
		a.fail(a.missingEntry(held, name, op))
	}
	if p := sum.Part; p != nil && p.Anew != "" {
		a.say.Warnf("the state of %s in %s is not used: %s; a new pass begins", quoted(name), quoted(v.opt.state), p.Anew)
	}
	return false, a.verdict(name, check, sum, err)
}

// check is the check of one archive.
type check struct {
	opt      verify.Options
	sum      verify.Summary
	findings []verify.Finding
	more     int
	took     time.Duration
	now      func() time.Time
}

// newCheck prepares a check. held is the archive as the engine reads it, or nil when it cannot: then the
// names of --only are taken as they are.
func (v *verifying) newCheck(ctx context.Context, held *store.Archive, name string) (*check, []string, error) {
	a, opt := v.a, &v.opt
	c := &check{now: a.now}
	most := findingsShown
	if opt.report != "" {
		most = findingsReported
	}
	if v.state != nil {
		c.opt.State = v.state.of(name)
	}
	c.opt.Rate = opt.rate.n
	c.opt.Unlock, c.opt.Signers = a.unlock(name), a.keys.pins
	c.opt.Full = opt.full || len(opt.only) > 0
	c.opt.Finding = func(f verify.Finding) {
		if len(c.findings) < most || a.g.json {
			c.findings = append(c.findings, f)
		} else {
			c.more++
		}
	}
	if len(opt.only) == 0 || held == nil {
		if len(opt.only) > 0 {
			a.say.Warnf("%s cannot be read, so that all of it is checked and not only what --only names", quoted(name))
		}
		return c, nil, nil
	}
	sel, err := newSelection(held, opt.only, opt.literal)
	if err != nil {
		return nil, nil, err
	}
	if err := sel.settle(ctx); err != nil {
		return nil, nil, err
	}
	c.opt.Only = sel.picks
	return c, sel.unmatched(), nil
}

// picks reports whether an entry is selected.
func (s *selection) picks(p pathsafe.Path) bool { return s.all || s.wants(p) }

func (c *check) run(ctx context.Context, f verify.File, jobs int, bar *progress) (verify.Summary, error) {
	c.opt.Jobs = jobs
	c.opt.Progress = bar.set
	start := c.now()
	var err error
	c.sum, err = verify.Run(ctx, f, c.opt)
	c.took = c.now().Sub(start)
	return c.sum, err
}
