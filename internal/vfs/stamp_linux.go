package vfs

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

func (o *osFile) born() (t int64) {
	_ = control(o.f, func(fd uintptr) error {
		var st unix.Statx_t
		err := ignoreEINTR(func() error { return unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) })
		if err == nil && st.Mask&unix.STATX_BTIME != 0 {
			t = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
		}
		return nil
	})
	return t
}

func changeTime(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}
