// Package rar reads RAR archives, of versions 1.5 to 7, for a migration.
//
// Invariants. The library that decodes runs inside unpack.Guard, within a bound on its window. What it does not
// tell (volumes, the work that deriving keys takes, checksums that it does not check, parts that it passes over) is
// read from the blocks' headers here, before it starts. An archive is read in order, and a content to its end before
// the next, as solid archives want it.
//
// The package refuses archives in several volumes and what only Windows understands; the first is said by Probe, the
// rest of the entries concerned.
package rar
