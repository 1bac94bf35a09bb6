package rar

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nwaples/rardecode/v2"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
)

// Attributes of Windows.
const (
	attrReadOnly = 0x1
	attrDir      = 0x10
	attrReparse  = 0x400
)

// entry makes an entry of a header. seen are the paths of the entries before it.
func (a *archive) entry(h *rardecode.FileHeader, c *content, seen map[string]bool) *source.Entry {
	e := &source.Entry{Name: h.Name}
	x := &e.Entry
	// The library has made slashes of what older archives write between names.
	x.Path, e.Err = source.Path(h.Name, h.HostOS == rardecode.HostOSUnix)
	setTime(&x.HasMtime, &x.MtimeSec, &x.MtimeNsec, h.ModificationTime)
	if h.HostOS == rardecode.HostOSUnix {
		setUnix(e, h)
	} else {
		setTime(&x.HasBirth, &x.BirthSec, &x.BirthNsec, h.CreationTime)
		x.Kind, x.Mode = index.File, 0o644
		if h.IsDir {
			x.Kind, x.Mode = index.Dir, 0o755
		}
		if h.HostOS == rardecode.HostOSWindows || h.HostOS == rardecode.HostOSMSDOS {
			x.HasWinAttrs, x.WinAttrs = true, uint64(h.Attributes)&0xffff&^attrDir
			if h.Attributes&attrReadOnly != 0 && !h.IsDir {
				x.Mode = 0o444
			}
		}
	}
	if e.Err != nil {
		return e
	}
	if h.Version > 0 {
		e.Err = fmt.Errorf("it is an older version (%d) of the file, and an entry has one", h.Version)
		return e
	}
	e.Err = setLink(e, h, seen)
	if e.Err != nil || !e.LinkTo.IsZero() {
		return e
	}
	switch {
	case x.Path.IsZero() && x.Kind != index.Dir:
		e.Err = errors.New("it is no directory, and has the name of the top")
	case x.Kind == index.Symlink && x.Target == "":
		x.Target, e.Err = target(c)
	case x.Kind == index.File:
		x.Size, e.Open = c.left, c.open
	}
	return e
}

func setTime(has *bool, sec *int64, nsec *uint32, t time.Time) {
	if !t.IsZero() {
		*has, *sec, *nsec = true, t.Unix(), uint32(t.Nanosecond())
	}
}

// setUnix reads the mode and the owner that a Unix system stored.
func setUnix(e *source.Entry, h *rardecode.FileHeader) {
	x := &e.Entry
	x.Mode = uint32(h.Attributes) & 0o7777
	none := index.File
	if h.IsDir {
		none = index.Dir
	}
	switch kind := source.UnixKind(uint64(h.Attributes), none); {
	case h.IsDir && kind == index.Dir, !h.IsDir && (kind == index.File || kind == index.Symlink):
		x.Kind = kind
	case e.Err == nil:
		e.Err = fmt.Errorf("it is of a kind that RAR says too little about (mode %o)", h.Attributes)
	}
	if h.UnixOwnerUserName != nil {
		x.User = *h.UnixOwnerUserName
	}
	if h.UnixOwnerGroupName != nil {
		x.Group = *h.UnixOwnerGroupName
	}
	// The library takes the number of the group for given when only the names are.
	if h.UnixOwnerUserID != nil && h.UnixOwnerGroupID != nil {
		x.HasOwner, x.UID, x.GID = true, *h.UnixOwnerUserID, *h.UnixOwnerGroupID
	}
}

// setLink reads what the newer layout says of links.
func setLink(e *source.Entry, h *rardecode.FileHeader, seen map[string]bool) error {
	x := &e.Entry
	switch h.LinkType {
	case rardecode.LinkTypeNone:
	case rardecode.LinkTypeUnixSymlink:
		x.Kind, x.Target = index.Symlink, h.LinkTarget
	case rardecode.LinkTypeWindowsSymlink:
		x.Kind, x.Target = index.Symlink, strings.ReplaceAll(h.LinkTarget, `\`, "/")
		if x.Target != h.LinkTarget {
			e.Lost = append(e.Lost, "backslashes in the target of the symbolic link became slashes")
		}
		if h.LinkTargetIsDir {
			x.WinAttrs |= attrDir
		}
	case rardecode.LinkTypeHardLink:
		to, err := source.Path(h.LinkTarget, h.HostOS == rardecode.HostOSUnix)
		if err != nil {
			return err
		}
		if x.Kind != index.File || !seen[to.String()] {
			return format.Corrupt("RAR header", -1, "it is a hard link to %q, which does not stand before it", h.LinkTarget)
		}
		e.LinkTo = to
	case rardecode.LinkTypeWindowsJunction:
		return errors.New("it is a junction, which only Windows understands")
	case rardecode.LinkTypeFileCopy:
		return fmt.Errorf("it is stored as a copy of %q, which is not read", h.LinkTarget)
	default:
		return fmt.Errorf("it is a link of an unknown kind (%d)", h.LinkType)
	}
	if x.Kind == index.Symlink && h.LinkType != rardecode.LinkTypeNone {
		x.WinAttrs &^= attrReparse // says that it is a link
		if h.HostOS != rardecode.HostOSUnix {
			x.Mode = 0o777
		}
		return checkTarget(x.Target)
	}
	return nil
}

// target reads what a symbolic link of the older layout points to: its content.
func target(c *content) (string, error) {
	b, err := io.ReadAll(io.LimitReader(c, format.MaxTarget+1))
	if err != nil {
		return "", err
	}
	return string(b), checkTarget(string(b))
}

func checkTarget(s string) error {
	if s == "" || len(s) > format.MaxTarget || strings.IndexByte(s, 0) >= 0 {
		return format.Corrupt("RAR header", -1, "the target of the symbolic link is empty, too long, or has a zero byte")
	}
	return nil
}
