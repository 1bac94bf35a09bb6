package index

import (
	"encoding/binary"
	"fmt"

	"lockbox/internal/format"
)

// Node layout. Header: tree (1), level (1), number of items (2), offset of the restart table (4). Then
// the items, then the restart table with the offset (4) of every restartEvery-th item. An item: shared
// key bytes, further key bytes, value length (uvarints), further key bytes, value. An item shares as
// many bytes with the key before it as the two have in common; a restart shares none.
const (
	nodeHeader   = 8
	restartEvery = 16
	minItem      = 3
	minNode      = nodeHeader + minItem + 4
	maxItems     = 1<<16 - 1
)

// Node is an immutable view of one verified node, searched in place. It may be used concurrently.
type Node struct {
	b       []byte
	off     int64
	end     int // where the items end and the restart table begins
	count   int
	tagSize int
	tree    Tree
	level   uint8
}

// ParseNode checks what can be checked in constant time: header, length, bounds of the restart table.
// Items are checked when they are touched. The node keeps b, which must not change; off is its file
// offset, for messages.
func ParseNode(b []byte, tree Tree, level int, tagSize int, off int64) (*Node, error) {
	bad := func(detail string, args ...any) (*Node, error) {
		return nil, format.Corrupt(tree.record(), off, detail, args...)
	}
	if len(b) < minNode || len(b) > format.MaxNode {
		return bad("length %d", len(b))
	}
	if level < 0 || level >= format.MaxHeight {
		return bad("level %d", level)
	}
	if Tree(b[0]) != tree || int(b[1]) != level {
		return bad("header says %v, level %d; expected level %d", Tree(b[0]), b[1], level)
	}
	n := &Node{b: b, off: off, tree: tree, level: uint8(level), tagSize: tagSize}
	n.count = int(binary.LittleEndian.Uint16(b[2:]))
	end := binary.LittleEndian.Uint32(b[4:])
	if n.count == 0 {
		return bad("no items")
	}
	restarts := (n.count + restartEvery - 1) / restartEvery
	if int64(end) != int64(len(b)-4*restarts) || int64(end) < int64(nodeHeader+minItem*n.count) {
		return bad("restart table at %d in %d bytes with %d items", end, len(b), n.count)
	}
	n.end = int(end)
	return n, nil
}

// Tree is the tree that the node belongs to.
func (n *Node) Tree() Tree { return n.tree }

// Level is the node's distance from the leaves; 0 for a leaf.
func (n *Node) Level() int { return int(n.level) }

// Len is the number of items, at least 1.
func (n *Node) Len() int { return n.count }

// Size is the node's length in bytes.
func (n *Node) Size() int { return len(n.b) }

func (n *Node) corrupt(detail string, args ...any) error {
	return format.Corrupt(n.tree.record(), n.off, detail, args...)
}

func (n *Node) restart(j int) int {
	return int(binary.LittleEndian.Uint32(n.b[n.end+4*j:]))
}

// restartKey is the whole key of restart j, inside the node's bytes.
func (n *Node) restartKey(j int) ([]byte, error) {
	pos := n.restart(j)
	if pos < nodeHeader || pos > n.end-minItem {
		return nil, n.corrupt("restart %d points to %d", j, pos)
	}
	if n.b[pos] != 0 {
		return nil, n.corrupt("restart %d shares key bytes", j)
	}
	klen, pos, ok := uvarint(n.b[:n.end], pos+1)
	if ok {
		_, pos, ok = uvarint(n.b[:n.end], pos)
	}
	if !ok || klen > format.MaxKey || int(klen) > n.end-pos {
		return nil, n.corrupt("malformed item at restart %d", j)
	}
	return n.b[pos : pos+int(klen)], nil
}

// checkFirst holds a leaf's first key to the range [lower, upper) that its parents promise. A branch's
// keys are held to it where its children's ranges are made (childRange).
func (n *Node) checkFirst(lower, upper []byte) error {
	if n.level > 0 {
		return nil
	}
	k, err := n.restartKey(0)
	if err != nil {
		return err
	}
	return n.checkKey(k, lower, upper)
}

// checkKey reports a key outside [lower, upper); an empty bound is none.
func (n *Node) checkKey(k, lower, upper []byte) error {
	if string(k) < string(lower) || len(upper) > 0 && string(k) >= string(upper) {
		return n.outside()
	}
	return nil
}

func (n *Node) outside() error {
	return n.corrupt("level %d holds a key outside the range its parent gives", n.level)
}

// Check looks at every item: order, number forms, restarts, sizes of keys and values. It does not
// look into a leaf's values.
func (n *Node) Check() error {
	s := n.Scan()
	for s.Next() {
		if n.level > 0 {
			if _, err := s.Ref(); err != nil {
				return err
			}
			continue
		}
		want := 0
		switch n.tree {
		case Contents, Frames, Free:
			want = 8
		case Digests:
			want = 16
		}
		if want > 0 && len(s.Key()) != want {
			return n.corrupt("item %d: key of %d bytes", s.Index(), len(s.Key()))
		}
		if n.tree == Digests && len(s.Value()) != 0 {
			return n.corrupt("item %d: a digest with a value", s.Index())
		}
	}
	return s.Err()
}

// Scan reads a node's items in order. The zero Scan is not usable; make one with Node.Scan.
type Scan struct {
	n     *Node
	idx   int // items taken so far
	pos   int // where the next item starts
	key   []byte
	val   []byte
	err   error
	ahead bool // the next item is parsed into the next* fields but not taken
	loose bool // no item was taken before, so there is no key to compare with

	nextShared int
	nextRest   []byte
	nextVal    []byte
	nextPos    int
}

// Scan starts before the node's first item.
func (n *Node) Scan() Scan { return Scan{n: n, pos: nodeHeader, loose: true} }

// reset starts before restart j and keeps the key buffer.
func (s *Scan) reset(n *Node, j int) {
	s.n, s.idx, s.pos = n, j*restartEvery, n.restart(j)
	s.key, s.val, s.err = s.key[:0], nil, nil
	s.ahead, s.loose = false, true
}

// Next moves to the next item; false at the end or on an error.
func (s *Scan) Next() bool {
	if !s.ahead && !s.parse() {
		return false
	}
	s.take()
	return true
}

// Key is the current item's key, valid until the next call of Next. It is empty for a branch's first.
func (s *Scan) Key() []byte { return s.key }

// Value is the current item's value. It aliases the node.
func (s *Scan) Value() []byte { return s.val }

// Index is the current item's position in the node.
func (s *Scan) Index() int { return s.idx - 1 }

// Err is the first error, of kind format.ErrCorrupt.
func (s *Scan) Err() error { return s.err }

// Ref is the current item's value in a branch.
func (s *Scan) Ref() (Ref, error) {
	r, ok := refFrom(s.val, s.n.tagSize)
	if !ok {
		return r, s.n.corrupt("item %d: not a node reference", s.Index())
	}
	return r, nil
}

func (s *Scan) fail(detail string) bool {
	s.err = s.n.corrupt("item %d: %s", s.idx, detail)
	return false
}

// parse reads the next item and holds it against the current one without taking it.
func (s *Scan) parse() bool {
	n := s.n
	if s.idx >= n.count || s.err != nil {
		return false
	}
	b, pos := n.b[:n.end], s.pos
	restart := s.idx%restartEvery == 0
	if restart && n.restart(s.idx/restartEvery) != pos {
		return s.fail("not where the restart table says")
	}
	if pos < nodeHeader || pos > len(b)-minItem {
		return s.fail("cut short")
	}
	var shared, rest, vlen uint64
	if b[pos]|b[pos+1]|b[pos+2] < 0x80 {
		shared, rest, vlen = uint64(b[pos]), uint64(b[pos+1]), uint64(b[pos+2])
		pos += 3
	} else {
		var ok1, ok2, ok3 bool
		shared, pos, ok1 = uvarint(b, pos)
		rest, pos, ok2 = uvarint(b, pos)
		vlen, pos, ok3 = uvarint(b, pos)
		if !ok1 || !ok2 || !ok3 || rest > format.MaxKey || vlen > format.MaxValue {
			return s.fail("malformed length")
		}
	}
	if shared > uint64(len(s.key)) || shared+rest > format.MaxKey || rest+vlen > uint64(len(b)-pos) {
		return s.fail("length out of range")
	}
	s.nextShared = int(shared)
	s.nextRest = b[pos : pos+int(rest)]
	pos += int(rest)
	s.nextVal = b[pos : pos+int(vlen) : pos+int(vlen)]
	s.nextPos = pos + int(vlen)
	switch {
	case restart && shared != 0:
		return s.fail("a restart that shares key bytes")
	case s.idx == 0 && (rest == 0) != (n.level > 0):
		return s.fail("a leaf key is not empty, a branch's first key is")
	case s.idx == 0 || s.loose && restart:
	case restart && string(s.nextRest) <= string(s.key):
		return s.fail("keys do not ascend")
	case restart:
	case rest == 0 || int(shared) < len(s.key) && s.nextRest[0] <= s.key[shared]:
		return s.fail("keys do not ascend, or share more than they say")
	}
	if s.idx == n.count-1 && s.nextPos != n.end {
		return s.fail("bytes left over after the last item")
	}
	s.ahead = true
	return true
}

// take makes the parsed item the current one.
func (s *Scan) take() {
	s.key = append(s.key[:s.nextShared], s.nextRest...)
	s.val, s.pos = s.nextVal, s.nextPos
	s.idx++
	s.ahead, s.loose = false, false
}

// peekKey appends the key after the current one to buf[:0]; nil at the node's end or on an error.
func (s *Scan) peekKey(buf []byte) []byte {
	if !s.ahead && !s.parse() {
		return nil
	}
	buf = append(buf[:0], s.key[:s.nextShared]...)
	return append(buf, s.nextRest...)
}

// childRange gives the range [lo, hi) of the current item of a branch that itself has [lower, upper).
// lo aliases lower or the scan's key, hi aliases buf or upper. A range that leaves no room shows when the
// child's own keys are held to it.
func (s *Scan) childRange(lower, upper, buf []byte) (lo, hi []byte, err error) {
	lo = lower
	if s.idx > 1 {
		if lo = s.key; string(lo) <= string(lower) {
			return nil, nil, s.n.outside()
		}
	}
	hi = s.peekKey(buf)
	if s.err != nil {
		return nil, nil, s.err
	}
	if hi == nil {
		hi = upper
	} else if len(upper) > 0 && string(hi) >= string(upper) {
		return nil, nil, s.n.outside()
	}
	return lo, hi, nil
}

// seek moves to the last item whose key is at most key; false when there is none or on an error. exact
// says that the two are equal. The item after it stays parsed.
func (s *Scan) seek(n *Node, key []byte) (found, exact bool) {
	lo, hi := 0, (n.count+restartEvery-1)/restartEvery // restarts below lo are <= key, from hi on > key
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		k, err := n.restartKey(mid)
		if err != nil {
			s.n, s.err = n, err
			return false, false
		}
		if string(k) <= string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		s.reset(n, 0)
		return false, false
	}
	s.reset(n, lo-1)
	if !s.Next() {
		return false, false
	}
	// same is the number of bytes that key and the current item share. An item that shares more than
	// that with the current one stands to key as it does; one that shares less lies above key.
	same := common(s.key, key)
	for s.parse() {
		if s.idx%restartEvery == 0 {
			if string(s.nextRest) > string(key) {
				break
			}
			same = common(s.nextRest, key)
		} else if s.nextShared < same {
			break
		} else if s.nextShared == same {
			more := common(s.nextRest, key[same:])
			if more < len(s.nextRest) && (same+more == len(key) || s.nextRest[more] > key[same+more]) {
				break
			}
			same += more
		}
		s.take()
	}
	return s.err == nil, same == len(key) && len(s.key) == len(key)
}

// common is the length of the longest prefix that a and b have in common.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// uvarint reads a number in its shortest form at b[pos:] and returns where it ends.
func uvarint(b []byte, pos int) (uint64, int, bool) {
	if pos >= len(b) {
		return 0, pos, false
	}
	if b[pos] < 0x80 {
		return uint64(b[pos]), pos + 1, true
	}
	v, n := binary.Uvarint(b[pos:])
	if n <= 0 || b[pos+n-1] == 0 {
		return 0, pos, false
	}
	return v, pos + n, true
}

func (n *Node) String() string {
	return fmt.Sprintf("%v level %d, %d items, %d bytes", n.tree, n.level, n.count, len(n.b))
}
