package store

import (
	"context"
	"errors"
)

// CommitProven is Commit for the first transaction of a new archive. When all of it is on the device, and before it gets
// its name, prove is called: it reads the archive through the handle, which shows what is being committed, and may refuse
// it. Then nothing is left of it.
func (t *Tx) CommitProven(ctx context.Context, prove func() error) (Summary, error) {
	if t.a.temp == nil {
		return Summary{}, errors.New("only an archive that has no name yet can be proven before it gets one")
	}
	t.prove = prove
	return t.Commit(ctx)
}

// proven lets somebody read the archive whose root v is before that is published.
func (a *Archive) proven(v *view, prove func() error) error {
	base, trusted := a.cur, a.trust.Load()
	a.cur = v
	a.trust.Store(&trust{v: v})
	a.mu.Unlock() // reading takes it
	defer func() {
		a.mu.Lock()
		a.cur = base
		a.trust.Store(trusted)
	}()
	return prove()
}
