package hostfs

import "os"

// locked is a directory of the destination that was opened up, and the mode that it had.
type locked struct {
	mode     uint32
	dev, ino uint64
}

// unlock lets the owner write into a directory whose mode Finish is going to set anyway. It stands in up under the name base.
func (x *Extractor) unlock(up *dir, base, path string, there Meta) error {
	if err := up.makeOpenable(base, &there); err != nil {
		return x.fail("unlock", path, err)
	}
	d, err := x.dirs.acquire(path)
	if err != nil {
		return err
	}
	defer x.dirs.release(d)
	there.Mode |= 0o700
	return x.fail("unlock", path, d.object().chmod(there.Mode))
}

// opens reports whether a directory that an entry finds is to be opened up until Finish: where existing files are dealt
// with, one that its owner may not look into or write to, and as who owns it and is not root the user can do that.
func (x *Extractor) opens(m *Meta) bool {
	me := os.Geteuid()
	return (x.opt.Overwrite || x.opt.SkipExisting || x.opt.Resume) && m.Mode&0o700 != 0o700 && m.HasOwner && me > 0 && m.UID == uint64(me)
}

// openUp opens up a directory, which stands in up under the name base. What fails here shows in what is looked up or made
// there.
func (p *preflight) openUp(up *dir, base, path string, was *Meta) {
	if up.makeOpenable(base, was) != nil {
		return
	}
	d, err := p.dirs.acquire(path)
	if err != nil {
		return
	}
	defer p.dirs.release(d)
	now, err := d.meta()
	if err != nil || !now.sameObject(was) || d.object().chmod(now.Mode|0o700) != nil {
		return
	}
	p.x.mu.Lock()
	p.x.opened[path] = locked{was.Mode, now.Dev, now.Ino}
	p.x.mu.Unlock()
}

// putBack gives a directory that was opened up the mode that it had.
func (l locked) putBack(d *dir) error {
	now, err := d.meta()
	if err != nil || now.Dev != l.dev || now.Ino != l.ino {
		return err
	}
	return d.object().chmod(l.mode)
}
