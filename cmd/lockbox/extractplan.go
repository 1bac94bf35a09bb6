package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// target is where an entry is made; false when it is not extracted.
func (r *extractor) target(e *index.Entry) (pathsafe.Path, bool) {
	to, ok := r.place(e)
	if !ok {
		return to, false
	}
	made, err := r.names.Path(to)
	if err != nil {
		return to, true // checkNames has refused it
	}
	return made, true
}

// place is where an entry goes by its stored name.
func (r *extractor) place(e *index.Entry) (pathsafe.Path, bool) {
	switch e.Kind {
	case index.File, index.Dir:
	case index.Symlink:
		if r.opt.symlinks.value == "skip" {
			return pathsafe.Path{}, false
		}
	default:
		if !r.opt.devices {
			return pathsafe.Path{}, false
		}
	}
	if r.opt.strip.n == 0 {
		return e.Path, true
	}
	return e.Path.Strip(int(r.opt.strip.n))
}

// plan looks at everything that is to be written, and refuses what is too much or cannot be.
func (r *extractor) plan(ctx context.Context) error {
	var made dirCount
	if r.opt.strip.n > 0 { // nothing else can lead two entries to one place
		r.taken = make(map[pathsafe.Path]occupant)
		made.seen = make(map[pathsafe.Path]bool)
	}
	self := placeOf(r.opt.archive, r.opt.dest)
	r.links = make(map[string]string)
	for e, err := range during(ctx, r.sel.entries()) {
		if err != nil {
			return err
		}
		to, ok := r.place(&e)
		if !ok {
			r.skip(&e)
			continue
		}
		if e.Kind != index.Dir && to.String() == self {
			return r.overSelf(e.Path)
		}
		r.odd = r.odd || hostfs.OddPath(to.String())
		r.entries++
		if e.Size > math.MaxInt64-r.bytes {
			return tooMuch("the sizes add up to more than can be")
		}
		r.bytes += e.Size
		r.data += e.DataSize()
		r.grouped = r.grouped || e.LinkGroup != 0
		if e.Kind == index.Symlink && r.opt.symlinks.value == "inside" {
			r.links[to.String()] = e.Target
		}
		if r.opt.strip.n > 0 {
			other, taken := r.taken[to]
			if taken && !(other.dir && e.Kind == index.Dir) {
				return &failure{
					code: exitFailed, err: fmt.Errorf("nothing was written: with --strip %d both %s and %s would become %s",
						r.opt.strip.n, quoted(other.path.String()), quoted(e.Path.String()), quoted(to.String())),
					hint: "extract them to different directories",
				}
			}
			r.taken[to] = occupant{e.Path, e.Kind == index.Dir}
		}
		if max := r.opt.maxEntries; max.set && made.add(to) > max.n {
			return tooMuch("there are more than %d entries, or directories that lead to them (--max-entries)", max.n)
		}
		if max := r.opt.maxSize; max.set && r.bytes > max.n {
			return tooMuch("there are more than %d bytes (--max-size)", max.n)
		}
	}
	return nil
}

// dirCount counts paths and the directories that lead to them, each once. Of paths in ascending order it needs to
// know the last one only; seen is for others.
type dirCount struct {
	n    uint64
	last pathsafe.Path
	seen map[pathsafe.Path]bool
}

func (c *dirCount) add(p pathsafe.Path) uint64 {
	for up := p; !up.IsZero() && up != c.last && !c.last.IsUnder(up) && !c.seen[up]; up = up.Parent() {
		c.n++
		if c.seen != nil {
			c.seen[up] = true
		}
	}
	c.last = p
	return c.n
}

// placeOf returns where the archive stands below the destination, as a stored path, or "".
func placeOf(archive, dest string) string {
	from, err := filepath.EvalSymlinks(archive)
	if err != nil {
		return ""
	}
	to, err := filepath.EvalSymlinks(dest)
	if err != nil {
		return "" // not there yet, so the archive is not in it
	}
	if from, err = filepath.Abs(from); err != nil {
		return ""
	}
	if to, err = filepath.Abs(to); err != nil {
		return ""
	}
	rel, err := filepath.Rel(to, from)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// skip takes note of an entry that has no target. What the user did not ask to be left out is named.
func (r *extractor) skip(e *index.Entry) {
	r.skipped++
	switch e.Kind {
	case index.Symlink:
		if r.opt.symlinks.value == "skip" {
			return
		}
		r.stripped++
		return
	case index.File, index.Dir:
		r.stripped++
		return
	}
	if r.opt.devices {
		r.stripped++
		return
	}
	r.a.note(exitSkipped)
	r.a.say.Warnf("%s was left out: it is a %s", quoted(e.Path.String()), kindWord(e.Kind))
	r.a.say.Hintf("--devices makes FIFOs and devices")
}

func tooMuch(msg string, args ...any) error {
	return &failure{code: exitFailed, err: fmt.Errorf("nothing was written: "+msg, args...)}
}
