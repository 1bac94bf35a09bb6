package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"lockbox/internal/pathsafe"
)

// Output is a file that is being extracted. WriteAt may be called by several goroutines at once for
// ranges that do not overlap; Commit and Abort are for one. It must end in Commit or Abort.
type Output struct {
	x       *Extractor
	path    string
	base    string
	m       Meta
	dir     *cached[string]
	f       *hfile
	temp    string // "" for an anonymous file
	written atomic.Int64
	want    int64 // bytes of data
	done    bool
}

// File starts a file of m.Size bytes, of which the holes of m.Sparse are not to be written. It appears under its
// name when it is committed.
func (x *Extractor) File(path pathsafe.Path, m Meta) (*Output, error) {
	o := &Output{x: x}
	if err := o.start(path, m); err != nil {
		return nil, err
	}
	return o, nil
}

// WriteFile extracts a whole file. m.Size is not looked at.
func (x *Extractor) WriteFile(path pathsafe.Path, m Meta, data []byte) error {
	o := Output{x: x}
	m.Size, m.Sparse = int64(len(data)), nil
	if err := o.start(path, m); err != nil {
		return err
	}
	if len(data) > 0 {
		if _, err := o.WriteAt(data, 0); err != nil {
			return errors.Join(err, o.Abort())
		}
	}
	return o.Commit()
}

func (o *Output) start(path pathsafe.Path, m Meta) error {
	var err error
	o.path, o.m, o.want = path.String(), o.x.restored(m), m.DataSize()
	o.m.Kind = KindFile
	if o.dir, o.base, err = o.x.place(path); err != nil {
		return err
	}
	perm := uint32(0o600) // until it is complete the file is its owner's alone
	if o.x.opt.NoPermissions {
		perm = 0o666
	}
	if err := o.create(perm); err != nil {
		o.x.dirs.release(o.dir)
		return o.x.fail("create", o.path, err)
	}
	if o.m.Sparse != nil {
		o.f.expectHoles()
	}
	return nil
}

func (o *Output) create(perm uint32) (err error) {
	x := o.x
	x.live.RLock()
	defer x.live.RUnlock()
	if x.aborted.Load() {
		return ErrAborted
	}
	if x.anon {
		if o.f, err = o.dir.createAnon(perm); !errors.Is(err, errNoAnon) {
			return err
		}
	}
	temp := tempName()
	if o.f, err = o.dir.createNamed(temp, perm); err == nil {
		o.temp = temp
		x.addTemp(temp, o.dir)
	}
	return err
}

func (x *Extractor) addTemp(name string, d *cached[string]) {
	x.tempsMu.Lock()
	x.temps[name] = d
	x.tempsMu.Unlock()
}

func (x *Extractor) dropTemp(name string) {
	x.tempsMu.Lock()
	delete(x.temps, name)
	x.tempsMu.Unlock()
}

// WriteAt writes p at off; nothing may lie beyond the size.
func (o *Output) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > o.m.Size || int64(len(p)) > o.m.Size-off {
		return 0, o.x.fail("write", o.path, fmt.Errorf("%d bytes at %d lie beyond the size of %d", len(p), off, o.m.Size))
	}
	if err := o.f.writeAt(p, off); err != nil {
		return 0, o.x.fail("write", o.path, unwrapPath(err))
	}
	o.written.Add(int64(len(p)))
	return len(p), nil
}

// Commit gives the file its metadata and its name. It fails, and leaves nothing, when the bytes
// written do not add up to the data, and with fs.ErrExist when the name is taken and Overwrite is not
// set.
func (o *Output) Commit() error {
	if o.done {
		return o.x.fail("create", o.path, fs.ErrClosed)
	}
	if n := o.written.Load(); n != o.want {
		err := o.x.fail("create", o.path, fmt.Errorf("%d of %d bytes were written", n, o.want))
		return errors.Join(err, o.Abort())
	}
	err := o.complete()
	if err == nil {
		err = o.publish()
	}
	if err != nil {
		if o.x.aborted.Load() { // whatever failed, it is because the temporary name is gone
			err = ErrAborted
		}
		return errors.Join(o.x.fail("create", o.path, err), o.Abort())
	}
	o.done = true
	err = o.f.close()
	o.x.dirs.release(o.dir)
	return o.x.fail("close", o.path, err)
}

// complete gives the file its size and its metadata.
func (o *Output) complete() error {
	if o.m.Sparse != nil {
		if err := o.f.truncate(o.m.Size); err != nil {
			return err
		}
	}
	if o.m.Nlink > 1 {
		m, err := o.f.meta()
		if err != nil {
			return err
		}
		o.x.mu.Lock()
		o.x.origins[o.path] = origin{m.Dev, m.Ino}
		o.x.mu.Unlock()
	}
	return o.x.restore(o.dir.fileObject(o.f, o.temp), o.path, &o.m, o.dir.inherits, nil)
}

// publish gives the complete file its name.
func (o *Output) publish() error {
	x := o.x
	x.live.RLock()
	defer x.live.RUnlock()
	if x.aborted.Load() {
		return ErrAborted
	}
	if o.temp == "" {
		err := o.dir.link(o.f, o.base)
		if !errors.Is(err, fs.ErrExist) || !x.replaces(o.path) {
			return err
		}
		// A link cannot replace anything, a rename can. Abort waits until that is done.
		temp := tempName()
		if err := o.dir.link(o.f, temp); err != nil {
			return err
		}
		if err := o.dir.move(temp, o.base, true); err != nil {
			return errors.Join(err, o.dir.remove(temp))
		}
		return nil
	}
	if err := o.dir.move(o.temp, o.base, x.replaces(o.path)); err != nil {
		return err
	}
	x.dropTemp(o.temp)
	o.temp = ""
	return nil
}

// Abort drops the file. After Commit or Abort it does nothing.
func (o *Output) Abort() error {
	if o.done {
		return nil
	}
	o.done = true
	err := o.f.close()
	if o.temp != "" {
		o.x.live.RLock()
		if !o.x.aborted.Load() {
			err = errors.Join(err, o.dir.remove(o.temp))
		}
		o.x.live.RUnlock()
		o.x.dropTemp(o.temp)
	}
	o.x.dirs.release(o.dir)
	return o.x.fail("drop", o.path, err)
}
