package store

import (
	"bytes"
	"fmt"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// entryOps is a log of changes to entries.
type entryOps struct {
	bytes arena
	ops   []entryOp
	next  []byte // the record under way
}

// entryOp is small, for there may be millions.
type entryOp struct {
	pos  uint64
	klen int32
	vlen int32 // -1: delete
}

func (e *entryOps) key(o *entryOp) []byte   { return e.bytes.at(o.pos, int(o.klen)) }
func (e *entryOps) value(o *entryOp) []byte { return e.bytes.at(o.pos, int(o.klen+o.vlen))[o.klen:] }

// decode reads what a change puts.
func (e *entryOps) decode(o *entryOp) (index.Entry, error) {
	return index.DecodeEntry(e.key(o), e.value(o))
}

// record keeps an entry's key and value without a change; false when the value is longer than one may be.
func (e *entryOps) record(en *index.Entry) (entryOp, bool) {
	e.next = en.Path.AppendKey(e.next[:0])
	klen := len(e.next)
	e.next = index.AppendEntry(e.next, en)
	if len(e.next)-klen > format.MaxValue {
		return entryOp{}, false
	}
	return entryOp{e.bytes.add(e.next), int32(klen), int32(len(e.next) - klen)}, true
}

func (e *entryOps) put(en *index.Entry) bool {
	o, ok := e.record(en)
	if ok {
		e.ops = append(e.ops, o)
	}
	return ok
}

func (e *entryOps) remove(p pathsafe.Path) {
	e.next = p.AppendKey(e.next[:0])
	e.ops = append(e.ops, entryOp{e.bytes.add(e.next), int32(len(e.next)), -1})
}

// sortEntries puts the log of entries into order, keeps the last change of each key, and takes the
// references of what it supersedes back.
func (t *Tx) sortEntries() error {
	e := &t.entries
	order := func(x, y entryOp) int { return bytes.Compare(e.key(&x), e.key(&y)) }
	if !slices.IsSortedFunc(e.ops, order) {
		slices.SortStableFunc(e.ops, order)
	}
	kept := e.ops[:0]
	for i, o := range e.ops {
		if i+1 < len(e.ops) && bytes.Equal(e.key(&o), e.key(&e.ops[i+1])) {
			if o.vlen >= 0 {
				en, err := e.decode(&o)
				if err == nil {
					err = t.refer(&en, -1)
				}
				if err != nil {
					return err
				}
			}
			continue
		}
		kept = append(kept, o)
	}
	e.ops = kept
	root := t.base.tree(index.Entries)
	released := map[uint64]bool{} // contents of removed entries
	kept = e.ops[:0]
	for _, o := range e.ops {
		var old []byte
		var exists bool
		if root.Height > 0 {
			var err error
			if old, exists, err = index.Get(t.a, index.Entries, root, e.key(&o)); err != nil {
				return err
			}
		}
		switch {
		case exists && o.vlen >= 0 && bytes.Equal(old, e.value(&o)):
			// Nothing changes; the new references to the same contents are one too many.
			en, err := e.decode(&o)
			if err == nil {
				err = t.referCommitted(&en, -1)
			}
			if err != nil {
				return err
			}
			continue
		case exists:
			en, err := index.DecodeEntry(e.key(&o), old)
			if err != nil {
				return err
			}
			if err := t.referCommitted(&en, -1); err != nil {
				return err
			}
			t.moved = true
			if o.vlen >= 0 {
				t.sum.Replaced++
			} else {
				t.sum.Removed++
				for _, n := range en.Contents() {
					released[n] = true
				}
			}
		case o.vlen < 0:
			continue // put and removed in this transaction
		default:
			t.sum.Added++
		}
		kept = append(kept, o)
	}
	e.ops = kept
	for n := range released {
		if c := t.changed[n]; c != nil && c.Refs > 0 {
			t.sum.SharedBytes += c.Size
		}
	}
	return t.checkTree()
}

// checkTree refuses a result in which an entry that is not a directory has something below it.
func (t *Tx) checkTree() error {
	e := &t.entries
	it := index.NewIter(t.a, index.Entries, t.base.tree(index.Entries))
	op := func(key []byte) *entryOp {
		i, ok := slices.BinarySearchFunc(e.ops, key, func(o entryOp, k []byte) int { return bytes.Compare(e.key(&o), k) })
		if !ok {
			return nil
		}
		return &e.ops[i]
	}
	checked := map[string]bool{} // parents found to be fine
	for i := range e.ops {
		o := &e.ops[i]
		if o.vlen < 0 {
			continue
		}
		key := e.key(o)
		if index.Kind(e.value(o)[0]) != index.Dir {
			lo := append(bytes.Clone(key), 0)
			if n := i + 1; n < len(e.ops) && bytes.HasPrefix(e.key(&e.ops[n]), lo) && t.anyPut(n, lo) {
				return conflict(key)
			}
			for ok := t.base.tree(index.Entries).Height > 0 && it.Seek(lo); ok && bytes.HasPrefix(it.Key(), lo); ok = it.Next() {
				if x := op(it.Key()); x == nil || x.vlen >= 0 {
					return conflict(key)
				}
			}
			if err := it.Err(); err != nil {
				return err
			}
		}
		for cut := bytes.LastIndexByte(key, 0); cut > 0; cut = bytes.LastIndexByte(key[:cut], 0) {
			parent := key[:cut]
			if checked[string(parent)] {
				break
			}
			var value []byte
			if x := op(parent); x != nil {
				if x.vlen >= 0 {
					value = e.value(x)
				}
			} else if root := t.base.tree(index.Entries); root.Height > 0 {
				v, ok, err := index.Get(t.a, index.Entries, root, parent)
				if err != nil {
					return err
				}
				if ok {
					value = v
				}
			}
			if value != nil && index.Kind(value[0]) != index.Dir {
				return conflict(parent)
			}
			checked[string(parent)] = true
		}
		if len(checked) > 1<<16 {
			clear(checked)
		}
	}
	return nil
}

// anyPut reports whether one of the changes from i on, as long as their keys start with prefix, stores
// something.
func (t *Tx) anyPut(i int, prefix []byte) bool {
	e := &t.entries
	for ; i < len(e.ops) && bytes.HasPrefix(e.key(&e.ops[i]), prefix); i++ {
		if e.ops[i].vlen >= 0 {
			return true
		}
	}
	return false
}

func conflict(key []byte) error {
	return fmt.Errorf("%s: %w", pathsafe.Quote(string(bytes.ReplaceAll(key, []byte{0}, []byte{'/'}))), ErrConflict)
}
