package hostfs

import (
	"errors"
	"fmt"

	"lockbox/internal/pathsafe"
)

// identity is what tells a file that was compared from one that has taken its place.
type identity struct {
	dev, ino  uint64
	size      int64
	mtimeSec  int64
	mtimeNsec uint32
}

func identityOf(m *Meta) identity {
	return identity{m.Dev, m.Ino, m.Size, m.MtimeSec, m.MtimeNsec}
}

// Exists reports whether Preflight found path to exist already, as what is to be extracted, with Resume.
func (x *Extractor) Exists(path pathsafe.Path) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.existing[path.String()]
}

// OpenExisting opens a file of the destination for reading, and no link.
func (x *Extractor) OpenExisting(path pathsafe.Path) (*Source, error) {
	d, base, err := x.place(path)
	if err != nil {
		return nil, err
	}
	defer x.dirs.release(d)
	f, m, err := openPlain(d.dir, base)
	if err != nil {
		return nil, x.fail("open", path.String(), err)
	}
	if m.Sparse, err = new(env).holes(f, &m); err != nil {
		return nil, x.fail("read", path.String(), errors.Join(err, f.close()))
	}
	return newSource(m, f, &Item{host: x.hostOf(path.String())}), nil
}

// openPlain opens a regular file.
func openPlain(d *dir, base string) (*hfile, Meta, error) {
	f, err := d.open(base, false)
	if err != nil {
		return nil, Meta{}, err
	}
	m, err := f.meta()
	if err == nil && m.Kind != KindFile {
		err = fmt.Errorf("it is a %s, not a file", m.Kind)
	}
	if err != nil {
		return nil, Meta{}, errors.Join(err, f.close())
	}
	return f, m, nil
}

// ReadExisting returns the target of a link of the destination.
func (x *Extractor) ReadExisting(path pathsafe.Path) (string, error) {
	d, base, err := x.place(path)
	if err != nil {
		return "", err
	}
	defer x.dirs.release(d)
	target, err := d.readlink(base)
	return target, x.fail("read", path.String(), err)
}

// DescribeExisting says what stands in the destination.
func (x *Extractor) DescribeExisting(path pathsafe.Path) (Meta, error) {
	d, base, err := x.place(path)
	if err != nil {
		return Meta{}, err
	}
	defer x.dirs.release(d)
	m, err := d.lookup(base, false)
	return m, x.fail("stat", path.String(), err)
}

// Keep takes note that what exists is what would be extracted: Skipped reports it from now on, and Link makes names of it. m is
// what a file was when it was compared.
func (x *Extractor) Keep(path pathsafe.Path, m Meta) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.skipped[path.String()] = true
	x.kept[path.String()] = identityOf(&m)
	x.origins[path.String()] = origin{m.Dev, m.Ino}
}

// Kept reports whether path is kept, and whether it is another name of the file with the path first, which is kept, too.
func (x *Extractor) Kept(path, first pathsafe.Path) (kept, same bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a, kept := x.kept[path.String()]
	b, other := x.kept[first.String()]
	return kept, other && a == b
}

// Replace takes back Keep: what is there may be replaced, as it is equal to what is to be there.
func (x *Extractor) Replace(path pathsafe.Path) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.skipped, path.String())
	delete(x.kept, path.String())
	delete(x.origins, path.String())
	x.replace[path.String()] = true
}

// replaces reports whether what is at path may be replaced.
func (x *Extractor) replaces(path string) bool {
	if x.opt.Overwrite {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.replace[path]
}

// Restore gives what is kept the metadata of m, and no other, provided a file is the one that was compared.
// What has other names stays as it is, which Lost is told when its mode, time or owner differ: they may lie outside of
// the destination. Tied finds out before.
func (x *Extractor) Restore(path pathsafe.Path, m Meta) error {
	x.mu.Lock()
	was, ok := x.kept[path.String()]
	x.mu.Unlock()
	if !ok {
		return nil
	}
	d, base, err := x.place(path)
	if err != nil {
		return err
	}
	defer x.dirs.release(d)
	m = x.restored(m)
	if m.Kind != KindFile {
		now, err := d.lookup(base, false)
		switch {
		case err != nil || now.Kind != m.Kind:
		case now.Nlink <= 1:
			err = x.restoreNode(d, base, path.String(), &m, &now)
		case x.differs(&now, &m) || x.ownersDiffer(&now, &m):
			x.lost(path.String(), []error{errOtherNames})
		}
		return x.fail("restore", path.String(), err)
	}
	f, now, err := openPlain(d.dir, base)
	if err != nil {
		return x.fail("open", path.String(), err)
	}
	switch {
	case identityOf(&now) != was:
		err = ErrChanged
	case now.Nlink <= 1:
		err = x.restore(d.fileObject(f, base), path.String(), &m, d.inherits, &now)
	case m.XattrsErr != nil:
		x.lost(path.String(), []error{m.XattrsErr, errOtherNames})
	case x.differs(&now, &m) || x.ownersDiffer(&now, &m):
		x.lost(path.String(), []error{errOtherNames})
	}
	return x.fail("restore", path.String(), errors.Join(err, f.close()))
}

var errOtherNames = errors.New("its metadata: it has other names, which may lie elsewhere")
