package hostfs

import (
	"errors"
	"strings"
)

// A glob is one pattern of the ignore rules, cut into path components. Matching works on bytes and its
// cost is bounded by the product of the lengths: each star keeps one point to come back to, which is
// enough because a later star can always take over what an earlier one would have to give.
type glob struct {
	parts []component
}

// component is one part between slashes; any means "**", any number of components.
type component struct {
	any  bool
	toks []token
}

type tokenKind uint8

const (
	tokByte tokenKind = iota
	tokOne            // ?
	tokStar           // *
	tokSet            // [...]
)

type token struct {
	kind tokenKind
	c    byte
	set  *[256]bool
}

var errPattern = errors.New("malformed pattern")

// compileGlob reads a pattern without leading or trailing slash. A pattern that can never match is an
// error here: the user meant it to match something.
func compileGlob(s string) (glob, error) {
	var g glob
	var cur component
	start := 0 // where the current component begins, to recognise a "**" that stands alone
	end := func(i int) {
		if s[start:i] == "**" {
			cur = component{any: true}
		}
		g.parts = append(g.parts, cur)
		cur = component{}
	}
	for i := 0; i < len(s); {
		switch c := s[i]; c {
		case '/':
			end(i)
			i++
			start = i
		case '*':
			// Several stars that are not a component of their own mean one.
			if n := len(cur.toks); n == 0 || cur.toks[n-1].kind != tokStar {
				cur.toks = append(cur.toks, token{kind: tokStar})
			}
			i++
		case '?':
			cur.toks = append(cur.toks, token{kind: tokOne})
			i++
		case '[':
			set, n := parseSet(s[i:])
			if n == 0 {
				return glob{}, errPattern
			}
			cur.toks = append(cur.toks, token{kind: tokSet, set: set})
			i += n
		case '\\':
			if i+1 == len(s) {
				return glob{}, errPattern
			}
			if s[i+1] == '/' { // an escaped slash separates like any other
				end(i)
				i += 2
				start = i
				continue
			}
			cur.toks = append(cur.toks, token{kind: tokByte, c: s[i+1]})
			i += 2
		default:
			cur.toks = append(cur.toks, token{kind: tokByte, c: c})
			i++
		}
	}
	end(len(s))
	return g, nil
}

var classes = map[string]func(c byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseSet reads a bracket expression at the start of s and returns how many bytes it takes, 0 when it
// is malformed. It never contains a slash, negated or not.
func parseSet(s string) (*[256]bool, int) {
	set := new([256]bool)
	i := 1
	negate := i < len(s) && (s[i] == '!' || s[i] == '^')
	if negate {
		i++
	}
	prev := -1 // the byte that a following '-' would begin a range with
	for first := true; ; first = false {
		if i >= len(s) {
			return nil, 0
		}
		c := s[i]
		i++
		switch {
		case c == ']' && !first:
			for b := range set {
				set[b] = set[b] != negate
			}
			set['/'] = false
			return set, i
		case c == '[' && i < len(s) && s[i] == ':':
			j := strings.IndexByte(s[i+1:], ']')
			if j < 0 {
				return nil, 0
			}
			name := s[i+1 : i+1+j]
			if !strings.HasSuffix(name, ":") {
				// Not a class after all: the bracket stands for itself.
				set['['], prev = true, '['
				continue
			}
			in := classes[name[:len(name)-1]]
			if in == nil {
				return nil, 0
			}
			for b := range set {
				set[b] = set[b] || in(byte(b))
			}
			i += j + 2
			prev = -1
			continue
		case c == '-' && prev >= 0 && i < len(s) && s[i] != ']':
			hi := s[i]
			i++
			if hi == '\\' {
				if i >= len(s) {
					return nil, 0
				}
				hi = s[i]
				i++
			}
			for b := prev; b <= int(hi); b++ {
				set[b] = true
			}
			prev = -1
			continue
		case c == '\\':
			if i >= len(s) {
				return nil, 0
			}
			c = s[i]
			i++
		}
		set[c], prev = true, int(c)
	}
}

// match reports whether the glob matches the whole of a slash-separated path.
func (g *glob) match(path string) bool {
	p := 0
	rest, more := path, true
	back, backRest := -1, "" // the last "**", and the path from the component it would swallow next
	for more {
		if p < len(g.parts) && g.parts[p].any {
			if p == len(g.parts)-1 {
				return true // at the end it matches any path, but not none
			}
			back, backRest = p, rest
			p++
			continue
		}
		name, after, slash := strings.Cut(rest, "/")
		if p < len(g.parts) && g.parts[p].match(name) {
			p++
			rest, more = after, slash
			continue
		}
		if back < 0 {
			return false
		}
		if _, rest, more = strings.Cut(backRest, "/"); !more {
			return false
		}
		backRest, p = rest, back+1
	}
	// No earlier choice can help a pattern that is not used up: it would leave it fewer components.
	return p == len(g.parts)
}

// match reports whether the component matches the whole of name.
func (c *component) match(name string) bool {
	i, t := 0, 0
	back, backAt := -1, 0
	for i < len(name) {
		if t < len(c.toks) {
			tok := &c.toks[t]
			if tok.kind == tokStar {
				back, backAt = t, i
				t++
				continue
			}
			if tok.kind == tokOne || tok.kind == tokByte && tok.c == name[i] || tok.kind == tokSet && tok.set[name[i]] {
				t++
				i++
				continue
			}
		}
		if back < 0 {
			return false
		}
		backAt++
		i, t = backAt, back+1
	}
	for t < len(c.toks) && c.toks[t].kind == tokStar {
		t++
	}
	return t == len(c.toks)
}
