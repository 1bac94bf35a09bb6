// Package tar reads tar archives of every dialect for a migration, alone or compressed: v7, ustar, GNU with its long
// names and sparse files, pax with extended attributes, fine times and sparse files.
//
// Invariants. A header is believed when its check sum matches; a length is believed when so much is there. The holes of
// a sparse file are known from its map and never read, however large they are. An archive that is not compressed gives
// its contents in any order, a compressed one in its own; both say the same in every reading. What follows the end of an
// archive is looked at: another archive is read on, anything else is said.
//
// The package refuses to look for the next header behind one that is damaged, and parts of an archive in several
// volumes.
package tar
