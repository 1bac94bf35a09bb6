package dump

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// File is what a dump needs of an archive's file.
type File interface {
	io.ReaderAt
	Size() (int64, error)
}

// Options say how much is printed. The zero value prints everything that shows without a key.
type Options struct {
	Limit int // items that are printed of each list and tree; up to 0: all
	// Unlock is asked for keys when the archive is encrypted. Where it is nil, or its error is of kind ErrLocked, only what
	// shows without a key is printed.
	Unlock seal.Unlock
	// ExpectRoot and Signers refuse (ErrAuth) an archive in another state, or not signed by one of these keys, before
	// anything is printed that the root covers.
	ExpectRoot *format.Digest
	Signers    []seal.PublicKey
	Encrypted  bool // refuse (ErrNotEncrypted) an archive without a lock before anything is printed
}

// ErrLocked is the kind of Unlock's error that lets the archive stay locked.
var ErrLocked = errors.New("no key was given")

// ErrNotEncrypted is the kind of the refusal that Options.Encrypted asks for.
var ErrNotEncrypted = errors.New("the archive is not encrypted")

// Summary says how far the dump came.
type Summary struct {
	Generation uint64
	Root       format.Digest // zero when the commit block cannot be read, or is locked
	Damaged    int           // structures that could not be read, each said so where it would stand
	Locked     bool          // no key was there, so that trees and frames were not printed
}

// Run prints the archive in f to w. Damage is printed and counted and is no error, unless nothing of an archive is left
// (format.ErrCorrupt); other errors are of the kinds ErrNotLockbox, ErrVersion and ErrAuth, of reading, of writing, and ctx's.
func Run(ctx context.Context, f File, w io.Writer, o Options) (Summary, error) {
	d := &dumper{ctx: ctx, f: f, w: bufio.NewWriter(w), o: o}
	err := d.run()
	if d.suite != nil {
		d.suite.Wipe()
	}
	if ferr := d.w.Flush(); err == nil {
		err = ferr
	}
	return d.sum, err
}

type dumper struct {
	ctx   context.Context
	f     File
	w     *bufio.Writer
	o     Options
	sum   Summary
	size  int64
	super *journal.Super
	suite seal.Suite // nil while the archive is locked
	buf   buffers

	searched bool // what a search found was printed, which is all
}

func (d *dumper) run() (err error) {
	if d.size, err = d.f.Size(); err != nil {
		return fmt.Errorf("size of the archive: %w", err)
	}
	if err = d.superblocks(); err != nil || d.searched {
		return err
	}
	if err = d.keys(); err != nil || d.suite == nil {
		return err
	}
	roots, err := d.commitBlock()
	if err != nil || roots == nil {
		return err
	}
	for i, root := range roots {
		if err = d.tree(index.Entries+index.Tree(i), root); err != nil {
			return err
		}
	}
	return nil
}

// staysLocked reports whether an archive was not unlocked because it need not be.
func (d *dumper) staysLocked(err error) bool {
	return errors.Is(err, format.ErrAuth) && (d.o.Unlock == nil || errors.Is(err, ErrLocked))
}

// line prints one line at a depth of indentation. The writer keeps its first error until it is flushed.
func (d *dumper) line(depth int, text string, args ...any) {
	fmt.Fprintf(d.w, "%*s"+text+"\n", append([]any{2 * depth, ""}, args...)...)
}

// broken prints that a structure cannot be read. What is no damage is returned.
func (d *dumper) broken(depth int, what string, err error) error {
	if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) {
		return err
	}
	d.sum.Damaged++
	d.line(depth, "DAMAGED %s: %s", what, detail(err))
	return nil
}

// detail is an error's text without its kind, which broken has printed.
func detail(err error) string {
	var e *format.Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Record == "" || e.Offset < 0:
		return e.Detail
	}
	return fmt.Sprintf("%s at %d: %s", e.Record, e.Offset, e.Detail)
}

// room is how many of n items are printed.
func (d *dumper) room(n int) int {
	if d.o.Limit > 0 {
		return min(n, d.o.Limit)
	}
	return n
}

// read fills b from the file. Bytes that the file does not have, or that the device does not give, are damage.
func (d *dumper) read(b []byte, off int64, record string) error {
	n, err := d.f.ReadAt(b, off)
	return whole(n, len(b), off, record, err)
}

// whole is nil when a read gave all of a structure, or else what is wrong with it.
func whole(n, want int, off int64, record string, err error) error {
	switch {
	case n == want:
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return format.Corrupt(record, off, "the file ends inside it")
	}
	return format.Corrupt(record, off, "it cannot be read: %v", err)
}

// within reports whether an extent is made of whole sectors of the archive.
func (d *dumper) within(e format.Extent) bool {
	return e.Off >= format.DataStart && e.Len > 0 && e.Off%d.super.Sector == 0 && e.Len%d.super.Sector == 0 &&
		e.Off <= d.super.End && e.Len <= d.super.End-e.Off
}

func extentText(e format.Extent) string { return fmt.Sprintf("%d..%d (%d)", e.Off, e.End(), e.Len) }
