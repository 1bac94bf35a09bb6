package store

import (
	"errors"
	"io"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// Source is something to store.
type Source struct {
	// Entry has path, kind and metadata; a file's Size is what is expected, -1 when unknown. The first of several names of
	// a file has a LinkGroup, which NewLinkGroup gives, for the others to name it in LinkTo.
	Entry index.Entry
	// Open opens a file and returns its entry as of opening, so that size, times and sparse map belong to the bytes
	// that are read: the data alone, without holes. It may be called a second time when the first reading was not
	// consistent, and from another goroutine than Add's. nil for everything but files.
	Open    func() (Reader, index.Entry, error)
	NoDedup bool // store the content even when an equal one is there
	// Stored is the committed entry of the same path when its content is to stay: then nothing is opened, and
	// only what else differs is stored anew.
	Stored *index.Entry
	// LinkTo makes the entry a further name of an earlier source of the transaction, one with a LinkGroup: it gets all
	// that was stored of that one, of Entry only the path counts, and nothing is opened. If that one was left out, this is
	// a file of its own that Open opens, and without an Open left out as well. With Stored, the committed entry of the
	// path, it is said whether that is the same.
	LinkTo pathsafe.Path
	// Linkable says that later sources may name this one in LinkTo although it has no LinkGroup: it gets one when the
	// first of them comes. For whoever cannot know beforehand which files have further names.
	Linkable bool
}

// Failing is a source that cannot be read. It travels with the others, so that what is said of it comes in order.
func Failing(p pathsafe.Path, err error) Source {
	return Source{
		Entry: index.Entry{Path: p, Kind: index.File},
		Open:  func() (Reader, index.Entry, error) { return nil, index.Entry{}, err },
	}
}

// reads reports whether the source is opened at all.
func (s *Source) reads() bool { return s.Open != nil && s.Stored == nil && s.LinkTo.IsZero() }

// Reader is an open source. What it gives of a sparse file is the data only.
type Reader interface {
	io.ReadCloser
	// Check is called after the last byte was read: nil, or why what was read is not one state of the
	// source.
	Check() error
}

// Added is what became of a source.
type Added struct {
	Path         pathsafe.Path
	Bytes        int64 // of data
	Deduplicated bool  // an equal content was there
	Unchanged    bool  // of a source with Stored: that is how it is stored already
	Err          error // the source was left out, a stored older version stays; the transaction goes on
}

// ErrSourceChanged is the kind of a source that did not hold still for two readings.
var ErrSourceChanged = errors.New("changed while it was read")
