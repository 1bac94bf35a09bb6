package hostfs

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"lockbox/internal/pathsafe"
)

// existing is what something that was there before has of its own, and what restoring does about that: nothing of it
// stays that was not stored.
type existing struct {
	o      object
	mode   uint32
	xattrs []Xattr
	opened bool // its owner was given leave to write
}

// existingOf describes what was there before; now is what it is.
func existingOf(o object, now *Meta) (*existing, error) {
	e := &existing{o: o, mode: now.Mode}
	if now.Kind != KindFile && now.Kind != KindDir {
		return e, nil
	}
	var err error
	if e.xattrs, err = o.xattrs(); errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return e, err
}

// has reports whether an attribute has a value already. Of capabilities nothing is known: a change of owner has cost them.
func (e *existing) has(name string, value []byte) bool {
	return e != nil && name != xattrCapability && slices.ContainsFunc(e.xattrs, func(a Xattr) bool { return a.Name == name && bytes.Equal(a.Value, value) })
}

// open lets the owner write, without which he cannot change attributes. The mode is set afterwards, or put back by close.
func (e *existing) open() {
	if e == nil || e.opened || e.mode&0o200 != 0 {
		return
	}
	e.opened = e.o.chmod(e.mode&^(modeSetuid|modeSetgid)|0o200) == nil // what comes next says what the matter is
}

// close takes back open.
func (e *existing) close() error {
	if e == nil || !e.opened {
		return nil
	}
	return e.o.chmod(e.mode &^ (modeSetuid | modeSetgid))
}

// clear removes what is not among wanted: the user's attributes, and capabilities. Access control lists are restore's.
func (e *existing) clear(wanted []Xattr, try func(what string, err error)) {
	for _, a := range e.xattrs {
		// macOS adds attributes of its own to any file, and may not let go of them.
		if a.Name == xattrACL || a.Name == xattrDefaultACL || strings.HasPrefix(a.Name, "com.apple.") ||
			slices.ContainsFunc(wanted, func(w Xattr) bool { return w.Name == a.Name }) {
			continue
		}
		e.open()
		try("its attribute "+pathsafe.Quote(a.Name)+", which was not stored", e.o.removeXattr(a.Name))
	}
}
