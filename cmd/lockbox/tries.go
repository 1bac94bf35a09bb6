package main

import (
	"context"
	"errors"

	"lockbox/internal/store"
)

// tries are the runs of a command that opens the archive anew when its first one met a full disk.
type tries struct {
	a       *app
	archive string
	so      store.Options
}

// once opens the archive for fn, which changes it. Where one state is meant and no other, the next try means the state
// in which this one has left the archive: somebody else may commit between them.
func (t *tries) once(ctx context.Context, fn func(*store.Archive) (store.Summary, error)) (store.Summary, error) {
	ar, err := t.a.openWrite(ctx, t.archive, t.so)
	if err != nil {
		return store.Summary{}, err
	}
	sum, err := fn(ar)
	err = t.a.closeWrite(ar, t.archive, &sum, err)
	if t.so.ExpectRoot != nil {
		t.so.ExpectRoot = &sum.Root
	}
	return sum, err
}

// change runs a transaction that stores nothing new. When the disk is full before it could publish anything, it is
// tried a second time with all the free space inside the archive at hand.
func (a *app) change(ctx context.Context, archive string, fn func(*store.Archive) (store.Summary, error)) (store.Summary, error) {
	t := &tries{a: a, archive: archive, so: a.storeOptions()}
	sum, err := t.once(ctx, fn)
	if !diskFull(err) || errors.Is(err, store.ErrOutcomeUnknown) {
		return sum, err
	}
	staged := false
	_, free := t.once(ctx, func(ar *store.Archive) (s store.Summary, err error) {
		staged, err = ar.Restage(ctx)
		return s, err
	})
	if free != nil || !staged {
		return sum, err
	}
	if sum, err = t.once(ctx, fn); diskFull(err) {
		a.say.Warnf("%s holds what it held, in another generation: the free space inside it was made ready, but it is too little", quoted(archive))
	}
	return sum, err
}
