package source

// WindowsTime makes seconds and nanoseconds since 1970 of a time of Windows and NTFS: units of 100 ns since 1601.
func WindowsTime(t uint64) (sec int64, nsec uint32) {
	return int64(t/10_000_000) - 11_644_473_600, uint32(t%10_000_000) * 100
}
