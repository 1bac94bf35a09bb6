package pathsafe

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of a stored path, in bytes.
const (
	MaxLen       = 16 << 10
	MaxComponent = 1024
)

// ErrInvalid is wrapped by every error of this package.
var ErrInvalid = errors.New("invalid stored path")

// Path is a stored path in canonical form. It is comparable; the zero value is no path, and stands for
// the top of the archive where a directory is meant.
type Path struct{ s string }

// Parse accepts s only if it is in canonical form already.
func Parse(s string) (Path, error) {
	if s == "" {
		return Path{}, invalid("it is empty")
	}
	if len(s) > MaxLen {
		return Path{}, invalid("it is %d bytes long, more than %d, and begins with %s", len(s), MaxLen, excerpt(s))
	}
	if s[0] == '/' {
		return Path{}, invalid("%s is not relative", excerpt(s))
	}
	for rest, more := s, true; more; {
		var c string
		c, rest, more = strings.Cut(rest, "/")
		if err := checkComponent(c, s); err != nil {
			return Path{}, err
		}
	}
	return Path{s}, nil
}

// checkComponent applies the rules for one component c of whole.
func checkComponent(c, whole string) error {
	switch {
	case c == "":
		return invalid("%s has an empty component", excerpt(whole))
	case c == "." || c == "..":
		return invalid("%s has the component %q", excerpt(whole), c)
	case len(c) > MaxComponent:
		return invalid("component %s is %d bytes long, more than %d", excerpt(c), len(c), MaxComponent)
	case strings.IndexByte(c, 0) >= 0:
		return invalid("component %s has a zero byte", excerpt(c))
	}
	return nil
}

func invalid(detail string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(detail, args...))
}

// excerpt quotes s for an error message, shortened so that a hostile name cannot flood the terminal.
func excerpt(s string) string {
	const most = 80
	if len(s) <= most {
		return `"` + Quote(s) + `"`
	}
	return `"` + Quote(s[:most]) + `"...`
}

// FromKey is the inverse of Key. It accepts exactly the keys that Key can return for a Path that is
// not zero.
func FromKey(key []byte) (Path, error) {
	var short [256]byte
	b := append(short[:0], key...)
	for i, c := range b {
		switch c {
		case '/':
			return Path{}, invalid("the key %s has a slash inside a component", excerpt(string(key)))
		case 0:
			b[i] = '/'
		}
	}
	return Parse(string(b))
}

// Key returns the path as the entries tree orders it: with a zero byte for each slash, so that what
// lies below a directory follows it as one range.
func (p Path) Key() []byte { return p.AppendKey(make([]byte, 0, len(p.s))) }

// AppendKey appends Key to b.
func (p Path) AppendKey(b []byte) []byte {
	n := len(b)
	b = append(b, p.s...)
	for i := n; i < len(b); i++ {
		if b[i] == '/' {
			b[i] = 0
		}
	}
	return b
}

// Compare orders paths as their keys are ordered: a directory, all that is below it, then the rest.
func (p Path) Compare(q Path) int {
	a, b := p.s, q.s
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x == '/' || (y != '/' && x < y) {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

// SubtreeRange returns the keys of everything strictly below p as the half-open range [lo, hi). For the
// zero path that is every key: lo is empty and hi is nil, meaning no upper bound.
func SubtreeRange(p Path) (lo, hi []byte) {
	if p.IsZero() {
		return []byte{}, nil
	}
	lo = append(p.AppendKey(make([]byte, 0, len(p.s)+1)), 0)
	hi = append(p.AppendKey(make([]byte, 0, len(p.s)+1)), 1)
	return lo, hi
}

// IsZero reports whether p is no path.
func (p Path) IsZero() bool { return p.s == "" }

// String returns the path with slashes, byte for byte; Quote makes it fit for people.
func (p Path) String() string { return p.s }

// Base returns the last component, "" for the zero path.
func (p Path) Base() string { return p.s[strings.LastIndexByte(p.s, '/')+1:] }

// Parent returns the path without its last component: zero when p stands at the top or is zero.
func (p Path) Parent() Path { return Path{p.s[:max(0, strings.LastIndexByte(p.s, '/'))]} }

// Components returns the components in order, none for the zero path.
func (p Path) Components() []string {
	if p.IsZero() {
		return nil
	}
	return strings.Split(p.s, "/")
}

// Depth returns the number of components.
func (p Path) Depth() int {
	if p.IsZero() {
		return 0
	}
	return strings.Count(p.s, "/") + 1
}

// Join returns p with one more component.
func (p Path) Join(component string) (Path, error) {
	if strings.IndexByte(component, '/') >= 0 {
		return Path{}, invalid("component %s has a slash", excerpt(component))
	}
	if err := checkComponent(component, component); err != nil {
		return Path{}, err
	}
	return p.JoinPath(Path{component})
}

// JoinPath returns p followed by q. Either may be zero.
func (p Path) JoinPath(q Path) (Path, error) {
	if p.IsZero() {
		return q, nil
	}
	if q.IsZero() {
		return p, nil
	}
	if n := len(p.s) + 1 + len(q.s); n > MaxLen {
		return Path{}, invalid("it would be %d bytes long, more than %d, and begins with %s", n, MaxLen, excerpt(p.s))
	}
	return Path{p.s + "/" + q.s}, nil
}

// IsUnder reports whether p lies strictly below dir. Every path lies below the zero path, except
// the zero path itself.
func (p Path) IsUnder(dir Path) bool {
	if dir.IsZero() {
		return !p.IsZero()
	}
	return len(p.s) > len(dir.s) && p.s[len(dir.s)] == '/' && p.s[:len(dir.s)] == dir.s
}

// Strip removes the first n components. It returns false when that leaves nothing, or n is negative.
func (p Path) Strip(n int) (Path, bool) {
	if n < 0 || p.IsZero() {
		return Path{}, false
	}
	s := p.s
	for range n {
		_, rest, found := strings.Cut(s, "/")
		if !found {
			return Path{}, false
		}
		s = rest
	}
	return Path{s}, true
}
