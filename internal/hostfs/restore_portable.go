//go:build !linux || hostfs_portable

package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// object is something whose metadata is restored: an open file, a directory, or a link.
type object struct {
	f    *hfile // nil for what is not open
	root *os.Root
	name string
	link bool
}

func (o object) chown(uid, gid int) error {
	switch {
	case o.f != nil:
		return o.f.f.Chown(uid, gid)
	case o.link:
		return o.root.Lchown(o.name, uid, gid)
	}
	return o.root.Chown(o.name, uid, gid)
}

func (o object) chmod(mode uint32) error {
	if o.f != nil {
		return o.f.f.Chmod(fileMode(mode))
	}
	if runtime.GOOS == "windows" { // a read-only directory means something else there
		return nil
	}
	return o.root.Chmod(o.name, fileMode(mode))
}

func (o object) setXattr(name string, value []byte) error {
	return o.open(func(f *hfile) error { return f.setXattr(name, value) })
}

// xattrs reads the extended attributes.
func (o object) xattrs() (xs []Xattr, err error) {
	err = o.open(func(f *hfile) error {
		xs, err = f.xattrs()
		return err
	})
	return xs, err
}

// removeXattr removes an attribute if there is one: none can be had of what is not opened.
func (o object) removeXattr(name string) error {
	if o.link {
		return nil
	}
	return o.open(func(f *hfile) error { return f.removeXattr(name) })
}

// open refuses a link, as opening follows it.
func (o object) open(fn func(*hfile) error) error {
	if o.f != nil {
		return fn(o.f)
	}
	if o.link {
		return errors.ErrUnsupported
	}
	f, err := o.root.Open(o.name)
	if err != nil {
		return err
	}
	defer f.Close()
	return fn(&hfile{f})
}

// settle closes a file, because closing it may set the time on some systems.
func (o object) settle() error {
	if o.f == nil {
		return nil
	}
	return o.f.close()
}

// setTime sets all but a link's own time, which cannot be set here.
func (o object) setTime(m *Meta) error {
	if o.link {
		return nil
	}
	if err := o.root.Chtimes(o.name, time.Time{}, m.Mtime()); err != nil {
		return err
	}
	return m.checkTime(func() (Meta, error) { return metaFrom(o.root.Lstat(o.name)) })
}

func (d *dir) object() object { return object{root: d.root, name: "."} }

func (d *dir) fileObject(f *hfile, name string) object {
	return object{f: f, root: d.root, name: name}
}

// node is what was just made under a name, a link.
func (d *dir) node(name string, _ Kind) (object, func(), error) {
	return object{root: d.root, name: name, link: true}, func() {}, nil
}

// findDefaults finds out what a directory gives to what is made in it.
func (d *dir) findDefaults() {
	if runtime.GOOS != "linux" {
		return
	}
	_ = d.object().open(func(f *hfile) error {
		d.inherits = f.hasXattr(xattrDefaultACL)
		return nil
	})
}

// linksHaveTimes says that a link's own time can be set.
const linksHaveTimes = false

func (d *dir) symlink(target, name string) error { return d.root.Symlink(target, name) }

// linkTime does nothing: a link's own time cannot be set here.
func (d *dir) linkTime(string, *Meta) error { return nil }

// mknod fails: there is no call for it that takes an open directory here.
func (d *dir) mknod(_ string, m *Meta) error {
	return fmt.Errorf("this system lets nobody make a %s safely: %w", m.Kind, errors.ErrUnsupported)
}

// hardlink gives a file a second name in another directory. Other than for a name that is taken, it may fail for
// many reasons, one of which is that the file system has no such links.
func (x *Extractor) hardlink(_, _ *dir, _, _, fromPath, toPath string) error {
	err := x.top.root.Link(fromPath, toPath)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrNoLink, unwrapPath(err))
	}
	return err
}

// truncate gives a file its size; what was not written is a hole.
func (f *hfile) truncate(size int64) error { return f.f.Truncate(size) }

// xattrs reads the extended attributes of a directory or a file. Nothing else is opened for that.
func (d *dir) xattrs(name string, kind Kind, follow bool) ([]Xattr, error) {
	switch kind {
	case KindDir:
		sub, err := d.sub(name, follow)
		if err != nil {
			return nil, err
		}
		defer sub.close()
		f, err := sub.root.Open(".")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return (&hfile{f}).xattrs()
	case KindFile:
		f, err := d.open(name, follow)
		if err != nil {
			return nil, err
		}
		defer f.close()
		return f.xattrs()
	}
	return nil, nil
}

// fileMode is the standard library's form of mode bits.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & modePerm)
	if mode&modeSetuid != 0 {
		m |= fs.ModeSetuid
	}
	if mode&modeSetgid != 0 {
		m |= fs.ModeSetgid
	}
	if mode&modeSticky != 0 {
		m |= fs.ModeSticky
	}
	return m
}
