package source

import (
	"errors"
	"fmt"
	"io"
)

// ErrAllowLoss is wrapped by the error of an archive of which AllowLoss would take what is left: an older state, or the
// parts that can still be read.
var ErrAllowLoss = errors.New("what is left comes over only where loss is allowed")

// ErrLimit is the kind of an archive that holds more than was allowed.
var ErrLimit = errors.New("it holds more than is allowed")

// Bound is what an archive holds too much of.
type Bound int

const (
	BoundEntries Bound = iota + 1
	BoundSize          // bytes
	BoundRatio         // bytes for each of the archive's own
)

// LimitError is an ErrLimit that its reader can lift.
type LimitError struct {
	Bound  Bound
	Detail string
}

func (e *LimitError) Error() string        { return ErrLimit.Error() + ": " + e.Detail }
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// TooManyEntries is the error of an archive that has more than most.
func TooManyEntries(most int64) error {
	return &LimitError{BoundEntries, fmt.Sprintf("more than %d entries", most)}
}

// Limit reads what an archive that is one stream is decompressed to, and refuses (ErrLimit) to give more than that many
// bytes; 0 is no bound.
func Limit(r io.Reader, most int64) io.Reader {
	if most <= 0 {
		return r
	}
	return &limited{r: r, left: most, most: most}
}

type limited struct {
	r          io.Reader
	left, most int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, &LimitError{BoundSize, fmt.Sprintf("the archive is longer than %d bytes when it is decompressed", l.most)}
	}
	return n, err
}
