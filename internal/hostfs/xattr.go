package hostfs

import (
	"errors"
	"fmt"
)

// maxXattrs bounds the extended attributes of one entry, names and values together: as many as an archive takes.
const maxXattrs = 1 << 20

var errManyXattrs = fmt.Errorf("its extended attributes take more than %d bytes", maxXattrs)

// fileXattrs reads the extended attributes of an open file.
func (e *env) fileXattrs(f *hfile, dev uint64) (xs []Xattr, err error) {
	if e.noXattrs || e.refuses(dev) {
		return nil, nil
	}
	xs, err = f.xattrs()
	return xs, e.noted(dev, err)
}

// xattrs reads those of what is not opened.
func (e *env) xattrs(it *Item, d *dir) ([]Xattr, error) {
	if e.noXattrs || e.refuses(it.Dev) {
		return nil, nil
	}
	xs, err := d.xattrs(it.name, it.Kind, it.follow)
	return xs, e.noted(it.Dev, err)
}

// refuses reports whether the file system of a device is known to have no extended attributes.
func (e *env) refuses(dev uint64) bool {
	_, known := e.refused.Load(dev)
	return known
}

// noted remembers a file system that has no extended attributes. That is no fault.
func (e *env) noted(dev uint64, err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		e.refused.Store(dev, nil)
		return nil
	}
	return err
}
