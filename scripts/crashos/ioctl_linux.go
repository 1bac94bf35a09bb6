package main

import (
	"os"
	"syscall"
	"unsafe"
)

func ioctlUint32(f *os.File, request uintptr, v uint32) error {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&v)))
	if errno != 0 {
		return errno
	}
	return nil
}
