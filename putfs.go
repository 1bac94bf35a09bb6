package lockbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"sync"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// PutFSOptions say what of a file system is stored. The zero value stores everything and ends with the first failure.
type PutFSOptions struct {
	// Select is shown every entry before it is stored, under the path that it is to have, and a file again when it is
	// opened. It may change all but Path and Size, and leaves the entry out by returning false, a directory with all
	// that is in it.
	Select func(*Entry) bool
	// Failed is told of what cannot be stored; when it returns nil, the rest is stored without it, else that is the
	// error of PutFS.
	Failed func(name string, err error) error
}

// PutFS stores what a file system has below the stored path under, "" being the top. Workers read and compress
// several files at once, so the file system and Select are used by several goroutines, Select by one at a time. What
// is stored does not depend on their number. A file that changes while it is read is read again, and fails with
// ErrSourceChanged when that does not help. Symbolic links are stored as links if fsys is an fs.ReadLinkFS, and
// devices only of an archive: others do not tell their numbers. After an error the transaction can only be rolled
// back.
func (t *Tx) PutFS(ctx context.Context, under string, fsys fs.FS, o PutFSOptions) error {
	if err := t.enter("put", under); err != nil {
		return err
	}
	defer t.a.gate.leave()
	top, err := parseDir(under)
	if err != nil {
		return failure("put", t.a.name, under, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &fsWalk{fsys: fsys, top: top, o: o}
	var stop error
	err = t.t.Add(ctx, w.sources(ctx), func(done store.Added) {
		switch {
		case stop != nil:
		case done.Err == nil:
			t.note(done.Path)
		default:
			name := done.Path.String()
			err := failure("put", t.a.name, name, done.Err)
			if o.Failed != nil {
				err = o.Failed(name, err)
			}
			if err != nil {
				stop = err
				cancel(err)
			}
		}
	})
	if stop != nil {
		err = stop
	}
	return t.doom("put", under, err)
}

// fsWalk goes through a file system.
type fsWalk struct {
	fsys fs.FS
	top  pathsafe.Path
	o    PutFSOptions
	mu   sync.Mutex // for Select
}

func (w *fsWalk) sources(ctx context.Context) iter.Seq[store.Source] {
	return func(yield func(store.Source) bool) {
		_ = fs.WalkDir(w.fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return fs.SkipAll
			}
			if err == nil && name == "." && w.top.IsZero() {
				return nil
			}
			src, take := w.source(ctx, name, d, err)
			switch {
			case take && !yield(src):
				return fs.SkipAll
			case !take && d.IsDir(), err != nil && d != nil && d.IsDir():
				return fs.SkipDir
			}
			return nil
		})
	}
}

// source makes a source of what the walk has found, or of its failure: that travels with the others so that all come
// in order.
func (w *fsWalk) source(ctx context.Context, name string, d fs.DirEntry, err error) (src store.Source, take bool) {
	p := w.top
	if name != "." {
		rest, perr := pathsafe.Parse(name)
		if perr == nil {
			p, perr = w.top.JoinPath(rest)
		}
		if perr != nil {
			return store.Failing(w.top, fmt.Errorf("%s: %w: %v", pathsafe.Quote(name), ErrUnstorable, perr)), true
		}
	}
	if err != nil {
		return store.Failing(p, err), true
	}
	fi, err := d.Info()
	if err != nil {
		return store.Failing(p, err), true
	}
	e, take, err := w.entry(ctx, name, p, fi)
	if err != nil || !take {
		return store.Failing(p, err), take
	}
	rec, err := e.record()
	if err != nil {
		return store.Failing(p, err), true
	}
	rec.Size = e.Size
	src.Entry = rec
	if rec.Kind == index.File {
		src.Open = func() (store.Reader, index.Entry, error) { return w.open(ctx, name, p) }
	}
	return src, true
}

// entry is what is to be stored of a file, as fi describes it.
func (w *fsWalk) entry(ctx context.Context, name string, p pathsafe.Path, fi fs.FileInfo) (e Entry, take bool, err error) {
	e = Entry{Path: p.String(), Mode: fi.Mode(), ModTime: fi.ModTime()}
	if stored, ok := fi.Sys().(Entry); ok {
		if err := stored.complete(ctx); err != nil {
			return e, true, err
		}
		e.Owner, e.Device, e.Xattrs = stored.Owner, stored.Device, stored.Xattrs
	}
	switch fi.Mode().Type() {
	case 0:
		e.Size = fi.Size()
	case fs.ModeSymlink:
		if e.Target, err = fs.ReadLink(w.fsys, name); err != nil {
			return e, true, err
		}
	}
	if w.o.Select != nil {
		size := e.Size
		w.mu.Lock()
		take = w.o.Select(&e)
		w.mu.Unlock()
		if take && (e.Path != p.String() || e.Size != size) {
			return e, true, invalid("Select may not change path and size")
		}
		return e, take, nil
	}
	return e, true, nil
}

// open opens a file for the engine. What is stored of it is what it is now.
func (w *fsWalk) open(ctx context.Context, name string, p pathsafe.Path) (store.Reader, index.Entry, error) {
	f, err := w.fsys.Open(name)
	if err != nil {
		return nil, index.Entry{}, err
	}
	rec, fi, err := w.opened(ctx, f, name, p)
	if err != nil {
		return nil, rec, errors.Join(err, f.Close())
	}
	return &fsFile{File: f, was: fi}, rec, nil
}

func (w *fsWalk) opened(ctx context.Context, f fs.File, name string, p pathsafe.Path) (index.Entry, fs.FileInfo, error) {
	fi, err := f.Stat()
	if err != nil {
		return index.Entry{}, nil, err
	}
	if !fi.Mode().IsRegular() {
		return index.Entry{}, nil, fmt.Errorf("%w: %s is no longer a file", ErrSourceChanged, path.Base(name))
	}
	e, take, err := w.entry(ctx, name, p, fi)
	if err == nil && !take {
		err = unstorable("Select took it and then left it out")
	}
	var rec index.Entry
	if err == nil {
		rec, err = e.record()
	}
	rec.Size = e.Size
	return rec, fi, err
}

// fsFile is an open file of the user's file system.
type fsFile struct {
	fs.File
	was fs.FileInfo
}

// Check looks whether the file still is what it was when it was opened.
func (f *fsFile) Check() error {
	now, err := f.Stat()
	switch {
	case err != nil:
		return err
	case now.Size() != f.was.Size() || !now.ModTime().Equal(f.was.ModTime()):
		return errors.New("its size or time is another one")
	}
	return nil
}
