//go:build linux || darwin

package hostfs

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxXattrs bounds the extended attributes of one entry, names and values together: as many as an archive takes.
	maxXattrs = 1 << 20
	// xattrLengths is what an archive takes at most beside a name and its value.
	xattrLengths = 6
)

var errManyXattrs = fmt.Errorf("its extended attributes take more than %d bytes", maxXattrs)

// xattrs reads the extended attributes of an open file.
func (f *hfile) xattrs() (xs []Xattr, err error) {
	err = f.do(func(fd int) error {
		xs, err = fdXattrs(fd)
		return err
	})
	return xs, err
}

func fdXattrs(fd int) ([]Xattr, error) {
	return readXattrs(
		func(b []byte) (int, error) { return unix.Flistxattr(fd, b) },
		func(name string, b []byte) (int, error) { return unix.Fgetxattr(fd, name, b) },
	)
}

// readXattrs reads what the two calls of the system give, in one call when there is nothing. What cannot be read or is too
// much is left out, and the error says so: an access control list that can be read is not lost with it, as the mode
// beside it would grant more than it did.
func readXattrs(list func([]byte) (int, error), get func(string, []byte) (int, error)) ([]Xattr, error) {
	b, err := sized(list)
	if len(b) == 0 || err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	slices.Sort(names) // access control lists come before what users set
	var xs []Xattr
	var first error
	total := 0
	for _, name := range names {
		if !storedXattr(name) {
			continue
		}
		value, err := sized(func(b []byte) (int, error) { return get(name, b) })
		if err == noXattr {
			continue // it went away meanwhile
		}
		size := len(name) + len(value) + xattrLengths
		if err == nil && size > maxXattrs-total {
			err = errManyXattrs
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		total += size
		xs = append(xs, Xattr{name, value})
	}
	return xs, first
}

// sized asks for the size of an answer, then for the answer, again while it grows.
func sized(ask func([]byte) (int, error)) ([]byte, error) {
	var buf []byte
	for {
		n, err := ask(buf)
		switch {
		case err == unix.EINTR:
		case err == unix.ERANGE:
			buf = nil
		case err != nil:
			return nil, err
		case n <= len(buf):
			return buf[:n], nil
		case n > maxXattrs:
			return nil, errManyXattrs
		default:
			buf = make([]byte, n)
		}
	}
}
