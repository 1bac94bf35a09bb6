// Command crashos interrupts the built lockbox on the real kernel: it kills it, lets its system calls fail,
// fills its file system, cuts that file system's power and sets processes against each other. After each blow it
// asks the same questions: is the archive exactly the old or exactly the new state, does every byte verify,
// does the next writer start without help, is nothing left behind.
//
// It complements the simulated disk, which reaches every boundary of the engine but stands in for the kernel;
// here the system calls, locks, names, journals and page cache are the real ones, and there are fewer states.
//
// It knows the binary only and uses only the standard library, so that what it finds does not rest on lockbox's
// own packages. Kills and failures at the n-th call are made by a tracer of its own (ptrace): strace counts
// each thread by itself, and Go moves its work between threads, so that "the third write" would be three or none.
//
// Everything happens below one temporary directory. Mounts are made in a mount namespace of its own, which the
// kernel takes down with the process however that ends; loop devices go with their mounts. What the system does
// not allow (no root, no loop devices, not Linux) is skipped with a line that says so.
package main
