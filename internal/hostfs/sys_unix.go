//go:build unix

package hostfs

import (
	"io/fs"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFileLimit is how many files the process may have open.
func openFileLimit() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return math.MaxUint64
	}
	return uint64(l.Cur)
}

// identify fills in what the system knows beyond the standard library.
func identify(m *Meta, fi fs.FileInfo) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	m.Dev, m.Ino, m.Nlink = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink)
	m.HasOwner, m.UID, m.GID = true, uint64(st.Uid), uint64(st.Gid)
	switch m.Kind {
	case KindFile:
		m.blocks = int64(st.Blocks)
	case KindChar, KindBlock:
		m.Major, m.Minor = uint64(unix.Major(uint64(st.Rdev))), uint64(unix.Minor(uint64(st.Rdev)))
	}
	identifyMore(m, st)
}
