package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// errDiffers is the kind of the error for a file of the host that is not what an entry says.
var errDiffers = errors.New("it has other bytes")

// resumption is what --resume finds of an earlier run.
type resumption struct {
	r *extractor

	mu     sync.Mutex
	kept   uint64
	differ map[pathsafe.Path]error // by where they are
	failed error
}

// resume compares what exists with what is to be there. What is equal stays; what is not ends the command before
// anything is written, unless --overwrite is to replace it.
func (r *extractor) resume(ctx context.Context) error {
	s := resumption{r: r, differ: make(map[pathsafe.Path]error)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan func() error)
	var wg sync.WaitGroup
	for range r.a.jobs() {
		wg.Go(func() {
			for fn := range work {
				if err := fn(); err != nil {
					s.mu.Lock()
					s.failed = errors.Join(s.failed, err)
					s.mu.Unlock()
					cancel()
				}
			}
		})
	}
	err := s.each(ctx, work)
	close(work)
	wg.Wait()
	switch {
	case s.failed != nil:
		return s.failed
	case err != nil:
		return err
	case !r.opt.overwrite && len(s.differ) > 0:
		return s.refuse()
	}
	if r.grouped {
		err = s.regroup()
	}
	r.kept = s.kept
	return err
}

// each hands out what exists.
func (s *resumption) each(ctx context.Context, work chan<- func() error) error {
	for e, err := range s.r.sel.entries() {
		if err != nil {
			return err
		}
		to, ok := s.r.target(&e)
		if !ok || !s.r.x.Exists(to) {
			continue
		}
		var digest format.Digest
		if e.Kind == index.File && len(e.Sparse) == 0 {
			if digest, err = s.r.ar.Digest(&e); err != nil {
				return err
			}
		}
		select {
		case work <- func() error { return s.compare(ctx, &e, to, digest) }:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// compare looks at one of them. Its error ends the command.
func (s *resumption) compare(ctx context.Context, e *index.Entry, to pathsafe.Path, digest format.Digest) error {
	var m hostfs.Meta
	var err error
	switch e.Kind {
	case index.File:
		var f *hostfs.Source
		if f, err = s.r.x.OpenExisting(to); err == nil {
			m = f.Meta
			err = sameBytes(ctx, s.r.ar, e, digest, f)
			err = errors.Join(err, f.Close())
		}
	case index.Symlink:
		var target string
		if target, err = s.r.x.ReadExisting(to); err == nil && target != e.Target {
			err = fmt.Errorf("it leads to %s", quoted(target))
		} else if err == nil {
			m, err = s.r.x.DescribeExisting(to)
		}
	default:
		if m, err = s.r.x.DescribeExisting(to); err == nil && (m.Major != e.Major || m.Minor != e.Minor) {
			err = fmt.Errorf("it is the device %d:%d", m.Major, m.Minor)
		}
	}
	tied := false
	if err == nil && m.Nlink > 1 {
		tied, err = s.tied(ctx, e, to, m)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, format.ErrAuth) || hopeless(err) {
		return err
	}
	if errors.Is(err, format.ErrCorrupt) {
		return s.r.w.failed(e, err) // writing it would fail as well
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.differ[to] = err
		return nil
	}
	if tied {
		s.r.x.Replace(to)
		return nil
	}
	s.kept++
	s.r.x.Keep(to, m)
	return nil
}

// tied reports whether something with other names has to be made anew to get its metadata.
func (s *resumption) tied(ctx context.Context, e *index.Entry, to pathsafe.Path, now hostfs.Meta) (bool, error) {
	want, err := s.r.wholeMeta(ctx, e)
	if err != nil {
		return false, err
	}
	if !e.HasMtime {
		want.MtimeSec, want.MtimeNsec = now.MtimeSec, now.MtimeNsec
	}
	return s.r.x.Tied(to, now, want)
}

// regroup looks at what is kept of files with several names: one that has become a file of its own on the disk becomes
// a name of the first of them again.
func (s *resumption) regroup() error {
	firsts := make(map[uint64]pathsafe.Path) // by link group: where its first name is that is kept
	for e, err := range s.r.sel.entries() {
		if err != nil {
			return err
		}
		to, ok := s.r.target(&e)
		if !ok || e.Kind != index.File || e.LinkGroup == 0 {
			continue
		}
		first, seen := firsts[e.LinkGroup]
		switch kept, same := s.r.x.Kept(to, first); {
		case kept && !seen:
			firsts[e.LinkGroup] = to
		case kept && !same:
			s.r.x.Replace(to)
			s.kept--
		}
	}
	return nil
}

// refuse names what is not what it is to be.
func (s *resumption) refuse() error {
	const most = 5
	var paths []pathsafe.Path
	for p := range s.differ {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, pathsafe.Path.Compare)
	var list []string
	for _, p := range paths[:min(most, len(paths))] {
		list = append(list, fmt.Sprintf("%s: %v", quoted(p.String()), withoutPath(s.differ[p])))
	}
	if n := len(paths) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	return &failure{
		code: exitFailed, err: fmt.Errorf("nothing was written to %s: what exists there is not what the archive has: %s", quoted(s.r.opt.dest), strings.Join(list, "; ")),
		hint: "--resume --overwrite replaces it",
	}
}

// sameBytes compares an open file with a stored one of that digest; errDiffers says that it is another one. What changes
// while it is read differs, too.
func sameBytes(ctx context.Context, ar *store.Archive, e *index.Entry, digest format.Digest, f *hostfs.Source) error {
	if f.Size != e.Size {
		return fmt.Errorf("%w: %d of them instead of %d", errDiffers, f.Size, e.Size)
	}
	if len(e.Sparse) > 0 || len(f.Sparse) > 0 {
		return sameSparse(ctx, ar, e, f)
	}
	h := blake3.New()
	buf := comparisons.Get().(*[]byte)
	defer comparisons.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(*buf)
		_, _ = h.Write((*buf)[:n]) // a hash takes everything
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := f.Check(); err != nil {
		return err
	}
	if format.Digest(h.Sum(nil)) != digest {
		return errDiffers
	}
	return nil
}

// comparisons are buffers of sameBytes.
var comparisons = sync.Pool{New: func() any {
	b := make([]byte, 256<<10)
	return &b
}}

// restoreKept gives what stays its metadata, before it gets further names. A link that would not be made is named.
func (r *extractor) restoreKept(ctx context.Context) error {
	resolve := r.linkCheck()
	for e, err := range during(ctx, r.sel.entries()) {
		if err != nil {
			return err
		}
		if to, ok := r.target(&e); ok && r.x.Skipped(to) {
			var err error
			if e.Kind == index.Symlink {
				err = resolve(to, e.Target)
			}
			var m hostfs.Meta
			if err == nil {
				m, err = r.wholeMeta(ctx, &e)
			}
			if err == nil {
				err = r.x.Restore(to, m)
			}
			if err != nil {
				if err := r.w.failed(&e, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
