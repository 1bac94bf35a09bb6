package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"lockbox/internal/index"
	"lockbox/internal/vfs"
)

// brokenReader gives left bytes and then fails, with the last of them when atOnce is set.
type brokenReader struct {
	left   int
	err    error
	atOnce bool
}

func (b *brokenReader) Read(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	if b.left == 0 && (n == 0 || b.atOnce) {
		err := b.err
		b.err = io.EOF // said once
		return n, err
	}
	return n, nil
}

func (*brokenReader) Close() error { return nil }
func (*brokenReader) Check() error { return nil }

// The end of a source is io.EOF itself. An error that has to do with an end, such as that of a decoder whose input stops
// too early, is a fault: nothing of the source is stored, and the error is handed on, whether the length is known or
// not, and also when it comes with the last byte.
func TestSourceFaultIsNoEnd(t *testing.T) {
	faults := []error{io.ErrUnexpectedEOF, fmt.Errorf("a decoder: %w", io.EOF), errors.New("a disk")}
	for _, jobs := range []int{1, 2} {
		for _, fault := range faults {
			for _, size := range []int{1000, 100 << 10, 3 << 20, wholeMax + 1<<20} {
				for _, known := range []bool{true, false} {
					for _, missing := range []int{0, 10} {
						for _, atOnce := range []bool{false, true} {
							a, err := Create(ctx, "a", Options{FS: vfs.Mem(), Jobs: jobs}, CreateOptions{})
							if err != nil {
								t.Fatal(err)
							}
							tx, err := a.Begin(ctx)
							if err != nil {
								t.Fatal(err)
							}
							e := index.Entry{Path: mustPath("f"), Kind: index.File, Mode: 0o644, Size: int64(size)}
							if !known {
								e.Size = -1
							}
							src := Source{Entry: e, Open: func() (Reader, index.Entry, error) {
								return &brokenReader{left: size - missing, err: fault, atOnce: atOnce}, e, nil
							}}
							err = tx.Add(ctx, slices.Values([]Source{src}), func(got Added) {
								if !errors.Is(got.Err, fault) {
									t.Errorf("jobs %d, %d bytes, known %v, missing %d, at once %v: the fault %v became %v", jobs, size, known, missing, atOnce, fault, got.Err)
								}
							})
							if err = errors.Join(err, tx.Rollback(), a.Close()); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
		}
	}
}
