// Package format is the vocabulary that all records of an archive share: identifiers, extents,
// limits, a checked cursor over bytes that came from disk, and the kinds of error that callers
// branch on.
//
// Invariant: nothing here does I/O, starts a goroutine, or allocates by a length it has not bounded.
// The package refuses to know any single record; each record's offsets, encoder and decoder stand
// together in the package that owns it.
package format
