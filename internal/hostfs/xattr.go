package hostfs

import "errors"

// What Linux keeps under these names. Elsewhere they would mean nothing.
const (
	xattrACL        = "system.posix_acl_access"
	xattrDefaultACL = "system.posix_acl_default"
	xattrCapability = "security.capability"
)

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
