package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// bitset is a set of tokens, by number.
type bitset [8]uint64

func (s *bitset) add(n int) { s[n/64] |= 1 << (n % 64) }
func (s bitset) or(o bitset) bitset {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}
func (s bitset) without(o bitset) bitset {
	for i := range s {
		s[i] &^= o[i]
	}
	return s
}

// first is the lowest member of both, or -1.
func (s bitset) first(o bitset) int {
	for i := range s {
		if both := s[i] & o[i]; both != 0 {
			return i*64 + bits.TrailingZeros64(both)
		}
	}
	return -1
}

// grams finds tokens, contents and names, in raw bytes: any 16 bytes of a content and any 12 of a name
// are recognised, wherever they stand.
type grams struct {
	filter [1 << 14]uint64
	ids    map[uint64]int
	names  []string
}

func gramSlot(g uint64) uint64 { return g * 0x9E3779B97F4A7C15 >> 44 }

// add makes b a token; every step bytes of it one of its grams begins.
func (g *grams) add(name string, b []byte, step int) int {
	id := len(g.names)
	g.names = append(g.names, name)
	for i := 0; i+8 <= len(b); i += step {
		v := binary.LittleEndian.Uint64(b[i:])
		g.ids[v] = id
		s := gramSlot(v)
		g.filter[s/64] |= 1 << (s % 64)
	}
	return id
}

// find returns the tokens of which a part stands in b.
func (g *grams) find(b []byte) (found bitset) {
	for i := 0; i+8 <= len(b); i++ {
		v := binary.LittleEndian.Uint64(b[i:])
		s := gramSlot(v)
		if g.filter[s/64]>>(s%64)&1 == 0 {
			continue
		}
		if id, ok := g.ids[v]; ok {
			found.add(id)
		}
	}
	return found
}

// body is a file's content. Equal bodies are stored once.
type body struct {
	data []byte
	id   int   // token, -1: not one
	rich *rich // nil for a plain file
}

// state is what an archive holds: bodies by path, nil for a directory.
type state struct {
	name   string
	files  map[string]*body
	tokens bitset // contents and names in it
}

// txn is a transaction: what it does, and the state after it.
type txn struct {
	name    string
	puts    []put
	removes []string
	moves   [][2]string
	fate    fate
	next    *state
}

type put struct {
	path string
	body *body
}

// fate is how a transaction ends.
type fate uint8

const (
	commits fate = iota
	rollsBack
	conflicts // its commit fails: the tree would be impossible
	compacts  // it compacts, and changes nothing
)

// session is what one handle does from opening to closing.
type session struct {
	name   string
	create bool
	reader bool // a reader holds the state before it until it is over
	txns   []txn
}

// script is a sequence of sessions, made from a seed, and every token in it.
type script struct {
	r        *rand.Rand
	g        *grams
	cur      *state
	names    map[string]int // tokens of path components
	sessions []session
	posts    [2]*body
}

func newScript(seed uint64) *script {
	return &script{r: rand.New(rand.NewPCG(seed, 11)), g: &grams{ids: map[uint64]int{}}, names: map[string]int{},
		cur: &state{name: "nothing", files: map[string]*body{}}}
}

// body makes a content that does not compress.
func (s *script) body(n int) *body {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.r.Uint32())
	}
	return &body{data: b, id: s.g.add(fmt.Sprintf("a content of %d bytes", n), b, 8)}
}

// text makes a content that compresses; it is no token, for it does not stand anywhere as it is.
func (s *script) text(n int) *body {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "line %d of a text that repeats itself\n", s.r.IntN(50))
	}
	return &body{data: b.Bytes()[:n], id: -1}
}

// random is a name that is nowhere else.
func (s *script) random(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[s.r.IntN(len(letters))]
	}
	return string(b)
}

// component makes a name a token; two names may begin with the same one.
func (s *script) component(n int) string {
	c := s.random(n)
	s.names[c] = s.g.add("the name "+c, []byte(c), 4)
	return c
}

// session begins a session.
func (s *script) session(name string) *session {
	s.sessions = append(s.sessions, session{name: name})
	return &s.sessions[len(s.sessions)-1]
}

// tx adds a transaction to the latest session. Puts are pairs of a path and a body or nil.
func (s *script) tx(name string, f fate, puts []put, removes []string, moves ...[2]string) {
	next := &state{name: name, files: maps.Clone(s.cur.files)}
	for _, p := range removes {
		if _, ok := next.files[p]; !ok {
			panic(name + " removes what is not there: " + p)
		}
		delete(next.files, p)
	}
	for _, p := range puts {
		next.files[p.path] = p.body
	}
	for _, m := range moves {
		next.files[m[1]] = next.files[m[0]]
		delete(next.files, m[0])
	}
	s.settle(next)
	l := &s.sessions[len(s.sessions)-1]
	l.txns = append(l.txns, txn{name, puts, removes, moves, f, next})
	if f == commits || f == compacts {
		s.cur = next
	}
}

// settle fills a state's tokens.
func (s *script) settle(st *state) {
	for p, b := range st.files {
		if b != nil && b.id >= 0 {
			st.tokens.add(b.id)
		}
		if b != nil && b.rich != nil {
			st.tokens = st.tokens.or(b.rich.tokens)
		}
		for name, id := range s.names {
			if strings.Contains(p, name) {
				st.tokens.add(id)
			}
		}
	}
}

// below returns the paths under a directory, and the directory.
func (s *script) below(dir string) (paths []string) {
	for p := range s.cur.files {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// everyday is a script of everything that a person does to a small archive.
func everyday(seed uint64) *script {
	s := newScript(seed)
	small := func() *body { return s.body(150 + s.r.IntN(2500)) }
	dir, sub := s.component(20), s.component(16)
	n := func() string { return s.component(12 + s.r.IntN(30)) }
	a, b, c, d, e, f, g := dir+"/"+n(), dir+"/"+sub+"/"+n(), n(), n(), n(), n(), n()
	s.posts = [2]*body{small(), small()}

	s.session("create").create = true
	s.tx("empty", commits, nil, nil)
	s.tx("first files", commits, []put{{dir, nil}, {dir + "/" + sub, nil}, {a, small()}, {b, small()}, {c, small()}}, nil)
	s.session("add")
	s.tx("add", commits, []put{{d, small()}, {e, s.text(5000)}}, nil)
	s.session("replace")
	s.tx("replace", commits, []put{{c, small()}}, nil)
	s.session("large")
	s.tx("large", commits, []put{{g, s.body(140 << 10)}}, nil)
	s.session("part of a pack")
	s.tx("part of a pack", commits, nil, []string{d})
	s.session("move")
	moved := dir + "/" + n()
	s.tx("move", commits, nil, nil, [2]string{c, moved})
	s.session("rollback")
	s.tx("add before", commits, []put{{f, small()}}, nil)
	s.tx("rolled back", rollsBack, []put{{n(), small()}, {a, small()}}, []string{f})
	s.tx("conflict", conflicts, []put{{f + "/below", small()}}, nil)
	s.tx("replace after", commits, []put{{a, small()}}, nil)
	s.session("remove under a reader").reader = true
	s.tx("remove under a reader", commits, nil, []string{g})
	s.session("cleanup that had to wait")
	s.session("directory")
	s.tx("directory", commits, nil, s.below(dir+"/"+sub))
	s.session("shared content")
	x, y, shared := n(), n(), small()
	s.tx("two of one content", commits, []put{{x, shared}, {y, shared}}, nil)
	s.tx("one of two goes", commits, nil, []string{x})
	s.tx("the other goes", commits, nil, []string{y})
	s.session("everything goes")
	s.tx("everything goes", commits, nil, slices.Sorted(maps.Keys(s.cur.files)))
	s.session("and again")
	s.tx("and again", commits, []put{{n(), small()}}, nil)
	return s
}

// wide is a script over a tree of several nodes, whose separators hold parts of names.
func wide(seed uint64) *script {
	s := newScript(seed)
	s.posts = [2]*body{s.body(700), s.body(300)}
	small := func() *body { return s.body(100 + s.r.IntN(900)) }
	var pairs []string
	s.session("create").create = true
	var puts []put
	for range 48 {
		p := s.component(120)
		pairs = append(pairs, p)
		puts = append(puts, put{p + "-one", nil}, put{p + "-two", nil})
	}
	puts = append(puts, put{pairs[3] + "-one/" + s.component(20), small()}, put{s.component(30), small()})
	s.tx("many names", commits, puts, nil)
	slices.Sort(pairs)
	both := func(p []string) (paths []string) {
		for _, p := range p {
			for _, end := range []string{"-one", "-two"} {
				paths = append(paths, s.below(p+end)...)
			}
		}
		return paths
	}
	s.session("pairs go")
	s.tx("some pairs go", commits, nil, both(pairs[:5]))
	s.session("ones go")
	s.tx("some pairs and some ones go", commits, []put{{s.component(100), small()}}, append(both(pairs[5:20]), pairs[30]+"-one", pairs[31]+"-two"))
	s.session("pairs move")
	s.tx("a pair moves", commits, nil, nil, [2]string{pairs[30] + "-two", s.component(90)}, [2]string{pairs[33] + "-one", s.component(60)})
	s.session("most go")
	s.tx("most go", commits, nil, both(pairs[34:47]))
	return s
}

// tall is a script in which enough becomes free at the end of the file for it to be cut off.
func tall(seed uint64) *script {
	s := newScript(seed)
	s.posts = [2]*body{s.body(700), s.body(300)}
	s.session("create").create = true
	filler, big := s.component(16), s.component(16)
	s.tx("first files", commits, []put{{s.component(16), s.body(1500)}, {filler, s.body(40 << 10)}}, nil)
	s.session("make room")
	s.tx("make room", commits, nil, []string{filler})
	s.session("add at the end")
	s.tx("add at the end", commits, []put{{big, s.body(1100 << 10)}}, nil)
	s.session("remove the end")
	s.tx("remove the end", commits, nil, []string{big})
	s.session("add again")
	s.tx("add again", commits, []put{{s.component(14), s.body(2000)}}, nil)
	s.session("rolled back")
	s.tx("rolled back", rollsBack, []put{{s.component(14), s.body(300 << 10)}}, nil)
	return s
}

// compacting is a script in which frames of every kind are moved, packs merged and trees written anew.
func compacting(seed uint64) *script {
	s := newScript(seed)
	s.posts = [2]*body{s.body(700), s.body(300)}
	n := func() string { return s.component(14) }
	s.session("create").create = true
	var large []string
	var puts []put
	for i := range 6 {
		p := n()
		large = append(large, p)
		puts = append(puts, put{p, s.body(7000 + 900*i)}, put{n(), s.body(150 + s.r.IntN(900))})
	}
	s.tx("first files", commits, puts, nil)
	s.session("more")
	s.tx("more", commits, []put{{n(), s.body(135 << 10)}, {n(), s.text(9000)}}, nil)
	s.session("holes")
	s.tx("holes", commits, nil, []string{large[0], large[2], large[4]})
	s.session("compact")
	s.tx("compact", compacts, nil, nil)
	s.session("compact under a reader").reader = true
	s.tx("remove under a reader", commits, nil, []string{large[3]})
	s.tx("compact under a reader", compacts, nil, nil)
	s.session("compact when it has gone")
	s.tx("compact when it has gone", compacts, nil, nil)
	s.tx("add after", commits, []put{{n(), s.body(4000)}}, []string{large[1]})
	return s
}

// source is a body on its way into the archive.
func source(what put) store.Source {
	p, b := pathOf(what.path), what.body
	if b == nil {
		return store.Source{Entry: index.Entry{Path: p, Kind: index.Dir, Mode: 0o755}}
	}
	e := index.Entry{Path: p, Kind: index.File, Mode: 0o644, HasMtime: true, MtimeSec: 1e9, Size: int64(len(b.data))}
	return store.Source{Entry: e, Open: func() (store.Reader, index.Entry, error) { return bodyReader{bytes.NewReader(b.data)}, e, nil }}
}

type bodyReader struct{ *bytes.Reader }

func (bodyReader) Close() error { return nil }
func (bodyReader) Check() error { return nil }

// stage does what a transaction is to do, without committing.
func (t *txn) stage(ctx context.Context, tx *store.Tx) error {
	for _, p := range t.removes {
		if err := tx.Remove(pathOf(p)); err != nil {
			return err
		}
	}
	for _, m := range t.moves {
		if err := tx.Move(pathOf(m[0]), pathOf(m[1])); err != nil {
			return err
		}
	}
	var failed error
	names := map[*body]pathsafe.Path{} // the first of each body
	err := tx.Add(ctx, func(yield func(store.Source) bool) {
		for _, p := range t.puts {
			src := source(p)
			if b := p.body; b != nil && b.rich != nil {
				src = b.rich.source(p, tx, names[b])
				if names[b].IsZero() {
					names[b] = pathOf(p.path)
				}
			}
			if !yield(src) {
				return
			}
		}
	}, func(a store.Added) {
		if a.Err != nil {
			failed = a.Err
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

func pathOf(s string) pathsafe.Path {
	p, err := pathsafe.Parse(s)
	if err != nil {
		panic(err)
	}
	return p
}
