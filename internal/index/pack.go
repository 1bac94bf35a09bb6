package index

import (
	"encoding/binary"
	"math/bits"
)

// minFanout is the number of children below which a branch is never cut, whatever its size, so that
// long separators cannot make a tree that does not narrow towards its root. The largest branch that
// this leaves uncut (2 × minFanout − 1 longest keys) stays well within format.MaxNode.
const minFanout = 4

// packer collects items in key order for one or two nodes: once they outgrow one node, cut says where
// a full first node ends. Keys are kept whole, also a branch's first, whose key is not stored.
type packer struct {
	branch bool
	target int // bytes of a full node

	buf    []byte // keys and values
	items  []packed
	cut    int    // items of the first part; all of them while it is the only one
	first  int    // bytes of a node of items[:cut]
	second int    // bytes of a node of items[cut:]
	sep    []byte // separator of a node that starts with items[0]

	fromBytes, fromItems int // what the nodes that the items come from held
}

type packed struct {
	off        int
	klen, vlen int32
	shared     int32 // bytes in common with the key before, in items
	fresh      bool  // the child was written by this Apply
}

func (p *packer) reset() {
	p.buf, p.items, p.sep = p.buf[:0], p.items[:0], p.sep[:0]
	p.cut, p.first, p.second = 0, 0, 0
	p.fromBytes, p.fromItems = 0, 0
}

func (p *packer) empty() bool { return len(p.items) == 0 }

func (p *packer) key(i int) []byte {
	it := &p.items[i]
	return p.buf[it.off : it.off+int(it.klen)]
}

func (p *packer) value(i int) []byte {
	it := &p.items[i]
	return p.buf[it.off+int(it.klen) : it.off+int(it.klen)+int(it.vlen)]
}

// sepOf is the separator of a node that starts with items[i].
func (p *packer) sepOf(i int) []byte {
	if i == 0 {
		return p.sep
	}
	if p.branch {
		return p.key(i)
	}
	return p.key(i)[:p.items[i].shared+1]
}

// layout gives the lengths of an item that stands at a position in its node.
func (p *packer) layout(it *packed, at int) (shared, rest int) {
	shared, rest = int(it.shared), int(it.klen)
	if at%restartEvery == 0 || p.branch && at == 1 {
		shared = 0
	}
	if p.branch && at == 0 {
		rest = 0
	}
	return shared, rest - shared
}

// cost is the number of bytes that an item takes at a position in its node.
func (p *packer) cost(it *packed, at int) int {
	shared, rest := p.layout(it, at)
	n := uvarintLen(shared) + uvarintLen(rest) + uvarintLen(int(it.vlen)) + rest + int(it.vlen)
	if at%restartEvery == 0 {
		n += 4
	}
	return n
}

func uvarintLen(n int) int { return uvarintLen64(uint64(n)) }

func uvarintLen64(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }

func (p *packer) size(i, j int) int {
	n := nodeHeader
	for at := i; at < j; at++ {
		n += p.cost(&p.items[at], at-i)
	}
	return n
}

// fits reports whether a node that holds count items in size bytes takes an item of cost more.
func (p *packer) fits(count, size, cost int) bool {
	least := 1
	if p.branch {
		least = minFanout
	}
	return count < least || size+cost <= p.target && count < maxItems
}

// add appends an item. It reports true when a third node began: the first part is settled then, and the
// caller has to write and drop it before it adds more.
func (p *packer) add(key, value []byte, fresh bool) bool {
	it := packed{off: len(p.buf), klen: int32(len(key)), vlen: int32(len(value)), fresh: fresh}
	n := len(p.items)
	if n > 0 {
		it.shared = int32(common(p.key(n-1), key))
	}
	p.buf = append(append(p.buf, key...), value...)
	p.items = append(p.items, it)
	if n == 0 {
		p.first = nodeHeader
	}
	if p.cut == n {
		if c := p.cost(&it, n); p.fits(n, p.first, c) {
			p.first += c
			p.cut++
			return false
		}
		p.second = nodeHeader + p.cost(&it, 0)
		return false
	}
	at := n - p.cut
	c := p.cost(&it, at)
	if p.fits(at, p.second, c) {
		p.second += c
		return false
	}
	return true
}

// dropFirst removes the first part after add reported true.
func (p *packer) dropFirst() {
	n := len(p.items) - 1
	second, k := p.second, p.cut
	p.drop(k)
	p.cut, p.first = n-k, second
	p.second = nodeHeader + p.cost(&p.items[n-k], 0)
}

// drop removes items[:k], 0 < k < len(items); what is left counts as one node.
func (p *packer) drop(k int) {
	p.sep = append(p.sep[:0], p.sepOf(k)...)
	off := p.items[k].off
	p.buf = p.buf[:copy(p.buf, p.buf[off:])]
	p.items = p.items[:copy(p.items, p.items[k:])]
	for i := range p.items {
		p.items[i].off -= off
	}
	p.items[0].shared = 0
	p.cut = len(p.items)
	p.first, p.second = p.size(0, p.cut), 0
	p.fromBytes, p.fromItems = 0, 0
}

// pop removes the last item.
func (p *packer) pop() {
	n := len(p.items) - 1
	it := p.items[n]
	switch {
	case p.cut > n:
		p.cut = n
		p.first -= p.cost(&it, n)
	case p.cut == n:
		p.second = 0
	default:
		p.second -= p.cost(&it, n-p.cut)
	}
	p.buf, p.items = p.buf[:it.off], p.items[:n]
}

// divide says whether the items go into one node, and otherwise where the second begins: so that both
// are evenly filled, or the left one full.
func (p *packer) divide(fullLeft bool) (k int, single bool) {
	n := len(p.items)
	if p.cut == n || p.branch && n < 2*minFanout && !fullLeft {
		return n, true
	}
	if fullLeft {
		return p.cut, false
	}
	least := 1
	if p.branch {
		least = minFanout
	}
	half, left := (p.first+p.second)/2, nodeHeader
	k = 0
	for k < n-least && (k < least || left < half) {
		left += p.cost(&p.items[k], k)
		k++
	}
	best, bestSize := p.cut, max(p.first, p.second)
	if n-best < least { // the full left part leaves a branch too few children
		best, bestSize = n-least, max(p.size(0, n-least), p.size(n-least, n))
	}
	for _, c := range []int{k - 1, k} {
		if c < least || n-c < least {
			continue
		}
		if m := max(p.size(0, c), p.size(c, n)); m < bestSize {
			best, bestSize = c, m
		}
	}
	return best, false
}

// sparse reports a node that lost items and is now so empty that it should join a neighbour. A node
// that was never fuller is left alone: it may be the growing right edge.
func (p *packer) sparse() bool {
	if p.empty() || p.cut < len(p.items) {
		return false
	}
	if p.branch {
		return len(p.items) < p.fromItems && (p.first*3 < p.target || len(p.items) < minFanout)
	}
	return p.first < p.fromBytes && p.first*3 < p.target
}

// encode appends a node of items[i:j] to b.
func (p *packer) encode(b []byte, t Tree, level, i, j int) []byte {
	start := len(b)
	b = append(b, byte(t), byte(level), 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint16(b[start+2:], uint16(j-i))
	for at := i; at < j; at++ {
		shared, rest := p.layout(&p.items[at], at-i)
		key, value := p.key(at), p.value(at)
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(rest))
		b = binary.AppendUvarint(b, uint64(len(value)))
		b = append(b, key[shared:shared+rest]...)
		b = append(b, value...)
	}
	end := len(b) - start
	binary.LittleEndian.PutUint32(b[start+4:], uint32(end))
	// A second pass over the item lengths gives the restarts without a list of them.
	pos := nodeHeader
	for at := i; at < j; at++ {
		c := p.cost(&p.items[at], at-i)
		if (at-i)%restartEvery == 0 {
			b = binary.LittleEndian.AppendUint32(b, uint32(pos))
			c -= 4
		}
		pos += c
	}
	return b
}
