// Package sevenzip reads 7z archives for a migration.
//
// Invariants. The container, that is the headers with all their counts, is parsed here, bounded before anything is
// allocated; the library decodes packed streams only, each through a small archive with one file that is made for it,
// whose coders, windows and key derivations were checked before. Blocks are decoded once, in order; a content ends in
// io.EOF only when its CRC-32 matched.
//
// The package refuses archives in several volumes, streams that stand in other files, and coders it does not know; the
// first is said by Probe, the rest of the entries concerned.
package sevenzip
