package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"

	"lockbox/internal/pathsafe"
)

// PreflightItem is one entry that is going to be extracted.
type PreflightItem struct {
	Path pathsafe.Path
	Kind Kind
}

var (
	// ErrBlocked is the kind of the error for what stands in the way and can be neither replaced nor
	// skipped, whatever the options.
	ErrBlocked = errors.New("something of another kind is in the way")
	// ErrUnwritable is the kind of the error for a destination in which nothing can be made.
	ErrUnwritable = errors.New("the destination cannot be written")
)

// Preflight looks for what the items would meet in the destination, before anything is written. With
// SkipExisting it notes existing files, for Skipped, and with Resume those of the right kind, for Exists. It fails with
// fs.ErrExist, naming the first few, when something stands in the way: an existing file or link that may be neither replaced
// nor skipped, a directory in the place of a file, anything else in the place of a directory; these last two are
// ErrBlocked as well. It fails with ErrUnwritable when an item is to be made in the destination itself and
// that cannot be. Items in ascending order are looked up fastest.
//
// With an option that deals with existing files, a directory of the user's own that is an item and does not let him look in or
// write is opened up until Finish or Abort, like those that Mkdir makes.
func (x *Extractor) Preflight(items iter.Seq[PreflightItem]) error {
	if x.fresh {
		return nil
	}
	p := preflight{x: x}
	p.dirs = newDirCache(extractDirs(), p.openDir)
	defer p.dirs.close()
	for it := range items {
		if it.Path.IsZero() || !p.absent.IsZero() && it.Path.IsUnder(p.absent) {
			continue
		}
		if err := p.look(it); err != nil {
			return err
		}
	}
	if p.count == 0 {
		return nil
	}
	list := strings.Join(p.first, "; ")
	if n := p.count - len(p.first); n > 0 {
		list += fmt.Sprintf("; and %d more", n)
	}
	if p.blocked {
		return fmt.Errorf("%w (%w): %s", fs.ErrExist, ErrBlocked, list)
	}
	return fmt.Errorf("%w: %s", fs.ErrExist, list)
}

// Skipped reports whether Preflight found path to exist already, with SkipExisting.
func (x *Extractor) Skipped(path pathsafe.Path) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.skipped[path.String()]
}

type preflight struct {
	x      *Extractor
	dirs   *dirCache[string] // unlike the Extractor's it makes nothing
	absent pathsafe.Path     // a directory that is not there
	first  []string
	count  int

	blocked bool   // one of them is ErrBlocked
	tried   bool   // whether the destination can be written
	there   string // a directory of the destination that exists
}

// blockedError says that something in the destination stands where a directory is needed.
type blockedError struct {
	path string
	kind Kind
}

func (e *blockedError) Error() string {
	return fmt.Sprintf("%s is a %s where a directory is needed", e.path, e.kind)
}

func (p *preflight) openDir(path string) (*dir, error) {
	if path == "" {
		// A handle of its own: the cache closes it. What is found through it is looked at, not written.
		return openTop(p.x.host)
	}
	parent, base := splitPath(path)
	up, err := p.dirs.acquire(parent)
	if err != nil {
		return nil, err
	}
	defer p.dirs.release(up)
	d, err := up.sub(base, false)
	if err != nil {
		if m, lerr := up.lookup(base, false); lerr == nil && m.Kind != KindDir {
			return nil, &blockedError{pathsafe.Quote(p.x.hostOf(path)), m.Kind}
		}
		return nil, p.x.fail("open", path, err)
	}
	return d, nil
}

func (p *preflight) look(it PreflightItem) error {
	path := it.Path.String()
	parent, base := splitPath(path)
	d, err := p.dirs.acquire(parent)
	var blocked *blockedError
	switch {
	case errors.As(err, &blocked):
		p.block(blocked.Error())
		p.absent = it.Path.Parent() // one message for all that lies in it
		return nil
	case errors.Is(err, fs.ErrNotExist):
		p.absent = it.Path.Parent()
		return p.create(path)
	case err != nil:
		return err
	}
	defer p.dirs.release(d)
	m, err := d.lookup(base, false)
	if errors.Is(err, fs.ErrNotExist) {
		if it.Kind == KindDir {
			p.absent = it.Path
		}
		return p.create(path)
	}
	if err != nil {
		return p.x.fail("stat", path, err)
	}
	host := pathsafe.Quote(p.x.hostOf(path))
	switch {
	case it.Kind == KindDir && m.Kind == KindDir:
		if p.x.opens(&m) {
			p.openUp(d.dir, base, path, &m)
		}
	case it.Kind == KindDir:
		p.block((&blockedError{host, m.Kind}).Error())
		p.absent = it.Path
	case m.Kind == KindDir:
		p.block(fmt.Sprintf("%s is a directory where a %s is to be", host, it.Kind))
	case p.x.opt.Resume && m.Kind == it.Kind:
		p.x.mu.Lock()
		p.x.existing[path] = true
		p.x.mu.Unlock()
	case p.x.opt.SkipExisting:
		p.x.mu.Lock()
		p.x.skipped[path] = true
		p.x.mu.Unlock()
	case !p.x.opt.Overwrite:
		p.found(host)
	default:
		return p.create(path)
	}
	return nil
}

// create takes note that path, or a directory above it, is going to be made. Only the destination itself is
// tried out: who may not write there mostly may write nowhere below, and one message says it.
func (p *preflight) create(path string) error {
	if p.tried {
		return nil
	}
	if top, _, deeper := strings.Cut(path, "/"); deeper {
		if top == p.there {
			return nil
		}
		if _, err := p.x.top.lookup(top, false); err == nil {
			p.there = top
			return nil
		}
	}
	p.tried = true
	if err := p.x.writable(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritable, p.x.fail("write", "", err))
	}
	return nil
}

func (p *preflight) block(what string) {
	p.blocked = true
	p.found(what)
}

func (p *preflight) found(what string) {
	p.count++
	if len(p.first) < 5 {
		p.first = append(p.first, what)
	}
}
