package verify

import (
	"bytes"
	"errors"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// readNode reads a node into buf, checks its tag and its items. With fill, buf also gets what follows up
// to the end of the extent.
func (c *checker) readNode(t index.Tree, ref *index.Ref, level int, buf []byte) (*index.Node, error) {
	if err := c.read(buf, ref.Off, "node"); err != nil {
		return nil, err
	}
	b, ok := index.OpenNode(c.suite, c.super.Archive, t, ref, buf[:index.StoredLen(c.suite, ref.Len, c.super.Sector)])
	if !ok {
		return nil, format.Corrupt("node", ref.Off, "tag does not verify")
	}
	c.nodes++
	n, err := index.ParseNode(b, t, level, c.tag, ref.Off)
	if err == nil {
		err = n.Check()
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// walker goes through a tree in order and past damage. The first walk of a tree reports what it finds
// and notes who owns what; a quiet one passes over the same damage in silence.
type walker struct {
	c     *checker
	t     index.Tree
	quiet bool
	item  func(key, value []byte) error
	count uint64
	bytes int64
	lv    [format.MaxHeight]struct{ node, lower []byte }
}

// walk calls item for every item of a tree that can be reached. Key and value are valid during the call.
func (c *checker) walk(t index.Tree, quiet bool, item func(key, value []byte) error) error {
	w := &walker{c: c, t: t, quiet: quiet, item: item}
	root := &c.roots[t]
	if root.Height == 0 {
		return nil
	}
	if err := w.node(int(root.Height)-1, root.Ref, nil, nil); err != nil {
		return err
	}
	if !quiet && !c.broken[t] && w.count != root.Count {
		c.find(KindCommit, c.super.CommitOff, "the tree %v has %d items, its root says %d", t, w.count, root.Count)
	}
	return nil
}

func (w *walker) node(level int, ref index.Ref, lower, upper []byte) error {
	c := w.c
	if err := c.ctx.Err(); err != nil {
		return err
	}
	ext := format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), c.super.Sector)}
	if !c.extentOK(ext) {
		return w.bad(level, &ref, lower, upper, errors.New("reference to a place outside the archive"))
	}
	if ref.Off+int64(ref.Len) > c.size {
		return w.bad(level, &ref, lower, upper, errors.New("the file ends before it does"))
	}
	// Nodes own their bytes, so a tree whose nodes are longer than the file has some of them twice:
	// without this bound a hostile one could make the walk endless.
	if w.bytes += int64(ref.Len); w.bytes > c.size {
		return w.bad(level, &ref, lower, upper, errors.New("the tree's nodes take more bytes than the archive has"))
	}
	if !w.quiet {
		c.owners.add(ext, ownNode, uint64(w.t))
		c.got.NodeBytes += uint64(ext.Len)
		c.sum.Nodes++
		c.rep.advance(ext.Len)
	}
	n := index.StoredLen(c.suite, ref.Len, c.super.Sector)
	if c.o.Full && !w.quiet {
		n = ext.Len
	}
	buf := grow(&w.lv[level].node, int(n))
	node, err := c.readNode(w.t, &ref, level, buf)
	if err != nil {
		if !errors.Is(err, format.ErrCorrupt) {
			return err
		}
		return w.bad(level, &ref, lower, upper, err)
	}
	if !allZero(buf[ref.Len:]) {
		c.find(KindFill, ref.Off+int64(ref.Len), "bytes after a node of the tree %v are not zero", w.t)
	}
	if level == 0 {
		return w.leaf(node, &ref, lower, upper)
	}
	return w.branch(node, level, &ref, lower, upper)
}

var errRange = errors.New("keys outside the range that the node above gives")

func (w *walker) leaf(node *index.Node, ref *index.Ref, lower, upper []byte) error {
	s := node.Scan()
	for s.Next() {
		key := s.Key()
		// The bound is a prefix of the first key, so that no deleted key lives on in a branch.
		if s.Index() == 0 && !bytes.HasPrefix(key, lower) || len(upper) > 0 && bytes.Compare(key, upper) >= 0 {
			return w.bad(0, ref, lower, upper, errRange)
		}
		w.count++
		if err := w.item(key, s.Value()); err != nil {
			return err
		}
	}
	return s.Err()
}

func (w *walker) branch(node *index.Node, level int, ref *index.Ref, lower, upper []byte) error {
	lo := append(w.lv[level].lower[:0], lower...)
	w.lv[level].lower = lo
	s := node.Scan()
	var child index.Ref
	for s.Next() {
		if s.Index() > 0 {
			hi := s.Key()
			if bytes.Compare(hi, lo) <= 0 || len(upper) > 0 && bytes.Compare(hi, upper) >= 0 {
				return w.bad(level, ref, lower, upper, errRange)
			}
			if err := w.node(level-1, child, lo, hi); err != nil {
				return err
			}
			lo = append(lo[:0], hi...)
			w.lv[level].lower = lo
		}
		var err error
		if child, err = s.Ref(); err != nil {
			return err
		}
	}
	return w.node(level-1, child, lo, upper)
}

// bad reports a node that cannot be used, and with it everything below.
func (w *walker) bad(level int, ref *index.Ref, lower, upper []byte, err error) error {
	w.c.broken[w.t] = true
	if w.quiet {
		return nil
	}
	below := ""
	if level > 0 {
		below = "; what lies below it cannot be reached"
	}
	w.c.find(KindNode, ref.Off, "tree %v, level %d, keys from %s to %s: %s%s", w.t, level,
		w.t.KeyText(lower, "the first"), w.t.KeyText(upper, "the last"), detail(err), below)
	return nil
}

// found is what a lookup came to.
type found uint8

const (
	absent found = iota
	present
	unreadable // a damaged node stands in the way
)

// lookup finds single items of a tree that was walked before. Neighbours of the item before are
// cheapest. It keeps verified nodes up to a fixed size.
type lookup struct {
	c     *checker
	t     index.Tree
	it    *index.Iter
	last  uint64
	valid bool // it stands at last
	nodes map[index.Ref]*index.Node
	size  int
}

const lookupCache = 2 << 20

func (c *checker) lookup(t index.Tree) *lookup { return &lookup{c: c, t: t} }

// Node implements index.Source.
func (l *lookup) Node(t index.Tree, ref index.Ref, level int) (*index.Node, error) {
	if n, ok := l.nodes[ref]; ok && n.Level() == level {
		return n, nil
	}
	if !l.c.extentOK(format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), l.c.super.Sector)}) {
		return nil, format.Corrupt("node", ref.Off, "outside the archive")
	}
	n, err := l.c.readNode(t, &ref, level, make([]byte, index.StoredLen(l.c.suite, ref.Len, l.c.super.Sector)))
	if err != nil {
		return nil, err
	}
	if l.nodes == nil || l.size > lookupCache {
		l.nodes, l.size = make(map[index.Ref]*index.Node), 0
	}
	l.nodes[ref] = n
	l.size += int(ref.Len) + 256
	return n, nil
}

// find returns the value of key number, valid until the next call. Its error is never of kind ErrCorrupt.
func (l *lookup) find(number uint64) ([]byte, found, error) {
	var buf [8]byte
	key := index.AppendNumKey(buf[:0], number)
	if l.it == nil {
		l.it, l.valid = index.NewIter(l, l.t, l.c.roots[l.t]), false
	}
	ok := false
	switch {
	case l.valid && l.last == number:
		ok = true
	case l.valid && l.last+1 == number:
		ok = l.it.Next() && bytes.Equal(l.it.Key(), key)
	}
	if !ok && l.it.Err() == nil {
		ok = l.it.Seek(key) && bytes.Equal(l.it.Key(), key)
	}
	l.last, l.valid = number, ok
	if ok {
		return l.it.Value(), present, nil
	}
	err := l.it.Err()
	if err == nil {
		return nil, absent, nil
	}
	l.it = nil // its error would stay
	if errors.Is(err, format.ErrCorrupt) {
		return nil, unreadable, nil
	}
	return nil, absent, err
}

// zero checks that an extent of the file holds only zeros, and returns where it does not, or -1.
func (c *checker) zero(ext format.Extent, what string) (bad int64, err error) {
	buf := make([]byte, min(ext.Len, 1<<18))
	for at := ext.Off; at < ext.End(); {
		if err := c.ctx.Err(); err != nil {
			return -1, err
		}
		b := buf[:min(int64(len(buf)), ext.End()-at)]
		if err := c.read(b, at, what); err != nil {
			return at, c.damage(KindFill, at, err)
		}
		for i, x := range b {
			if x != 0 {
				c.find(KindFill, at+int64(i), "bytes of %s that must be zero are not", what)
				return at + int64(i), nil
			}
		}
		at += int64(len(b))
	}
	return -1, nil
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// grow returns *b with length n, in a new array when the old one is too short.
func grow(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n, max(n, 2*cap(*b)))
	}
	return (*b)[:n]
}
