package hostfs

import "errors"

// There are no extended attributes here.
func (f *hfile) xattrs() ([]Xattr, error)      { return nil, errors.ErrUnsupported }
func (f *hfile) setXattr(string, []byte) error { return errors.ErrUnsupported }
func (f *hfile) removeXattr(string) error      { return nil }
func (f *hfile) hasXattr(string) bool          { return false }
func storedXattr(string) bool                  { return true }
