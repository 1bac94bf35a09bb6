package store

import (
	"lockbox/internal/format"
	"lockbox/internal/index"
)

// refer changes the number of references to what an entry of this transaction has.
func (t *Tx) refer(e *index.Entry, by int64) error {
	for _, n := range e.Contents() {
		if n != 0 {
			if err := t.reference(n, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// referCommitted is refer for an entry of the committed generation.
func (t *Tx) referCommitted(e *index.Entry, by int64) error {
	for _, n := range e.Contents() {
		if n != 0 {
			if err := t.committed(n); err != nil {
				return err
			}
		}
	}
	return t.refer(e, by)
}

// reference changes the number of references to a content.
func (t *Tx) reference(n uint64, by int64) error {
	if n >= t.firstContent {
		if i := n - t.firstContent; i < uint64(t.fresh.len()) {
			c := t.fresh.at(int(i))
			c.refs = uint32(int64(c.refs) + by)
			return nil
		}
		return format.Corrupt("entry", -1, "content %d has never been given out", n)
	}
	c, err := t.content(n)
	if err != nil {
		return err
	}
	if by < 0 && c.Refs == 0 {
		return format.Corrupt("contents tree", -1, "content %d has fewer references than entries", n)
	}
	c.Refs = uint64(int64(c.Refs) + by)
	return nil
}

// committed refuses a number that a committed record names although it was never given out: it would be taken
// for that of a content of this transaction.
func (t *Tx) committed(n uint64) error {
	if n >= t.firstContent {
		return format.Corrupt("commit block", -1, "content %d is in use, but the next number is %d", n, t.firstContent)
	}
	return nil
}

// content returns a committed content for changing.
func (t *Tx) content(n uint64) (*index.Content, error) {
	if err := t.committed(n); err != nil {
		return nil, err
	}
	if c := t.changed[n]; c != nil {
		return c, nil
	}
	c, err := t.a.content(t.base, n)
	if err != nil {
		return nil, err
	}
	t.changed[n] = &c
	return &c, nil
}
