// Package zip reads ZIP archives for a migration: Zip64, the methods that people really have, both kinds of encryption,
// and what Info-ZIP, NTFS and WinZip add to an entry.
//
// Invariants. An entry is taken only when its local header says the same as the directory, and nothing else lies in its
// bytes. Reading a content ends in io.EOF only when its length and its check sum, or its authentication code, are what
// the archive says. What is allocated follows the file's size and never a number in it.
//
// The package refuses archives in several parts, entries that share bytes, names that lead out of the archive, and
// methods that it does not know; each is named.
package zip
