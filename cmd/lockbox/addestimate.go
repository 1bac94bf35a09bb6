package main

import (
	"context"
	"sync"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
)

// estimate finds out how much there is to read, beside the work and only where somebody sees the bar: by a walk of its own,
// which is far ahead of the one that reads. With --update only what differs from what is stored counts. Of standard input
// nobody knows.
func (r *adder) estimate(ctx context.Context) (stop func()) {
	if r.a.bar == nil || !r.stdin.IsZero() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	bar, walk := r.a.bar, r.walk
	walk.Times, walk.Jobs, walk.NoXattrs = nil, 1, true
	var wg sync.WaitGroup
	wg.Go(func() {
		seen := make(map[inode]bool) // of files with several names, which are read once
		var total int64
		for it := range hostfs.Walk(ctx, r.ops, walk) {
			if it.Err != nil || it.Kind != hostfs.KindFile {
				continue
			}
			if r.links.several(&it) {
				id := inode{it.Dev, it.Ino}
				if seen[id] {
					continue
				}
				seen[id] = true
			}
			if r.opt.update {
				// What cannot be looked up is read, or ends the command.
				if old, err := r.ar.Get(it.Path); err == nil && upToDate(&it.Meta, &old) && old.Kind == index.File {
					continue
				}
			}
			total += it.Stored()
		}
		if ctx.Err() == nil {
			bar.expect(total)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
