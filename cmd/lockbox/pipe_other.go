//go:build !windows

package main

import (
	"errors"
	"syscall"
)

// readerGone reports whether a write failed because the other end of a pipe is closed.
func readerGone(err error) bool { return errors.Is(err, syscall.EPIPE) }
