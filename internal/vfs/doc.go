// Package vfs is the archive's own file: opening, reading, writing, syncing, locking and naming it.
// OS is the host's file system; Mem keeps files in memory for tests; Counting counts what passes.
//
// Invariant: every operation either did what it says or returns an error. A write is never short
// without one, a sync that returned nil has reached the device as far as the system can tell, a lock
// belongs to one handle and ends with it, and a new file gets its name only when it is complete and
// only where nothing stood.
//
// The package knows nothing of what an archive contains. It refuses to open anything but regular files,
// to wait for a lock, to retry a failed write or sync, and to replace a file that exists.
package vfs
