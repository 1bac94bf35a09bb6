package lockbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// maxLinks is how many symbolic links one name may lead through.
const maxLinks = 40

var (
	errEscapes = fmt.Errorf("a symbolic link leads out of the archive: %w", fs.ErrNotExist)
	errLinks   = fmt.Errorf("too many symbolic links: %w", fs.ErrNotExist)
)

// Open opens a file or a directory; symbolic links are followed. A file is a *File.
func (a *Archive) Open(name string) (f fs.File, err error) {
	err = a.named("open", name, true, func(e index.Entry, gen uint64) error {
		switch e.Kind {
		case index.Dir:
			f = &dir{a: a, name: name, path: e.Path, info: a.info(name, &e), gen: gen}
		case index.File:
			var file *File
			if file, err = a.openFile(name, &e, gen); err == nil {
				f = file
			}
			return err
		default:
			return unstorable("it is a " + e.Kind.String() + ", which has no bytes to read")
		}
		return nil
	})
	return f, err
}

// Stat describes an entry; symbolic links are followed. Sys of what it returns is an Entry.
func (a *Archive) Stat(name string) (fs.FileInfo, error) { return a.stat("stat", name, true) }

// Lstat describes an entry; a symbolic link is described itself.
func (a *Archive) Lstat(name string) (fs.FileInfo, error) { return a.stat("lstat", name, false) }

func (a *Archive) stat(op, name string, follow bool) (fi fs.FileInfo, err error) {
	err = a.named(op, name, follow, func(e index.Entry, _ uint64) error {
		fi = a.info(name, &e)
		return nil
	})
	return fi, err
}

// ReadLink returns the target of a symbolic link.
func (a *Archive) ReadLink(name string) (target string, err error) {
	err = a.named("readlink", name, false, func(e index.Entry, _ uint64) error {
		if e.Kind != index.Symlink {
			return invalid("it is a %v", e.Kind)
		}
		target = e.Target
		return nil
	})
	return target, err
}

// ReadFile returns a whole file; symbolic links are followed. A file that may be larger than memory is better
// streamed.
func (a *Archive) ReadFile(name string) (b []byte, err error) {
	err = a.named("read", name, true, func(e index.Entry, gen uint64) error {
		if e.Kind != index.File {
			return invalid("it is a %v", e.Kind)
		}
		f, err := a.openFile(name, &e, gen)
		if err == nil {
			b, err = f.readAll()
		}
		return err
	})
	return b, err
}

// ReadDir lists a directory in ascending order of names, all of it in memory.
func (a *Archive) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = a.named("readdir", name, true, func(e index.Entry, _ uint64) error {
		if e.Kind != index.Dir {
			return errNotDir
		}
		list, err = a.children(e.Path, "", -1)
		return err
	})
	return list, err
}

var errNotDir = fmt.Errorf("%w: not a directory", fs.ErrInvalid)

// named looks a name up for a method of the file system and calls fn with what it stands for.
func (a *Archive) named(op, name string, follow bool, fn func(e index.Entry, gen uint64) error) error {
	if err := a.gate.enter(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	defer a.gate.leave()
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	gen := a.s.Generation()
	p, err := parseDir(name)
	if err != nil {
		// A valid name that no entry can have, because it is too long or holds a zero byte.
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	e, err := a.resolve(p, follow)
	if err == nil {
		err = fn(e, gen)
	}
	return a.pathFailure(op, name, e.Path.String(), gen, err)
}

// resolve finds what a path stands for. When the archive has that very path nothing above it can be a link: one
// lookup is all.
func (a *Archive) resolve(p pathsafe.Path, follow bool) (index.Entry, error) {
	e, err := a.lookup(p)
	if err == nil && (e.Kind != index.Symlink || !follow) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	left, links := p.Components(), 0
	at := pathsafe.Path{}
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at.IsZero() {
				return index.Entry{}, errEscapes
			}
			at = at.Parent()
			continue
		}
		next, err := at.Join(name)
		if err != nil {
			return index.Entry{}, fs.ErrNotExist
		}
		if e, err = a.lookup(next); err != nil {
			return e, err
		}
		switch {
		case e.Kind == index.Symlink && (follow || len(left) > 0):
			if links++; links > maxLinks {
				return index.Entry{}, errLinks
			}
			if strings.HasPrefix(e.Target, "/") {
				return index.Entry{}, errEscapes
			}
			left = append(strings.Split(e.Target, "/"), left...)
		case e.Kind != index.Dir && len(left) > 0:
			return index.Entry{}, fs.ErrNotExist
		default:
			at = next
		}
	}
	return a.lookup(at)
}

// lookup returns the entry at a path. A directory that was not stored itself has one with nothing but path and kind.
func (a *Archive) lookup(p pathsafe.Path) (index.Entry, error) {
	var notFound error
	if !p.IsZero() {
		e, err := a.s.Get(p)
		if !errors.Is(err, fs.ErrNotExist) {
			return e, err
		}
		notFound = err
		below := false
		for _, err := range a.s.Children(p, "") {
			if err != nil {
				return index.Entry{}, err
			}
			below = true
			break
		}
		if !below {
			return index.Entry{}, notFound
		}
	}
	return index.Entry{Path: p, Kind: index.Dir}, nil
}

// children lists up to n entries of a directory from after a name on, all with n < 0.
func (a *Archive) children(p pathsafe.Path, after string, n int) (list []fs.DirEntry, err error) {
	for e, err := range a.s.Children(p, after) {
		if err != nil {
			return list, err
		}
		list = append(list, a.info(e.Path.Base(), &e))
		if len(list) == n {
			break
		}
	}
	return list, nil
}

// dir is an open directory.
type dir struct {
	a      *Archive
	name   string
	path   pathsafe.Path
	info   *info
	gen    uint64
	last   string // the name listed last
	closed bool
}

func (d *dir) Stat() (fs.FileInfo, error) {
	if d.closed {
		return nil, d.refuse("stat", fs.ErrClosed)
	}
	return d.info, nil
}

func (d *dir) Read([]byte) (int, error) {
	return 0, d.refuse("read", fmt.Errorf("%w: it is a directory", fs.ErrInvalid))
}

func (d *dir) Close() error {
	d.closed = true
	return nil
}

func (d *dir) refuse(op string, err error) error {
	return &fs.PathError{Op: op, Path: d.name, Err: err}
}

// ReadDir implements fs.ReadDirFile. What it holds in memory is what it returns.
func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.closed {
		return nil, d.refuse("readdir", fs.ErrClosed)
	}
	if err := d.a.gate.enter(); err != nil {
		return nil, d.refuse("readdir", err)
	}
	defer d.a.gate.leave()
	if d.a.s.Generation() != d.gen {
		return nil, d.a.pathFailure("readdir", d.name, d.path.String(), d.gen, errMoved)
	}
	limit := n
	if n <= 0 {
		limit = -1
	}
	list, err := d.a.children(d.path, d.last, limit)
	if len(list) > 0 {
		d.last = list[len(list)-1].Name()
	}
	switch {
	case err != nil:
		return list, d.a.pathFailure("readdir", d.name, d.path.String(), d.gen, err)
	case n > 0 && len(list) == 0:
		return nil, io.EOF
	}
	return list, nil
}

// errMoved is the error of what began in a state that the handle has left.
var errMoved = fmt.Errorf("%w: a commit of this handle came between, open it anew", ErrChanged)
