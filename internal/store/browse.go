package store

import (
	"bytes"
	"iter"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// Generation is the number of the state that the handle reads.
func (a *Archive) Generation() uint64 { return a.view().super.Generation }

// Root is the root hash of that state. It is known after Close, too.
func (a *Archive) Root() format.Digest { return a.view().root() }

// Children yields what lies directly in a directory, the zero path being the top, in ascending order of names,
// from the first name after the given one on; "" gives all. A directory that only paths below it tell of comes as an
// entry with nothing but path and kind. What lies deeper is passed over with one search a directory. It stops
// after the first error.
func (a *Archive) Children(dir pathsafe.Path, after string) iter.Seq2[index.Entry, error] {
	return func(yield func(index.Entry, error) bool) {
		it := index.NewIter(a, index.Entries, a.view().tree(index.Entries))
		prefix, end := pathsafe.SubtreeRange(dir)
		// No name holds a zero byte, and the separator is one: what is below a name ends before name+1.
		past := func(name []byte) []byte { return append(append(bytes.Clone(prefix), name...), 1) }
		from := prefix
		if after != "" {
			from = past([]byte(after))
		}
		for ok := it.Seek(from); ok; {
			key := it.Key()
			if end != nil && bytes.Compare(key, end) >= 0 {
				break
			}
			name, _, deeper := bytes.Cut(key[len(prefix):], []byte{0})
			var e index.Entry
			var err error
			if deeper {
				e.Kind = index.Dir
				e.Path, err = pathsafe.FromKey(key[:len(prefix)+len(name)])
			} else {
				e, err = index.DecodeEntry(key, it.Value())
			}
			if !yield(e, err) || err != nil {
				return
			}
			if e.Kind == index.Dir {
				ok = it.Seek(past(name))
			} else {
				ok = it.Next()
			}
		}
		if err := it.Err(); err != nil {
			yield(index.Entry{}, err)
		}
	}
}
