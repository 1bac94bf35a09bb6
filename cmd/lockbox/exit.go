package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockbox/internal/format"
)

// exitCode is the status the program ends with.
type exitCode int

const (
	exitOK          exitCode = 0
	exitFailed      exitCode = 1
	exitUsage       exitCode = 2
	exitSkipped     exitCode = 3
	exitDiffers     exitCode = 4
	exitAuth        exitCode = 11
	exitMissing     exitCode = 12
	exitForeign     exitCode = 14
	exitDamaged     exitCode = 15
	exitBusy        exitCode = 16
	exitInterrupted exitCode = 130
)

// rank orders the codes for the case that several apply, the one that counts first. A failure stands before
// what only says that something was left out, because it means that the rest was not done either.
var rank = []exitCode{
	exitInterrupted, exitDamaged, exitAuth, exitBusy, exitForeign, exitUsage, exitFailed, exitMissing, exitSkipped, exitDiffers, exitOK,
}

// worse returns the one of two codes that counts.
func worse(a, b exitCode) exitCode {
	if slices.Index(rank, a) <= slices.Index(rank, b) {
		return a
	}
	return b
}

// failure is an error with an exit code of its own, and perhaps what to do next.
type failure struct {
	code exitCode
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usagef is the error for a command line that cannot be meant.
func usagef(msg string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(msg, args...)}
}

// codeOf is the exit code of an error: the first in rank of all that its kinds stand for. What names no
// kind is a failure; a missing host file is one too, only missing archives and entries have a code.
func codeOf(err error) exitCode {
	if err == nil {
		return exitOK
	}
	code := exitOK
	for _, k := range []struct {
		kind error
		code exitCode
	}{
		{context.Canceled, exitInterrupted},
		{format.ErrCorrupt, exitDamaged},
		{format.ErrAuth, exitAuth},
		{format.ErrBusy, exitBusy},
		{format.ErrNotLockbox, exitForeign},
		{format.ErrVersion, exitForeign},
	} {
		if errors.Is(err, k.kind) {
			code = worse(code, k.code)
		}
	}
	var f *failure
	if errors.As(err, &f) {
		code = worse(code, f.code)
	}
	if code == exitOK {
		return exitFailed
	}
	return code
}
