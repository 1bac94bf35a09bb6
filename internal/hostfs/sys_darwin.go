package hostfs

import "syscall"

// identifyMore takes what only this system has.
func identifyMore(m *Meta, st *syscall.Stat_t) {
	m.HasBirth, m.BirthSec, m.BirthNsec = true, st.Birthtimespec.Sec, uint32(st.Birthtimespec.Nsec)
	if st.Flags != 0 {
		m.HasBSDFlags, m.BSDFlags = true, uint64(st.Flags)
	}
}
