//go:build linux || darwin

package hostfs

import (
	"math"

	"golang.org/x/sys/unix"
)

func (f *hfile) seekData(at int64) (int64, error) { return f.seek(at, unix.SEEK_DATA) }
func (f *hfile) seekHole(at int64) (int64, error) { return f.seek(at, unix.SEEK_HOLE) }

// seek asks where data or a hole begins. Behind the last one that is nowhere. A file system that cannot tell has
// data only.
func (f *hfile) seek(at int64, whence int) (off int64, err error) {
	err = f.do(func(fd int) error {
		off, err = unix.Seek(fd, at, whence)
		return err
	})
	switch err {
	case unix.ENXIO:
		return math.MaxInt64, nil
	case unix.EINVAL, unix.ENOTSUP, unix.ENOTTY:
		if whence == unix.SEEK_DATA {
			return at, nil
		}
		return math.MaxInt64, nil
	}
	return off, err
}

// expectHoles does nothing: what is not written is a hole.
func (f *hfile) expectHoles() {}
