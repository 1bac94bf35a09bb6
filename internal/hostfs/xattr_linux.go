package hostfs

import (
	"strings"

	"golang.org/x/sys/unix"
)

const noXattr = unix.ENODATA

// storedXattr reports whether an attribute belongs to a file wherever it is. Others belong to this machine: its
// security policy, its file system's bookkeeping.
func storedXattr(name string) bool {
	return strings.HasPrefix(name, "user.") || name == xattrACL || name == xattrDefaultACL || name == xattrCapability
}
