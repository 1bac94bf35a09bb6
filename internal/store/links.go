package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// Entries with one number as their LinkGroup are names of one file: their records are equal. So a member that is
// stored anew gets a number of its own, with those that are stored with it, unless nothing else has changed.

// groupBits is how many link groups one transaction can number: the generation is in front, so that no
// number is given out again.
const groupBits = 28

// NewLinkGroup returns a number for the LinkGroup of the first of several names of a file that this transaction
// stores: unique in the archive for ever, and the same when the same is done again. 0 when there is none left; then
// what is to be a link of that entry is refused (ErrUnstorable). The sequence of sources that Add goes through may call it.
func (t *Tx) NewLinkGroup() uint64 {
	if t.gen>>(63-groupBits) != 0 || t.groups>>groupBits != 0 {
		return 0
	}
	n := t.gen<<groupBits | t.groups
	t.groups++
	return n
}

// linkTarget is an entry of this transaction that others may be links of.
type linkTarget struct {
	record entryOp // its key and value; unused when err is set
	err    error   // why it was left out
}

// target remembers what became of a source that may have further names.
func (t *Tx) target(p pathsafe.Path, l linkTarget) {
	if t.links == nil {
		t.links = map[pathsafe.Path]linkTarget{}
	}
	t.links[p] = l
}

// link makes the item's entry another name of the one that it links to. bad says why it is left out.
func (t *Tx) link(it *item) (bad, err error) {
	to := it.src.LinkTo
	l, ok := t.links[to]
	switch {
	case !ok:
		return fmt.Errorf("%w: it is to be a hard link of %s, which was not added as one of several names", ErrUnstorable, to), nil
	case l.err != nil:
		return fmt.Errorf("it is a hard link of %s: %w", to, l.err), nil
	}
	e, err := index.DecodeEntry(t.entries.key(&l.record), t.entries.value(&l.record))
	if err != nil {
		return nil, err
	}
	e.Path = it.src.Entry.Path
	it.entry = e
	if it.same, err = t.isStored(it); it.same || err != nil {
		return nil, err
	}
	return nil, t.refer(&e, 1)
}

// regroup gives an entry the number of the committed entry of the same path, if they differ in nothing else: adding a
// tree again changes nothing. old is that entry if the caller has it, else nil.
func (t *Tx) regroup(e, old *index.Entry) error {
	if e.LinkGroup == 0 {
		return nil
	}
	if old == nil {
		o, err := t.a.getEntry(t.base, e.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		old = &o
	}
	// Two files may have been one when they were stored.
	if old.LinkGroup == 0 || t.regrouped[old.LinkGroup] {
		return nil
	}
	given := e.LinkGroup
	if e.LinkGroup = old.LinkGroup; !t.equal(e, old) {
		e.LinkGroup = given
		return nil
	}
	if t.regrouped == nil {
		t.regrouped = map[uint64]bool{}
	}
	t.regrouped[old.LinkGroup] = true
	return nil
}

// equal reports whether two entries have the same record.
func (t *Tx) equal(e, old *index.Entry) bool {
	t.scratch = index.AppendEntry(t.scratch[:0], e)
	n := len(t.scratch)
	t.scratch = index.AppendEntry(t.scratch, old)
	return bytes.Equal(t.scratch[:n], t.scratch[n:])
}

// isStored reports whether the item's entry is the committed one that its source names.
func (t *Tx) isStored(it *item) (bool, error) {
	if it.src.Stored == nil || !t.equal(&it.entry, it.src.Stored) {
		return false, nil
	}
	// What is a link of it will refer to its contents.
	for _, n := range it.entry.Contents() {
		if it.entry.LinkGroup != 0 && n != 0 {
			if err := t.committed(n); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}
