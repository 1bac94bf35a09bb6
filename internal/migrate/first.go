package migrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// first reads the old archive and stores what is in it.
func (r *run) first(ctx context.Context) error {
	next, stop := iter.Pull2(r.guarded(ctx))
	defer stop()
	var large *store.Source
	done := false
	for !done {
		err := r.tx.Add(ctx, func(yield func(store.Source) bool) {
			for {
				src, big, ok := r.next(next)
				if !ok {
					done = true
					return
				}
				if big {
					large = &src
					return
				}
				if !yield(src) {
					return
				}
			}
		}, r.done)
		// A content that is read as it comes is stored before the archive is read on.
		if err == nil && large != nil {
			err = r.tx.Add(ctx, func(yield func(store.Source) bool) { yield(*large) }, r.done)
			large = nil
		}
		if err == nil {
			err = r.failed()
		}
		if err != nil {
			return err
		}
	}
	return r.judge()
}

// failed is what must end the migration.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fatal
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
}

// judge decides, after the first reading, whether what was found may become an archive.
func (r *run) judge() error {
	info := r.arch.Info()
	info.Entries, info.Bytes = r.rep.Info.Entries, r.rep.Info.Bytes
	r.rep.Info = info
	for _, l := range info.Lost {
		r.lose(Loss{Reason: l})
	}
	for p, s := range r.slots {
		if s.stored == 0 && s.given == 0 {
			continue
		}
		if s.stored == 0 {
			delete(r.slots, p)
			continue
		}
		r.rep.Entries++
	}
	switch {
	case r.locked && r.rep.Bytes == 0:
		// A wrong key opens nothing, which is no loss to be allowed.
		return &format.Error{Kind: format.ErrAuth, Record: "old archive", Offset: -1, Detail: "the key that was given opens nothing in it"}
	case len(r.rep.Lost) == 0 || r.o.AllowLoss:
		return nil
	}
	return &LossError{Count: len(r.rep.Lost) + r.rep.Unlisted, Damaged: r.damaged, Locked: r.locked}
}

func (r *run) lose(l Loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Name = strings.Clone(l.Name) // it may be a part of something long
	r.damaged, r.locked = r.damaged || l.Damage, r.locked || l.Key
	if r.room(len(l.Name) + len(l.Reason)) {
		r.rep.Lost = append(r.rep.Lost, l)
	} else {
		r.rep.Unlisted++
	}
	if r.o.Lost != nil {
		r.o.Lost(l)
	}
}

// room reports whether the lists of the report may grow by another line of n bytes.
func (r *run) room(n int) bool {
	if n += 64; r.list+n > listMax {
		return false
	}
	r.list += n
	return true
}

func lossOf(name string, err error) Loss {
	return Loss{Name: name, Reason: err.Error(), Damage: errors.Is(err, format.ErrCorrupt), Key: errors.Is(err, format.ErrAuth), Entry: true}
}

// guarded yields the archive's entries; a panic of a reader ends them.
func (r *run) guarded(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		stopped := false
		err := guard(func() error {
			for e, err := range r.arch.Entries(ctx) {
				if !yield(e, err) {
					stopped = true
					break
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// next returns the next entry that the store is to have; big says that its content has to be read before the archive is
// read on.
func (r *run) next(next func() (*source.Entry, error, bool)) (src store.Source, big, ok bool) {
	for r.failed() == nil {
		e, err, more := next()
		if !more {
			return src, false, false
		}
		if err != nil {
			r.broken(err)
			return src, false, false
		}
		if r.entries++; int64(r.entries) > r.limits.Entries {
			r.fail(r.tooMany())
			break
		}
		if src, big, ok = r.take(e); ok {
			return src, big, true
		}
	}
	return src, false, false
}

// broken hears that the archive cannot be read further.
func (r *run) broken(err error) {
	if errors.Is(err, source.ErrLimit) || !errors.Is(err, format.ErrCorrupt) {
		r.fail(err)
		return
	}
	r.endless = err
	r.lose(Loss{Reason: fmt.Sprintf("the archive cannot be read further: %v", err), Damage: true})
}

// take makes a source of an entry, or says why not.
func (r *run) take(e *source.Entry) (src store.Source, big, ok bool) {
	if err := r.acceptable(e); err != nil {
		r.lose(lossOf(e.Name, err))
		return src, false, false
	}
	src.Entry, src.LinkTo = e.Entry, e.LinkTo
	src.Linkable = r.rep.Info.Links && e.LinkTo.IsZero() && e.Entry.Kind != index.Dir
	if e.Open != nil && e.LinkTo.IsZero() {
		if r.rep.Info.Random {
			src.Open = func() (store.Reader, index.Entry, error) {
				c, err := r.open(e.Open)
				return c, e.Entry, err
			}
		} else if err := r.ahead(e, &src); err != nil {
			if r.failed() == nil {
				r.lose(lossOf(e.Name, err))
			}
			return src, false, false
		} else {
			big = src.Entry.Size < 0
		}
	}
	for _, l := range e.Lost {
		r.lose(Loss{Name: e.Name, Reason: l})
	}
	r.claim(e)
	return src, big, true
}

// acceptable is nil when an entry can be stored beside those before it.
func (r *run) acceptable(e *source.Entry) error {
	if e.Err != nil {
		return e.Err
	}
	p, kind := e.Entry.Path, e.Entry.Kind
	switch {
	case p.IsZero():
		return errors.New("it has no name")
	case e.Secret && !r.encrypted:
		return errors.New("it is a secret, and the new archive is not encrypted")
	case kind == index.Socket:
		return errors.New("it is a socket, which means nothing outside of the system where it was made")
	case kind == index.File && e.Open == nil && e.LinkTo.IsZero():
		return errors.New("it has no content that could be read")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for up := p.Parent(); !up.IsZero(); up = up.Parent() {
		if s, ok := r.slots[up]; ok {
			if s.kind != index.Dir {
				return fmt.Errorf("it lies below %q, which is no directory", pathsafe.Quote(up.String()))
			}
			break
		}
	}
	if s, ok := r.slots[p]; ok && s.kind == index.Dir && kind != index.Dir {
		return errors.New("a directory has the same name")
	}
	if to := e.LinkTo; !to.IsZero() {
		if s := r.slots[to]; s.given == 0 || s.kind == index.Dir {
			return fmt.Errorf("it is another name of %q, which is not among the files before it", pathsafe.Quote(to.String()))
		}
	}
	return nil
}

// claim takes note of a path that an entry is given to the store under.
func (r *run) claim(e *source.Entry) {
	r.mu.Lock()
	p, kind := e.Entry.Path, e.Entry.Kind
	for up := p.Parent(); !up.IsZero(); up = up.Parent() {
		if _, ok := r.slots[up]; ok {
			break
		}
		r.slots[up] = slot{kind: index.Dir}
	}
	if !e.LinkTo.IsZero() {
		kind = r.slots[e.LinkTo].kind // symbolic links, too, can have further names
	}
	s := r.slots[p]
	twice := s.given != 0 && (kind != index.Dir || s.kind != index.Dir)
	s.given, s.kind = r.entries, kind
	r.slots[p] = s
	r.queue = append(r.queue, waiting{r.entries, p, e.Name})
	if twice && r.rep.Info.Repeats && r.room(len(e.Name)) {
		r.rep.Repeated = append(r.rep.Repeated, strings.Clone(e.Name))
	}
	r.mu.Unlock()
	if twice && !r.rep.Info.Repeats {
		r.lose(Loss{Name: e.Name, Reason: "another entry before it has the same name and is not taken", Entry: true})
	}
}

// done hears what became of the oldest entry that the store was given.
func (r *run) done(a store.Added) {
	r.mu.Lock()
	w := r.queue[0]
	if r.queue = r.queue[1:]; a.Err == nil {
		s := r.slots[w.path]
		s.stored = w.number
		r.slots[w.path] = s
		r.rep.Bytes += a.Bytes
	}
	r.mu.Unlock()
	if a.Err != nil && r.failed() == nil {
		r.lose(lossOf(w.name, a.Err))
	}
}
