package hostfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"lockbox/internal/pathsafe"
)

// ErrNoLink is the kind of the error for a file that cannot get a second name.
var ErrNoLink = errors.New("the file system makes no hard link here")

var aclNames = [2]string{xattrACL, xattrDefaultACL}

// errForeign is why what another system keeps in an attribute is not restored.
var errForeign = errors.New("attributes of this kind are not restored here")

// Foreign counts the entries with attributes that are never restored, as they would say something of this machine instead of
// the file. Lost is not told of them.
func (x *Extractor) Foreign() uint64 { return x.foreign.Load() }

// restore gives an object what is to be restored of m. The order matters: a new owner costs the setuid bits and
// the capabilities, and attributes can be written while the mode lets their owner write. inherited says that the
// object may have an access control list that is not its own; was, if not nil, describes what existed before, which ends
// with what was stored and nothing else. What cannot be restored is told to Lost and leaves the object with less, never
// with more than it was to have; an error is about its bytes.
func (x *Extractor) restore(o object, path string, m *Meta, inherited bool, was *Meta) error {
	var lost []error
	mode, owned := m.Mode, true
	try := func(what string, err error) {
		if err != nil {
			lost = append(lost, fmt.Errorf("%s: %w", what, unwrapPath(err)))
		}
	}
	var before *existing
	if was != nil {
		var err error
		before, err = existingOf(o, was)
		try("its attributes", err)
	}
	if x.opt.SameOwner && m.HasOwner {
		uid, gid, ok := x.owners.of(m)
		err := error(fs.ErrInvalid)
		if ok {
			err = o.chown(uid, gid)
		}
		if err != nil {
			mode &^= modeSetuid | modeSetgid
			owned = false
		}
		try("its owner", err)
	}
	setXattr := func(name string, value []byte) error {
		if !storedXattr(name) {
			return errForeign
		}
		if before.has(name, value) {
			return nil
		}
		before.open()
		return o.setXattr(name, value)
	}
	var acl [2][]byte // by number in aclNames
	foreign := false
	var restored []Xattr
	for _, a := range m.Xattrs {
		switch a.Name {
		case xattrACL:
			acl[0] = a.Value
		case xattrDefaultACL:
			acl[1] = a.Value
		case xattrCapability:
			if x.opt.KeepSetid && owned {
				restored = append(restored, a)
				try("its capabilities", setXattr(a.Name, a.Value))
			}
		default:
			if !storedXattr(a.Name) {
				foreign = true
				continue
			}
			restored = append(restored, a)
			try("its attribute "+pathsafe.Quote(a.Name), setXattr(a.Name, a.Value))
		}
	}
	if foreign {
		x.foreign.Add(1)
	}
	if before != nil && m.XattrsErr == nil {
		before.clear(restored, try)
	}
	if m.XattrsErr != nil {
		lost = append(lost, m.XattrsErr)
		mode = modeWithoutACL(mode, nil)
	}
	setMode := func() {
		if x.opt.NoPermissions || m.Kind == KindSymlink {
			try("its mode", before.close())
			return
		}
		for i, name := range aclNames {
			if acl[i] != nil {
				err := setXattr(name, acl[i])
				if err == nil {
					continue
				}
				try("its access control list", err)
				if name == xattrACL {
					mode = modeWithoutACL(mode, acl[i])
				}
			}
			if (inherited || was != nil) && (name == xattrACL || m.Kind == KindDir) {
				try("its access control list", o.removeXattr(name))
			}
		}
		try("its mode", o.chmod(mode))
	}
	setTime := func() {
		if !x.opt.NoTimes {
			try("its time", o.setTime(m))
		}
	}
	if m.Kind == KindDir {
		setTime() // the mode may leave no way to do it
		setMode()
	} else {
		setMode()
		if err := o.settle(); err != nil {
			return err
		}
		setTime()
	}
	x.lost(path, lost)
	return nil
}

// Tags of the entries of an access control list, as the system stores it: four bytes of version, then for each entry
// two of tag, two of permissions and four of who it is.
const (
	aclUser  = 0x02 // a named one
	aclOwn   = 0x04 // the owning group
	aclGroup = 0x08 // a named one
)

// modeWithoutACL is the mode of what cannot get its access control list. Beside one, the group's bits are the most that
// anybody whom it names may have, and who is named gets nothing of what others have. Without it, the group and the others
// get what they had and everybody who was named had, too. nil is a list of which nothing is known: only the owner is sure.
func modeWithoutACL(mode uint32, acl []byte) uint32 {
	if acl == nil {
		return mode &^ 0o077
	}
	mask, named, group := mode>>3&7, uint32(7), uint32(0)
	for e := acl[min(4, len(acl)):]; len(e) >= 8; e = e[8:] {
		perm := uint32(binary.LittleEndian.Uint16(e[2:]))
		switch binary.LittleEndian.Uint16(e) {
		case aclUser, aclGroup:
			named &= perm & mask
		case aclOwn:
			group = perm & mask
		}
	}
	return mode&^0o077 | (group&named)<<3 | mode&7&named
}

// What every file system can keep as a time: from 1980, the first year of FAT, to 2038, when 32 bits end.
const firstTime, lastTime = 315532800 + 86400, 1<<31 - 1 - 86400

// checkTime finds out whether a time far from now was kept. A file system that cannot hold it takes the nearest that it
// can, without a word. How precisely it keeps times is not looked at.
func (m *Meta) checkTime(now func() (Meta, error)) error {
	if m.MtimeSec > firstTime && m.MtimeSec < lastTime {
		return nil
	}
	got, err := now()
	if err != nil {
		return err
	}
	if d := got.MtimeSec - m.MtimeSec; d < -2 || d > 2 {
		return fmt.Errorf("the file system took %s for it", got.Mtime().UTC().Format(time.DateOnly))
	}
	return nil
}

// lost tells of metadata that could not be restored.
func (x *Extractor) lost(path string, errs []error) {
	if len(errs) > 0 && x.opt.Lost != nil {
		x.opt.Lost(path, errors.Join(errs...))
	}
}

// Special makes a FIFO or a device.
// Its Kind tells which.
func (x *Extractor) Special(path pathsafe.Path, m Meta) error {
	return x.node(path, "make", m, func(d *dir, name string) error { return d.mknod(name, &m) })
}

// Symlink makes a link to m.Target, which is not looked at.
func (x *Extractor) Symlink(path pathsafe.Path, m Meta) error {
	m.Kind = KindSymlink
	if x.opt.SameOwner || x.replaces(path.String()) {
		return x.node(path, "link", m, func(d *dir, name string) error { return d.symlink(m.Target, name) })
	}
	d, base, err := x.place(path)
	if err != nil {
		return err
	}
	defer x.dirs.release(d)
	x.live.RLock()
	defer x.live.RUnlock()
	if x.aborted.Load() {
		return x.fail("link", path.String(), ErrAborted)
	}
	if err = d.symlink(m.Target, base); err == nil && !x.opt.NoTimes {
		if err := d.linkTime(base, &m); err != nil {
			x.lost(path.String(), []error{fmt.Errorf("its time: %w", err)})
		}
	}
	return x.fail("link", path.String(), err)
}

// node makes something without bytes under a temporary name, and gives it its metadata and its name.
func (x *Extractor) node(path pathsafe.Path, op string, m Meta, create func(d *dir, name string) error) error {
	d, base, err := x.place(path)
	if err != nil {
		return err
	}
	defer x.dirs.release(d)
	m = x.restored(m)
	x.live.RLock()
	defer x.live.RUnlock()
	if x.aborted.Load() {
		return x.fail(op, path.String(), ErrAborted)
	}
	temp := tempName()
	if err := create(d.dir, temp); err != nil {
		return x.fail(op, path.String(), err)
	}
	if err = x.restoreNode(d, temp, path.String(), &m, nil); err == nil {
		err = d.move(temp, base, x.replaces(path.String()))
	}
	if err != nil {
		_ = d.remove(temp)
	}
	return x.fail(op, path.String(), err)
}

// restoreNode gives something without bytes its metadata; was is for what existed before.
func (x *Extractor) restoreNode(d *cached[string], name, path string, m, was *Meta) error {
	o, closeNode, err := d.node(name, m.Kind)
	if err != nil {
		return err
	}
	defer closeNode()
	return x.restore(o, path, m, d.inherits, was)
}

// origin is a file that is to get further names.
type origin struct{ dev, ino uint64 }

// Link gives a file that this Extractor has written with Meta.Nlink above 1, or keeps, another name. It fails with ErrNoLink
// where that cannot be done, and with ErrChanged when the first name leads to something else by now.
func (x *Extractor) Link(first, path pathsafe.Path) error {
	from, fromBase, err := x.place(first)
	if err != nil {
		return err
	}
	defer x.dirs.release(from)
	to, base, err := x.place(path)
	if err != nil {
		return err
	}
	defer x.dirs.release(to)
	x.live.RLock()
	defer x.live.RUnlock()
	if x.aborted.Load() {
		return x.fail("link", path.String(), ErrAborted)
	}
	x.mu.Lock()
	want, written := x.origins[first.String()]
	x.mu.Unlock()
	if !written {
		return x.fail("link", path.String(), fmt.Errorf("%s was not written", pathsafe.Quote(first.String())))
	}
	temp := tempName()
	tempPath := temp
	if parent, _ := splitPath(path.String()); parent != "" {
		tempPath = parent + "/" + temp
	}
	if err := x.hardlink(from.dir, to.dir, fromBase, temp, first.String(), tempPath); err != nil {
		return x.fail("link", path.String(), err)
	}
	m, err := to.lookup(temp, false)
	if err == nil && (m.Kind != KindFile || m.Dev != want.dev || m.Ino != want.ino) {
		err = fmt.Errorf("%w: %s was replaced", ErrChanged, pathsafe.Quote(first.String()))
	}
	if err == nil {
		err = to.move(temp, base, x.replaces(path.String()))
	}
	// Where both names lead to one file already, a rename does nothing.
	if rerr := to.remove(temp); err == nil && rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = rerr
	}
	return x.fail("link", path.String(), err)
}
