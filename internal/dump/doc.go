// Package dump prints what an archive's bytes say, structure by structure, for a person who has to know: the
// superblock copies, the key directory, the commit block with its sets, and the five trees node by node, down to the
// frames.
//
// Invariants: what is printed of a structure has verified, or the line says that it has not; damage ends the structure it is
// in and not the dump; output and work are bounded by the limit, and without one by the length of the file. Nothing of
// a content's bytes is printed, and no name unescaped.
//
// Where no superblock is left, the clean mark or a search of the whole file, recover's, takes its place, and the output says so.
//
// The package refuses to judge an archive: verify does, which also holds the structures against each other.
package dump
