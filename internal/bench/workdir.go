package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockbox/internal/vfs"
)

const (
	workPrefix = "lockbox-bench-"
	lockName   = "lock"
	// spareBytes is left on the device beside what the workloads need.
	spareBytes = 16 << 20
)

// NoSpaceError says that the directory for work files cannot hold them.
type NoSpaceError struct {
	Dir        string
	Need, Free int64
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("%s has %d MB free; what is to be measured needs %d MB", e.Dir, e.Free/1e6, e.Need/1e6)
}

// UnusableError says that no work files can be made in a directory.
type UnusableError struct {
	Dir string
	Err error
}

func (e *UnusableError) Error() string { return fmt.Sprintf("cannot use %s: %v", e.Dir, e.Err) }
func (e *UnusableError) Unwrap() error { return e.Err }

// workDir is the directory of a run's work files. The lock in it tells other runs that it is in use.
type workDir struct {
	name string
	lock vfs.File
}

// newWorkDir makes the directory, when there is room for need bytes, after removing what killed runs left.
func newWorkDir(below string, need int64) (*workDir, error) {
	removeStale(below)
	free, err := freeSpace(below)
	if err != nil {
		return nil, fmt.Errorf("asking for the free space of %s: %w", below, err)
	}
	if need += spareBytes; free < need {
		return nil, &NoSpaceError{below, need, free}
	}
	for try := 0; ; try++ {
		d := &workDir{}
		if d.name, err = os.MkdirTemp(below, workPrefix); err != nil {
			return nil, &UnusableError{below, err}
		}
		mine, err := d.take()
		switch {
		case err == nil && mine:
			return d, nil
		case err == nil && try == 10:
			err = fmt.Errorf("%s: other runs take every new directory away", below)
		case err == nil:
			_ = d.remove() // the other run's work
			continue
		}
		return nil, errors.Join(err, d.remove())
	}
}

// take locks the directory. It is false when another run took the directory for a stale one before that. On a file
// system without locks it goes without: then nobody removes it as stale either.
func (d *workDir) take() (mine bool, err error) {
	name := filepath.Join(d.name, lockName)
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return false, err
	}
	if d.lock, err = vfs.OS().Open(name, true); err != nil {
		return false, err
	}
	switch mine, err = d.lock.TryLock(0, 1, true); {
	case errors.Is(err, vfs.ErrLockUnsupported):
		return true, nil
	case err != nil || !mine:
		return false, err
	}
	return d.lock.SameFile(name)
}

func (d *workDir) remove() error {
	var err error
	if d.lock != nil {
		err = d.lock.Close()
	}
	return errors.Join(err, os.RemoveAll(d.name))
}

// removeStale removes work directories whose run was killed: their lock is free. It is a courtesy, so what cannot be
// removed stays.
func removeStale(below string) {
	entries, err := os.ReadDir(below)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), workPrefix) {
			continue
		}
		dir := filepath.Join(below, e.Name())
		lock := filepath.Join(dir, lockName)
		if fi, err := os.Lstat(lock); err != nil || fi.Mode().Type() != fs.FileMode(0) {
			continue
		}
		f, err := vfs.OS().Open(lock, true)
		if err != nil {
			continue
		}
		free, err := f.TryLock(0, 1, true)
		_ = f.Close()
		if free && err == nil {
			_ = os.RemoveAll(dir)
		}
	}
}
