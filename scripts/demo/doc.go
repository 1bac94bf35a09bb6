// Command demo shows lockbox at work on real input: it archives the Go toolchain's source tree with the
// built binary, changes some of it, extracts everything, and compares the result with the source by a walk
// of its own. It then does the same work with ZIP in this process and prints both.
//
// It uses the binary and the standard library only, so that what it finds does not rest on lockbox's own
// packages. It leaves nothing behind and exits with a status other than 0 when anything differs.
package main
