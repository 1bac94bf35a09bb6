// Package bench measures lockbox against ZIP in this process, signed and encrypted archives beside unprotected ones, and
// "lockbox add" with different numbers of workers as processes of its own. It makes its own fixtures and returns what it measured as sample sets, which it can also print
// as a table, as NDJSON, as a page with plots, and hold against an earlier run.
//
// Invariants: contenders get the same bytes and take turns, once without counting and then a fixed number of times;
// every byte that a timed read or write handles is compared with the fixture outside the timing, before the first
// sample; fixtures depend on fixed seeds alone, or on the text of a directory that the caller names; nothing is
// averaged away, a loss is a loss. Work files live in one directory that is gone when the run ends, however it ends;
// what a killed run had to leave the next one removes. Space is checked before anything is written.
//
// The package refuses to read the environment, to use the network, to need a Go toolchain, to keep anything between
// runs, and to give an archive an option that the command line does not have.
package bench
