package hostfs

import "golang.org/x/sys/unix"

const noXattr = unix.ENOATTR

// storedXattr reports whether an attribute belongs to a file wherever it is.
func storedXattr(name string) bool {
	return name != xattrACL && name != xattrDefaultACL && name != xattrCapability
}
