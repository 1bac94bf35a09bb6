// Package cpio reads cpio archives for a migration: newc, crc, odc and the old binary layout in both byte orders, alone
// or compressed, and several of them behind one another, as the initial file systems of Linux have it.
//
// Invariants. Every field of a header is checked before it is used, and every length bounded; contents are read in
// order; a content of the crc layout ends in io.EOF only when its sum matched. Names of one file that stand for a hard
// link become one: those that come before the one with the data wait for it.
//
// The package refuses packages of RPM, whose cpio stands behind headers of their own; Probe names them.
package cpio
