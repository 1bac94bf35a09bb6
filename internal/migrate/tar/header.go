package tar

import (
	"bytes"
	"strings"

	"lockbox/internal/format"
)

const blockSize = 512

// Kinds of headers.
const (
	typeFile     = '0'
	typeOldFile  = 0
	typeLink     = '1'
	typeSymlink  = '2'
	typeChar     = '3'
	typeBlock    = '4'
	typeDir      = '5'
	typeFIFO     = '6'
	typeCont     = '7'
	typePax      = 'x'
	typeSunPax   = 'X'
	typeSunACL   = 'A'
	typeGlobal   = 'g'
	typeLongName = 'L'
	typeLongLink = 'K'
	typeSparse   = 'S'
	typeDump     = 'D'
	typeVolume   = 'V'
	typePart     = 'M'
)

func corrupt(off int64, detail string, args ...any) error {
	return format.Corrupt("tar archive", off, detail, args...)
}

// header is one block's worth of what is said of an entry.
type header struct {
	name, link   string
	mode         int64
	uid, gid     int64
	size         int64
	mtime        int64
	kind         byte
	user, group  string
	major, minor int64
	gnu          bool
	sparse       []byte // the old GNU kind: four pieces
	more         bool   // further pieces follow in blocks of their own
	real         int64
}

// sumOK reports whether a block's check sum matches. Some programs added signed bytes, of which zero can be the sum, so
// that a field without a number is none.
func sumOK(b []byte) bool {
	want, ok := number(b[148:156])
	if !ok || !bytes.ContainsAny(b[148:156], "01234567") {
		return false
	}
	var plain, signed int64
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		plain += int64(c)
		signed += int64(int8(c))
	}
	return want == plain || want == signed
}

// number reads an octal number, or one in base 256.
func number(b []byte) (int64, bool) {
	if b[0]&0x80 != 0 {
		negative := b[0] == 0xff
		var v uint64
		for i, c := range b {
			if negative {
				c = ^c
			}
			if i == 0 {
				c &= 0x7f
			}
			if v>>55 != 0 {
				return 0, false
			}
			v = v<<8 | uint64(c)
		}
		if negative {
			return ^int64(v), true
		}
		return int64(v), true
	}
	s := strings.Trim(string(b), " \x00")
	if i := strings.IndexAny(s, " \x00"); i >= 0 {
		s = s[:i]
	}
	var v int64
	for _, c := range []byte(s) {
		if c < '0' || c > '7' || v>>59 != 0 {
			return 0, false
		}
		v = v<<3 | int64(c-'0')
	}
	return v, true
}

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// isHeader reports whether a block can be a header.
func isHeader(b []byte) bool {
	return len(b) >= blockSize && !isZero(b[:blockSize]) && sumOK(b[:blockSize])
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// parse reads a header at a position.
func parse(b []byte, at int64) (h header, err error) {
	if !sumOK(b) {
		return h, corrupt(at, "no header stands there: its check sum does not match")
	}
	fields := []struct {
		v    *int64
		b    []byte
		what string
	}{
		{&h.mode, b[100:108], "mode"}, {&h.uid, b[108:116], "owner"}, {&h.gid, b[116:124], "group"},
		{&h.size, b[124:136], "size"}, {&h.mtime, b[136:148], "time"},
	}
	h.kind = b[156]
	magic := string(b[257:265])
	h.gnu = magic == "ustar  \x00"
	if strings.HasPrefix(magic, "ustar") {
		h.user, h.group = text(b[265:297]), text(b[297:329])
		if h.kind == typeChar || h.kind == typeBlock {
			fields = append(fields, []struct {
				v    *int64
				b    []byte
				what string
			}{{&h.major, b[329:337], "device number"}, {&h.minor, b[337:345], "device number"}}...)
		}
	}
	if h.kind == typeSparse && h.gnu {
		h.sparse, h.more = b[386:482], b[482] != 0
		fields = append(fields, struct {
			v    *int64
			b    []byte
			what string
		}{&h.real, b[483:495], "real size"})
	}
	for _, f := range fields {
		var ok bool
		if *f.v, ok = number(f.b); !ok {
			return h, corrupt(at, "the header's %s is no number", f.what)
		}
	}
	if h.size < 0 || h.size > format.MaxFileSize || h.real < 0 || h.real > format.MaxFileSize {
		return h, corrupt(at, "the header's size is out of range")
	}
	h.name, h.link = text(b[:100]), text(b[157:257])
	if strings.HasPrefix(magic, "ustar\x00") {
		prefix := b[345:500]
		if string(b[508:512]) == "tar\x00" {
			prefix = b[345:476] // star keeps times behind it
		}
		if p := text(prefix); p != "" {
			h.name = p + "/" + h.name
		}
	}
	return h, nil
}
