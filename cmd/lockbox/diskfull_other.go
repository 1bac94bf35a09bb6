//go:build !windows

package main

import (
	"errors"
	"syscall"
)

// diskFull reports whether there is no space left on the device.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
