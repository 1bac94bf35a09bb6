// Package seal protects stored bytes: it makes and checks the tags of frames' blocks, nodes, tag
// tables, frame headers and commit blocks, for each suite behind one interface.
//
// Invariant: a tag is bound to the archive, the attempt that wrote the bytes, what they are, their
// number, their block, their codec and their lengths, and never to an offset. A swapped, moved or
// stale block therefore does not verify, and a relocated one does. The package refuses to do I/O and
// never returns bytes that did not verify.
package seal
