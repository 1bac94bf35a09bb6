package main

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// columns is how many columns of a terminal text takes that has no control characters: characters of East Asia take
// two, marks that combine with the one before them none.
func columns(text []byte) (n int) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if r < utf8.RuneSelf {
			n++
			continue
		}
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			n += 2
		default:
			if !unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
				n++
			}
		}
	}
	return n
}

// humanBytes prints a number of bytes in three digits or so, with units that are powers of 1,000.
func humanBytes(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(max(n, 0), 10) + " B"
	}
	units := []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	v := float64(n) / 1000
	// What would round up to four digits belongs to the next unit.
	for v >= 999.5 && len(units) > 1 {
		v /= 1000
		units = units[1:]
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, units[0])
	}
	return fmt.Sprintf("%.0f %s", v, units[0])
}

// comma prints a number with its thousands apart.
func comma(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural prints a count of things.
func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}
