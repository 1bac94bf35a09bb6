package hostfs

import "golang.org/x/sys/unix"

// What Linux keeps under these names. Here they would mean nothing.
const (
	xattrACL        = "system.posix_acl_access"
	xattrDefaultACL = "system.posix_acl_default"
	xattrCapability = "security.capability"

	noXattr = unix.ENOATTR
)

// storedXattr reports whether an attribute belongs to a file wherever it is.
func storedXattr(name string) bool {
	return name != xattrACL && name != xattrDefaultACL && name != xattrCapability
}
