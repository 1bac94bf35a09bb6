package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
)

// injected are the calls that fail, each in turn and each time it is made.
var injected = []string{
	"pwrite64", "write", "fdatasync", "fsync", "ftruncate", "linkat", "renameat2", "renameat", "unlinkat", "openat", "mkdirat",
}

// injectPart lets every call of every command fail once.
func injectPart(r *run, fx *fixture, p *part) {
	if err := r.traceWorks(); err != nil {
		p.scenario("all", func(*rand.Rand) (string, error) { return "", err })
		return
	}
	ops, errs := fx.ops(true)
	p.unusable(errs)
	for _, o := range ops {
		p.scenario(o.name, func(*rand.Rand) (string, error) { return o.failCalls() })
	}
}

func (o *op) failCalls() (string, error) {
	var t tally
	var errs []error
	kinds := []syscall.Errno{syscall.EIO, syscall.ENOSPC}
	if o.plan != (plan{}) {
		kinds = kinds[:1] // the other ways of naming a file take the same paths for both
	}
	for _, errno := range kinds {
		for _, name := range injected {
			err := forEach(func(n int) (more bool, err error) {
				if n > 1000 {
					return false, errors.New("it makes more than 1,000 calls")
				}
				p := o.plan
				p.N, p.Errno, p.Only = n, errno, name
				more, err = o.failCall(&t, p)
				if err != nil {
					err = fmt.Errorf("%s number %d fails with %q: %w", name, n, errno.Error(), err)
				}
				return more, err
			})
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if err == nil && t.blows < 6 {
		err = errors.New("it makes too few calls to be true")
	}
	return t.String(), err
}

// failCall lets one call fail. It reports whether the command came that far.
func (o *op) failCall(t *tally, p plan) (met bool, err error) {
	dir, err := o.fresh()
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	res, rep, err := o.fx.r.traced(p, o.args(dir)...)
	if err != nil {
		return false, err
	}
	if rep.Met == "" {
		if res.code != 0 {
			return false, fmt.Errorf("no call was met: %s", res.why())
		}
		return false, nil
	}
	// What a failed write or sync did is unknown, so that handle writes and syncs no more. It may cut off what
	// no root names. What is written to out is no archive; in a file without a name workers write side by side.
	later := slices.DeleteFunc(rep.After, func(c string) bool { return c == "ftruncate" })
	if len(later) > 0 && o.file != outDir && !strings.HasPrefix(rep.File, "pipe:") && !(o.file == made && rep.Met == "pwrite64") {
		return true, fmt.Errorf("after it the same file gets %s: %s", strings.Join(later, ", "), res.why())
	}
	if err := res.orderly(); err != nil {
		return true, err
	}
	state, err := o.examine(dir)
	if err != nil {
		return true, fmt.Errorf("%w\nit had said: %s", err, res.why())
	}
	kind := state
	switch {
	case res.code == 0 && state != "new":
		return true, fmt.Errorf("success was reported, but the state is %s: %s", state, res.why())
	case res.code == 0 && res.err != "":
		kind = "done with a warning"
	case res.code == 0:
		kind = "done all the same"
	case state == "new" && o.old != o.new && (strings.Contains(res.err, "nothing was changed") || strings.Contains(res.err, "no copy was made")):
		return true, fmt.Errorf("it says that nothing was done, but the state is new: %s", res.why())
	case state == "new" && o.old != o.new:
		kind = "failed, yet new"
	default:
		kind = "failed, old"
	}
	t.add(kind)
	return true, nil
}

// orderly checks that a command that met a fault ended as it should: no crash, a message when it failed.
func (r *result) orderly() error {
	switch {
	case strings.Contains(r.err, "goroutine ") || strings.Contains(r.err, "panic"):
		return fmt.Errorf("it crashed: %s", r.why())
	case r.code != 0 && !strings.Contains(r.err, "lockbox: error: "):
		return fmt.Errorf("it failed without an error message: %s", r.why())
	case r.code != 0 && r.code != 1:
		return fmt.Errorf("a failed call is exit 1: %s", r.why())
	case r.code == 0 && r.err != "" && !strings.Contains(r.err, "lockbox: warning: "):
		return fmt.Errorf("it succeeded with a message that is no warning: %s", r.why())
	}
	return nil
}
