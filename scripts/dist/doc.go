// Command dist makes what a release consists of: a static binary for each supported system, an archive of each with the
// manual and the shell completions, and their checksums.
//
// The same commit, toolchain and version give the same bytes, wherever and whenever: paths are trimmed, times are the
// commit's, owners are nobody, names are sorted. With -check it makes everything a second time, in another directory and
// from an empty build cache, and compares.
//
// It knows the binary only: the manual is made of what "lockbox help" prints, the completions are what "lockbox
// completion" prints.
package main
