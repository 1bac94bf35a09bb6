package hostfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// dirMeta is what a directory gets at the end. xattrs, if not nil, gives the extended attributes then.
type dirMeta struct {
	Meta
	xattrs func() ([]Xattr, error)
}

// Finish gives the directories their metadata, those that lie deepest first, and closes all. It
// does all it can and returns the first errors.
func (x *Extractor) Finish() error {
	if x.aborted.Load() {
		return ErrAborted
	}
	if x.finished.Swap(true) {
		return fs.ErrClosed
	}
	err := x.finishDirs()
	x.close()
	return err
}

func (x *Extractor) finishDirs() error {
	x.mu.Lock()
	final, found, opened := x.final, x.found, x.opened
	x.final, x.found, x.opened = make(map[string]dirMeta), make(map[string]bool), make(map[string]locked)
	x.mu.Unlock()
	// A path begins with those of the directories above it, so that it stands before them in descending
	// order.
	var errs []error
	paths := slices.Collect(maps.Keys(final))
	for p := range opened {
		if _, twice := final[p]; !twice {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range slices.Backward(paths) {
		m, set := final[p]
		d, err := x.dirs.acquire(p)
		if err == nil && set {
			if m.xattrs != nil {
				m.Xattrs, m.XattrsErr = m.xattrs()
			}
			var was *Meta
			if found[p] {
				var now Meta
				now, err = d.meta()
				was = &now
			}
			err = x.fail("restore", p, errors.Join(err, x.restore(d.object(), p, &m.Meta, d.inherits, was)))
		}
		if d != nil {
			if l, ok := opened[p]; ok && (!set || x.opt.NoPermissions) {
				err = errors.Join(err, x.fail("lock", p, l.putBack(d.dir)))
			}
			x.dirs.release(d)
		}
		if err != nil && len(errs) < 8 {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Abort removes every temporary name and makes all later calls fail with ErrAborted. It may be called
// while other goroutines write; what they have completed stays, and directories get the modes they
// were to have, because a later run will take them for the user's own.
func (x *Extractor) Abort() {
	x.live.Lock()
	x.aborted.Store(true)
	x.tempsMu.Lock()
	for name, d := range x.temps {
		_ = d.remove(name)
	}
	clear(x.temps)
	x.tempsMu.Unlock()
	x.live.Unlock()
	_ = x.finishDirs()
	x.close()
}

// Withdraw is Abort before anything was extracted: directories that were made for the destination itself go, too.
func (x *Extractor) Withdraw() {
	x.Abort()
	for _, dir := range x.tops {
		_ = os.Remove(dir) // only when it is empty
	}
}

func (x *Extractor) close() {
	x.mu.Lock()
	top := x.top
	x.top = nil
	x.mu.Unlock()
	if top != nil {
		x.dirs.release(top)
		x.dirs.close()
	}
}
