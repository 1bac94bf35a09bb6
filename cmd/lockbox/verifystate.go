package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// stateFile is the file of --state: how far the passes over some archives have come. Beside it stands a file that a
// run keeps locked, because the state itself is replaced.
type stateFile struct {
	name   string
	lock   vfs.File
	states verify.States
}

// lockSuffix is what the lock file's name has at its end, badSuffix what a file gets that is no state.
const (
	lockSuffix = ".lock"
	badSuffix  = ".bad"
)

// openState locks and reads the state. One that cannot be used is a warning, and every pass begins anew.
func (a *app) openState(name string) (*stateFile, error) {
	s := &stateFile{name: name, states: make(verify.States)}
	if err := s.takeLock(); err != nil {
		return nil, err
	}
	b, err := readState(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err == nil:
		var states verify.States
		if states, err = verify.DecodeStates(b); err == nil {
			s.states = states
			return s, nil
		}
		// It may be something else of the user's.
		if err = errors.Join(setAside(name, name+badSuffix), vfs.OS().SyncDir(filepath.Dir(name))); err == nil {
			a.say.Warnf("%s is damaged or no state of verify; it is now called %s, and every pass begins anew", quoted(name), quoted(name+badSuffix))
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("cannot read the state in %s: %w", quoted(name), withoutPath(err)), s.close())
}

// setAside renames a file without replacing another.
func setAside(name, to string) error {
	err := vfs.OS().Link(name, to)
	if errors.Is(err, vfs.ErrNoLinks) {
		if _, serr := os.Lstat(to); errors.Is(serr, fs.ErrNotExist) {
			return vfs.OS().Rename(name, to)
		}
		err = fs.ErrExist
	}
	if errors.Is(err, fs.ErrExist) {
		return &failure{code: exitFailed, err: fmt.Errorf("it is damaged or no state of verify, and there is a %s already", quoted(to)),
			hint: "look at " + quoted(to) + ", then move it away or remove it: until then nothing is verified with this state"}
	}
	if err != nil {
		return err
	}
	return vfs.OS().Remove(name)
}

// readState reads a state file, as far as one can be long.
func readState(name string) (b []byte, err error) {
	f, err := vfs.OS().Open(name, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n > verify.MaxStates {
		return nil, nil // which is no state
	}
	b = make([]byte, n)
	if _, err = f.ReadAt(b, 0); errors.Is(err, io.EOF) {
		err = nil // it has changed: then its checksum does not fit
	}
	return b, err
}

func (s *stateFile) takeLock() error {
	name := s.name + lockSuffix
	made, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = made.Close()
	}
	if err == nil {
		s.lock, err = vfs.OS().Open(name, true)
	}
	if err != nil {
		return fmt.Errorf("cannot lock the state: cannot open %s: %w", quoted(name), withoutPath(err))
	}
	ok, err := s.lock.TryLock(0, 1, true)
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("cannot lock the state %s: %w", quoted(s.name), withoutPath(err)), s.close())
	case !ok:
		return errors.Join(&failure{code: exitBusy, err: fmt.Errorf("another run of verify uses the state %s", quoted(s.name)),
			hint: "wait until it has ended, or use a state of its own"}, s.close())
	}
	return nil
}

func (s *stateFile) close() error { return s.lock.Close() }

// stateKey is what an archive is called in a state.
func stateKey(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return filepath.Clean(name)
}

// of returns how far the pass over an archive has come.
func (s *stateFile) of(name string) *verify.State {
	if known := s.states[stateKey(name)]; known != nil {
		return known
	}
	return &verify.State{}
}

// keepState puts down how far a run came, also when it was interrupted.
func (v *verifying) keepState(o *outcome) error {
	if v.state == nil || o.check == nil || o.check.sum.Part == nil {
		return nil
	}
	v.state.states[stateKey(o.name)] = o.check.sum.Part.State
	b := v.state.states.Encode()
	if b == nil {
		return fmt.Errorf("the state in %s would grow too long: use one for fewer archives", quoted(v.state.name))
	}
	if err := vfs.ReplaceFile(v.state.name, 0o600, b); err != nil {
		return fmt.Errorf("cannot write the state to %s: %w", quoted(v.state.name), withoutPath(err))
	}
	return nil
}

// preparePlace makes sure, before hours of work, that a file can be made or replaced where its name says, and has it stand
// for what a link names.
func preparePlace(name *string) error {
	if *name == "" {
		return nil
	}
	to, err := throughLinks(*name)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", quoted(*name), withoutPath(err))
	}
	if fi, err := os.Stat(filepath.Dir(to)); err != nil || !fi.IsDir() {
		return fmt.Errorf("cannot write %s: there is no directory %s", quoted(*name), quoted(filepath.Dir(to)))
	}
	if err := vfs.CheckReplace(to); errors.Is(err, vfs.ErrNotRegular) {
		return fmt.Errorf("cannot write %s: it is not a regular file", quoted(*name))
	} else if err != nil {
		return fmt.Errorf("cannot write %s: %w", quoted(*name), withoutPath(err))
	}
	if stream := streamInto(to); stream != "" {
		return fmt.Errorf("cannot write %s: %s goes into that file, which would be replaced with all that is in it", quoted(*name), stream)
	}
	*name = to
	return nil
}

// streamInto names what this process prints into the file name, as a shell's redirection has it, or "". On Linux
// /dev/stdout leads to the name of such a file, too.
func streamInto(name string) string {
	at, err := os.Stat(name)
	if err != nil {
		return "" // it is still to be made
	}
	for _, s := range []struct {
		file *os.File
		name string
	}{{os.Stdout, "standard output"}, {os.Stderr, "standard error"}} {
		if fi, err := s.file.Stat(); err == nil && os.SameFile(fi, at) {
			return s.name
		}
	}
	return ""
}
