package lockbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// Tx is a transaction: nothing of it shows before Commit has returned. It is for one goroutine. It remembers the path
// of everything that it changes.
//
// Within a transaction Put replaces what the same transaction has put under the path. Remove and Rename are about
// what is committed and what the same transaction has removed; where they would meet what it has put they are refused
// (ErrUncommitted). What is refused, and a Put whose entry or reader is at fault, leaves the transaction as it was;
// after any other failure, the end of a context among them, it can only be rolled back.
type Tx struct {
	a    *Archive
	t    *store.Tx
	put  map[pathsafe.Path]bool     // paths that were put, true, and all above them
	gone map[pathsafe.Path]struct{} // committed paths that were removed or renamed
	bad  error                      // why it can only be rolled back

	ended bool
}

// Summary is what a transaction did.
type Summary struct {
	Generation               uint64
	Root                     Digest
	Added, Replaced, Removed int   // entries
	PlainBytes               int64 // read from sources
	StoredBytes              int64 // written for them
	SharedBytes              int64 // of contents that removed entries had and other entries still have
}

// Begin starts a transaction on a handle that Create or OpenWrite gave. There is one at a time (ErrTransaction).
func (a *Archive) Begin(ctx context.Context) (*Tx, error) {
	if err := a.gate.enter(); err != nil {
		return nil, failure("begin", a.name, "", err)
	}
	defer a.gate.leave()
	switch {
	case !a.writer:
		return nil, failure("begin", a.name, "", ErrReadOnly)
	case !a.changing.CompareAndSwap(false, true):
		return nil, failure("begin", a.name, "", ErrTransaction)
	}
	t, err := a.s.Begin(ctx)
	if err != nil {
		a.changing.Store(false)
		return nil, failure("begin", a.name, "", err)
	}
	return &Tx{a: a, t: t, put: make(map[pathsafe.Path]bool), gone: make(map[pathsafe.Path]struct{})}, nil
}

// enter begins an operation of the transaction.
func (t *Tx) enter(op, entry string) error {
	if t.bad != nil {
		return t.bad
	}
	return failure(op, t.a.name, entry, t.a.gate.enter())
}

// doom notes a failure after which the transaction can only be rolled back.
func (t *Tx) doom(op, entry string, err error) error {
	if err == nil {
		return nil
	}
	t.bad = t.a.failure(op, entry, t.a.s.Generation(), err)
	return t.bad
}

func unstorable(why string) error { return fmt.Errorf("%w: %s", ErrUnstorable, why) }

// Put stores a file, whose bytes r has, or something else, for which r is nil: a directory, a symbolic link, a FIFO
// or a device. What is stored under the path is replaced; what is missing above it needs no making. When e.Size is
// not 0, r must have exactly that many bytes (else ErrSourceChanged); otherwise r is read to its end. links are
// further names of the same thing, hard links. An entry that another archive gave can be put as it is; holes of its
// file become zeros.
func (t *Tx) Put(ctx context.Context, e Entry, r io.Reader, links ...string) error {
	if err := t.enter("put", e.Path); err != nil {
		return err
	}
	defer t.a.gate.leave()
	sources, err := t.sources(ctx, e, r, links)
	if err != nil {
		return failure("put", t.a.name, e.Path, err)
	}
	var left error
	err = t.t.Add(ctx, slices.Values(sources), func(done store.Added) {
		if done.Err == nil {
			t.note(done.Path)
		} else if left == nil {
			left = failure("put", t.a.name, done.Path.String(), done.Err)
		}
	})
	if err != nil {
		return t.doom("put", e.Path, err)
	}
	return left
}

// sources makes the engine's sources of an entry and its further names.
func (t *Tx) sources(ctx context.Context, e Entry, r io.Reader, links []string) ([]store.Source, error) {
	if err := e.complete(ctx); err != nil {
		return nil, err
	}
	first, err := source(&e, r)
	if err != nil || len(links) == 0 {
		return []store.Source{first}, err
	}
	if first.Entry.Kind == index.Dir {
		return nil, invalid("a directory has one name")
	}
	all := []store.Source{first}
	for _, name := range links {
		p, err := parse(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(s store.Source) bool { return s.Entry.Path == p }) {
			return nil, invalid("%s is given twice", pathsafe.Quote(name))
		}
		all = append(all, store.Source{Entry: index.Entry{Path: p}, LinkTo: first.Entry.Path})
	}
	all[0].Entry.LinkGroup = t.t.NewLinkGroup()
	return all, nil
}

// PutBytes stores a file.
func (t *Tx) PutBytes(ctx context.Context, e Entry, b []byte) error {
	return t.Put(ctx, e, bytes.NewReader(b))
}

// note remembers that a path was put.
func (t *Tx) note(p pathsafe.Path) {
	t.put[p] = true
	for up := p.Parent(); !up.IsZero(); up = up.Parent() {
		if _, known := t.put[up]; known {
			return
		}
		t.put[up] = false
	}
}

// Remove removes an entry and everything below it; fs.ErrNotExist when there is nothing. The bytes are overwritten
// after the commit, unless another entry has the same.
func (t *Tx) Remove(ctx context.Context, name string) error {
	if err := t.enter("remove", name); err != nil {
		return err
	}
	defer t.a.gate.leave()
	p, err := parse(name)
	if err == nil {
		err = t.untouched(p)
	}
	if err != nil {
		return failure("remove", t.a.name, name, err)
	}
	n := 0
	for e, err := range t.committed(ctx, p) {
		if err == nil {
			err = t.t.Remove(e.Path)
		}
		if err != nil {
			return t.doom("remove", name, err)
		}
		t.gone[e.Path] = struct{}{}
		n++
	}
	if n == 0 {
		return failure("remove", t.a.name, name, fs.ErrNotExist)
	}
	return nil
}

// Rename gives an entry and everything below it another path. No bytes are written again. What is missing above the
// new path needs no making; fs.ErrExist when something has it already.
func (t *Tx) Rename(ctx context.Context, from, to string) error {
	if err := t.enter("rename", from); err != nil {
		return err
	}
	defer t.a.gate.leave()
	p, q, err := t.renames(ctx, from, to)
	if err != nil {
		return failure("rename", t.a.name, from, err)
	}
	depth := p.Depth()
	n := 0
	for e, err := range t.committed(ctx, p) {
		target := q
		if rest, below := e.Path.Strip(depth); err == nil && below {
			target, err = q.JoinPath(rest)
		}
		if err == nil {
			err = t.t.Move(e.Path, target)
		}
		if err != nil {
			return t.doom("rename", from, err)
		}
		t.gone[e.Path] = struct{}{}
		t.note(target)
		n++
	}
	if n == 0 {
		return failure("rename", t.a.name, from, fs.ErrNotExist)
	}
	return nil
}

// renames checks what a renaming meets before it changes anything.
func (t *Tx) renames(ctx context.Context, from, to string) (p, q pathsafe.Path, err error) {
	if p, err = parse(from); err == nil {
		q, err = parse(to)
	}
	if err == nil {
		err = t.untouched(p)
	}
	if err != nil {
		return p, q, err
	}
	if q == p || q.IsUnder(p) {
		return p, q, invalid("%s cannot become %s", pathsafe.Quote(from), pathsafe.Quote(to))
	}
	if _, taken := t.put[q]; taken {
		return p, q, fmt.Errorf("%s: %w", pathsafe.Quote(to), fs.ErrExist)
	}
	for _, err := range t.committed(ctx, q) {
		if err == nil {
			err = fmt.Errorf("%s: %w", pathsafe.Quote(to), fs.ErrExist)
		}
		return p, q, err
	}
	return p, q, nil
}

// untouched refuses a path that was put, or below which something was.
func (t *Tx) untouched(p pathsafe.Path) error {
	if _, put := t.put[p]; put {
		return ErrUncommitted
	}
	return nil
}

// committed yields the committed entry at a path and everything below it, without what the transaction has removed.
func (t *Tx) committed(ctx context.Context, p pathsafe.Path) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		n := 0
		for e, err := range t.a.s.List(p) {
			if n++; err == nil && n%1024 == 0 {
				err = ctx.Err()
			}
			if _, gone := t.gone[e.Path]; err == nil && gone {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Commit makes the transaction the archive's state. When it returns nil, that survives a power cut. When it fails the
// archive is as it was, unless the error is of kind ErrOutcomeUnknown. ctx is honoured up to the point from which on
// the change is made. The transaction has ended in any case.
func (t *Tx) Commit(ctx context.Context) (Summary, error) {
	if err := t.a.gate.enter(); err != nil {
		return Summary{}, failure("commit", t.a.name, "", err)
	}
	defer t.a.gate.leave()
	if t.bad != nil {
		return Summary{}, errors.Join(t.bad, t.end())
	}
	gen := t.a.s.Generation()
	sum, err := t.t.Commit(ctx)
	if err != nil {
		return Summary{}, errors.Join(t.a.failure("commit", "", gen, err), t.end())
	}
	return Summary{
		Generation: sum.Generation, Root: Digest(sum.Root), Added: sum.Added, Replaced: sum.Replaced, Removed: sum.Removed,
		PlainBytes: sum.PlainBytes, StoredBytes: sum.StoredBytes, SharedBytes: sum.SharedBytes,
	}, t.end()
}

// Rollback ends the transaction and leaves the archive as it was; what was staged is overwritten. After Commit, or
// after Close of the archive, it does nothing, so that it can be deferred.
func (t *Tx) Rollback() error {
	if t.a.gate.enter() != nil {
		return nil // Close has done it
	}
	defer t.a.gate.leave()
	return t.end()
}

var errEnded = errors.New("the transaction has ended")

// end ends the transaction, committed or not. It may be called again.
func (t *Tx) end() error {
	if t.ended {
		return nil
	}
	err := failure("roll back", t.a.name, "", t.t.Rollback())
	t.ended, t.put, t.gone = true, nil, nil
	if t.bad == nil {
		t.bad = failure("use", t.a.name, "", errEnded)
	}
	t.a.changing.Store(false)
	return err
}
