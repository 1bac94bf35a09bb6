// Package frames turns plain bytes into a frame's extent and back: the self-describing header, the
// codec, the blocks with their tags, the member table.
//
// Invariant: plain bytes come only out of a value that a check returned, so verification cannot be
// left out by accident; a length is checked against the index record before it sizes anything. The
// package does no I/O and knows neither offsets nor trees. It refuses to decode more than the record
// declares, whatever the compressed bytes claim.
package frames
