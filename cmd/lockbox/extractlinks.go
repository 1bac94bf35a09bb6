package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lockbox/internal/pathsafe"
)

var errLeadsOut = errors.New("the link leads out of the directory (--symlinks inside)")

// maxHops bounds how many links are followed: as many as the systems follow.
const maxHops = 40

// maxSteps bounds how many components are looked at for one link; what needs more is taken to lead out.
const maxSteps = 10_000

// linkCheck returns what decides whether a link may be made.
func (r *extractor) linkCheck() func(pathsafe.Path, string) error {
	if r.opt.symlinks.value != "inside" {
		return func(pathsafe.Path, string) error { return nil }
	}
	onDisk := func(p string) (string, bool) {
		t, err := os.Readlink(filepath.Join(r.opt.dest, filepath.FromSlash(p)))
		return t, err == nil
	}
	planned := func(p string) (string, bool) { t, ok := r.links[r.names.Key(p)]; return t, ok }
	return func(p pathsafe.Path, target string) error {
		if leadsOut(p.Parent().String(), target, onDisk, planned) {
			return fmt.Errorf("%w: its target is %s", errLeadsOut, quoted(target))
		}
		return nil
	}
}

// leadsOut reports whether a link in dir, a path below the destination, leads or may come to lead out of the
// destination. Other links matter, because "d/.." is not the directory above d when d is a link: onDisk gives
// the target of what is one now, planned of what the archive would make one, which may still fail, so both
// ways are followed.
func leadsOut(dir, target string, onDisk, planned func(string) (string, bool)) bool {
	w := linkWalk{onDisk: onDisk, planned: planned}
	var at []string
	if dir != "" {
		at = strings.Split(dir, "/")
	}
	return w.out(at, []string{target}, 0)
}

type linkWalk struct {
	onDisk, planned func(string) (string, bool)
	steps           int
}

// out follows todo, whose last element is the next to follow, from at.
func (w *linkWalk) out(at, todo []string, hops int) bool {
	for len(todo) > 0 {
		if w.steps++; w.steps > maxSteps {
			return true
		}
		next := filepath.ToSlash(todo[len(todo)-1])
		todo = todo[:len(todo)-1]
		if path.IsAbs(next) || filepath.VolumeName(filepath.FromSlash(next)) != "" {
			return true
		}
		c, rest, more := strings.Cut(next, "/")
		if more {
			// A name may be long and hold many slashes; what follows one is looked at in its turn.
			todo = append(todo, strings.TrimLeft(rest, "/"))
		}
		switch c {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return true
			}
			at = at[:len(at)-1]
			continue
		}
		here := strings.Join(append(slices.Clone(at), c), "/")
		now, isLink := w.onDisk(here)
		if t, ok := w.planned(here); ok && !(isLink && now == t) && hops < maxHops {
			if w.out(slices.Clone(at), append(slices.Clone(todo), t), hops+1) {
				return true
			}
		}
		if !isLink {
			at = append(at, c)
			continue
		}
		if hops++; hops > maxHops {
			return false // it leads nowhere
		}
		todo = append(todo, now)
	}
	return false
}
