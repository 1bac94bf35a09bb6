package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// catalogue is what selecting needs of an archive.
type catalogue interface {
	Get(pathsafe.Path) (index.Entry, error)
	List(under pathsafe.Path) iter.Seq2[index.Entry, error]
}

// selection is the entries that operands name: each operand first literally, then, when nothing has
// that name and it has the characters of one, as a glob. A directory brings everything below it.
type selection struct {
	ar      catalogue
	all     bool
	literal map[string]bool
	globs   []*globOperand
	roots   []pathsafe.Path // subtrees that hold all that is wanted, ascending and disjoint
	missing []string        // literal operands that name nothing

	above []verdict // of the directories above the entry that was judged last, from the top down
}

// verdict says whether an operand names dir or a directory above it.
type verdict struct {
	dir    string
	wanted bool
}

// errEmptyOperand refuses "", which is more likely a variable that is not set than the top of the archive.
var errEmptyOperand = usagef(`a stored path is empty; "." is the top of the archive`)

type globOperand struct {
	operand string
	pattern string
	matched bool
}

// newSelection looks the operands up. Without operands everything is selected.
func newSelection(ar catalogue, operands []string, literalOnly bool) (*selection, error) {
	s := &selection{ar: ar, all: len(operands) == 0, literal: make(map[string]bool)}
	for _, op := range operands {
		if err := s.operand(op, literalOnly); err != nil {
			return nil, err
		}
	}
	if s.all {
		s.roots = []pathsafe.Path{{}}
		return s, nil
	}
	slices.SortFunc(s.roots, pathsafe.Path.Compare)
	kept := s.roots[:0]
	for _, r := range s.roots {
		if n := len(kept); n > 0 && (r == kept[n-1] || r.IsUnder(kept[n-1])) {
			continue
		}
		kept = append(kept, r)
	}
	s.roots = kept
	return s, nil
}

func (s *selection) operand(op string, literalOnly bool) error {
	name := storedName(op)
	if op == "" {
		return errEmptyOperand
	}
	if name == "" {
		s.all = true
		return nil
	}
	if p, err := pathsafe.Parse(name); err == nil {
		ok, err := exists(s.ar, p)
		if err != nil {
			return err
		}
		if ok {
			s.literal[p.String()] = true
			s.roots = append(s.roots, p)
			return nil
		}
	}
	if literalOnly || !isGlob(name) {
		s.missing = append(s.missing, op)
		return nil
	}
	g, err := newGlob(op, name)
	if err != nil {
		return err
	}
	s.globs = append(s.globs, g)
	s.roots = append(s.roots, globBase(name))
	return nil
}

// storedName drops what a command line may add to a stored path: a leading "/" or "./", doubled
// and trailing slashes. The top of the archive is "".
func storedName(op string) string {
	parts := strings.Split(op, "/")
	return strings.Join(slices.DeleteFunc(parts, func(c string) bool { return c == "" || c == "." }), "/")
}

// exists reports whether p is an entry or a directory that only the paths below it name.
func exists(ar catalogue, p pathsafe.Path) (bool, error) {
	if _, err := ar.Get(p); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	for _, err := range ar.List(p) {
		return err == nil, err
	}
	return false, nil
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[") }

// newGlob checks the pattern. Braces have no meaning in it.
func newGlob(op, name string) (*globOperand, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch name[i] {
		case '\\':
			b.WriteByte(name[i])
			if i++; i < len(name) {
				b.WriteByte(name[i])
			}
			continue
		case '{', '}':
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	g := &globOperand{operand: op, pattern: b.String()}
	if !doublestar.ValidatePattern(g.pattern) {
		return nil, &failure{code: exitUsage, err: fmt.Errorf("%s is not a well-formed pattern", quoted(op)), hint: "--literal takes names as they are"}
	}
	return g, nil
}

// globBase is the part of a pattern before its first special character, in whole components.
func globBase(pattern string) pathsafe.Path {
	i := strings.IndexAny(pattern, `*?[\`)
	if i < 0 {
		i = len(pattern)
	}
	p, err := pathsafe.Parse(pattern[:max(strings.LastIndexByte(pattern[:i], '/'), 0)])
	if err != nil {
		return pathsafe.Path{}
	}
	return p
}

// match reports whether the pattern names path itself.
func (g *globOperand) match(path string) bool {
	if !doublestar.MatchUnvalidated(g.pattern, path) {
		return false
	}
	g.matched = true
	return true
}

// entries yields what is selected, ascending. It stops after the first error.
func (s *selection) entries() iter.Seq2[index.Entry, error] {
	if s.all && len(s.globs) == 0 {
		return s.ar.List(pathsafe.Path{})
	}
	return func(yield func(index.Entry, error) bool) {
		for _, root := range s.roots {
			for e, err := range s.ar.List(root) {
				if err == nil && len(s.globs) > 0 && !s.wants(e.Path) && !s.all {
					continue
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// wants reports whether an operand names p or a directory above it. Entries come in order, so that a directory is
// judged once while all that lies in it passes, however deep that is.
func (s *selection) wants(p pathsafe.Path) bool {
	name := p.String()
	n := len(s.above)
	for n > 0 && !liesIn(name, s.above[n-1].dir) {
		n--
	}
	s.above = s.above[:n]
	at, wanted := 0, false
	if n > 0 {
		at, wanted = len(s.above[n-1].dir)+1, s.above[n-1].wanted
	}
	for i := at; i < len(name); i++ {
		if name[i] == '/' {
			wanted = s.names(name[:i], wanted)
			s.above = append(s.above, verdict{name[:i], wanted})
		}
	}
	return s.names(name, wanted)
}

func liesIn(name, dir string) bool {
	return len(name) > len(dir) && name[len(dir)] == '/' && name[:len(dir)] == dir
}

// names reports whether an operand names path itself, or wanted is set already: then only the patterns are tried that
// have matched nothing yet.
func (s *selection) names(path string, wanted bool) bool {
	wanted = wanted || s.literal[path]
	for _, g := range s.globs {
		if !wanted || !g.matched {
			wanted = g.match(path) || wanted
		}
	}
	return wanted
}

// settle finds out which patterns match nothing: that shows only at the end of a listing.
func (s *selection) settle(ctx context.Context) error {
	if len(s.globs) == 0 {
		return nil
	}
	for _, err := range during(ctx, s.entries()) {
		if err != nil {
			return err
		}
	}
	return nil
}

// during yields what entries yields, and ends with ctx's error soon after ctx has ended. It stops after the first error.
func during(ctx context.Context, entries iter.Seq2[index.Entry, error]) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		n := 0
		for e, err := range entries {
			if err == nil && n%4096 == 0 {
				err = ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
			n++
		}
	}
}

// unmatched returns the operands that name nothing. For globs it can say so only when entries has run to
// its end, as settle has it do.
func (s *selection) unmatched() []string {
	names := slices.Clone(s.missing)
	for _, g := range s.globs {
		if !g.matched {
			names = append(names, g.operand)
		}
	}
	return names
}

// reportUnmatched names the operands that match nothing. The command has done the rest.
func (a *app) reportUnmatched(archive string, s *selection) {
	for _, op := range s.unmatched() {
		a.fail(a.missingEntry(s.ar, archive, op))
	}
}
