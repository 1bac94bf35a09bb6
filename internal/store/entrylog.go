package store

import (
	"bytes"
	"fmt"
	"slices"

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

// content is the number of the content that a change refers to, or 0.
func (e *entryOps) content(o *entryOp) (uint64, error) {
	if o.vlen < 0 {
		return 0, nil
	}
	en, err := index.DecodeEntry(e.key(o), e.value(o))
	return en.Content, err
}

func (e *entryOps) put(en *index.Entry) {
	e.next = en.Path.AppendKey(e.next[:0])
	klen := len(e.next)
	e.next = index.AppendEntry(e.next, en)
	e.ops = append(e.ops, entryOp{e.bytes.add(e.next), int32(klen), int32(len(e.next) - klen)})
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
			if n, err := e.content(&o); err != nil {
				return err
			} else if n != 0 {
				if err := t.reference(n, -1); err != nil {
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
			// Nothing changes; the new reference to the same content is one too many.
			if n, err := e.content(&o); err != nil {
				return err
			} else if n != 0 {
				if err := t.committed(n); err != nil {
					return err
				}
				if err := t.reference(n, -1); err != nil {
					return err
				}
			}
			continue
		case exists:
			en, err := index.DecodeEntry(e.key(&o), old)
			if err != nil {
				return err
			}
			if en.Content != 0 {
				if err := t.committed(en.Content); err != nil {
					return err
				}
				if err := t.reference(en.Content, -1); err != nil {
					return err
				}
			}
			t.moved = true
			if o.vlen >= 0 {
				t.sum.Replaced++
			} else {
				t.sum.Removed++
				if en.Content != 0 {
					released[en.Content] = true
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
		if c := t.changed[n]; c.Refs > 0 {
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
