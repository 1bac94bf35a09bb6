//go:build unix

package hostfs

import (
	"io/fs"
	"syscall"
)

// identify fills in the numbers by which the system knows the object.
func identify(m *Meta, fi fs.FileInfo) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		m.Dev, m.Ino, m.Nlink = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
		m.UID, m.GID = uint64(st.Uid), uint64(st.Gid)
	}
}
