package vfs

import (
	"errors"
	"slices"
	"syscall"
)

// Unreadable reports whether err says that a device does not give back what stands at one place, as it does of a bad
// sector. What stands elsewhere may still be read.
func Unreadable(err error) bool {
	var n syscall.Errno
	return errors.As(err, &n) && slices.Contains(unreadable, n)
}
