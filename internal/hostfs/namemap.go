package hostfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// How a name that the destination cannot hold is written instead. All forms begin with a percent sign, and a
// percent sign of the name itself that would begin one becomes %25:
//
//	%XX         a byte, in capital hexadecimal digits
//	%~N         before the extension: nothing, it only tells names apart that the system takes for one
//	%^ and 32 hexadecimal digits, before the extension: some of the name is missing; the digits are the first of
//	            the SHA-256 of all of it
const (
	escapeSign  = '%'
	tellApart   = "%~"
	shortened   = "%^"
	shortDigits = 32
	// shortExtension is how much of an extension is worth keeping.
	shortExtension = 16
)

// MapName returns the name under which one that the rules refuse is made instead, and name itself when they do not refuse
// it and nothing in it looks like an escape. Different names get different ones, as far as the rules tell names
// apart at all; apart, above 1, is for those that they do not.
func (r *NameRules) MapName(name string, apart int) string {
	mapped := r.escape(name)
	if apart > 1 {
		at := extension(mapped)
		mapped = mapped[:at] + tellApart + strconv.Itoa(apart) + mapped[at:]
	}
	if r.Longest == 0 || r.length(mapped) <= r.Longest {
		return mapped
	}
	return r.shorten(name, mapped, apart)
}

// escape writes what may not be in a name in hexadecimal digits.
func (r *NameRules) escape(name string) string {
	device := r.Devices && isDevice(name)
	trailing := r.Trailing && endsBadly(name)
	var b strings.Builder
	for i := 0; i < len(name); {
		_, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case i == 0 && device, i == len(name)-1 && trailing, r.forbidden(name[:i+n], i) == i, beginsEscape(name[i:]):
			for _, c := range []byte(name[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}

// beginsEscape reports whether s begins like one of the forms.
func beginsEscape(s string) bool {
	if len(s) < 2 || s[0] != escapeSign {
		return false
	}
	switch s[1] {
	case '~':
		return len(s) > 2 && isDigit(s[2])
	case '^':
		return len(s) >= 2+shortDigits && allHex(s[2:2+shortDigits], isLowerHex)
	}
	return len(s) > 2 && allHex(s[1:3], isUpperHex)
}

// hasEscape reports whether one of the forms stands anywhere in s.
func hasEscape(s string) bool {
	for i := strings.IndexByte(s, escapeSign); i >= 0 && i < len(s); i++ {
		if beginsEscape(s[i:]) {
			return true
		}
	}
	return false
}

func isUpperHex(c byte) bool { return isDigit(c) || 'A' <= c && c <= 'F' }
func isLowerHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' }

func allHex(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

// extension is where the extension of a name begins: at its last dot, unless that is its first character.
func extension(name string) int {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return i
	}
	return len(name)
}

// shorten cuts a mapped name so that it fits. The digest keeps it apart from all others.
func (r *NameRules) shorten(name, mapped string, apart int) string {
	digest := sha256.Sum256([]byte(name))
	mark := shortened + hex.EncodeToString(digest[:])[:shortDigits]
	if apart > 1 {
		mark += tellApart + strconv.Itoa(apart)
	}
	ext := mapped[extension(mapped):]
	if len(ext) > shortExtension || !utf8.ValidString(ext) {
		ext = ""
	}
	head := r.escape(name)
	for head != "" && r.length(head)+r.length(mark)+r.length(ext) > r.Longest {
		_, n := utf8.DecodeLastRuneInString(head)
		head = head[:len(head)-n]
	}
	// Half an escape would be read as something else, or begin one together with the mark.
	if i := strings.LastIndexByte(head, escapeSign); i >= 0 && i > len(head)-3 {
		head = head[:i]
	}
	return head + mark + ext
}
