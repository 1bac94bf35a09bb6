package store_test

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// rich is what a body has beside bytes: it is an entry that is not a plain file.
type rich struct {
	entry   index.Entry // without a path
	content []byte      // its data without holes
	tokens  bitset      // of extended attributes
	linked  bool        // its paths are names of one file
}

// attributes is a set that is too large for a record, and its token.
func (s *script) attributes() ([]index.Xattr, bitset) {
	b := s.body(index.MaxXattrs + 500 + s.r.IntN(2000))
	var tokens bitset
	tokens.add(b.id)
	return []index.Xattr{{Name: "user.large", Value: b.data}, {Name: "user.z"}}, tokens
}

// special makes an entry that is no file.
func special(e index.Entry) *body { return &body{id: -1, rich: &rich{entry: e}} }

// sparse makes a file with a hole behind each half of its data.
func (s *script) sparse(n int, hole int64) *body {
	b := s.body(n)
	half := n / 2
	e := index.Entry{Kind: index.File, Mode: 0o600, Size: int64(n) + 2*hole, Sparse: []index.SparseRun{{Data: int64(half), Hole: hole}, {Data: int64(n - half), Hole: hole}}}
	b.rich = &rich{entry: e, content: b.data}
	b.data = slices.Concat(b.data[:half], make([]byte, hole), b.data[half:], make([]byte, hole))
	return b
}

// linked makes a file that is to have several names.
func (s *script) linked(n int) *body {
	b := s.body(n)
	b.rich = &rich{entry: index.Entry{Kind: index.File, Mode: 0o640, Size: int64(n)}, content: b.data, linked: true}
	return b
}

// with gives a body a large set of extended attributes.
func (b *body) with(xs []index.Xattr, tokens bitset) *body {
	b.rich.entry.Xattrs, b.rich.tokens = xs, tokens
	return b
}

// faithful is a script of entries with all that is stored of them: holes, extended attributes, names of one file.
func faithful(seed uint64) *script {
	s := newScript(seed)
	s.posts = [2]*body{s.body(700), s.body(300)}
	n := func() string { return s.component(12 + s.r.IntN(20)) }
	dir := n()
	a, b, c, holes, null, pipe := dir+"/"+n(), n(), dir+"/"+n(), n(), n(), n()
	s.session("create").create = true
	s.tx("empty", commits, nil, nil)
	one := s.linked(2000 + s.r.IntN(2000)).with(s.attributes())
	s.session("all kinds")
	s.tx("all kinds", commits, []put{
		{path: dir, body: special(index.Entry{Kind: index.Dir, Mode: 0o700}).with(s.attributes())},
		{path: a, body: one}, {path: b, body: one}, {path: c, body: one},
		{path: holes, body: s.sparse(3000, 40_000)},
		{path: null, body: special(index.Entry{Kind: index.CharDevice, HasDevice: true, Major: 1, Minor: 3})},
		{path: pipe, body: special(index.Entry{Kind: index.FIFO})},
	}, nil)
	s.session("other attributes")
	s.tx("other attributes", commits, []put{{path: holes, body: s.sparse(900, 30_000).with(s.attributes())}}, nil)
	s.session("a name of its own")
	s.tx("a name of its own", commits, []put{{path: a, body: s.linked(1500)}}, []string{pipe}, [2]string{b, n()})
	s.session("rolled back")
	s.tx("rolled back", rollsBack, []put{{path: n(), body: s.linked(700).with(s.attributes())}}, []string{c})
	s.session("remove under a reader").reader = true
	s.tx("remove under a reader", commits, nil, []string{c, holes})
	s.session("shared attributes")
	xs, tokens := s.attributes()
	x, y := n(), n()
	s.tx("two with the same", commits, []put{{path: x, body: s.sparse(600, 10_000).with(xs, tokens)}, {path: y, body: s.linked(800).with(xs, tokens)}}, nil)
	s.tx("one goes", commits, nil, []string{x})
	s.tx("compact", compacts, nil, nil)
	s.session("everything goes")
	s.tx("everything goes", commits, nil, slices.Sorted(maps.Keys(s.cur.files)))
	return s
}

// source is the function source for a body that is not plain; first is the first of its names that was put.
func (r *rich) source(p put, tx *store.Tx, first pathsafe.Path) store.Source {
	if r.linked && !first.IsZero() {
		return store.Source{Entry: index.Entry{Path: pathOf(p.path)}, LinkTo: first}
	}
	e := r.entry
	e.Path = pathOf(p.path)
	if r.linked {
		e.LinkGroup = tx.NewLinkGroup()
	}
	src := store.Source{Entry: e}
	if e.Kind == index.File {
		src.Open = func() (store.Reader, index.Entry, error) { return bodyReader{bytes.NewReader(r.content)}, e, nil }
	}
	return src
}

// like reports whether entries are the rich bodies of a state, with names of one file where it has them.
func (f *found) like(s *state) bool {
	groups := map[uint64]*body{}
	numbers := map[*body]uint64{}
	for i := range f.entries {
		e := f.entries[i].entry
		b := s.files[f.entries[i].path]
		if b == nil || b.rich == nil {
			continue
		}
		if g := e.LinkGroup; (g != 0) != b.rich.linked {
			return false
		} else if g != 0 {
			if groups[g] != nil && groups[g] != b || numbers[b] != 0 && numbers[b] != g {
				return false
			}
			groups[g], numbers[b] = b, g
		}
		want := b.rich.entry
		want.Path, want.LinkGroup, want.Content, want.XattrsContent = e.Path, e.LinkGroup, e.Content, e.XattrsContent
		if !reflect.DeepEqual(want, e) {
			return false
		}
	}
	return true
}
