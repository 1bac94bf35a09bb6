//go:build linux || darwin

package hostfs

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxXattrs bounds the extended attributes of one entry, names and values together: as many as an archive takes.
const maxXattrs = 1 << 20

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

// readXattrs reads what the two calls of the system give, in one call when there is nothing.
func readXattrs(list func([]byte) (int, error), get func(string, []byte) (int, error)) ([]Xattr, error) {
	names, err := sized(list)
	if len(names) == 0 || err != nil {
		return nil, err
	}
	var xs []Xattr
	total := 0
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if !storedXattr(name) {
			continue
		}
		value, err := sized(func(b []byte) (int, error) { return get(name, b) })
		if err == noXattr {
			continue // it went away meanwhile
		}
		if err != nil {
			return nil, err
		}
		if total += len(name) + len(value); total > maxXattrs {
			return nil, errManyXattrs
		}
		xs = append(xs, Xattr{name, value})
	}
	slices.SortFunc(xs, func(a, b Xattr) int { return strings.Compare(a.Name, b.Name) })
	return xs, nil
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
