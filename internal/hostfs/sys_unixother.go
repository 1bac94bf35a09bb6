//go:build unix && !darwin

package hostfs

import "syscall"

// identifyMore has nothing to add.
func identifyMore(*Meta, *syscall.Stat_t) {}
