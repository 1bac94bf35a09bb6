package format

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure that callers branch on with errors.Is. Missing and existing entries use
// fs.ErrNotExist and fs.ErrExist.
var (
	ErrCorrupt    = errors.New("damaged")                    // bytes on disk are not what was written
	ErrAuth       = errors.New("authentication failed")      // no key, a wrong key, or a wrong signer
	ErrNotLockbox = errors.New("not a lockbox archive")      // no superblock copy carries the magic
	ErrVersion    = errors.New("unsupported format version") // a later format or an unknown feature
	ErrBusy       = errors.New("in use by another writer")   // the writer lock was not free in time
	ErrPoisoned   = errors.New("handle refused after an earlier failed write or sync")
	ErrChanged    = errors.New("archive changed by something other than a commit")
)

// Error says where in an archive something is wrong. Kind is one of the sentinels above, Record names
// the structure in the words of FORMAT.md, Offset is a file offset or -1, Entry a stored path or "".
type Error struct {
	Kind   error
	Record string
	Offset int64
	Entry  string
	Detail string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.Error())
	if e.Record != "" {
		b.WriteString(": " + e.Record)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at offset %d", e.Offset)
	}
	if e.Entry != "" {
		fmt.Fprintf(&b, " of %q", e.Entry)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Kind }

// Corrupt returns an *Error of kind ErrCorrupt. offset is a file offset, or -1 when it is not known.
func Corrupt(record string, offset int64, detail string, args ...any) error {
	return &Error{Kind: ErrCorrupt, Record: record, Offset: offset, Detail: fmt.Sprintf(detail, args...)}
}
