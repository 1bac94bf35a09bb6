package hostfs

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// NameRules says which names a file system can hold, and which of them it takes for one. The zero value is that
// of a system that takes all bytes, of any number.
type NameRules struct {
	FoldCase bool // "A" and "a" are one name
	FoldForm bool // so are the composed and the decomposed form of a character
	UTF8     bool // names are text in UTF-8
	Refused  string
	Control  bool // control characters below the blank are refused
	Trailing bool // dots and blanks at the end are dropped, or refused
	Devices  bool // the names of MS-DOS devices are reserved
	Longest  int  // 0 for no limit; in bytes, or with Units in the units of UTF-16
	Units    bool
}

// refusedByWindows are the characters that no name may have there. A colon begins the name of a stream.
const refusedByWindows = `<>:"|?*\`

// windowsNames are the rules of Windows.
var windowsNames = NameRules{
	FoldCase: true, UTF8: true, Refused: refusedByWindows, Control: true, Trailing: true, Devices: true, Longest: 255, Units: true,
}

// strictestNames refuse everything that any system refuses. What they let pass needs no closer look.
var strictestNames = NameRules{UTF8: true, Refused: refusedByWindows, Control: true, Trailing: true, Devices: true, Longest: 255}

// problem says why a name, one component of a path, cannot be made; "" when it can.
func (r *NameRules) problem(name string) string {
	if at := r.forbidden(name, 0); at < len(name) {
		c, n := utf8.DecodeRuneInString(name[at:])
		if c == utf8.RuneError && n == 1 {
			return "it is not UTF-8"
		}
		return fmt.Sprintf("it has the character %q", c)
	}
	switch {
	case r.Trailing && endsBadly(name):
		return "it ends in a dot or a blank"
	case r.Devices && isDevice(name):
		return "it is the name of a device"
	case r.Longest > 0 && r.length(name) > r.Longest:
		unit := "bytes"
		if r.Units {
			unit = "UTF-16 units"
		}
		return fmt.Sprintf("it has %d %s, and %d are the most", r.length(name), unit, r.Longest)
	}
	return ""
}

// forbidden is where in name, from the byte from on, the first character stands that no name may have.
func (r *NameRules) forbidden(name string, from int) int {
	for from < len(name) {
		c, n := utf8.DecodeRuneInString(name[from:])
		if r.UTF8 && c == utf8.RuneError && n == 1 || r.Control && c < ' ' || c < utf8.RuneSelf && strings.IndexByte(r.Refused, byte(c)) >= 0 {
			break
		}
		from += n
	}
	return from
}

func endsBadly(name string) bool {
	return name != "" && (name[len(name)-1] == '.' || name[len(name)-1] == ' ')
}

// length is how long the system takes name to be.
func (r *NameRules) length(name string) int {
	if !r.Units {
		return len(name)
	}
	n := 0
	for _, c := range name {
		n += max(utf16.RuneLen(c), 1)
	}
	return n
}

// isDevice reports whether Windows takes name for a device, also with an extension or blanks behind it, and with the
// superscript digits that it takes for digits.
func isDevice(name string) bool {
	if len(name) < 3 {
		return false
	}
	switch name[0] | 0x20 {
	case 'c', 'p', 'a', 'n', 'l':
	default:
		return false
	}
	if i := strings.IndexAny(name, ".:"); i >= 0 {
		name = name[:i]
	}
	name = strings.ToUpper(strings.TrimRight(name, " "))
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	digit, ok := strings.CutPrefix(name, "COM")
	if !ok {
		digit, ok = strings.CutPrefix(name, "LPT")
	}
	return ok && (len(digit) == 1 && digit[0] >= '0' && digit[0] <= '9' || digit == "¹" || digit == "²" || digit == "³")
}

// OddPath reports whether a path has a name that some system refuses, or one that reads like what MapName makes.
func OddPath(path string) bool {
	from := 0
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if name := path[from:i]; strictestNames.problem(name) != "" || hasEscape(name) {
			return true
		}
		from = i + 1
	}
	return false
}

// folds reports whether two different names can be one.
func (r *NameRules) folds() bool { return r.FoldCase || r.FoldForm }

// fold returns what the names have in common that the system takes for one. Where systems differ in how far they go it
// goes further: a collision that is reported in vain costs less than one that is not.
func (r *NameRules) fold(name string) string {
	if !r.folds() {
		return name
	}
	if isASCII(name) {
		if r.FoldCase {
			return strings.ToLower(name)
		}
		return name
	}
	if r.FoldForm && !utf8.ValidString(name) {
		return name // what is no text is taken as it is there
	}
	if r.FoldForm {
		name = strings.Map(func(c rune) rune {
			if unicode.In(c, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
				return -1 // these file systems do not see it
			}
			return c
		}, name)
		name = norm.NFD.String(name)
	}
	if r.FoldCase {
		name = foldCase(name)
	}
	if r.FoldForm {
		name = norm.NFD.String(name)
	}
	return name
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// foldCase replaces each character by one for all that differ in case only, and by two where its capitals are two.
func foldCase(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			b.WriteByte(s[i])
		case c == 'ß' || c == 'ẞ':
			b.WriteString("ss")
		case c >= 0xfb00 && c <= 0xfb17, c == 'ŉ', c == 'և', c == 'ẚ':
			b.WriteString(strings.Map(leastOf, norm.NFKD.String(string(c)))) // a ligature
		default:
			b.WriteRune(leastOf(c))
		}
		i += n
	}
	return b.String()
}

// leastOf returns one of all the characters that differ from c in case only, always the same one: a small letter
// where there is one in ASCII, so that this agrees with strings.ToLower there.
func leastOf(c rune) rune {
	least := c
	for o := unicode.SimpleFold(c); o != c; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	if least < utf8.RuneSelf {
		return unicode.ToLower(least)
	}
	return least
}

// checkHostName refuses names that Windows takes for something else than one name. Elsewhere the system itself does.
func checkHostName(name string, windows bool) error {
	if !windows {
		return nil
	}
	if bad := windowsNames.problem(name); bad != "" {
		return fmt.Errorf("this system cannot hold the name: %s", bad)
	}
	if !filepath.IsLocal(name) {
		return fmt.Errorf("this system has reserved the name")
	}
	return nil
}
