package store

import (
	"encoding/binary"
	"errors"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// duplicate finds a content with this digest, adds a reference to it and returns its number, or 0.
func (t *Tx) duplicate(d format.Digest, size int64) (uint64, error) {
	if i, ok := t.dupes.find(&t.fresh, &d, size); ok {
		t.fresh.at(i).refs++
		return t.firstContent + uint64(i), nil
	}
	root := t.base.tree(index.Digests)
	if root.Height == 0 {
		return 0, nil
	}
	it := index.NewIter(t.a, index.Digests, root)
	prefix := t.a.suite.Prefix(&d)
	for ok := it.Seek(prefix[:]); ok; ok = it.Next() {
		key := it.Key()
		if len(key) != 16 || string(key[:8]) != string(prefix[:]) {
			break
		}
		n := binary.BigEndian.Uint64(key[8:])
		c, err := t.content(n)
		if err != nil {
			return 0, err
		}
		if c.Digest == d && c.Size == size && c.Refs > 0 {
			// Only what is still good is shared: adding a file again mends an archive that has rotted.
			if sound, err := t.soundContent(c); err != nil {
				return 0, err
			} else if sound {
				c.Refs++
				return n, nil
			}
		}
	}
	return 0, it.Err()
}

// soundContent reports whether all stored bytes of a content verify. Each frame is looked at once in a
// transaction.
func (t *Tx) soundContent(c *index.Content) (bool, error) {
	for i := range c.Runs {
		r := &c.Runs[i]
		if r.Frame == 0 || r.Frame >= t.firstFrame {
			continue // written, or read and verified, by this transaction
		}
		for f := r.Frame; f < r.Frame+r.Frames(); f++ {
			if ok, err := t.soundFrame(f); !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// soundFrame reports whether the stored bytes of a committed frame verify.
func (t *Tx) soundFrame(number uint64) (bool, error) {
	ok, seen := t.sound[number]
	if seen {
		return ok, nil
	}
	ref, err := t.a.frame(t.base, number)
	if err == nil {
		err = t.a.checkFrame(&ref)
	}
	if err != nil && !errors.Is(err, format.ErrCorrupt) {
		return false, err
	}
	t.sound[number] = err == nil
	return err == nil, nil
}
