package hostfs

import (
	"errors"
	"iter"
	"strings"

	"lockbox/internal/pathsafe"
)

// below finds directories that exist in the destination and have rules of their own: another file system is mounted there,
// or a directory folds names for itself.
type below struct {
	x      *Extractor
	names  *Names
	odd    bool
	probed map[uint64]bool // devices
}

// foldsItself reports whether a directory takes names for one although its file system does not. Tests replace it.
var foldsItself = (*dir).folds

// probeBelow completes the rules by those of the directories to which the paths lead. They hold for the whole
// destination then: to name a collision in vain costs less than two names that become one. An empty destination has none.
func (n *Names) probeBelow(x *Extractor, paths iter.Seq2[pathsafe.Path, error], odd bool) error {
	if x.fresh || x.empty {
		return nil
	}
	top, err := x.top.meta()
	if err != nil {
		return x.fail("stat", "", err)
	}
	b := below{x: x, names: n, odd: odd, probed: map[uint64]bool{top.Dev: true}}
	seen := preflight{x: x}
	seen.dirs = newDirCache(extractDirs(), func(path string) (*dir, error) {
		d, err := seen.openDir(path)
		if err == nil && path != "" {
			if err := b.look(d, path); err != nil {
				return nil, errors.Join(&probeError{err}, d.close())
			}
		}
		return d, err
	})
	defer seen.dirs.close()
	var last pathsafe.Path
	for p, err := range paths {
		if err != nil {
			return err
		}
		up := p.Parent()
		if up.IsZero() || up == last || !seen.absent.IsZero() && up.IsUnder(seen.absent) {
			continue
		}
		last = up
		d, err := seen.dirs.acquire(up.String())
		if failed := (*probeError)(nil); errors.As(err, &failed) {
			return failed.err
		}
		if err != nil {
			seen.absent = up // what else is in the way, Preflight says
			continue
		}
		seen.dirs.release(d)
	}
	return nil
}

// probeError is an error that ends the search, other than that of a directory that is not there.
type probeError struct{ err error }

func (e *probeError) Error() string { return e.err.Error() }

// look takes note of the rules of one directory, at is its path.
func (b *below) look(d *dir, at string) error {
	rules := &b.names.rules
	if foldsItself(d) {
		rules.FoldCase, rules.FoldForm = true, true
	}
	m, err := d.meta()
	if err != nil || b.probed[m.Dev] {
		return err
	}
	b.probed[m.Dev] = true
	here, err := b.x.probeFolding(d, at)
	if err != nil {
		return err
	}
	if b.odd {
		if !b.names.probed {
			b.names.probed = true
			if err := b.x.probeNames(b.x.top.dir, "", rules); err != nil {
				return err
			}
		}
		if err := b.x.probeNames(d, at, &here); err != nil {
			return err
		}
	}
	rules.add(&here)
	return nil
}

// add makes r refuse what o refuses, too, and take for one what o does.
func (r *NameRules) add(o *NameRules) {
	r.FoldCase = r.FoldCase || o.FoldCase
	r.FoldForm = r.FoldForm || o.FoldForm
	r.UTF8 = r.UTF8 || o.UTF8
	r.Control = r.Control || o.Control
	r.Trailing = r.Trailing || o.Trailing
	r.Devices = r.Devices || o.Devices
	for _, c := range o.Refused {
		if !strings.ContainsRune(r.Refused, c) {
			r.Refused += string(c)
		}
	}
	if o.Longest > 0 && (r.Longest == 0 || o.Longest < r.Longest) {
		r.Longest = o.Longest
	}
	r.Units = r.Units && o.Units
}
