package tar

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// maxExtended bounds an extended header: names, attributes, a map of holes.
const maxExtended = 8 << 20

// What extended headers may say of one entry, and of all: the latter is looked at for each.
const (
	maxRecords    = 16 << 10
	maxForAll     = 128
	maxForAllSize = 64 << 10
)

// extended is what extended headers say of the next entry, or of all.
type extended struct {
	records map[string]string
	pieces  []string // of GNU's first sparse format: offset, length, ...
	name    string   // GNU's long ones
	link    string
	acl     bool  // an access control list of Solaris
	size    int64 // of the headers
	most    int   // records
}

// parsePax adds the records of an extended header. A record says its own length, then key=value and a line end.
func (x *extended) parsePax(b string, at int64) error {
	bad := func() error { return corrupt(at, "a record of the extended header is malformed") }
	for b != "" && strings.Trim(b, "\x00") != "" {
		digits, _, ok := strings.Cut(b, " ")
		n, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil || n > uint64(len(b)) || int(n) < len(digits)+3 || b[n-1] != '\n' {
			return bad()
		}
		k, v, ok := strings.Cut(b[len(digits)+1:n-1], "=")
		if !ok || k == "" {
			return bad()
		}
		b = b[n:]
		if k == "GNU.sparse.offset" || k == "GNU.sparse.numbytes" {
			if (len(x.pieces)%2 == 0) != (k == "GNU.sparse.offset") {
				return bad()
			}
			x.pieces = append(x.pieces, v)
			continue
		}
		if x.records == nil {
			x.records = make(map[string]string)
		}
		if _, ok := x.records[k]; !ok && len(x.records) >= x.most {
			return corrupt(at, "extended headers have more than %d records, more than any program writes", x.most)
		}
		x.records[k] = v
	}
	return nil
}

// over returns the records of an entry: those of its own header over those for all.
func (x *extended) over(global map[string]string) map[string]string {
	if len(global) == 0 {
		return x.records
	}
	all := maps.Clone(global)
	maps.Copy(all, x.records)
	return all
}

// silent are records that say nothing about the file itself, or nothing that any archive keeps. SUN.holesdata only says
// where holes were: their zeros are in the archive.
var silent = map[string]bool{
	"atime": true, "ctime": true, "comment": true, "hdrcharset": true, "charset": true, "SCHILY.dev": true, "SCHILY.ino": true, "SCHILY.nlink": true,
	"SCHILY.filetype": true, "SCHILY.realsize": true, "LIBARCHIVE.symlinktype": true, "SCHILY.tarfiletype": true, "SCHILY.archtype": true, "SCHILY.release": true, "SUN.holesdata": true,
}

// apply lets records overrule the header, and fills in what only they can say.
func apply(records map[string]string, h *header, e *index.Entry, at int64) (lost []string, err error) {
	e.HasMtime, e.MtimeSec = true, h.mtime
	xattrs := attributes{e: e}
	for _, k := range slices.Sorted(maps.Keys(records)) {
		v := records[k]
		if v == "" && !strings.Contains(k, "xattr") {
			continue // it takes back what was said for all
		}
		var bad error
		switch {
		case silent[k], strings.HasPrefix(k, "GNU.sparse."), strings.HasPrefix(k, "SCHILY.volhdr."):
		case k == "path":
			h.name = v
		case k == "linkpath":
			h.link = v
		case k == "size":
			h.size, bad = strconv.ParseInt(v, 10, 64)
			if h.size < 0 || h.size > format.MaxFileSize {
				bad = strconv.ErrRange
			}
		case k == "uid":
			h.uid, bad = strconv.ParseInt(v, 10, 64)
		case k == "gid":
			h.gid, bad = strconv.ParseInt(v, 10, 64)
		case k == "uname":
			h.user = v
		case k == "gname":
			h.group = v
		case k == "mtime":
			e.MtimeSec, e.MtimeNsec, bad = paxTime(v)
		case k == "LIBARCHIVE.creationtime":
			e.HasBirth = true
			e.BirthSec, e.BirthNsec, bad = paxTime(v)
		case k == "SCHILY.devmajor":
			h.major, bad = strconv.ParseInt(v, 10, 64)
		case k == "SCHILY.devminor":
			h.minor, bad = strconv.ParseInt(v, 10, 64)
		case k == "MSWINDOWS.fileattr":
			e.HasWinAttrs = true
			e.WinAttrs, bad = strconv.ParseUint(v, 10, 32)
		case k == "RHT.security.selinux":
			xattrs.set("security.selinux", strings.TrimSuffix(v, "\x00")+"\x00")
		case strings.HasPrefix(k, "SCHILY.xattr."):
			xattrs.set(k[len("SCHILY.xattr."):], v)
		case strings.HasPrefix(k, "LIBARCHIVE.xattr."):
			if name, err := url.PathUnescape(k[len("LIBARCHIVE.xattr."):]); err != nil {
				bad = err
			} else if value, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "=")); err != nil {
				bad = err
			} else if !xattrs.has(name) {
				xattrs.set(name, string(value))
			}
		case strings.HasPrefix(k, "SCHILY.acl."):
			lost = append(lost, "its access control list")
		case k == "SCHILY.fflags":
			lost = append(lost, "its file flags")
		default:
			lost = append(lost, fmt.Sprintf("what the record %q says", k))
		}
		if bad != nil {
			return lost, corrupt(at, "the record %q of the extended header does not make sense", k)
		}
	}
	slices.SortFunc(e.Xattrs, func(a, b index.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(lost), nil
}

// attributes are those of one entry, while they are collected: both ways to write one may be there for the same.
type attributes struct {
	e  *index.Entry
	at map[string]int // where each stands
}

func (a *attributes) has(name string) bool { _, ok := a.at[name]; return ok }

func (a *attributes) set(name, value string) {
	i, ok := a.at[name]
	if !ok {
		if a.at == nil {
			a.at = make(map[string]int)
		}
		i = len(a.e.Xattrs)
		a.at[name] = i
		a.e.Xattrs = append(a.e.Xattrs, index.Xattr{Name: name})
	}
	a.e.Xattrs[i].Value = []byte(value)
}

// paxTime reads seconds since 1970 with a decimal fraction, as finely as nanoseconds.
func paxTime(s string) (sec int64, nsec uint32, err error) {
	whole, frac, _ := strings.Cut(s, ".")
	if sec, err = strconv.ParseInt(whole, 10, 64); err != nil {
		if whole != "" && whole != "-" {
			return 0, 0, err
		}
		sec, err = 0, nil
	}
	for i := range len(frac) {
		if frac[i] < '0' || frac[i] > '9' {
			return 0, 0, strconv.ErrSyntax
		}
	}
	n, err := strconv.ParseUint((frac + "000000000")[:9], 10, 32)
	if err != nil {
		return 0, 0, err
	}
	if strings.HasPrefix(s, "-") && n > 0 {
		return sec - 1, 1_000_000_000 - uint32(n), nil
	}
	return sec, uint32(n), nil
}
