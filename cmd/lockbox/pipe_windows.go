package main

import (
	"errors"
	"syscall"
)

// What a write to a pipe without a reader gives here.
const (
	errorBrokenPipe = syscall.Errno(109)
	errorNoData     = syscall.Errno(232)
)

// readerGone reports whether a write failed because the other end of a pipe is closed.
func readerGone(err error) bool {
	return errors.Is(err, errorBrokenPipe) || errors.Is(err, errorNoData)
}
