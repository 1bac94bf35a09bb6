package lockbox

import (
	"context"
	"errors"
	"io/fs"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// The kinds of failure, for errors.Is, beside fs.ErrNotExist, fs.ErrExist, fs.ErrInvalid and fs.ErrClosed.
var (
	// ErrCorrupt: bytes of the archive are not what was written.
	ErrCorrupt = format.ErrCorrupt
	// ErrAuth: no key or the wrong one, a signer that is not pinned, a root that is not the expected one.
	ErrAuth = format.ErrAuth
	// ErrNotLockbox: the file is not an archive.
	ErrNotLockbox = format.ErrNotLockbox
	// ErrVersion: a later format, or a feature that this package does not know.
	ErrVersion = format.ErrVersion
	// ErrBusy: another writer had the archive for longer than Options.LockTimeout.
	ErrBusy = format.ErrBusy
	// ErrPoisoned: an earlier write or sync of this handle has failed. It can only be closed; opening it again
	// repairs.
	ErrPoisoned = format.ErrPoisoned
	// ErrChanged: the state that was read is no longer the archive's, or the file was changed by something else than
	// a commit.
	ErrChanged = format.ErrChanged
	// ErrConflict: something would be stored below what is not a directory. Commit finds it.
	ErrConflict = store.ErrConflict
	// ErrOutcomeUnknown: Commit failed while it published. The archive is exactly the old or exactly the new state;
	// opening it again shows which.
	ErrOutcomeUnknown = store.ErrOutcomeUnknown
	// ErrUnstorable: the format cannot hold the entry.
	ErrUnstorable = store.ErrUnstorable
	// ErrSourceChanged: a file changed while it was read, or has another length than it said.
	ErrSourceChanged = store.ErrSourceChanged
	// ErrReadOnly: the handle was opened with Open and not with OpenWrite.
	ErrReadOnly = errors.New("the archive is open for reading only")
	// ErrTransaction: the handle has a transaction that has not ended.
	ErrTransaction = errors.New("a transaction is already open")
	// ErrUncommitted: Remove or Rename would concern what the same transaction has put.
	ErrUncommitted = errors.New("it was put by this transaction and is not committed")
	// ErrUntidy: the commits are made and safe, but overwriting what they removed did not come to its end. The next
	// change finishes it.
	ErrUntidy = errors.New("the change is made, tidying up after it is not finished")
)

// Error says what failed and where.
type Error struct {
	Op      string // what was being done: "open", "read", "list", "put", "commit", ...
	Archive string // the archive's file
	Entry   string // the stored path that it is about, or ""
	Record  string // the part of the archive, in the words of FORMAT.md, or ""
	Offset  int64  // in the archive's file, or -1
	Err     error  // why; its kind is found with errors.Is
}

// Error says all of it in a line. What could steer a terminal is escaped in paths.
func (e *Error) Error() string {
	s := e.Op + " " + pathsafe.Quote(e.Archive)
	if e.Entry != "" {
		s += ": " + pathsafe.Quote(e.Entry)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failure makes an *Error of what the engine says; nil stays nil, and what is one already stays as it is.
func failure(op, archive, entry string, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	e := &Error{Op: op, Archive: archive, Entry: entry, Offset: -1, Err: err}
	if at := (*format.Error)(nil); errors.As(err, &at) {
		e.Record, e.Offset = at.Record, at.Offset
	}
	if entry != "" {
		e.Err = unnamed(err, entry)
	}
	return e
}

// unnamed takes the entry's name off an error that begins with it.
func unnamed(err error, entry string) error {
	inner := errors.Unwrap(err)
	if inner != nil && (err.Error() == entry+": "+inner.Error() || err.Error() == pathsafe.Quote(entry)+": "+inner.Error()) {
		return inner
	}
	return err
}

// failure makes an *Error of what the handle said while it read generation gen. Damage that shows only because the
// generation was superseded and overwritten meanwhile is none.
func (a *Archive) failure(op, entry string, gen uint64, err error) error {
	if errors.Is(err, ErrCorrupt) {
		if a.s.Generation() != gen {
			err = errMoved
		} else if moved := a.s.Recheck(); errors.Is(moved, ErrChanged) {
			err = moved
		}
	}
	return failure(op, a.name, entry, err)
}

// pathFailure is the error of a method of the file system that was given name, which stands for entry.
func (a *Archive) pathFailure(op, name, entry string, gen uint64, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrInvalid), errors.Is(err, fs.ErrClosed), errors.Is(err, errEscapes), errors.Is(err, errLinks):
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt):
		err = fs.ErrNotExist
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		err = a.failure(op, entry, gen, err)
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
