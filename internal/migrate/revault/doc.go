// Package revault reads the archives of reVault, formats 1 and 2, for a migration.
//
// Invariants. Everything is found by walking from the newest header: content is never found by scanning, an older commit
// is never taken for the current one unless the caller accepts that loss, and then Info.Lost says so. A page counts
// only when its AEAD tag, its own offset and its sequence fit; whatever has a length, a depth, a count or a cost is
// bounded before memory or time is spent on it. A content's bytes reach the caller only after the frame they come from
// matched its digest and its length.
//
// The package refuses to write, to repair names, to read dialects that were never released, and to follow a symbolic
// link or the host path that a variable may name.
package revault
