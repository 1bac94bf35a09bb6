package store

import (
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// records looks records of a tree up by number, most cheaply near the last one: files in path order
// mostly have ascending numbers.
type records struct {
	a  *Archive
	v  *view
	t  index.Tree
	it *index.Iter
	at bool // it stands at a record
}

func (a *Archive) records(t index.Tree, v *view) records {
	return records{a: a, v: v, t: t, it: index.NewIter(a, t, v.tree(t))}
}

// get returns a record, valid until the next call.
func (s *records) get(n uint64) ([]byte, error) {
	var buf [8]byte
	key := index.AppendNumKey(buf[:0], n)
	if s.at && string(s.it.Key()) == string(key) {
		return s.it.Value(), nil
	}
	if s.at {
		s.at = s.it.Next()
	}
	if !s.at || string(s.it.Key()) != string(key) {
		s.at = s.it.Seek(key)
	}
	if err := s.it.Err(); err != nil {
		// An iterator that has failed fails for good; other records may lie in sound nodes.
		*s = s.a.records(s.t, s.v)
		return nil, err
	}
	if !s.at || string(s.it.Key()) != string(key) {
		return nil, missing(s.t, n)
	}
	return s.it.Value(), nil
}

func missing(t index.Tree, n uint64) error {
	return format.Corrupt(t.String()+" tree", -1, "number %d is missing", n)
}

// finder is what the readers of a handle have in common for one tree. The zero value is ready.
type finder struct {
	mu sync.Mutex
	records
}

// find calls use with the record of a number in the tree t of a generation. The value is valid during the call.
func (a *Archive) find(f *finder, t index.Tree, v *view, n uint64, use func(value []byte) error) error {
	if !f.mu.TryLock() {
		// Another reader is at it, perhaps waiting for the disk: this one goes down from the root.
		var buf [8]byte
		value, ok, err := index.Get(a, t, v.tree(t), index.AppendNumKey(buf[:0], n))
		if err == nil && !ok {
			err = missing(t, n)
		}
		if err != nil {
			return err
		}
		return use(value)
	}
	defer f.mu.Unlock()
	if f.v != v {
		f.records = a.records(t, v)
	}
	value, err := f.get(n)
	if err != nil {
		return err
	}
	return use(value)
}
