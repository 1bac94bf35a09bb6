// Package store is the archive handle: it opens, reads and changes archives.
//
// Invariants: a reader sees one committed generation and only bytes that were verified after they
// were read; a change is one transaction whose writes and syncs stand in commit.go in their order;
// only the ordered writer gives out numbers and offsets, so the bytes of an archive do not depend on
// the number of workers; nothing a committed root reaches is overwritten; a handle whose write or
// sync failed refuses everything but Close. The package refuses to touch the user's tree, to print,
// and to read the environment.
package store
