package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// errReaderGone says that whoever read standard output has stopped. It is no failure: the rest of the
// output is simply not wanted.
var errReaderGone = errors.New("standard output was closed by its reader")

// output is standard output, buffered. The first error stays: later writes return it and reach
// nothing.
type output struct {
	w io.Writer
	// around runs what writes: at a terminal with the progress bar out of the way; nil: as it is.
	around func(func())
	buf    *bufio.Writer
	err    error
	used   bool
}

func newOutput(w io.Writer) *output {
	o := &output{w: w}
	o.buf = bufio.NewWriterSize(onceFailed{o}, 64<<10)
	return o
}

// onceFailed passes writes on until one fails.
type onceFailed struct{ o *output }

func (f onceFailed) Write(p []byte) (int, error) {
	o := f.o
	if o.err != nil {
		return 0, o.err
	}
	o.used = true
	var n int
	var err error
	write := func() { n, err = o.w.Write(p) }
	if o.around == nil {
		write()
	} else {
		o.around(write)
	}
	if err != nil {
		o.err = outputError(err)
	}
	return n, o.err
}

func outputError(err error) error {
	if readerGone(err) {
		return errReaderGone
	}
	return &failure{code: exitFailed, err: fmt.Errorf("cannot write to standard output: %w", withoutPath(err))}
}

func (o *output) Write(p []byte) (int, error)       { return o.buf.Write(p) }
func (o *output) WriteString(s string) (int, error) { return o.buf.WriteString(s) }

// flush brings out what was printed so far, so that it stands before messages that follow. An error stays.
func (o *output) flush() { _ = o.buf.Flush() }

// finish brings everything out and returns the first error there was.
func (o *output) finish() error {
	if err := o.buf.Flush(); err != nil {
		return err
	}
	if c, ok := o.w.(io.Closer); ok && o.used {
		// Some file systems report a full disk only here.
		if err := c.Close(); err != nil {
			o.err = outputError(err)
		}
	}
	return o.err
}
