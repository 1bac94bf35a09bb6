//go:build linux && !hostfs_portable

package hostfs

const (
	linkTimes = true // the time of a link itself is restored
	anonTemps = true
)
