package hostfs

import (
	"errors"
	"io/fs"
	"time"
)

// Kind is what an entry of the host's tree is. The numbers are those that an archive stores.
type Kind uint8

const (
	KindFile    Kind = 1
	KindDir     Kind = 2
	KindSymlink Kind = 3
	KindFIFO    Kind = 4
	KindChar    Kind = 5
	KindBlock   Kind = 6
	KindSocket  Kind = 7
)

func (k Kind) String() string {
	switch k {
	case KindFile:
		return "file"
	case KindDir:
		return "directory"
	case KindSymlink:
		return "symbolic link"
	case KindFIFO:
		return "FIFO"
	case KindChar:
		return "character device"
	case KindBlock:
		return "block device"
	case KindSocket:
		return "socket"
	}
	return "thing of unknown kind"
}

var (
	// ErrChanged is the kind of every error that says a source did not hold still.
	ErrChanged = errors.New("changed while it was read")
	// ErrSkipped is the kind of the error for what is never stored: sockets.
	ErrSkipped = errors.New("skipped")
	// ErrSelf is the kind of the error for an operand that is one of SkipSame.
	ErrSelf = errors.New("it is the archive itself")
	// ErrExcluded is the kind of the error for an operand that Filter excludes.
	ErrExcluded = errors.New("a rule excludes it")
	// ErrLoop is the kind of the error for a dereferenced link that leads back to a directory above it.
	ErrLoop = errors.New("a link leads back to a directory above it")
	// ErrAborted is returned by an Extractor after Abort.
	ErrAborted = errors.New("extraction was aborted")
)

// Meta is what is known of one entry besides its name and its bytes. The system's own identifiers (Dev,
// Ino, Nlink) are zero where the system has none; fields whose zero value could be a real one have a Has field
// beside them.
type Meta struct {
	Kind      Kind
	Mode      uint32 // permission bits, setuid, setgid, sticky: 07777
	MtimeSec  int64  // since 1970
	MtimeNsec uint32 // below 1,000,000,000
	Size      int64  // of a regular file, else 0
	Target    string // of a symbolic link
	Dev, Ino  uint64
	Nlink     uint64

	HasOwner    bool
	UID, GID    uint64
	User, Group string // "" when the system has no name for the number

	Major, Minor uint64  // of a device
	Sparse       []Run   // of an open regular file, and of one that is to be extracted; nil without holes
	Xattrs       []Xattr // by name, ascending
	XattrsErr    error   // why there are more of them, which cannot be had; for what is to be extracted

	HasBirth    bool
	BirthSec    int64
	BirthNsec   uint32
	HasWinAttrs bool
	WinAttrs    uint64
	HasBSDFlags bool
	BSDFlags    uint64

	blocks int64 // of 512 bytes; what a regular file takes on the disk
}

// Stored is about how many bytes reading a regular file has to give: its size, or what it takes on the disk where holes make
// that less.
func (m *Meta) Stored() int64 {
	if m.blocks > 0 {
		return min(m.Size, m.blocks*512)
	}
	return m.Size
}

// Xattr is one extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// Run is a stretch of data and the hole after it. Only the first of a file may have no data, only the last no
// hole.
type Run struct{ Data, Hole int64 }

// DataSize is the size without the holes.
func (m *Meta) DataSize() int64 {
	n := m.Size
	for _, r := range m.Sparse {
		n -= r.Hole
	}
	return n
}

// Mtime returns the modification time.
func (m *Meta) Mtime() time.Time { return time.Unix(m.MtimeSec, int64(m.MtimeNsec)) }

// sameObject reports whether m and o can be one object. Where the system gives no numbers only the kind
// is compared.
func (m *Meta) sameObject(o *Meta) bool {
	return m.Kind == o.Kind && m.Dev == o.Dev && m.Ino == o.Ino
}

const (
	modePerm   = 0o777
	modeSticky = 0o1000
	modeSetgid = 0o2000
	modeSetuid = 0o4000
	modeAll    = 0o7777
)

// metaOf translates what the standard library knows; identify adds the system's numbers.
func metaOf(fi fs.FileInfo) Meta {
	m := Meta{Kind: kindOf(fi.Mode()), Mode: uint32(fi.Mode().Perm())}
	if fi.Mode()&fs.ModeSetuid != 0 {
		m.Mode |= modeSetuid
	}
	if fi.Mode()&fs.ModeSetgid != 0 {
		m.Mode |= modeSetgid
	}
	if fi.Mode()&fs.ModeSticky != 0 {
		m.Mode |= modeSticky
	}
	t := fi.ModTime()
	m.MtimeSec, m.MtimeNsec = t.Unix(), uint32(t.Nanosecond())
	if m.Kind == KindFile {
		m.Size = fi.Size()
	}
	identify(&m, fi)
	return m
}

func kindOf(mode fs.FileMode) Kind {
	switch mode.Type() {
	case 0:
		return KindFile
	case fs.ModeDir:
		return KindDir
	case fs.ModeSymlink:
		return KindSymlink
	case fs.ModeNamedPipe:
		return KindFIFO
	case fs.ModeDevice | fs.ModeCharDevice:
		return KindChar
	case fs.ModeDevice:
		return KindBlock
	case fs.ModeSocket:
		return KindSocket
	}
	return 0
}
