package zip

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
)

// Systems that an entry may have been made on.
const (
	hostFAT  = 0
	hostUnix = 3
	hostHPFS = 6
	hostNTFS = 10
	hostMVS  = 11 // some programs mean NTFS
	hostVFAT = 14
	hostOSX  = 19
)

func unixHost(host uint8) bool { return host == hostUnix || host == hostOSX }

func dosHost(host uint8) bool {
	return host == hostFAT || host == hostHPFS || host == hostNTFS || host == hostMVS || host == hostVFAT
}

// name is the entry's name in UTF-8, as far as it is known how it is written.
func (a *archive) name(h *header) (string, error) {
	if f, ok := field(h.extra, 0x7075); ok && len(f) > 5 && f[0] == 1 && le.Uint32([]byte(f[1:5])) == crc32.ChecksumIEEE([]byte(h.raw)) && utf8.ValidString(f[5:]) {
		return f[5:], nil
	}
	switch {
	case h.flags&flagUTF8 != 0:
		return h.raw, nil
	case a.names != nil:
		return a.names.NewDecoder().String(h.raw)
	case ascii(h.raw), unixHost(h.madeBy): // there names are bytes
		return h.raw, nil
	}
	return charmap.CodePage437.NewDecoder().String(h.raw)
}

// slashed is a name with slashes for the backslashes that some programs write on Windows, against the format, where no
// name can have one. A name that is read by the format's own code page may be in another, in which the backslash is
// a part of a character: it stays as it is, and is refused.
func (a *archive) slashed(h *header, name string) string {
	if !dosHost(h.madeBy) || h.flags&flagUTF8 == 0 && a.names == nil && !ascii(h.raw) {
		return name
	}
	return strings.ReplaceAll(name, `\`, "/")
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Bits of DOS attributes.
const (
	dosReadOnly = 1 << 0
	dosDir      = 1 << 4
	dosKept     = dosReadOnly | 1<<1 | 1<<2 | 1<<5 // and hidden, system, archive
)

// describe fills in what the headers say of an entry: kind, mode, times, owners. dir says that its name ends in a slash.
func describe(h *header, l local, dir bool, e *index.Entry) (lost []string) {
	mode := uint32(0)
	if unixHost(h.madeBy) {
		mode = h.attrs >> 16
	}
	none := index.File
	if dir || dosHost(h.madeBy) && h.attrs&dosDir != 0 {
		none = index.Dir
	}
	e.Kind = source.UnixKind(uint64(mode), none)
	if e.Kind == 0 || e.Kind == index.FIFO && h.size != 0 {
		e.Kind = index.File // with content a FIFO is what zip read from one
	}
	if dir && e.Kind == index.File && h.size == 0 {
		e.Kind = index.Dir // every program takes it for one
	}
	if e.Mode = mode & 0o7777; mode == 0 {
		switch {
		case e.Kind == index.Dir:
			e.Mode = 0o755
		case dosHost(h.madeBy) && h.attrs&dosReadOnly != 0:
			e.Mode = 0o444
		default:
			e.Mode = 0o644
		}
	}
	if dosHost(h.madeBy) && h.attrs&dosKept != 0 {
		e.HasWinAttrs, e.WinAttrs = true, uint64(h.attrs&dosKept)
	}
	if h.dosDate>>5&15 != 0 && h.dosDate&31 != 0 { // else no time was written
		e.HasMtime, e.MtimeSec = true, dosTime(h.dosDate, h.dosTime).Unix()
	}
	dos := e.MtimeSec
	for _, extra := range []string{h.extra, l.extra} {
		owners(extra, e)
		times(extra, e, dos)
	}
	if h.comment != "" {
		lost = append(lost, "its comment")
	}
	return append(lost, unread(h.extra, l.extra)...)
}

// fields are the extra ones that are read, or say nothing about the file: the size of the whole, room for alignment, the
// mark of a Java archive, a comment, which is lost by itself, what bsdtar repeats of the directory for those who read a
// stream.
var fields = map[uint16]bool{
	0x0001: true, 0x000a: true, 0x5455: true, 0x5855: true, 0x7855: true, 0x7875: true, 0x756e: true, 0x7075: true, 0x9901: true,
	0x0000: true, 0xa220: true, 0xd935: true, 0xcafe: true, 0x6375: true, 0x6c78: true,
}

// lostFields names some of the others.
var lostFields = map[uint16]string{
	0x4453: "its access rights of Windows", 0x0009: "its attributes of OS/2", 0x6542: "its attributes of BeOS",
	0x07c8: "its attributes of Mac OS", 0x2605: "its attributes of Mac OS", 0x334d: "its attributes of Mac OS",
}

// unread says what the fields hold that are not read.
func unread(extras ...string) (lost []string) {
	for _, x := range extras {
		for len(x) >= 4 {
			id, n := le.Uint16([]byte(x[:2])), int(le.Uint16([]byte(x[2:4])))
			if n > len(x)-4 {
				break // filling of programs that align contents
			}
			x = x[4+n:]
			what := lostFields[id]
			if what == "" {
				what = fmt.Sprintf("what its extra field %#04x says", id)
			}
			if !fields[id] && !slices.Contains(lost, what) {
				lost = append(lost, what)
			}
		}
	}
	return lost
}

// dosTime is a time of ZIP's own kind: the clock on the wall wherever the archive was made, in steps of two seconds.
func dosTime(d, t uint16) time.Time {
	return time.Date(1980+int(d>>9), time.Month(d>>5&15), int(d&31), int(t>>11), int(t>>5&63), int(t&31)*2, 0, time.Local)
}

// times reads the fields that know better than the header, whose own time is given. The finest one counts.
func times(extra string, e *index.Entry, dos int64) {
	if f, ok := field(extra, 0x5855); ok && len(f) >= 8 {
		e.HasMtime, e.MtimeSec, e.MtimeNsec = true, unixTime(f[4:8], dos), 0
	}
	if f, ok := field(extra, 0x5455); ok && len(f) >= 5 && f[0]&1 != 0 {
		e.HasMtime, e.MtimeSec, e.MtimeNsec = true, unixTime(f[1:5], dos), 0
	}
	f, ok := field(extra, 0x000a)
	if !ok || len(f) < 4 {
		return
	}
	for f = f[4:]; len(f) >= 4; {
		tag, n := le.Uint16([]byte(f[:2])), int(le.Uint16([]byte(f[2:4])))
		if n > len(f)-4 {
			return
		}
		if tag == 1 && n >= 24 {
			if m := le.Uint64([]byte(f[4:12])); m != 0 {
				e.HasMtime = true
				e.MtimeSec, e.MtimeNsec = source.WindowsTime(m)
			}
			if c := le.Uint64([]byte(f[20:28])); c != 0 {
				e.HasBirth = true
				e.BirthSec, e.BirthNsec = source.WindowsTime(c)
			}
		}
		f = f[4+n:]
	}
}

// unixTime is a time in 32 bits with a sign. What is written after 2038 keeps the lower bits alone, and is known by the
// header's own time, which differs by a time zone and a season at most.
func unixTime(f string, dos int64) int64 {
	t := int64(int32(le.Uint32([]byte(f))))
	if t < 0 && dos-(t+1<<32) < 2*86400 && t+1<<32-dos < 2*86400 {
		t += 1 << 32
	}
	return t
}

// owners reads who owned the file, by number; ZIP has no names of users.
func owners(extra string, e *index.Entry) {
	set := func(uid, gid uint64) { e.HasOwner, e.UID, e.GID = true, uid, gid }
	short := func(f string) { set(uint64(le.Uint16([]byte(f[:2]))), uint64(le.Uint16([]byte(f[2:4])))) }
	if f, ok := field(extra, 0x5855); ok && len(f) >= 12 {
		short(f[8:])
	}
	if f, ok := field(extra, 0x7855); ok && len(f) >= 4 {
		short(f)
	}
	if f, ok := field(extra, 0x756e); ok && len(f) >= 14 && crc32.ChecksumIEEE([]byte(f[4:])) == le.Uint32([]byte(f[:4])) {
		short(f[10:])
		e.Mode = uint32(le.Uint16([]byte(f[4:6]))) & 0o7777
	}
	if f, ok := field(extra, 0x7875); ok && len(f) >= 3 && f[0] == 1 {
		uid, rest, ok := number(f[1:])
		if !ok {
			return
		}
		if gid, _, ok := number(rest); ok {
			set(uid, gid)
		}
	}
}

// number reads a number with its length before it.
func number(f string) (v uint64, rest string, ok bool) {
	if f == "" || f[0] == 0 || f[0] > 8 || len(f) < 1+int(f[0]) {
		return 0, "", false
	}
	n := int(f[0])
	for i := n; i > 0; i-- {
		v = v<<8 | uint64(f[i])
	}
	return v, f[1+n:], true
}

// target makes a symbolic link of an entry whose content is where it leads.
func target(e *index.Entry, b []byte) error {
	if len(b) == 0 || len(b) > format.MaxTarget {
		return corrupt(-1, "the symbolic link leads nowhere, or its target is too long")
	}
	e.Target, e.Size = string(b), 0
	return nil
}
