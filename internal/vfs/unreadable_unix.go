//go:build unix

package vfs

import "golang.org/x/sys/unix"

var unreadable = []unix.Errno{unix.EIO}
