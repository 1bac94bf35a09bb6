package recover

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// readNode reads the node that ref names into buf, which it makes larger if need be, and opens it.
func (s *salvage) readNode(t index.Tree, ref *index.Ref, buf *[]byte) ([]byte, bool) {
	b := grow(buf, int(index.StoredLen(s.suite, ref.Len, s.sector)))
	s.read(b, ref.Off)
	return index.OpenNode(s.suite, s.archive, t, ref, b)
}

// walker goes through a tree in order and past damage.
type walker struct {
	s    *salvage
	t    index.Tree
	item func(key, value []byte) error
	lost func(lower, upper []byte, reason string)
	left int64 // bytes of nodes that the archive can still hold: a bound for a tree that refers to itself
	lv   [format.MaxHeight]struct{ node, lower []byte }
}

// walk calls item for every item of a tree that can be reached and lost for each range of keys that cannot,
// all in ascending order. Slices are valid during the call. An error of item ends the walk.
func (s *salvage) walk(t index.Tree, item func(key, value []byte) error, lost func(lower, upper []byte, reason string)) error {
	if !s.base.have[t] {
		lost(nil, nil, "the root of the tree "+t.String()+" is lost")
		return s.ctx.Err()
	}
	root := &s.base.roots[t]
	if root.Height == 0 {
		return s.ctx.Err()
	}
	w := &walker{s: s, t: t, item: item, lost: lost, left: s.size}
	return w.node(int(root.Height)-1, root.Ref, nil, nil)
}

func (w *walker) node(level int, ref index.Ref, lower, upper []byte) error {
	s := w.s
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if w.left -= int64(ref.Len); w.left < 0 {
		w.lost(lower, upper, "the tree has more nodes than the archive can hold")
		return nil
	}
	bad := func() error {
		w.lost(lower, upper, "a node of the tree "+w.t.String()+" is damaged")
		return nil
	}
	b, ok := s.readNode(w.t, &ref, &w.lv[level].node)
	if !ok {
		return bad()
	}
	n, err := index.ParseNode(b, w.t, level, s.tag, ref.Off)
	if err != nil || n.Check() != nil {
		return bad()
	}
	outside := func(key []byte) bool {
		return bytes.Compare(key, lower) < 0 || len(upper) > 0 && bytes.Compare(key, upper) >= 0
	}
	scan := n.Scan()
	if level == 0 {
		for scan.Next() {
			if outside(scan.Key()) {
				return bad()
			}
			if err := w.item(scan.Key(), scan.Value()); err != nil {
				return err
			}
		}
		return nil
	}
	lo := append(w.lv[level].lower[:0], lower...)
	var child index.Ref
	for scan.Next() {
		if scan.Index() > 0 {
			hi := scan.Key()
			if bytes.Compare(hi, lo) <= 0 || outside(hi) {
				lower = lo
				return bad()
			}
			if err := w.node(level-1, child, lo, hi); err != nil {
				return err
			}
			lo = append(lo[:0], hi...)
		}
		w.lv[level].lower = lo
		if child, err = scan.Ref(); err != nil {
			return bad()
		}
	}
	return w.node(level-1, child, lo, upper)
}

// span is a half-open range of numbers.
type span struct{ lo, hi uint64 }

// numberText names the numbers whose keys lie in [lower, upper) to a person.
func numberText(what string, lower, upper []byte) string {
	n := numbers(lower, upper)
	switch {
	case n.lo == 0 && n.hi == noLimit:
		return "all " + what + "s"
	case n.hi == noLimit:
		return fmt.Sprintf("%ss from number %d on", what, n.lo)
	}
	return fmt.Sprintf("%ss from number %d up to, not including, %d", what, n.lo, n.hi)
}

// ranges are numbers, as ascending spans that do not touch.
type ranges []span

const noLimit = ^uint64(0)

// numbers is the range of numbers whose keys lie in [lower, upper); no upper means no limit.
func numbers(lower, upper []byte) span {
	pad := func(key []byte) uint64 {
		var b [8]byte
		copy(b[:], key)
		return binary.BigEndian.Uint64(b[:])
	}
	if len(upper) == 0 {
		return span{pad(lower), noLimit}
	}
	return span{pad(lower), pad(upper)}
}

// add takes a span that does not begin below the ones before.
func (r *ranges) add(s span) {
	if s.lo >= s.hi {
		return
	}
	if n := len(*r); n > 0 && s.lo <= (*r)[n-1].hi {
		(*r)[n-1].hi = max((*r)[n-1].hi, s.hi)
		return
	}
	*r = append(*r, s)
}

func (r ranges) has(n uint64) bool {
	i, ok := slices.BinarySearchFunc(r, n, func(s span, n uint64) int {
		switch {
		case s.hi <= n:
			return -1
		case s.lo > n:
			return 1
		}
		return 0
	})
	return ok && i < len(r)
}

// nodeCache keeps verified nodes for lookups.
type nodeCache struct {
	s     *salvage
	mu    sync.Mutex
	nodes map[index.Ref]*index.Node
	size  int
}

const nodeCacheBytes = 8 << 20

// Node implements index.Source.
func (c *nodeCache) Node(t index.Tree, ref index.Ref, level int) (*index.Node, error) {
	c.mu.Lock()
	n := c.nodes[ref]
	c.mu.Unlock()
	if n != nil && n.Tree() == t && n.Level() == level {
		return n, nil
	}
	b, ok := c.s.readNode(t, &ref, new([]byte))
	if !ok {
		return nil, format.Corrupt("node", ref.Off, "tag does not verify")
	}
	n, err := index.ParseNode(b, t, level, c.s.tag, ref.Off)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil || c.size > nodeCacheBytes {
		c.nodes, c.size = make(map[index.Ref]*index.Node), 0
	}
	c.nodes[ref] = n
	c.size += int(ref.Len) + 256
	return n, nil
}

// answer is what a lookup came to.
type answer uint8

const (
	absent answer = iota
	present
	unreadable // damage stands in the way
)

func (s *salvage) lookup(t index.Tree, lost ranges, number uint64) ([]byte, answer) {
	if !s.base.have[t] || lost.has(number) {
		return nil, unreadable
	}
	var key [8]byte
	value, ok, err := index.Get(&s.nodes, t, s.base.roots[t], index.AppendNumKey(key[:0], number))
	switch {
	case err != nil:
		return nil, unreadable
	case !ok:
		return nil, absent
	}
	return value, present
}

func (s *salvage) contentAt(number uint64) (index.Content, answer) {
	value, a := s.lookup(index.Contents, s.lostContents, number)
	if a != present {
		return index.Content{}, a
	}
	c, err := index.DecodeContent(value)
	if err != nil {
		return c, unreadable
	}
	return c, present
}

// place is a frame, and where its extent begins.
type place struct {
	frames.Info
	off int64
}

func (s *salvage) frameAt(number uint64) (place, answer) {
	value, a := s.lookup(index.Frames, s.lostFrames, number)
	if a != present {
		return place{}, a
	}
	f, err := index.DecodeFrameLean(value, s.tag, s.sector)
	if err != nil {
		return place{}, unreadable
	}
	p := placeOf(number, &f)
	if p.Valid() != "" {
		return p, unreadable
	}
	return p, present
}

func placeOf(number uint64, f *index.Frame) place {
	return place{frames.Info{Number: number, Attempt: f.Attempt, Codec: f.Codec, BlockShift: f.BlockShift, Class: f.Class,
		Plain: f.Plain, Stored: f.Stored, MemberTable: f.MemberTable, Commitment: f.Commitment}, f.Ext.Off}
}

// survey finds out which records are lost, and gathers from frames what those records said.
func (s *salvage) survey() error {
	err := s.walk(index.Contents, func(key, value []byte) error {
		if _, err := index.DecodeContent(value); err != nil {
			n := binary.BigEndian.Uint64(key)
			s.lostContents.add(span{n, n + 1})
		}
		return nil
	}, func(lower, upper []byte, reason string) {
		s.lostContents.add(numbers(lower, upper))
		s.note("%s: the records of %s are lost", reason, numberText("content", lower, upper))
	})
	if err != nil {
		return err
	}
	var holders []foundFrame // frames of the index that hold contents whose records are lost
	last := uint64(0)
	err = s.walk(index.Frames, func(key, value []byte) error {
		n := binary.BigEndian.Uint64(key)
		last = n
		f, err := index.DecodeFrame(value, s.tag, s.sector)
		p := placeOf(n, &f)
		if err != nil || p.Valid() != "" {
			s.lostFrames.add(span{n, n + 1})
			return nil
		}
		s.known = append(s.known, f.Ext)
		if slices.ContainsFunc(f.Contents, s.lostContents.has) {
			holders = append(holders, foundFrame{number: n, off: f.Ext.Off, attempt: f.Attempt, live: true})
		}
		return nil
	}, func(lower, upper []byte, reason string) {
		s.lostFrames.add(numbers(lower, upper))
		s.note("%s: the records of %s are lost", reason, numberText("frame", lower, upper))
	})
	if err != nil {
		return err
	}
	if s.newest != nil && s.base.super != nil && s.base.super.Generation < s.newest.Generation {
		s.beyond(last)
	}
	if len(s.lostFrames) > 0 && !s.scanned {
		if _, err := s.scan(false); err != nil {
			return err
		}
	}
	s.known = nil
	if len(s.lostContents) == 0 {
		return nil
	}
	if err := s.gather(holders); err != nil {
		return err
	}
	return s.prefixes()
}

// beyond makes what a newer generation added to an older one count as lost: names, contents and frames.
func (s *salvage) beyond(lastFrame uint64) {
	nextFrame, nextContent := lastFrame+1, uint64(1)
	if m := s.base.commit; m != nil {
		nextFrame, nextContent = m.Counters.NextFrame, m.Counters.NextContent
	}
	s.lostNames = true
	s.ranges++
	clip := func(r *ranges, next uint64) {
		if n := len(*r); n > 0 {
			next = max(next, (*r)[n-1].lo)
		}
		r.add(span{next, noLimit})
	}
	clip(&s.lostFrames, nextFrame)
	clip(&s.lostContents, nextContent)
}

// prefixes reads what the digests tree keeps of the digests of the gathered contents.
func (s *salvage) prefixes() error {
	if s.base.super == nil {
		return nil
	}
	err := s.walk(index.Digests, func(key, _ []byte) error {
		prefix, n, err := index.DecodeDigestKey(key)
		if err == nil && s.lostContents.has(n) && len(s.parts.of(n)) > 0 {
			s.parts.prefixes = append(s.parts.prefixes, prefixed{n, prefix})
		}
		return nil
	}, func([]byte, []byte, string) {})
	s.parts.sortPrefixes()
	return err
}
