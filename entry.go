package lockbox

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// Entry is what an archive knows of one stored path, and what Tx.Put is told of it.
type Entry struct {
	Path    string      // with slashes; any bytes
	Mode    fs.FileMode // type and permissions
	Size    int64       // of a file, in bytes
	ModTime time.Time   // to the nanosecond; zero: none
	Target  string      // of a symbolic link
	Owner   *Owner      // nil: none is stored
	Device  *Device     // of a device
	// Xattrs are the extended attributes. A set of more than 32 KiB does not come with the entry: Archive.Xattrs
	// reads it, and Put, when it is given the entry with none, takes it over. 1 MiB is the most.
	Xattrs []Xattr
	// Links, when it is not 0, is the same number for all names of one file (hard links). Put does not look at it: it
	// is told the names.
	Links uint64

	src  *index.Entry // as stored, and where
	from *Archive
}

// Owner is who owns a file, by numbers and, where they are known, by names.
type Owner struct {
	UID, GID    uint64
	User, Group string
}

// Device is the number of a device.
type Device struct{ Major, Minor uint64 }

// Xattr is an extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// specialBits are the bits of a stored mode beyond the permissions, as Unix has them, and what they are in an fs.FileMode.
var specialBits = [...]struct {
	stored uint32
	mode   fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}

var typeBits = map[index.Kind]fs.FileMode{
	index.File: 0, index.Dir: fs.ModeDir, index.Symlink: fs.ModeSymlink, index.FIFO: fs.ModeNamedPipe, index.Socket: fs.ModeSocket,
	index.BlockDevice: fs.ModeDevice, index.CharDevice: fs.ModeDevice | fs.ModeCharDevice,
}

// entry returns an entry as callers see it. It keeps e.
func (a *Archive) entry(e *index.Entry) Entry {
	out := Entry{Path: e.Path.String(), Size: e.Size, Target: e.Target, Xattrs: xattrs(e.Xattrs), Links: e.LinkGroup, src: e, from: a}
	out.Mode = fs.FileMode(e.Mode&0o777) | typeBits[e.Kind]
	for _, b := range specialBits {
		if e.Mode&b.stored != 0 {
			out.Mode |= b.mode
		}
	}
	if e.HasMtime {
		out.ModTime = time.Unix(e.MtimeSec, int64(e.MtimeNsec))
	}
	if e.HasDevice {
		out.Device = &Device{Major: e.Major, Minor: e.Minor}
	}
	if e.HasOwner || e.User != "" || e.Group != "" {
		out.Owner = &Owner{UID: e.UID, GID: e.GID, User: e.User, Group: e.Group}
	}
	return out
}

func xattrs(from []index.Xattr) (to []Xattr) {
	for _, x := range from {
		to = append(to, Xattr(x))
	}
	return to
}

// complete reads the extended attributes of an archive's entry that did not come with it.
func (e *Entry) complete(ctx context.Context) (err error) {
	if e.Xattrs == nil && e.src != nil && e.src.XattrsContent != 0 {
		e.Xattrs, err = e.from.Xattrs(ctx, *e)
	}
	return err
}

// record is the reverse, for storing: the size is the caller's to set.
func (e *Entry) record() (index.Entry, error) {
	p, err := parse(e.Path)
	if err != nil {
		return index.Entry{}, err
	}
	out := index.Entry{Path: p, Mode: uint32(e.Mode.Perm()), Target: e.Target}
	for kind, bits := range typeBits {
		if bits == e.Mode.Type() {
			out.Kind = kind
		}
	}
	device := out.Kind == index.BlockDevice || out.Kind == index.CharDevice
	switch {
	case out.Kind == 0 || out.Kind == index.Socket:
		return index.Entry{}, unstorable("what has the mode " + e.Mode.String() + " is not stored")
	case out.Kind == index.Symlink && e.Target == "":
		return index.Entry{}, invalid("a symbolic link without a target")
	case out.Kind != index.Symlink && e.Target != "":
		return index.Entry{}, invalid("a target of what is not a symbolic link")
	case out.Kind == index.File && e.Size < 0, out.Kind != index.File && e.Size != 0:
		return index.Entry{}, invalid("size %d", e.Size)
	case device != (e.Device != nil):
		return index.Entry{}, invalid("a device has a number, nothing else has")
	case device:
		out.HasDevice, out.Major, out.Minor = true, e.Device.Major, e.Device.Minor
	}
	for _, x := range e.Xattrs {
		out.Xattrs = append(out.Xattrs, index.Xattr(x))
	}
	slices.SortFunc(out.Xattrs, func(x, y index.Xattr) int { return strings.Compare(x.Name, y.Name) })
	if err := index.CheckXattrs(out.Xattrs); err != nil {
		return index.Entry{}, unstorable(err.Error())
	}
	for _, b := range specialBits {
		if e.Mode&b.mode != 0 {
			out.Mode |= b.stored
		}
	}
	if !e.ModTime.IsZero() {
		out.HasMtime, out.MtimeSec, out.MtimeNsec = true, e.ModTime.Unix(), uint32(e.ModTime.Nanosecond())
	}
	if o := e.Owner; o != nil {
		out.HasOwner, out.UID, out.GID, out.User, out.Group = true, o.UID, o.GID, o.User, o.Group
	}
	return out, nil
}

// parse reads a stored path of a caller; the empty one is refused.
func parse(name string) (pathsafe.Path, error) {
	p, err := pathsafe.Parse(name)
	if err != nil {
		return p, invalid("%v", err)
	}
	return p, nil
}

// parseDir reads the path of a directory; "" and "." are the top.
func parseDir(name string) (pathsafe.Path, error) {
	if name == "" || name == "." {
		return pathsafe.Path{}, nil
	}
	return parse(name)
}

// info is an entry as a file system shows it, under the name by which it was asked for.
type info struct {
	name  string
	entry Entry
}

func (a *Archive) info(name string, e *index.Entry) *info {
	i := &info{name: path.Base(name), entry: a.entry(e)}
	if e.Path.IsZero() || !e.HasMtime && e.Mode == 0 && e.Kind == index.Dir {
		// Only what lies below tells of it.
		i.entry.Mode |= 0o555
	}
	return i
}

func (i *info) Name() string               { return i.name }
func (i *info) Size() int64                { return i.entry.Size }
func (i *info) Mode() fs.FileMode          { return i.entry.Mode }
func (i *info) Type() fs.FileMode          { return i.entry.Mode.Type() }
func (i *info) ModTime() time.Time         { return i.entry.ModTime }
func (i *info) IsDir() bool                { return i.entry.Mode.IsDir() }
func (i *info) Info() (fs.FileInfo, error) { return i, nil }
func (i *info) String() string             { return fs.FormatFileInfo(i) }

// Sys returns the Entry.
func (i *info) Sys() any { return i.entry }
