// Package recover salvages a damaged archive: it finds what is left of the newest committed state and hands
// every entry whose bytes can still be shown to be right to a new archive.
//
// Invariants: the damaged file is only read. An entry is handed on whole or not at all, with bytes that
// verify: by the digest in its content's record, else by what the digests tree keeps of that digest, else by
// the tags of frames that the verified index names. What is left out is reported, by name where the name is
// left. A frame that no verified record names is looked at only where the records that might name it are
// themselves lost, and what it holds never gets an entry's name without a digest that says so: it goes to
// lost+found and is said to be perhaps deleted. A state that is not known to be the newest published one is
// never called that.
//
// The package refuses to write anything itself, to hand on parts of files, and to follow a format that it
// does not know. Memory is some ten bytes an entry and a few dozen for each group of hard links and for each frame or content
// whose record is lost, and a window of frames; no pass reads more of the file than a small multiple of its size.
package recover
