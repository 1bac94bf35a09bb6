package main

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// extractNames are the rules for names in a destination; nil to try them out there. Tests set it.
var extractNames *hostfs.NameRules

// maxRenames bounds how many renamed entries are named to people; --json has all.
const maxRenames = 100

// places yields where entries go by their stored names, ascending, each place once.
func (r *extractor) places() iter.Seq2[pathsafe.Path, error] {
	return func(yield func(pathsafe.Path, error) bool) {
		if r.taken != nil {
			for _, p := range slices.SortedFunc(maps.Keys(r.taken), pathsafe.Path.Compare) {
				if !yield(p, nil) {
					return
				}
			}
			return
		}
		for e, err := range r.sel.entries() {
			if err != nil {
				yield(pathsafe.Path{}, err)
				return
			}
			if to, ok := r.place(&e); ok && !yield(to, nil) {
				return
			}
		}
	}
}

// checkNames finds names that the destination cannot hold, and with --rename-invalid chooses others.
func (r *extractor) checkNames() (err error) {
	r.names, err = r.x.CheckNames(r.places(), r.odd, r.opt.renameInvalid)
	if errors.Is(err, hostfs.ErrNames) {
		for _, p := range r.names.Problems {
			r.a.say.Errorf("%s cannot be made in %s: %s", quoted(p.Path.String()), quoted(r.opt.dest), p.Reason)
		}
		if n := r.names.Count - len(r.names.Problems); n > 0 {
			r.a.say.Errorf("and %s more", comma(uint64(n)))
		}
		return &failure{
			code: exitFailed, err: fmt.Errorf("nothing was written: %s cannot be made in %s", plural(uint64(r.names.Count), "name", "names"), quoted(r.opt.dest)),
			hint: "--rename-invalid writes them under other names, which lead back to these",
		}
	}
	if err != nil {
		return fmt.Errorf("nothing was written to %s: %w", quoted(r.opt.dest), err)
	}
	if self := placeOf(r.opt.archive, r.opt.dest); self != "" && !r.names.Plain() {
		for p, err := range r.places() {
			if err != nil {
				return err
			}
			if at, err := r.names.Path(p); err != nil || r.names.Key(at.String()) == r.names.Key(self) {
				return r.overSelf(p)
			}
		}
	}
	if len(r.links) > 0 {
		links := make(map[string]string, len(r.links))
		for p, target := range r.links {
			if stored, err := pathsafe.Parse(p); err == nil {
				if to, err := r.names.Path(stored); err == nil {
					links[r.names.Key(to.String())] = target
				}
			}
		}
		r.links = links
	}
	return nil
}

// overSelf refuses to extract over the archive that is being read.
func (r *extractor) overSelf(p pathsafe.Path) error {
	return &failure{
		code: exitFailed, err: fmt.Errorf("nothing was written: the entry %s would take the place of the archive itself", quoted(p.String())),
		hint: "extract to another directory: --dest DIR",
	}
}

// reportRenames says what was renamed. It runs when nothing stands against writing any more.
func (r *extractor) reportRenames() {
	for i, p := range r.names.Problems {
		if i == maxRenames {
			r.a.say.Warnf("and %s more were renamed; --json has all of them", comma(uint64(len(r.names.Problems)-i)))
			return
		}
		r.a.say.Warnf("%s is written as %s: %s", quoted(p.Path.String()), quoted(p.To.String()), p.Reason)
	}
}

// renamedFrom adds to a line of machine output the path of an entry, and where it was written instead.
func (r *extractor) renamedFrom(o *object, e *index.Entry) *object {
	to, ok := r.target(e)
	if stored, _ := r.place(e); !ok || to == stored {
		return o.bytes("path", e.Path.String())
	}
	return o.bytes("path", to.String()).bytes("renamed_from", e.Path.String())
}
