package source

import "errors"

// ErrAllowLoss is wrapped by the error of an archive of which AllowLoss would take what is left: an older state, or the
// parts that can still be read.
var ErrAllowLoss = errors.New("what is left comes over only where loss is allowed")

// ErrLimit is the kind of an archive that holds more than was allowed.
var ErrLimit = errors.New("it holds more than is allowed")
