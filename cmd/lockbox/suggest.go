package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// How much is read to find what may have been meant: a mistyped name must not cost more than the command would have.
const (
	guessesPerRun   = 16
	entriesPerGuess = 4096
)

// missingEntry is the error for an operand that names nothing. Its hint says what may have been meant.
func (a *app) missingEntry(ar catalogue, archive, operand string) error {
	f := &failure{
		code: exitMissing, err: fmt.Errorf("%s has no entry %s", quoted(archive), quoted(operand)),
		hint: "lockbox list " + pathsafe.Quote(archive) + " shows what is stored",
	}
	if a.guesses++; a.guesses > guessesPerRun || isGlob(operand) {
		return f
	}
	if near := nearestStored(ar, operand); near != "" {
		f.hint = fmt.Sprintf("did you mean %s?", quoted(near))
	}
	return f
}

// nearestFile returns a file that is called almost like one that is not there, in the same directory, or "".
func nearestFile(name string) string {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return ""
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(entriesPerGuess) // what could be read will do
	names := make(map[string]string)
	var folded []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			low := strings.ToLower(e.Name())
			names[low], folded = e.Name(), append(folded, low)
		}
	}
	slices.Sort(folded) // a directory has no order
	near := nearest(filepath.Base(name), folded)
	if low := strings.ToLower(filepath.Base(name)); names[low] != "" {
		near = low
	}
	if near == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(name), names[near])
}

// nearestStored returns a stored path that is like one that is not there, or "": in the directory that it names, as far
// as that exists, what is called almost the same, else what is called the same elsewhere. It gives up after a
// number of entries, and on any error: it is a courtesy.
func nearestStored(ar catalogue, operand string) string {
	p, err := pathsafe.Parse(storedName(operand))
	if err != nil {
		return ""
	}
	parts := p.Components()
	var dir pathsafe.Path
	for len(parts) > 1 {
		next, err := dir.Join(parts[0])
		if err != nil {
			return ""
		}
		if ok, err := exists(ar, next); err != nil {
			return ""
		} else if !ok {
			break
		}
		dir, parts = next, parts[1:]
	}
	names := make(map[string]string) // by their lower case
	var folded []string
	for name := range children(ar, dir) {
		low := strings.ToLower(name)
		if _, ok := names[low]; !ok {
			folded = append(folded, low)
		}
		names[low] = name
	}
	near := nearest(parts[0], folded)
	if low := strings.ToLower(parts[0]); names[low] != "" {
		near = low
	}
	if near != "" {
		if found, err := dir.Join(names[near]); err == nil {
			// The rest of the operand may be right.
			if rest, err := pathsafe.Parse(strings.Join(append([]string{found.String()}, parts[1:]...), "/")); err == nil {
				if ok, err := exists(ar, rest); err == nil && ok {
					return rest.String()
				}
			}
			return found.String()
		}
	}
	n := 0
	for e, err := range ar.List(pathsafe.Path{}) {
		if n++; err != nil || n > entriesPerGuess {
			return ""
		}
		if e.Path.Base() == p.Base() && e.Kind != index.Dir {
			return e.Path.String()
		}
	}
	return ""
}

// children yields the names in a directory, as far as they stand among its first entries.
func children(ar catalogue, dir pathsafe.Path) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		n, depth, last := 0, dir.Depth(), ""
		for e, err := range ar.List(dir) {
			if n++; err != nil || n > entriesPerGuess {
				return
			}
			rest, ok := e.Path.Strip(depth)
			if !ok {
				continue // the directory itself
			}
			name, _, _ := strings.Cut(rest.String(), "/")
			if name != last && !yield(name) {
				return
			}
			last = name
		}
	}
}
