// Package migrate turns an archive of another format into a new lockbox archive, and puts it into the old one's place
// when asked.
//
// Invariants. The old archive is opened for reading only. The new one is a separate file that has its name only when it
// is complete, on the device, and every entry of it was compared with a second reading of the old one. What cannot be
// carried over is an error unless the caller accepts it, and then it is in the report.
//
// The package refuses to guess: what a probe does not know for certain is named, not reinterpreted.
package migrate
