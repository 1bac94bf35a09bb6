package hostfs

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"

	"lockbox/internal/pathsafe"
)

// Tied reports whether what exists, now, has other names and not the metadata of want. It cannot be given that in place: the
// other names may lie outside of the destination, and no look at them tells what they are a moment later. So what is equal in
// all else is to be replaced by something of its own.
func (x *Extractor) Tied(path pathsafe.Path, now, want Meta) (bool, error) {
	if now.Nlink <= 1 || want.XattrsErr != nil {
		return false, nil
	}
	want = x.restored(want)
	// Who is not root gives nothing away, and replacing would come to the same each time.
	if x.differs(&now, &want) || x.ownersDiffer(&now, &want) && os.Geteuid() == 0 {
		return true, nil
	}
	if now.Kind == KindSymlink {
		return false, nil
	}
	d, base, err := x.place(path)
	if err != nil {
		return false, err
	}
	defer x.dirs.release(d)
	have, err := d.xattrs(base, now.Kind, false)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	return err == nil && x.xattrsDiffer(have, want.Xattrs), x.fail("read", path.String(), err)
}

// differs reports whether what is restored of want without a look at attributes and owners is not there already.
func (x *Extractor) differs(now, want *Meta) bool {
	link := want.Kind == KindSymlink
	return !x.opt.NoPermissions && !link && now.Mode != want.Mode ||
		!x.opt.NoTimes && (!link || linksHaveTimes) && !now.Mtime().Equal(want.Mtime())
}

// ownersDiffer is the same of the owners.
func (x *Extractor) ownersDiffer(now, want *Meta) bool {
	if !x.opt.SameOwner || !want.HasOwner || !now.HasOwner {
		return false
	}
	uid, gid, ok := x.owners.of(want)
	return !ok || now.UID != uint64(uid) || now.GID != uint64(gid)
}

// xattrsDiffer is the same of extended attributes and access control lists: one is missing, another than it was to be, or
// there though it was not stored.
func (x *Extractor) xattrsDiffer(have, want []Xattr) bool {
	restored := func(name string) bool {
		switch name {
		case xattrACL, xattrDefaultACL:
			return !x.opt.NoPermissions && storedXattr(name)
		case xattrCapability:
			return x.opt.KeepSetid && storedXattr(name)
		}
		return storedXattr(name)
	}
	named := func(list []Xattr, name string) int {
		return slices.IndexFunc(list, func(a Xattr) bool { return a.Name == name })
	}
	for _, a := range want {
		if i := named(have, a.Name); restored(a.Name) && (i < 0 || !bytes.Equal(have[i].Value, a.Value)) {
			return true
		}
	}
	for _, a := range have {
		removed := restored(a.Name) || a.Name == xattrCapability
		if removed && !strings.HasPrefix(a.Name, "com.apple.") && (named(want, a.Name) < 0 || !restored(a.Name)) {
			return true
		}
	}
	return false
}
