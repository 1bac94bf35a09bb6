package main

import (
	"context"
	"errors"
	"iter"
	"os"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// diffWindow bounds how many comparisons may be on their way: what is found out of order waits in it.
const diffWindow = 128

// comparison is one path that is stored, on the disk, or both, on its way to the report.
type comparison struct {
	path   pathsafe.Path
	entry  *index.Entry // nil when it is not stored
	item   *hostfs.Item // nil when it is not on the disk
	digest format.Digest

	stored, found pathsafe.Path // earlier names of the file, on the two sides

	fields []string
	change change
	err    error         // it could not be compared
	fatal  error         // of the archive
	done   chan struct{} // closed when the above is known; nil when it is already
}

// compareAll goes through both sides at once, reads what has to be read in several workers, and reports in order.
func (d *differ) compareAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	order, work := make(chan *comparison, diffWindow), make(chan *comparison)
	var merged error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(order)
		defer close(work)
		merged = d.merge(ctx, func(c *comparison) error { return d.hand(ctx, c, order, work) })
	})
	for range d.a.jobs() {
		wg.Go(func() {
			for c := range work {
				d.compareBytes(ctx, c)
				close(c.done)
			}
		})
	}
	var err error
	for c := range order {
		if c.done != nil {
			<-c.done
		}
		if err == nil {
			if err = d.tell(c); err != nil {
				cancel()
			}
		}
	}
	wg.Wait()
	if err == nil || errors.Is(err, context.Canceled) {
		err = errors.Join(merged, err)
	}
	return err
}

// hand gives a comparison to a worker when bytes are to be read, and to the report in any case.
func (d *differ) hand(ctx context.Context, c *comparison, order, work chan<- *comparison) error {
	if err := d.compare(ctx, c); err != nil {
		return err
	}
	if c.done == nil {
		select {
		case order <- c:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// First to a worker: the report waits for who is in its queue.
	select {
	case work <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case order <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// merge pairs what is stored with what is on the disk. Both come in the order of their paths.
func (d *differ) merge(ctx context.Context, fn func(*comparison) error) error {
	stored, stop := iter.Pull2(d.ar.List(d.prefix))
	defer stop()
	top := d.opt.dir
	if !os.IsPathSeparator(top[len(top)-1]) {
		top += "/" // the directory is what a link with its name leads to
	}
	found, stopWalk := iter.Pull(hostfs.Walk(ctx, []hostfs.Operand{{Host: top, Stored: d.prefix}}, d.walk))
	defer stopWalk()

	e, err, more := stored()
	it, walking := found()
	var lost pathsafe.Path // what could not be listed, or not even looked at
	for more || walking {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if more && err != nil {
			return err
		}
		order := -1 // of the item, seen from the entry
		switch {
		case !walking:
			order = 1
		case more:
			order = it.Path.Compare(e.Path)
		}
		c := &comparison{}
		switch {
		case more && !lost.IsZero() && (e.Path == lost || e.Path.IsUnder(lost)):
			d.entries++
			e, err, more = stored() // nobody knows
			continue
		case order > 0:
			c.path, c.entry = e.Path, clone(e)
		case it.Err != nil && !errors.Is(it.Err, hostfs.ErrSkipped):
			if it.Host() == top {
				return diffDirFailure(exitFailed, d.opt.dir, it.Err)
			}
			lost = it.Path
			c.path, c.err = it.Path, it.Err
		case order < 0:
			implied := it.Kind == hostfs.KindDir && more && e.Path.IsUnder(it.Path)
			if implied || it.Err != nil || it.Kind != hostfs.KindDir && isTemporary(it.Path.Base()) {
				it, walking = found()
				continue
			}
			c.path, c.item = it.Path, clone(it)
		default:
			c.path, c.entry, c.item = e.Path, clone(e), clone(it)
		}
		if err := fn(c); err != nil {
			return err
		}
		if c.entry != nil {
			d.entries++
			e, err, more = stored()
		}
		if c.entry == nil || c.item != nil {
			it, walking = found()
		}
	}
	return ctx.Err()
}

func clone[T any](v T) *T { return &v }
