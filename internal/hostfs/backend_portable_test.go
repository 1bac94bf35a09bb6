//go:build !linux || hostfs_portable

package hostfs

const (
	linkTimes = false
	anonTemps = false
)
