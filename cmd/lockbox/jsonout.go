package main

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
)

// object builds one JSON object, key by key, into a buffer that is used again. It stands in for
// encoding/json where hundreds of thousands of lines are written.
type object struct{ b []byte }

// begin starts a new object.
func (o *object) begin() *object {
	o.b = append(o.b[:0], '{')
	return o
}

// line ends the object and its line. The bytes are valid until begin.
func (o *object) line() []byte {
	o.b = append(o.b, '}', '\n')
	return o.b
}

func (o *object) comma() {
	if last := o.b[len(o.b)-1]; last != '{' && last != '[' {
		o.b = append(o.b, ',')
	}
}

func (o *object) key(k string) {
	o.comma()
	o.b = append(appendJSON(o.b, k), ':')
}

func (o *object) str(k, v string) *object {
	o.key(k)
	o.b = appendJSON(o.b, v)
	return o
}

// bytes writes a name that may not be UTF-8: k as text, and only then k_base64 with the very bytes.
func (o *object) bytes(k, v string) *object {
	o.str(k, v)
	if !utf8.ValidString(v) {
		o.str(k+"_base64", base64.StdEncoding.EncodeToString([]byte(v)))
	}
	return o
}

func (o *object) int(k string, v int64) *object {
	o.key(k)
	o.b = strconv.AppendInt(o.b, v, 10)
	return o
}

func (o *object) uint(k string, v uint64) *object {
	o.key(k)
	o.b = strconv.AppendUint(o.b, v, 10)
	return o
}

func (o *object) seconds(k string, v float64) *object {
	o.key(k)
	o.b = strconv.AppendFloat(o.b, v, 'f', 3, 64)
	return o
}

// time writes a time in RFC 3339 with nanoseconds, or, where that cannot say its year, as k_sec and k_nsec: seconds since
// 1970, and nanoseconds from there.
func (o *object) time(k string, has bool, sec int64, nsec uint32) {
	switch {
	case !has:
	case !fourDigits(sec):
		o.int(k+"_sec", sec).int(k+"_nsec", int64(nsec))
	default:
		o.key(k)
		o.b = append(o.b, '"')
		o.b = time.Unix(sec, int64(nsec)).UTC().AppendFormat(o.b, "2006-01-02T15:04:05.000000000Z07:00")
		o.b = append(o.b, '"')
	}
}

// fourDigits reports whether a time lies in the years 0 to 9999, which are all that RFC 3339 can say.
func fourDigits(sec int64) bool {
	const year0, year10000 = -62167219200, 253402300800
	return year0 <= sec && sec < year10000
}

func (o *object) bool(k string, v bool) *object {
	o.key(k)
	o.b = strconv.AppendBool(o.b, v)
	return o
}

func (o *object) null(k string) *object {
	o.key(k)
	o.b = append(o.b, "null"...)
	return o
}

// open and close nest an object under a key.
func (o *object) open(k string) *object {
	o.key(k)
	o.b = append(o.b, '{')
	return o
}

func (o *object) close() *object {
	o.b = append(o.b, '}')
	return o
}

// list and endList hold what item begins and close ends.
func (o *object) list(k string) *object {
	o.key(k)
	o.b = append(o.b, '[')
	return o
}

func (o *object) item() *object {
	o.comma()
	o.b = append(o.b, '{')
	return o
}

func (o *object) endList() *object {
	o.b = append(o.b, ']')
	return o
}

// texts writes a list of strings.
func (o *object) texts(k string, list []string) *object {
	o.list(k)
	for _, s := range list {
		o.comma()
		o.b = appendJSON(o.b, s)
	}
	return o.endList()
}

const hexDigits = "0123456789abcdef"

// appendJSON appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\t':
				b = append(b, '\\', 't')
			case '\r':
				b = append(b, '\\', 'r')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b = append(append(b, s[start:i]...), `\ufffd`...)
			start = i + 1
		}
		i += n
	}
	return append(append(b, s[start:]...), '"')
}
