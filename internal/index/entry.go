package index

import (
	"encoding/binary"
	"fmt"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
)

// Entry record, the value of the tree entries: kind (1), then fields in ascending order of tags: tag (1),
// length (uvarint), payload. A field that would say no more than its absence is not written.
const (
	tagMode      = 1  // uvarint
	tagMtime     = 2  // varint seconds, uvarint nanoseconds
	tagSize      = 3  // uvarint
	tagContent   = 4  // uvarint
	tagTarget    = 5  // bytes
	tagOwner     = 6  // uvarint uid, uvarint gid
	tagUser      = 7  // bytes
	tagGroup     = 8  // bytes
	tagLinkGroup = 9  // uvarint
	tagDevice    = 10 // uvarint major, uvarint minor
	tagSparse    = 11 // see sparse.go
	tagXattrs    = 12 // see xattrs.go
	tagXattrsIn  = 13 // uvarint: a content that holds them instead
	tagBirth     = 14 // as mtime
	tagWindows   = 15 // uvarint
	tagBSD       = 16 // uvarint

	firstUnknown = tagBSD + 1
)

const (
	maxMode  = 0o7777
	maxNsec  = 1_000_000_000 - 1
	maxOwner = 1024 // bytes of a user's or a group's name
)

// Kind is what an entry is.
type Kind uint8

const (
	File Kind = 1 + iota
	Dir
	Symlink
	FIFO
	CharDevice
	BlockDevice
	Socket // known, never written
)

func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Dir:
		return "dir"
	case Symlink:
		return "symlink"
	case FIFO:
		return "fifo"
	case CharDevice:
		return "char"
	case BlockDevice:
		return "block"
	case Socket:
		return "socket"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Entry is what the archive knows of one path. Fields whose zero value could be a real one have a Has
// field beside them. Size is what reading a file gives, holes included. Content is the number of the
// content with the file's data, 0 when it has none. Target is a symbolic link's. LinkGroup is 0 for an
// entry without other names. Sparse and Xattrs are nil when there are none. Unknown holds the fields,
// as stored, that this version has no name for.
type Entry struct {
	Path          pathsafe.Path
	Kind          Kind
	Mode          uint32
	HasMtime      bool
	MtimeNsec     uint32
	MtimeSec      int64
	Size          int64
	Content       uint64
	Target        string
	HasOwner      bool
	HasDevice     bool
	HasBirth      bool
	HasWinAttrs   bool
	HasBSDFlags   bool
	BirthNsec     uint32
	UID, GID      uint64
	User, Group   string
	LinkGroup     uint64
	Major, Minor  uint64
	Sparse        []SparseRun
	Xattrs        []Xattr
	XattrsContent uint64
	BirthSec      int64
	WinAttrs      uint64
	BSDFlags      uint64
	Unknown       []byte
}

// Contents are the numbers of the contents that the entry refers to, 0 where there is none.
func (e *Entry) Contents() [2]uint64 { return [2]uint64{e.Content, e.XattrsContent} }

// Check reports what an entry must not be. AppendEntry writes whatever it is given, DecodeEntry refuses
// what Check refuses, so a writer calls Check first.
func (e *Entry) Check() error {
	if bad := e.problem(); bad != "" {
		return e.corrupt(bad)
	}
	return nil
}

func (e *Entry) corrupt(detail string) error {
	return &format.Error{Kind: format.ErrCorrupt, Record: "entry record", Offset: -1, Entry: e.Path.String(), Detail: detail}
}

func (e *Entry) problem() string {
	switch {
	case e.Kind < File || e.Kind > Socket:
		return e.Kind.String() + " is unknown"
	case e.Mode > maxMode:
		return "mode out of range"
	case e.MtimeNsec > maxNsec || e.BirthNsec > maxNsec:
		return "nanoseconds out of range"
	case e.Size < 0 || e.Size > format.MaxFileSize:
		return "size out of range"
	case e.Content > maxNumber || e.XattrsContent > maxNumber:
		return "content number out of range"
	case e.Kind != File && (e.Size != 0 || e.Content != 0 || e.Sparse != nil):
		return "size, content or sparse map of what is not a file"
	case (e.Kind == Symlink) != (e.Target != ""):
		return "a symbolic link has a target, nothing else has"
	case len(e.Target) > format.MaxTarget || strings.IndexByte(e.Target, 0) >= 0:
		return "link target too long or with a zero byte"
	case e.Kind == Dir && e.LinkGroup != 0:
		return "link group of a directory"
	case e.HasDevice && e.Kind != CharDevice && e.Kind != BlockDevice:
		return "device numbers of what is not a device"
	case len(e.User) > maxOwner || len(e.Group) > maxOwner:
		return "name of the owner or the group too long"
	case e.XattrsContent != 0 && e.Xattrs != nil:
		return "xattrs both in the record and in a content"
	}
	if bad := e.sparseProblem(); bad != "" {
		return bad
	}
	if (e.Content != 0) != (e.DataSize() > 0) {
		return "a file has a content exactly when it has data"
	}
	return e.xattrsProblem()
}

// AppendEntry writes the record to b: all but the path, which is the key.
func AppendEntry(b []byte, e *Entry) []byte {
	w := entryWriter{b: append(b, byte(e.Kind)), unknown: e.Unknown}
	w.number(tagMode, uint64(e.Mode))
	w.time(tagMtime, e.HasMtime, e.MtimeSec, e.MtimeNsec)
	w.number(tagSize, uint64(e.Size))
	w.number(tagContent, e.Content)
	w.text(tagTarget, e.Target)
	w.pair(tagOwner, e.HasOwner, e.UID, e.GID)
	w.text(tagUser, e.User)
	w.text(tagGroup, e.Group)
	w.number(tagLinkGroup, e.LinkGroup)
	w.pair(tagDevice, e.HasDevice, e.Major, e.Minor)
	w.sparse(e.Sparse)
	w.xattrs(e.Xattrs)
	w.number(tagXattrsIn, e.XattrsContent)
	w.time(tagBirth, e.HasBirth, e.BirthSec, e.BirthNsec)
	w.flags(tagWindows, e.HasWinAttrs, e.WinAttrs)
	w.flags(tagBSD, e.HasBSDFlags, e.BSDFlags)
	return append(w.b, w.unknown...)
}

// entryWriter writes fields and, between them, the unknown ones whose tags come first.
type entryWriter struct{ b, unknown []byte }

func (w *entryWriter) head(tag byte, n int) {
	for len(w.unknown) > 0 && w.unknown[0] < tag {
		n, pos, ok := uvarint(w.unknown, 1)
		if !ok || n > uint64(len(w.unknown)-pos) {
			break
		}
		end := pos + int(n)
		w.b, w.unknown = append(w.b, w.unknown[:end]...), w.unknown[end:]
	}
	w.b = binary.AppendUvarint(append(w.b, tag), uint64(n))
}

func (w *entryWriter) number(tag byte, v uint64) { w.flags(tag, v != 0, v) }

func (w *entryWriter) flags(tag byte, has bool, v uint64) {
	if has {
		w.head(tag, uvarintLen64(v))
		w.b = binary.AppendUvarint(w.b, v)
	}
}

func (w *entryWriter) pair(tag byte, has bool, v, u uint64) {
	if has {
		w.head(tag, uvarintLen64(v)+uvarintLen64(u))
		w.b = binary.AppendUvarint(binary.AppendUvarint(w.b, v), u)
	}
}

func (w *entryWriter) time(tag byte, has bool, sec int64, nsec uint32) {
	w.pair(tag, has, uint64(sec)<<1^uint64(sec>>63), uint64(nsec))
}

func (w *entryWriter) text(tag byte, s string) {
	if s != "" {
		w.head(tag, len(s))
		w.b = append(w.b, s...)
	}
}

// DecodeEntry reads a record from its key and value. The result does not alias them.
func DecodeEntry(key, value []byte) (Entry, error) {
	var e Entry
	err := e.Decode(key, value)
	return e, err
}

// Decode reads a record into e. When it fails, e is empty.
func (e *Entry) Decode(key, value []byte) error {
	*e = Entry{}
	path, err := pathsafe.FromKey(key)
	if err != nil {
		return &format.Error{Kind: format.ErrCorrupt, Record: "entry record", Offset: -1, Detail: err.Error()}
	}
	e.Path = path
	bad := e.fields(value)
	if bad == "" {
		bad = e.problem()
	}
	if bad != "" {
		err := e.corrupt(bad)
		*e = Entry{}
		return err
	}
	return nil
}

// fields reads the kind and the fields; it returns what is wrong with them, or "".
func (e *Entry) fields(value []byte) string {
	if len(value) == 0 {
		return "cut short"
	}
	e.Kind = Kind(value[0])
	last := -1
	for pos := 1; pos < len(value); {
		start, tag := pos, value[pos]
		n, at, ok := uvarint(value, pos+1)
		if !ok || n > uint64(len(value)-at) {
			return "cut short"
		}
		pos = at + int(n)
		payload := value[at:pos]
		if int(tag) <= last {
			return fmt.Sprintf("field %d after field %d", tag, last)
		}
		last = int(tag)
		if tag == 0 || tag >= firstUnknown {
			e.Unknown = append(e.Unknown, value[start:pos]...)
			continue
		}
		if n == 0 {
			return fmt.Sprintf("field %d is empty", tag)
		}
		f := format.NewCursor(payload, "entry record", -1)
		e.field(tag, f)
		if err := f.Done(); err != nil {
			return fmt.Sprintf("field %d: %v", tag, err.(*format.Error).Detail)
		}
	}
	return ""
}

// field reads the payload of a known tag.
func (e *Entry) field(tag byte, c *format.Cursor) {
	const any = ^uint64(0)
	switch tag {
	case tagMode:
		e.Mode = uint32(nonzero(c, maxMode))
	case tagMtime:
		e.HasMtime, e.MtimeSec, e.MtimeNsec = true, c.Varint(), uint32(c.Uvarint(maxNsec))
	case tagSize:
		e.Size = int64(nonzero(c, uint64(format.MaxFileSize)))
	case tagContent:
		e.Content = nonzero(c, maxNumber)
	case tagTarget:
		e.Target = string(c.Bytes(c.Len()))
	case tagOwner:
		e.HasOwner, e.UID, e.GID = true, c.Uvarint(any), c.Uvarint(any)
	case tagUser:
		e.User = string(c.Bytes(c.Len()))
	case tagGroup:
		e.Group = string(c.Bytes(c.Len()))
	case tagLinkGroup:
		e.LinkGroup = nonzero(c, any)
	case tagDevice:
		e.HasDevice, e.Major, e.Minor = true, c.Uvarint(any), c.Uvarint(any)
	case tagSparse:
		e.Sparse = readSparse(c)
	case tagXattrs:
		e.Xattrs = readXattrs(c)
	case tagXattrsIn:
		e.XattrsContent = nonzero(c, maxNumber)
	case tagBirth:
		e.HasBirth, e.BirthSec, e.BirthNsec = true, c.Varint(), uint32(c.Uvarint(maxNsec))
	case tagWindows:
		e.HasWinAttrs, e.WinAttrs = true, c.Uvarint(any)
	case tagBSD:
		e.HasBSDFlags, e.BSDFlags = true, c.Uvarint(any)
	}
}

// nonzero reads a number whose 0 is said by leaving the field out.
func nonzero(c *format.Cursor, max uint64) uint64 {
	v := c.Uvarint(max)
	if v == 0 {
		c.Fail("zero, which is said by leaving the field out")
	}
	return v
}
