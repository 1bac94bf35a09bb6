//go:build !linux || hostfs_portable

package hostfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

var errNotFile = errors.New("not a regular file")

// dir is an open directory; every name is looked up in it. os.Root follows links that stay inside of it,
// so each lookup here is first made without following and compared afterwards.
type dir struct {
	root     *os.Root
	host     string
	inherits bool // what is made in it gets an access control list that nobody asked for
}

// openTop opens a directory by a path of the user's, links and all.
func openTop(path string) (*dir, error) {
	r, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &dir{root: r, host: path}, nil
}

// sub opens the directory name. Unless follow is set a link is refused.
func (d *dir) sub(name string, follow bool) (*dir, error) {
	host := filepath.Join(d.host, name)
	if follow {
		// The link may lead anywhere; the user asked for that.
		return openTop(host)
	}
	before, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, errNotDir
	}
	r, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := r.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = errNotDir
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return &dir{root: r, host: host}, nil
}

// makeOpenable gives the owner of the directory name leave to look in, without which it cannot be opened here, and neither be
// changed by way of itself. was is what it was found to be: what has taken its place keeps its mode, as far as that shows.
func (d *dir) makeOpenable(name string, was *Meta) error {
	if was.Mode&0o500 == 0o500 || runtime.GOOS == "windows" {
		return nil
	}
	now, err := d.lookup(name, false)
	if err == nil && !now.sameObject(was) {
		err = ErrChanged
	}
	if err != nil {
		return err
	}
	return d.root.Chmod(name, fileMode(was.Mode|0o700))
}

func (d *dir) close() error { return d.root.Close() }

// names lists the directory in no order.
func (d *dir) names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d *dir) meta() (Meta, error) { return metaFrom(d.root.Stat(".")) }

// folds reports whether the directory compares names in another way than its file system: what is known of no directory here.
func (d *dir) folds() bool { return false }

// lookup describes what name is, or what it leads to.
func (d *dir) lookup(name string, follow bool) (Meta, error) {
	if follow {
		return metaFrom(os.Stat(filepath.Join(d.host, name)))
	}
	return metaFrom(d.root.Lstat(name))
}

func metaFrom(fi fs.FileInfo, err error) (Meta, error) {
	if err != nil {
		return Meta{}, err
	}
	return metaOf(fi), nil
}

func (d *dir) readlink(name string) (string, error) { return d.root.Readlink(name) }

// hfile is an open regular file.
type hfile struct{ f *os.File }

// open opens name for reading if it is a regular file. The caller checks that it is the right one.
func (d *dir) open(name string, follow bool) (*hfile, error) {
	var before fs.FileInfo
	var err error
	if follow {
		before, err = os.Stat(filepath.Join(d.host, name))
	} else {
		before, err = d.root.Lstat(name)
	}
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, errNotFile
	}
	var f *os.File
	if follow {
		f, err = os.OpenFile(filepath.Join(d.host, name), os.O_RDONLY|openNoWait, 0)
	} else {
		f, err = d.root.OpenFile(name, os.O_RDONLY|openNoWait, 0)
	}
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = errNotFile
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &hfile{f}, nil
}

// close closes the file, if settle has not done so.
func (f *hfile) close() error {
	err := f.f.Close()
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

func (f *hfile) meta() (Meta, error) { return metaFrom(f.f.Stat()) }

// readAt fills p from off on unless the file ends; 0 bytes and io.EOF are its end.
func (f *hfile) readAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *hfile) writeAt(p []byte, off int64) error {
	_, err := f.f.WriteAt(p, off)
	return err
}

func (d *dir) mkdir(name string, perm uint32) error { return d.root.Mkdir(name, fileMode(perm)) }
func (d *dir) remove(name string) error             { return d.root.Remove(name) }

// move renames from to to within the directory. Without replace an existing name is fs.ErrExist.
func (d *dir) move(from, to string, replace bool) error {
	if replace {
		return d.root.Rename(from, to)
	}
	// A second name for the file cannot replace anything.
	if err := d.root.Link(from, to); err == nil {
		return d.remove(from)
	} else if errors.Is(err, fs.ErrExist) {
		return err
	}
	return moveByClaim(d, from, to)
}

// claim creates name, which must not exist, as an empty file.
func (d *dir) claim(name string) error {
	f, err := d.createNamed(name, 0o600)
	if err != nil {
		return err
	}
	return f.close()
}

// createNamed creates the file name, which must not exist.
func (d *dir) createNamed(name string, perm uint32) (*hfile, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode(perm))
	if err != nil {
		return nil, err
	}
	return &hfile{f}, nil
}

// createAnon always returns errNoAnon.
func (d *dir) createAnon(uint32) (*hfile, error) { return nil, errNoAnon }

// link is never reached, because there are no anonymous files.
func (d *dir) link(*hfile, string) error { return errNoAnon }
