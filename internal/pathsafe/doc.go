// Package pathsafe makes stored paths. A Path can only come from Parse, FromOperand, FromKey, or from
// another Path, so whoever holds one knows that it is in the archive's canonical form.
//
// Invariant: a Path that is not zero is relative, slash-separated, at most MaxLen bytes, and has no
// component that is empty, "." or "..", longer than MaxComponent, or holding a zero byte. Its key and
// its text say the same thing, each in exactly one way.
//
// The package works on bytes. It refuses to normalise Unicode, to fold case, to require UTF-8, or to
// know what a host system can store: two names that differ in a byte are two names. It does no I/O.
package pathsafe
