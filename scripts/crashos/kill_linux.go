package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// killPart kills every command, at random moments and before each of its calls.
func killPart(r *run, fx *fixture, p *part) {
	noTracer := r.traceWorks()
	ops, errs := fx.ops(noTracer == nil)
	p.unusable(errs)
	for _, o := range ops {
		if o.plan == (plan{}) {
			p.scenario(o.name+", at times", func(rng *rand.Rand) (string, error) { return o.killAtTimes(rng) })
		}
		p.scenario(o.name+", at calls", func(*rand.Rand) (string, error) {
			if noTracer != nil {
				return "", noTracer
			}
			return o.killAtCalls()
		})
	}
}

// unusable reports the commands that cannot be interrupted here.
func (p *part) unusable(errs []error) {
	for _, err := range errs {
		name, _, _ := strings.Cut(err.Error(), ":")
		p.scenario(name, func(*rand.Rand) (string, error) { return "", err })
	}
}

// tally counts the states that blows left.
type tally struct {
	mu     sync.Mutex
	blows  int
	states map[string]int
}

func (t *tally) add(state string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states == nil {
		t.states = map[string]int{}
	}
	t.blows++
	t.states[state]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := make([]string, 0, len(t.states))
	for k, n := range t.states {
		s = append(s, fmt.Sprintf("%d %s", n, k))
	}
	slices.Sort(s)
	return fmt.Sprintf("%d blows: %s", t.blows, strings.Join(s, ", "))
}

// killAtTimes kills the command after delays that grow from nothing to more than it takes.
func (o *op) killAtTimes(rng *rand.Rand) (string, error) {
	var t tally
	delays := make([]time.Duration, o.fx.r.rounds)
	for i := range delays {
		delays[i] = time.Duration((float64(i) + rng.Float64()) * 1.3 * float64(o.took) / float64(len(delays)))
	}
	err := forEach(func(n int) (bool, error) {
		if n > len(delays) {
			return false, nil
		}
		return true, o.blow(&t, func(dir string) error {
			cmd, cancel := o.fx.r.command(o.fx.r.bin, o.args(dir)...)
			defer cancel()
			if err := cmd.Start(); err != nil {
				return err
			}
			time.Sleep(delays[n-1])
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
			_ = cmd.Wait() // killed, or done already
			return nil
		})
	})
	return t.String(), err
}

// killAtCalls kills the command before its first call that changes a file, before its second, and so on,
// until it ends before it is met.
func (o *op) killAtCalls() (string, error) {
	var t tally
	err := forEach(func(n int) (more bool, err error) {
		if n > 1000 {
			return false, errors.New("it makes more than 1,000 calls")
		}
		p := o.plan
		p.N, p.Kill = n, true
		err = o.blow(&t, func(dir string) error {
			res, rep, err := o.fx.r.traced(p, o.args(dir)...)
			if err != nil {
				return err
			}
			if more = rep.Met != ""; more != (res.code != 0) {
				return fmt.Errorf("call %d (%s): %s", n, rep.Met, res.why())
			}
			return nil
		})
		if err != nil {
			err = fmt.Errorf("killed before call %d: %w", n, err)
		}
		return more, err
	})
	if err == nil && t.blows < 4 {
		err = errors.New("it makes too few calls to be true")
	}
	return t.String(), err
}

// blow runs a command that is interrupted in a fresh directory and examines what it left.
func (o *op) blow(t *tally, strike func(dir string) error) error {
	dir, err := o.fresh()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := strike(dir); err != nil {
		return err
	}
	state, err := o.examine(dir)
	if err != nil {
		return fmt.Errorf("%w\n(%s)", err, filepath.Base(dir))
	}
	t.add(state)
	return nil
}
