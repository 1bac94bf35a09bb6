// Package source is what an archive of another format looks like to a migration: entries in order, read as often
// as wanted, and what is known of the whole.
//
// Invariants. A reader of a format trusts nothing that it has not checked: lengths, depths and counts are bounded
// before anything is allocated, a name becomes a path by pathsafe alone, and what cannot be carried over is said of
// the entry, never left out in silence. Two readings of an unchanged input give the same entries.
//
// The package refuses to know any format, to write anything, and to decide what is done about a loss.
package source
