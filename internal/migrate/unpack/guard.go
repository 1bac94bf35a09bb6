package unpack

import (
	"context"
	"io"

	"lockbox/internal/format"
)

// Guard calls f, code that reads what came from a disk, ours or a library's, and turns a panic into an error of kind
// format.ErrCorrupt: here, and nowhere else, panics of what reads other formats end. f must not start goroutines that
// run such code.
func Guard(record string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = format.Corrupt(record, -1, "the decoder gave up: %v", p)
		}
	}()
	return f()
}

// Guarded reads from r, a reader of a library, through Guard. A reader that gives neither bytes nor an error for ever
// ends in io.ErrNoProgress. After the first error it returns nothing but that error.
func Guarded(record string, r io.Reader) io.Reader { return &guarded{record: record, r: r} }

type guarded struct {
	record string
	r      io.Reader
	err    error
}

func (g *guarded) Read(p []byte) (n int, err error) {
	if g.err != nil || len(p) == 0 {
		return 0, g.err
	}
	g.err = Guard(g.record, func() error {
		n, err = some(g.r, p)
		return err
	})
	return n, g.err
}

// some reads at least one byte or fails.
func some(r io.Reader, p []byte) (int, error) {
	for range 1000 {
		if n, err := r.Read(p); n != 0 || err != nil {
			return min(max(n, 0), len(p)), err
		}
	}
	return 0, io.ErrNoProgress
}

// Drain reads r to its end and returns what ended it: nil for io.EOF. It stops when ctx ends.
func Drain(ctx context.Context, r io.Reader) error {
	b := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := r.Read(b); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
