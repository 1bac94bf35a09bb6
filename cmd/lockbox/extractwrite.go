package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// written puts the parts of files together. The engine's workers deliver them concurrently and in no
// order; a file that comes in several parts is open until the last one.
type written struct {
	x   *hostfs.Extractor
	bar *progress

	mu      sync.Mutex
	parts   map[*index.Entry]*partial
	faults  map[pathsafe.Path]error // by stored path
	lost    map[string]error        // by the path below the destination: what was not restored, of at most maxLost
	unnamed uint64                  // how many more there are
	sick    map[string]error        // the same as lost, where damage in the archive is why
	entries uint64
	bytes   int64
}

// partial is a file of which parts are written. mu is held for reading while one is, and for writing by
// who completes or drops the file.
type partial struct {
	mu   sync.RWMutex
	out  *hostfs.Output
	left int64
	over bool
}

func (w *written) init() {
	w.parts = make(map[*index.Entry]*partial)
	w.faults = make(map[pathsafe.Path]error)
	w.lost = make(map[string]error)
	w.sick = make(map[string]error)
}

func (w *written) count(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries++
	w.bytes += bytes
}

// failed takes note that an entry could not be written, once. It returns the error when there is no
// point in going on.
func (w *written) failed(e *index.Entry, err error) error {
	if hopeless(err) || errors.Is(err, hostfs.ErrAborted) || errors.Is(err, context.Canceled) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults[e.Path] == nil {
		w.faults[e.Path] = err
	}
	return nil
}

// flush names what failed, in the order of the paths. It runs once, at the end, so that the order of
// messages does not depend on the workers.
func (w *written) flush(a *app, archive string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	damaged := len(w.sick) > 0
	for _, p := range slices.SortedFunc(maps.Keys(w.faults), pathsafe.Path.Compare) {
		err := w.faults[p]
		what := "was not extracted"
		if errors.Is(err, format.ErrCorrupt) {
			what = "is damaged and was not extracted"
			damaged = true
		}
		a.fail(limited(fmt.Errorf("%s %s: %w", quoted(p.String()), what, err)))
	}
	const without = "%s was extracted, but without what could not be restored: %w"
	for _, p := range slices.Sorted(maps.Keys(w.sick)) {
		a.fail(fmt.Errorf(without, quoted(p), w.sick[p]))
	}
	if damaged {
		a.say.Hintf("%s", damageHint(archive))
	}
	for _, p := range slices.Sorted(maps.Keys(w.lost)) {
		a.note(exitSkipped)
		a.say.Warnf("%v", fmt.Errorf(without, quoted(p), w.lost[p]))
	}
	if w.unnamed > 0 {
		a.say.Warnf("%s extracted without what could not be restored", plural(w.unnamed, "more entry was", "more entries were"))
	}
	if n := w.x.Foreign(); n > 0 && !a.g.quiet {
		a.say.Hintf("attributes that belong to a machine, such as SELinux labels and trusted.*, are never restored: %s", plural(n, "entry has some", "entries have some"))
	}
}

// maxLost bounds how many entries are named for metadata that was not restored: without root, --same-owner fails for all of
// an archive.
const maxLost = 20

// lose takes note of metadata of an entry that could not be restored. The first ones by path are named, whichever worker comes
// first.
func (w *written) lose(path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, format.ErrCorrupt) {
		w.sick[path] = err
		return
	}
	if w.lost[path] = err; len(w.lost) > maxLost {
		delete(w.lost, slices.Max(slices.Collect(maps.Keys(w.lost))))
		w.unnamed++
	}
}

// abort drops the files that are not complete.
func (w *written) abort() {
	for _, p := range w.parts {
		_ = p.drop()
	}
}

func (p *partial) drop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	over := p.over
	if p.over = true; over || p.out == nil {
		return nil
	}
	return p.out.Abort()
}

// piece writes one part.
func (w *written) piece(to pathsafe.Path, meta func() (hostfs.Meta, error), p store.Piece) error {
	whole := p.Off == 0 && int64(len(p.Data)) == p.Entry.Size
	if p.Err == nil && whole {
		m, err := meta()
		if err == nil {
			err = w.x.WriteFile(to, m, p.Data)
		}
		if err != nil {
			return w.failed(p.Entry, err)
		}
		w.bar.add(int64(len(p.Data)))
		w.count(p.Entry.Size)
		return nil
	}
	w.mu.Lock()
	f := w.parts[p.Entry]
	if f == nil {
		f = &partial{left: p.Entry.DataSize()}
		w.parts[p.Entry] = f
	}
	w.mu.Unlock()
	err := p.Err
	if err == nil {
		err = f.begin(w.x, to, meta)
	}
	if err == nil {
		err = f.write(p.Data, p.Off)
	}
	if err != nil {
		return errors.Join(w.failed(p.Entry, err), f.drop())
	}
	w.bar.add(int64(len(p.Data)))
	done, err := f.complete(int64(len(p.Data)))
	if err != nil {
		return w.failed(p.Entry, err)
	}
	if done {
		w.count(p.Entry.Size)
		w.mu.Lock()
		delete(w.parts, p.Entry)
		w.mu.Unlock()
	}
	return nil
}

// unfinished is how many files wait for parts.
func (w *written) unfinished() (n int) {
	for _, p := range w.parts {
		if !p.over {
			n++
		}
	}
	return n
}

// begin opens the file for the first of its parts.
func (p *partial) begin(x *hostfs.Extractor, to pathsafe.Path, meta func() (hostfs.Meta, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil || p.over {
		return nil
	}
	m, err := meta()
	if err != nil {
		return err
	}
	out, err := x.File(to, m)
	if err == nil {
		p.out = out
	}
	return err
}

// write writes a part, unless the file was dropped because another one is damaged.
func (p *partial) write(b []byte, off int64) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.over {
		return nil
	}
	_, err := p.out.WriteAt(b, off)
	return err
}

// complete counts n bytes and gives the file its name when they were the last.
func (p *partial) complete(n int64) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false, nil
	}
	if p.left -= n; p.left > 0 {
		return false, nil
	}
	p.over = true
	return true, p.out.Commit()
}
