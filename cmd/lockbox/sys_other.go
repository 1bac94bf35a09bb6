//go:build !windows

package main

import (
	"errors"
	"syscall"
)

// readerGone reports whether a write failed because the other end of a pipe is closed.
func readerGone(err error) bool { return errors.Is(err, syscall.EPIPE) }

// hopeless reports whether a write failed for a reason that the next file will meet too.
func hopeless(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// tooManyOpen reports whether a file cannot be opened because of a limit on open files.
func tooManyOpen(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
