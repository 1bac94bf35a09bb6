package hostfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockbox/internal/pathsafe"
)

// Operand is one path that the user named. Host is as the user wrote it, relative to Dir of the
// options. Stored is its name in the archive; the zero Path means that its contents go to the top, and
// then it must be a directory.
type Operand struct {
	Host   string
	Stored pathsafe.Path
}

var (
	// ErrCollision is the kind of the error for two operands that want one stored name.
	ErrCollision = errors.New("two operands have the same stored name")
	// ErrOverlap is the kind of the error for operands whose trees would mix in the archive.
	ErrOverlap = errors.New("the stored names of two operands overlap")
)

// CheckOperands returns the operands in the order in which Walk must get them: ascending by key. An
// operand that lies in the tree of another one and would be stored exactly where that tree has it is left
// out. Any other way of storing two things in one place is ErrCollision or ErrOverlap, naming both.
func CheckOperands(operands []Operand, opt WalkOptions) ([]Operand, error) {
	sorted := slices.Clone(operands)
	slices.SortStableFunc(sorted, func(a, b Operand) int { return a.Stored.Compare(b.Stored) })
	kept := make([]Operand, 0, len(sorted))
	tree := -1 // index of the operand that may hold those that follow: the keys of its tree are one range
	for i, op := range sorted {
		if i > 0 && op.Stored == sorted[i-1].Stored {
			name := op.Stored.String()
			if name == "" {
				name = "the top of the archive"
			}
			return nil, fmt.Errorf("%w, %s: %s and %s", ErrCollision, name, sorted[i-1].Host, op.Host)
		}
		if tree >= 0 && op.Stored.IsUnder(sorted[tree].Stored) && !opt.NoRecurse {
			found, err := covered(sorted[tree], op, opt)
			if err != nil {
				return nil, err
			}
			if !found { // the walk says why
				kept = append(kept, op)
			}
			continue
		}
		tree = i
		kept = append(kept, op)
	}
	return kept, nil
}

// covered returns true when a walk of tree comes to op by real directories alone, false when op is not
// there, and an error when the two would be stored in each other's place.
func covered(tree, op Operand, opt WalkOptions) (bool, error) {
	rest := op.Stored.String()
	if !tree.Stored.IsZero() {
		rest = rest[len(tree.Stored.String())+1:]
	}
	if filepath.Join(tree.Host, filepath.FromSlash(rest)) != filepath.Clean(op.Host) {
		return false, fmt.Errorf("%w: %s would be stored as %s, inside of what %s is stored as", ErrOverlap, op.Host, op.Stored, tree.Host)
	}
	stat := os.Lstat
	if opt.Dereference {
		stat = os.Stat
	}
	host := HostPath(opt.Dir, tree.Host)
	var dev uint64
	parts := append([]string{""}, strings.Split(rest, "/")...)
	for i, part := range parts {
		if i > 0 {
			host = filepath.Join(host, part)
		}
		fi, err := stat(host)
		if err != nil {
			return false, nil
		}
		m := metaOf(fi)
		if i == 0 {
			dev = m.Dev
		}
		if m.Kind == KindDir && opt.OneFileSystem && m.Dev != dev {
			return false, fmt.Errorf("%w: %s lies in the tree of %s, but on another file system, which is not entered", ErrOverlap, op.Host, tree.Host)
		}
		if last := i == len(parts)-1; m.Kind != KindDir && !last {
			return false, fmt.Errorf("%w: %s is reached through %s, which is a %s", ErrOverlap, op.Host, host, m.Kind)
		}
	}
	return true, nil
}

// HostPath resolves a user's path from dir, "" for the working directory. It is not cleaned: with links, "a/.." is
// not ".".
func HostPath(dir, host string) string {
	if dir == "" || dir == "." || filepath.IsAbs(host) {
		return host
	}
	return joinHost(dir, host)
}

// splitHost cuts a host path into a directory and a name in it. self means that the path names a
// directory through itself (".", "..", "/"); follow that it ends in a separator, which asks for what a
// link leads to.
func splitHost(path string) (parent, name string, self, follow bool) {
	vol := len(filepath.VolumeName(path))
	end := len(path)
	for end > vol && os.IsPathSeparator(path[end-1]) {
		end--
		follow = true
	}
	start := end
	for start > vol && !os.IsPathSeparator(path[start-1]) {
		start--
	}
	name = path[start:end]
	if name == "" || name == "." || name == ".." {
		return path, "", true, true
	}
	parent = path[:start]
	if parent == "" {
		parent = "."
	}
	return parent, name, false, follow
}
