package main

import (
	"errors"
	"syscall"
)

// diskFull reports whether there is no space left on the device.
func diskFull(err error) bool {
	const handleDiskFull, diskFull syscall.Errno = 39, 112 // ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL
	return errors.Is(err, handleDiskFull) || errors.Is(err, diskFull)
}
