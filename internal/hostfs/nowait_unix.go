//go:build unix && (!linux || hostfs_portable)

package hostfs

import "syscall"

// openNoWait keeps an open from waiting for the other end of a FIFO.
const openNoWait = syscall.O_NONBLOCK
