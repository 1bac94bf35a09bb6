//go:build linux && !hostfs_portable

package hostfs

const anonTemps = true
