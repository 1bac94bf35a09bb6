// Command lockbox keeps files in an archive: one file, many entries, always consistent.
//
// The package turns a command line into calls of the engine and what the engine says into messages,
// machine output and an exit code. One file holds one command: its help, its options, what it does.
//
// Invariants: a flag that is accepted has its effect; results go to standard output and nothing else
// does; every message says what was being done and to which entry; a name is never printed to people
// unescaped; the exit code is decided in one function (see codeOf) from the kinds of the errors.
//
// The package refuses to know the format: it reads no byte of an archive itself, except to say what a file
// that is none may be.
package main
