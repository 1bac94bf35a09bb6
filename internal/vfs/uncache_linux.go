package vfs

import "golang.org/x/sys/unix"

func (o *osFile) Uncache() error {
	return pathErr("uncache", o.name, control(o.f, func(fd uintptr) error {
		return ignoreEINTR(func() error { return unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) })
	}))
}
