package main

import (
	"errors"
	"syscall"
)

// Error numbers that package syscall has no names for.
const (
	errorTooManyOpen    = syscall.Errno(4)
	errorWriteProtect   = syscall.Errno(19)
	errorHandleDiskFull = syscall.Errno(39)
	errorBrokenPipe     = syscall.Errno(109)
	errorDiskFull       = syscall.Errno(112)
	errorNoData         = syscall.Errno(232)
)

// readerGone reports whether a write failed because the other end of a pipe is closed.
func readerGone(err error) bool {
	return errors.Is(err, errorBrokenPipe) || errors.Is(err, errorNoData)
}

// hopeless reports whether a write failed for a reason that the next file will meet too.
func hopeless(err error) bool {
	for _, e := range []syscall.Errno{errorWriteProtect, errorHandleDiskFull, errorDiskFull} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// tooManyOpen reports whether a file cannot be opened because of a limit on open files.
func tooManyOpen(err error) bool { return errors.Is(err, errorTooManyOpen) }
