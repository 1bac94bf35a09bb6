// Package unpack turns compressed streams of other programs into plain bytes: gzip, bzip2, xz, zstd, lz4, lzip, and
// the older .lzma and compress. It is the one place where the libraries that decode them are chosen and held in check.
//
// Invariants. Reading ends in io.EOF only when the stream ended as its format wants it to and every checksum in it
// matched (compress has neither end nor checksum); members, frames and streams that follow one another are read as one; anything else behind them is an
// error, but for zero bytes where the format or its own program takes them for filling (gzip, lzip; xz by fours). No decoder gets more memory for its window than the caller allows. A panic of a library is turned into an
// error by Guard, which the readers of whole archives use too; so every decoder works in the goroutine of its caller.
//
// The package refuses to guess from names, to go on after damage, and to bound how much comes out: callers count.
package unpack
