package vfs

import (
	"io/fs"
	"syscall"
)

func (o *osFile) born() int64 {
	fi, err := o.f.Stat()
	if err != nil {
		return 0
	}
	if d, ok := fi.Sys().(*syscall.Win32FileAttributeData); ok {
		return d.CreationTime.Nanoseconds()
	}
	return 0
}

func changeTime(fs.FileInfo) int64 { return 0 }
