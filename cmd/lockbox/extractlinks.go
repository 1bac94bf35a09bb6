package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"lockbox/internal/pathsafe"
)

var errLeadsOut = errors.New("the link leads out of the directory (--symlinks inside)")

// maxHops bounds how many links are followed: as many as the systems follow.
const maxHops = 40

// linkCheck returns what decides whether a link may be made.
func (r *extractor) linkCheck() func(pathsafe.Path, string) error {
	if r.opt.symlinks.value != "inside" {
		return func(pathsafe.Path, string) error { return nil }
	}
	linkAt := func(p string) (string, bool) {
		if t, ok := r.links[p]; ok {
			return t, true
		}
		t, err := os.Readlink(filepath.Join(r.opt.dest, filepath.FromSlash(p)))
		return t, err == nil
	}
	return func(p pathsafe.Path, target string) error {
		if leadsOut(p.Parent().String(), target, linkAt) {
			return fmt.Errorf("%w: its target is %s", errLeadsOut, quoted(target))
		}
		return nil
	}
}

// leadsOut reports whether a link in dir, a path below the destination, leads out of the destination.
// linkAt gives the target of what is a link itself: other links matter, because "d/.." is not the
// directory above d when d is a link.
func leadsOut(dir, target string, linkAt func(string) (string, bool)) bool {
	var at []string // where the walk has come to
	if dir != "" {
		at = strings.Split(dir, "/")
	}
	todo := []string{target}
	for hops := 0; len(todo) > 0; {
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
		at = append(at, c)
		t, isLink := linkAt(strings.Join(at, "/"))
		if !isLink {
			continue
		}
		if hops++; hops > maxHops {
			return false // it leads nowhere
		}
		at = at[:len(at)-1]
		todo = append(todo, t)
	}
	return false
}
