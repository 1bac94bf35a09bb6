package vfs

import "golang.org/x/sys/windows"

var unreadable = []windows.Errno{windows.ERROR_CRC, windows.ERROR_SECTOR_NOT_FOUND, windows.ERROR_READ_FAULT, windows.ERROR_IO_DEVICE}
