// Package index holds an archive's five trees (entries, contents, digests, frames, free) and the
// records that stand in them.
//
// A tree is an immutable B+tree whose nodes name their children by reference and tag. Looking up and
// iterating search a node's bytes in place; changing a tree is applying one sorted batch, which
// writes new nodes along the touched paths and returns a new root. Where nodes come from and go to is
// the caller's business (Source, Sink).
//
// Invariants: a node is never changed once it was written. Every separator in a branch is a prefix of
// the first key that its subtree holds now, so a deleted key leaves no bytes behind that a live key
// does not share. Every node that a lookup, an iteration, a walk or a batch loads is held to its level
// and to the range its parent promises, so that a damaged or hostile graph of nodes ends in an error
// of kind format.ErrCorrupt after a bounded amount of work.
//
// The package refuses to do I/O, to start goroutines, to read a clock, to check tags (a Source does),
// and to decide which number or offset anything gets.
package index
