// Package ar reads ar archives, the common format of Unix with the long names of GNU and BSD, for a migration. A
// Debian package is one; its members come over as they are.
//
// Invariants. A member's header is 60 bytes of text, every field of which is checked; lengths are held against the
// input's before anything is read. Members can be opened in any order.
//
// The package refuses thin archives, which hold names alone, and does not look into members. Indexes of symbols are
// left out, as whoever wants them makes them anew; a note says so.
package ar
