// Package hostfs is the user's tree: Walk reads it in the order in which an archive stores it, an
// Extractor writes it.
//
// Invariants. Inside an operand or a destination every name is looked up relative to an open directory
// and no link is followed, unless Dereference asks for it: what another process swaps or plants while
// a command runs cannot lead it elsewhere. Only regular files are opened, never a FIFO or a device, and holes are
// not read. The order of a walk depends on names alone, not on Jobs. A walk holds a bounded number of items and
// directory handles, and leaves no goroutine behind. An extracted file appears under its name
// complete, with its metadata, or not at all. What of its metadata cannot be restored is told, and leaves it with less
// access than it was to have, never with more.
//
// The package refuses to know what an archive is, to replace anything it was not told to replace, to
// write outside of the destination, and to hide what it could not read: that comes out of the walk as
// an Item with an error.
//
// On Linux it uses directory descriptors and anonymous temporary files. Elsewhere the same code runs on
// os.Root and named temporary files; the build tag hostfs_portable selects that on Linux too, so that its
// tests can run there.
package hostfs
