package hostfs

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"lockbox/internal/pathsafe"
)

// ErrNames is the kind of the error for names that the destination cannot hold.
var ErrNames = errors.New("names that cannot be made there")

// NameProblem is one name that cannot be made in the destination. Path ends in it. To is what is made instead; without
// renaming it is Path.
type NameProblem struct {
	Path, To pathsafe.Path
	Reason   string
}

// Names says under which path each entry is made.
type Names struct {
	// Problems are what CheckNames found, in order; without renaming no more than maxProblems of them.
	Problems []NameProblem
	Count    int // of all of them

	rules  NameRules
	probed bool
	rename bool
	mapped map[string]string // path as stored, of what is renamed -> its name
	levels []level           // directories that lead to the last path
}

// maxProblems bounds how many are named where the first is enough to refuse.
const maxProblems = 20

// level is a directory on the way to the path that is being looked at.
type level struct {
	name string            // as stored
	end  int               // how much of a path this is, with its slash
	seen map[string]string // what the names in it fold to -> the first such name
	next map[string]int    // the same -> what tells the next one apart
}

// CheckNames looks at where entries are to be made, before anything is: each path once, ascending. Without rename it
// fails with ErrNames when there is a name that the file system of the destination cannot hold, or two that it takes for
// one; with it such names are replaced by others, as MapName makes them. odd says whether OddPath is true of any
// of them: when it is not, most file systems take them all, and none is looked at. Folding names takes memory for the
// names in the directories that lead to one path.
func (x *Extractor) CheckNames(paths iter.Seq2[pathsafe.Path, error], odd, rename bool) (*Names, error) {
	n := &Names{rename: rename, mapped: make(map[string]string)}
	if x.opt.Names != nil {
		n.rules, n.probed = *x.opt.Names, true
	} else {
		var err error
		if n.rules, err = x.probeFolding(x.top.dir, ""); err == nil {
			err = n.probeBelow(x, paths, odd)
		}
		if err != nil {
			return nil, err
		}
	}
	if !odd && !n.rules.folds() {
		return n, nil
	}
	n.levels = []level{{}}
	for p, err := range paths {
		if err == nil {
			err = n.look(x, p)
		}
		if err != nil {
			return nil, err
		}
		if _, err := n.Path(p); err != nil {
			return nil, err
		}
	}
	n.levels = nil
	if !rename && n.Count > 0 {
		return n, fmt.Errorf("%d %w", n.Count, ErrNames)
	}
	return n, nil
}

// look looks at those components of p that the path before it had not.
func (n *Names) look(x *Extractor, p pathsafe.Path) error {
	s, depth := p.String(), 1
	for end := 0; ; depth++ {
		c, _, more := strings.Cut(s[end:], "/")
		if !more {
			// The last component was looked at already when something below it came first, which order excludes, or p
			// came twice.
			if depth < len(n.levels) && n.levels[depth].name == c {
				return nil
			}
			n.levels = n.levels[:depth]
			return n.component(x, s, end, len(s))
		}
		if depth < len(n.levels) && n.levels[depth].name == c {
			end = n.levels[depth].end
			continue
		}
		n.levels = n.levels[:depth]
		if err := n.component(x, s, end, end+len(c)); err != nil {
			return err
		}
		end += len(c) + 1
	}
}

// component looks at s[from:to], a name in the last of the levels, and makes it the next level.
func (n *Names) component(x *Extractor, s string, from, to int) error {
	name, dir := s[from:to], &n.levels[len(n.levels)-1]
	if !n.probed && strictestNames.problem(name) != "" {
		n.probed = true
		if err := x.probeNames(x.top.dir, "", &n.rules); err != nil {
			return err
		}
	}
	reason := n.rules.problem(name)
	made := name
	if n.rename {
		made = n.rules.MapName(name, 1)
		if made != name && reason == "" {
			reason = "it reads like the name of something that was renamed"
		}
	}
	if n.rules.folds() {
		if dir.seen == nil {
			dir.seen = make(map[string]string)
		}
		folded := n.rules.fold(made)
		other, taken := dir.seen[folded]
		if taken && other != name {
			if reason == "" {
				reason = fmt.Sprintf(`the destination takes it and "%s" for one name`, pathsafe.Quote(other))
			}
			if n.rename {
				if dir.next == nil {
					dir.next = make(map[string]int)
				}
				apart := max(dir.next[folded], 2)
				dir.next[folded] = apart + 1
				made = n.rules.MapName(name, apart)
				folded, taken = n.rules.fold(made), false
			}
		}
		if !taken {
			dir.seen[folded] = name
		}
	}
	n.levels = append(n.levels, level{name: name, end: to + 1})
	if reason == "" {
		return nil
	}
	return n.note(s[:to], made, reason)
}

// note takes note of a name that cannot be made.
func (n *Names) note(path, made, reason string) error {
	stored, err := pathsafe.Parse(path)
	if err != nil {
		return err
	}
	to := stored
	if n.rename {
		n.mapped[path] = made
		if to, err = n.Path(stored); err != nil {
			return err
		}
	}
	if n.Count++; n.rename || n.Count <= maxProblems {
		n.Problems = append(n.Problems, NameProblem{stored, to, reason})
	}
	return nil
}

// Path is where the entry with the path p is made. It fails when escapes have made the path longer than one may be.
func (n *Names) Path(p pathsafe.Path) (pathsafe.Path, error) {
	if n == nil || len(n.mapped) == 0 || p.IsZero() {
		return p, nil
	}
	s := p.String()
	var b strings.Builder
	changed := false
	for from := 0; from <= len(s); {
		to := len(s)
		if i := strings.IndexByte(s[from:], '/'); i >= 0 {
			to = from + i
		}
		if from > 0 {
			b.WriteByte('/')
		}
		if made, ok := n.mapped[s[:to]]; ok {
			b.WriteString(made)
			changed = true
		} else {
			b.WriteString(s[from:to])
		}
		from = to + 1
	}
	if !changed {
		return p, nil
	}
	made, err := pathsafe.Parse(b.String())
	if err != nil {
		return made, fmt.Errorf("a path that was to be renamed is too long then: %w", err)
	}
	return made, nil
}

// Plain reports whether every path leads where its bytes say, and no other path does.
func (n *Names) Plain() bool { return len(n.mapped) == 0 && !n.rules.folds() }

// Key is equal for paths that lead to one place in the destination.
func (n *Names) Key(path string) string { return n.rules.fold(path) }
