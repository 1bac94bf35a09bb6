package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"strings"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// pending is a source on its way through the engine.
type pending struct {
	host     string
	kind     index.Kind
	replaces bool            // an entry has its path
	remove   []pathsafe.Path // what has to go when it is stored
	unlisted error           // why the contents of a directory are not known
	noXattrs error           // why its extended attributes are not known
	old      *index.Entry    // what has its path, when it is of the same kind
	keep     bool            // its content stays, the file is not read
	probe    *probe          // what is stored instead; nil when nobody asks
	reading  *reading        // of a file that is read; complete when the source is through
}

// reading is what reading a file has shown beside its bytes.
type reading struct {
	unsteady error // why the last reading that failed was no consistent one
	noXattrs error // why its extended attributes are not known
}

// changed reports whether a reading before the one that is stored was not consistent.
func (p *pending) changed() bool { return p.reading != nil && p.reading.unsteady != nil }

// items yields what the walk finds, without what is never stored: temporary files of this program. Items
// with an error are among them. A directory that cannot be listed comes once, with the reason as the second
// value.
func (r *adder) items(ctx context.Context) iter.Seq2[*hostfs.Item, error] {
	return func(yield func(*hostfs.Item, error) bool) {
		var dir *hostfs.Item // held back until what follows tells whether it could be listed
		for it := range hostfs.Walk(ctx, r.ops, r.walk) {
			if it.Err != nil && it.Path.IsZero() && ctx.Err() != nil {
				return // it only says that the walk was cut short
			}
			r.mirror.see(&it)
			if held := dir; held != nil {
				dir = nil
				if it.Err != nil && it.Path == held.Path {
					if !yield(held, it.Err) {
						return
					}
					continue
				}
				if !yield(held, nil) {
					return
				}
			}
			switch {
			case r.passedOver(&it):
			case it.Err == nil && it.Kind == hostfs.KindDir:
				dir = &it
			case !yield(&it, nil):
				return
			}
		}
		if dir != nil {
			yield(dir, nil)
		}
	}
}

// passedOver reports what is left out without a word. A list may well name the archive, or what a rule excludes;
// a user who names it is told.
func (r *adder) passedOver(it *hostfs.Item) bool {
	if errors.Is(it.Err, hostfs.ErrExcluded) || errors.Is(it.Err, hostfs.ErrSelf) {
		return !r.named[it.Host()]
	}
	return it.Kind != hostfs.KindDir && isTemporary(it.Path.Base())
}

// isTemporary recognises the names of this program's temporary files: of an archive that is being made, and
// of a file that is being extracted.
func isTemporary(name string) bool {
	if digits, ok := strings.CutPrefix(name, ".lockbox-"); ok {
		_, err := hex.DecodeString(digits)
		return len(digits) == 32 && err == nil
	}
	if rest, ok := strings.CutPrefix(name, ".lbxtmp-"); ok {
		rest, _, _ = strings.Cut(rest, "-try") // what follows tries out what names a directory can hold
		parts := strings.Split(rest, "-")
		if len(parts) != 3 || len(parts[0]) != 8 {
			return false
		}
		_, err := hex.DecodeString(parts[0])
		_, err1 := strconv.ParseUint(parts[1], 10, 63)
		_, err2 := strconv.ParseUint(parts[2], 10, 64)
		return err == nil && err1 == nil && err2 == nil
	}
	return false
}

// entry is what is to be stored of an item as the walk saw it.
func (r *adder) entry(it *hostfs.Item) index.Entry {
	e := entryOf(it.Path, &it.Meta)
	r.repro.normalise(&e)
	return e
}

// sources yields the items as sources. It ends early, with stop set, when something is in the way.
func (r *adder) sources(ctx context.Context, tx *store.Tx) iter.Seq[store.Source] {
	return func(yield func(store.Source) bool) {
		if r.stop = r.checkParents(); r.stop != nil {
			return
		}
		for it, unlisted := range r.items(ctx) {
			p := pending{host: it.Host(), kind: index.Kind(it.Kind), unlisted: unlisted, noXattrs: it.XattrErr}
			if tooManyOpen(it.Err) || tooManyOpen(unlisted) {
				r.stop = exhausted(p.host, errors.Join(it.Err, unlisted))
				return
			}
			var src store.Source
			if it.Err != nil {
				src = store.Failing(it.Path, it.Err)
			} else {
				if r.stop = r.clash(it); r.stop != nil {
					return
				}
				e := r.entry(it)
				keep, err := r.meet(&e, &p)
				if err != nil {
					r.stop = err
					return
				}
				if keep {
					continue
				}
				src = r.source(it, e, &p, tx)
			}
			r.waiting <- p
			if !yield(src) {
				return
			}
		}
	}
}

// clash refuses what cannot be stored beside standard input: what would be in its place, a file above it, or anything
// below it.
func (r *adder) clash(it *hostfs.Item) error {
	switch {
	case r.stdin.IsZero():
	case it.Path == r.stdin:
		return usagef("standard input and %s would both be stored as %s", quoted(it.Host()), quoted(it.Path.String()))
	case it.Path.IsUnder(r.stdin), it.Kind != hostfs.KindDir && r.stdin.IsUnder(it.Path):
		return usagef("standard input would be stored as %s and %s as %s: nothing can lie below a file", quoted(r.stdin.String()), quoted(it.Host()), quoted(it.Path.String()))
	}
	return nil
}

// upToDate reports whether a file is as an entry of its kind says, as far as that shows without reading it. It
// is given the file's own time: what --reproducible makes of it says nothing.
func upToDate(m *hostfs.Meta, old *index.Entry) bool {
	return old != nil && m.Kind == hostfs.KindFile && old.HasMtime &&
		m.Size == old.Size && m.MtimeSec == old.MtimeSec && m.MtimeNsec == old.MtimeNsec
}

// openItem opens what the walk found. Tests put something between the walk and the opening.
var openItem = (*hostfs.Item).Open

// countedSource tells the progress bar and the probe what is read, and keeps why it cannot be relied on.
type countedSource struct {
	*hostfs.Source
	bar     *progress
	probe   *probe
	reading *reading
}

func (s *countedSource) Check() error {
	err := s.Source.Check()
	if errors.Is(err, hostfs.ErrChanged) {
		s.reading.unsteady = err
	}
	return err
}

func (s *countedSource) Read(p []byte) (int, error) {
	n, err := s.Source.Read(p)
	s.bar.add(int64(n))
	s.probe.write(p[:n])
	return n, err
}

// standardInput yields standard input as the one source.
func (r *adder) standardInput(ctx context.Context) iter.Seq[store.Source] {
	return func(yield func(store.Source) bool) {
		now := r.a.now()
		e := index.Entry{
			Path: r.stdin, Kind: index.File, Mode: 0o644, Size: -1,
			HasMtime: true, MtimeSec: now.Unix(), MtimeNsec: uint32(now.Nanosecond()),
		}
		r.repro.normalise(&e)
		p := pending{host: "-", kind: index.File}
		keep, err := r.meet(&e, &p)
		if err == nil && !keep {
			err = r.checkAbove(r.stdin)
		}
		if err != nil {
			r.stop = err
			return
		}
		p.probe = r.newProbe(&e, &p)
		in := &stdinSource{r: interruptibleReader(ctx, r.a.sys.stdin), bar: r.a.bar, probe: p.probe}
		r.waiting <- p
		yield(store.Source{Entry: e, NoDedup: r.opt.noDedup, Open: func() (store.Reader, index.Entry, error) {
			if in.used {
				return nil, e, errors.New("standard input can be read once only")
			}
			in.used = true
			in.probe.begin(&e)
			return in, e, nil
		}})
	}
}

// stdinSource reads standard input. There is no later state of it to compare with.
type stdinSource struct {
	r     io.Reader
	bar   *progress
	probe *probe
	used  bool
	err   error
}

func (s *stdinSource) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.bar.add(int64(n))
	s.probe.write(p[:n])
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func (s *stdinSource) Check() error { return s.err }
func (s *stdinSource) Close() error { return nil }

// meet looks at what the archive has where an entry is to be stored. keep means that what is there
// stays.
func (r *adder) meet(e *index.Entry, p *pending) (keep bool, err error) {
	if !r.filled {
		return false, nil
	}
	old, err := r.ar.Get(e.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if e.Kind == index.Dir {
			return false, nil
		}
	case err != nil:
		return false, err
	case r.opt.noReplace:
		if e.Kind == index.Dir && old.Kind == index.Dir {
			return true, nil
		}
		return false, &failure{
			code: exitFailed, err: fmt.Errorf("nothing was changed: %s is stored already", quoted(e.Path.String())),
			hint: "without --no-replace it would be replaced",
		}
	case old.Kind == index.Dir && e.Kind == index.Dir:
		p.replaces, p.old = true, &old
		return false, nil
	case old.Kind == index.Dir || e.Kind == index.Dir:
		p.replaces = true
		if !r.opt.overwrite {
			return false, r.conflict(e, &old)
		}
		if e.Kind == index.Dir {
			return false, nil
		}
	default:
		if p.replaces = true; e.Kind == old.Kind {
			p.old = &old
		}
		return false, nil // a file has nothing below it
	}
	// Something that is no directory takes the place of what may be one by what lies below it.
	for below, err := range r.ar.List(e.Path) {
		if err != nil {
			return false, err
		}
		if below.Path == e.Path {
			continue
		}
		if !r.opt.overwrite {
			return false, r.conflict(e, &index.Entry{Path: e.Path, Kind: index.Dir})
		}
		p.remove = append(p.remove, below.Path)
	}
	return false, nil
}

func (r *adder) conflict(e, old *index.Entry) error {
	return conflictFailure(fmt.Errorf("%s is stored as a %s and cannot become a %s", quoted(e.Path.String()), kindWord(old.Kind), kindWord(e.Kind)))
}

// checkParents makes sure that nothing that is stored above the operands is a file.
func (r *adder) checkParents() error {
	for _, op := range r.ops {
		if err := r.checkAbove(op.Stored); err != nil {
			return err
		}
	}
	return nil
}

func (r *adder) checkAbove(p pathsafe.Path) error {
	if !r.filled || p.IsZero() {
		return nil
	}
	for up := p.Parent(); !up.IsZero(); up = up.Parent() {
		old, err := r.ar.Get(up)
		if errors.Is(err, fs.ErrNotExist) || err == nil && old.Kind == index.Dir {
			continue
		}
		if err != nil {
			return err
		}
		if !r.opt.overwrite {
			return r.conflict(&index.Entry{Path: up, Kind: index.Dir}, &old)
		}
		r.remove = append(r.remove, up)
	}
	return nil
}

// rehearse goes through everything that is to be stored without reading it.
func (r *adder) rehearse(ctx context.Context) error {
	for it := range r.items(ctx) {
		if it.Err == nil {
			if err := r.clash(it); err != nil {
				return err
			}
			e := r.entry(it)
			if _, err := r.meet(&e, &pending{}); err != nil {
				return err
			}
		}
	}
	if !r.stdin.IsZero() {
		if _, err := r.meet(&index.Entry{Path: r.stdin, Kind: index.File}, &pending{}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func kindWord(k index.Kind) string {
	switch k {
	case index.Dir:
		return "directory"
	case index.Symlink:
		return "symbolic link"
	case index.FIFO:
		return "FIFO"
	case index.CharDevice:
		return "character device"
	case index.BlockDevice:
		return "block device"
	}
	return k.String()
}
