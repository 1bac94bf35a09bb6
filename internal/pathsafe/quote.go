package pathsafe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote makes any string fit to be shown to people: what could steer a terminal, reorder the line or
// hide in it is written as an escape, everything else as it is. Escaped are control characters, line
// and paragraph separators, bidirectional controls and other format characters, code points that
// are invisible by definition, bytes that are not UTF-8, and the backslash.
//
// The form loses nothing: \xNN is one byte, \uNNNN and \UNNNNNNNN one code point in UTF-8, and a backslash
// never stands for itself. Distinct strings therefore stay distinct.
func Quote(s string) string {
	i := plainPrefix(s)
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf && !visible(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case visible(r):
			b.WriteString(s[i : i+n])
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// plainPrefix returns how many bytes of s need no escape; most names need none at all.
func plainPrefix(s string) int {
	for i, r := range s {
		if !visible(r) {
			return i
		}
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

func visible(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7f && r != '\\'
	}
	return !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
