// Package verify checks an archive from its bytes, without the store that wrote it: the superblock
// copies, the commit block, every node and record of the five trees, what the trees say about each
// other, who owns which byte of the file and, when asked, every frame down to the digests of the
// contents.
//
// Invariant: nothing is taken on trust that could be recomputed. Damage is reported and the rest is still
// checked; a finding is never left out because of another one, except where the first makes the
// second unknowable (then the summary says that the check was not complete). What is held in memory
// is a few dozen bytes per content, per extent and per group of hard links, and a window of frames per worker, however large the
// archive's files are.
//
// Scrub makes such a check again and again, past the system's caches and at a bounded rate: beside a handle
// that trusts what it has verified once, it bounds for how long rot can stay unseen.
//
// A State makes a check a run of a pass: it reads what earlier runs have not, within a time, and what was written since.
// Nothing counts as read that was not, however a run ends, and every pass ends, however fast the archive grows.
//
// The package refuses to share the store's reader or cache, to write anything, and to follow an older
// generation when the current one is damaged.
package verify
