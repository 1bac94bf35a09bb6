package recover

import (
	"context"
	"io"
	"iter"
	"sync"

	"lockbox/internal/store"
)

// rehearsal is a Sink that reads everything and keeps nothing.
type rehearsal struct {
	jobs   int
	groups uint64
}

// NewLinkGroup implements Sink.
func (h *rehearsal) NewLinkGroup() uint64 {
	h.groups++
	return h.groups
}

// tried is a source on its way.
type tried struct {
	src   store.Source
	added store.Added
	done  chan struct{}
}

func (t *tried) run() {
	defer close(t.done)
	t.added.Path = t.src.Entry.Path
	if t.src.Open == nil {
		e := t.src.Entry
		e.Xattrs = nil // they have been read, and what is too large for a record may go into a content
		t.added.Err = e.Check()
		return
	}
	r, _, err := t.src.Open()
	if err == nil {
		t.added.Bytes, err = io.Copy(io.Discard, r)
		_ = r.Close() // nothing was written
	}
	t.added.Err = err
}

// Add implements Sink.
func (h *rehearsal) Add(ctx context.Context, sources iter.Seq[store.Source], done func(store.Added)) error {
	if h.jobs == 1 {
		for src := range sources {
			t := &tried{src: src, done: make(chan struct{})}
			t.run()
			done(t.added)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan *tried, h.jobs)
	order := make(chan *tried, 4*h.jobs)
	var wg sync.WaitGroup
	for range h.jobs {
		wg.Go(func() {
			for t := range work {
				t.run()
			}
		})
	}
	wg.Go(func() {
		defer close(order)
		defer close(work)
		for src := range sources {
			t := &tried{src: src, done: make(chan struct{})}
			select {
			case order <- t:
			case <-ctx.Done():
				return
			}
			work <- t
		}
	})
	for t := range order {
		<-t.done
		done(t.added)
	}
	wg.Wait()
	return ctx.Err()
}
