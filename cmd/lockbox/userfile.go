package main

import (
	"context"
	"os"
)

// readNamed opens a file that the user names beside the archive, and has read look at it. It may be a FIFO, such as
// a shell makes for <(command): the wait for the other end, and for what comes through, ends with ctx. Then read is left behind
// until the process ends, so it touches nothing that others use.
func readNamed[T any](ctx context.Context, name string, read func(*os.File) (T, error)) (T, error) {
	type result struct {
		got T
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		f, err := os.Open(name)
		if err != nil {
			r.err = err
		} else {
			r.got, r.err = read(f)
			_ = f.Close() // nothing was written
		}
		done <- r
	}()
	select {
	case r := <-done:
		return r.got, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
