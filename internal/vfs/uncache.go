package vfs

// Uncacher is a File of a system that can be asked to forget what it has cached of it.
type Uncacher interface {
	// Uncache makes the next read of every byte come from the device. It has no effect on pages that are not yet
	// written to it or that a process has mapped, and none where memory is the device. It is for the whole
	// file because systems cache in units of unknown size and forget only whole ones.
	Uncache() error
}
