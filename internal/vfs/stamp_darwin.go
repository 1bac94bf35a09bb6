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
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Birthtimespec.Nano()
	}
	return 0
}

func changeTime(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ctimespec.Nano()
	}
	return 0
}
