// Command bench fills docs/benchmarks.md: it has the binary measure itself against ZIP ("lockbox bench"), compares the
// binary with other archivers as whole processes, and writes tables, samples and a plot with each goal and whether it
// was met.
//
// A figure is a ratio from one run: the contenders take turns, nine times after a round that does not count, and
// medians are compared. Fixtures come from fixed seeds and from the Go toolchain's own source. Nothing is averaged
// away: a missed goal is printed as missed.
package main
