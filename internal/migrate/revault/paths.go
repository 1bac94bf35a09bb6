package revault

import (
	"cmp"
	"slices"
	"strings"

	"lockbox/internal/pathsafe"
)

const (
	maxPath      = 4096
	maxComponent = 255
	maxNesting   = 64
)

// invisible are the ranges of code points that no path of a reVault archive has: controls, and what would show as
// nothing or turn the text around it.
var invisible = [][2]rune{
	{0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x180e, 0x180e}, {0x200b, 0x200f},
	{0x202a, 0x202e}, {0x2060, 0x206f}, {0xfe00, 0xfe0f}, {0xe0100, 0xe01ef}, {'\\', '\\'}, {':', ':'},
}

// archivePath makes a stored path of a path in a reVault archive. One that breaks that format's rules is refused, not
// repaired: no reVault has written it.
func archivePath(s string) (pathsafe.Path, error) {
	rest, absolute := strings.CutPrefix(s, "/")
	bad := !absolute || len(s) > maxPath || strings.Count(s, "/") > maxNesting || strings.ContainsFunc(s, func(r rune) bool {
		return slices.ContainsFunc(invisible, func(x [2]rune) bool { return r >= x[0] && r <= x[1] })
	})
	for c := range strings.SplitSeq(rest, "/") {
		bad = bad || len(c) > maxComponent
	}
	if bad {
		return pathsafe.Path{}, corrupt("path", -1, "%q breaks the rules for paths", excerpt(s))
	}
	p, err := pathsafe.Parse(rest)
	if err != nil {
		return pathsafe.Path{}, corrupt("path", -1, "%v", err)
	}
	return p, nil
}

func excerpt(s string) string { return s[:min(len(s), 80)] }

// relative returns how a link at from says that it leads to the entry to: an absolute target would mean a place outside
// the archive as soon as it is extracted.
func relative(from, to pathsafe.Path) string {
	at, want := from.Components(), to.Components()
	at = at[:len(at)-1]
	for len(at) > 0 && len(want) > 0 && at[0] == want[0] {
		at, want = at[1:], want[1:]
	}
	parts := append(slices.Repeat([]string{".."}, len(at)), want...)
	if len(parts) == 0 {
		return "."
	}
	return strings.Join(parts, "/")
}

// parents knows, while paths come in the order of their bytes, which directories stand above the next one. What it
// remembers is bounded by the length of a path: those before it with which it begins.
type parents struct{ stack []placed }

type placed struct {
	path string
	dir  bool
}

func (s *parents) find(path string) (int, bool) {
	return slices.BinarySearchFunc(s.stack, len(path), func(p placed, n int) int { return cmp.Compare(len(p.path), n) })
}

// place takes the next path. It returns the directories above it that no entry was for, or the entry above it that is
// no directory.
func (s *parents) place(path pathsafe.Path, dir bool) (missing []pathsafe.Path, under string) {
	text := path.String()
	for len(s.stack) > 0 && !strings.HasPrefix(text, s.stack[len(s.stack)-1].path) {
		s.stack = s.stack[:len(s.stack)-1]
	}
	for p := path.Parent(); !p.IsZero(); p = p.Parent() {
		if i, ok := s.find(p.String()); !ok {
			missing = append(missing, p)
		} else if !s.stack[i].dir {
			return nil, p.String()
		}
	}
	slices.Reverse(missing)
	for _, p := range append(missing[:len(missing):len(missing)], path) {
		i, _ := s.find(p.String())
		s.stack = slices.Insert(s.stack, i, placed{p.String(), dir || p != path})
	}
	return missing, ""
}
