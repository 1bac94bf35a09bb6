//go:build darwin || (linux && hostfs_portable)

package hostfs

import "golang.org/x/sys/unix"

// do calls fn with the descriptor.
func (f *hfile) do(fn func(fd int) error) error {
	c, err := f.f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := c.Control(func(fd uintptr) { ferr = fn(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

func (f *hfile) setXattr(name string, value []byte) error {
	return f.do(func(fd int) error { return unix.Fsetxattr(fd, name, value, 0) })
}

func (f *hfile) removeXattr(name string) error {
	err := f.do(func(fd int) error { return unix.Fremovexattr(fd, name) })
	if err == noXattr || err == unix.ENOTSUP {
		return nil
	}
	return err
}

func (f *hfile) hasXattr(name string) bool {
	return f.do(func(fd int) error {
		_, err := unix.Fgetxattr(fd, name, nil)
		return err
	}) == nil
}
