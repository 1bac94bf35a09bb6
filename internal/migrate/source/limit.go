package source

import "errors"

// ErrLimit is the kind of an archive that holds more than was allowed.
var ErrLimit = errors.New("it holds more than is allowed")
