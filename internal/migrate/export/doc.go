// Package export writes what an archive holds as a tar or zip stream, so that nobody depends on this program to get at
// their files.
//
// Invariants. Only verified bytes are written. What the other format cannot hold is said of each entry that it concerns.
// A stream that had to end early lacks what its format ends with, and ends in the middle of an entry where that is
// possible, so that no program takes it for the whole.
//
// The package refuses to go on after damage, and to seek in what it writes.
package export
