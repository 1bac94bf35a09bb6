// Package journal says which root of an archive is current: superblock copies, commit blocks, the
// clean mark, the sets of extents that a commit plans to reuse or wipe, and the key directory that the
// superblock names.
//
// Invariant: of all copies the valid one with the highest generation is current, and a commit block
// that does not verify is damage, never a reason to take an older one. The package writes what it is
// told to where FORMAT.md has it and never syncs: the order of writes and syncs stands in one place,
// the store's commit. It refuses to interpret trees; their roots are bytes to it.
package journal
