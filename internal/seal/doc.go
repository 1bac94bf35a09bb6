// Package seal protects stored bytes: it makes and checks the tags of frames' blocks, nodes, tag
// tables, frame headers and commit blocks, and enciphers them, for each suite behind one interface. It
// knows whose keys open an archive (age files in key slots) and whose signature it bears (Ed25519, as
// OpenSSH makes it).
//
// Invariant: a tag is bound to the archive, the attempt that wrote the bytes, what they are, their
// number, their block, their codec and their lengths, and never to an offset. A swapped, moved or
// stale block therefore does not verify, and a relocated one does. No key seals two things with one
// nonce (aead.go has the proof). Keys are overwritten when a suite is wiped, as far as they can be
// reached: what the ciphers of the standard library, age and the garbage collector hold cannot. The package
// refuses to read files, terminals and the environment, to put a secret into an error, and to return bytes
// that did not verify.
package seal
