package index

import (
	"encoding/binary"
	"fmt"

	"lockbox/internal/format"
)

// Tree names one of the five trees.
type Tree uint8

const (
	Entries  Tree = 1 + iota // path → entry
	Contents                 // content number → size, digest, references, runs
	Digests                  // short digest and content number → nothing
	Frames                   // frame number → where a frame is and what it holds
	Free                     // offset → free extent
)

func (t Tree) String() string {
	switch t {
	case Entries:
		return "entries"
	case Contents:
		return "contents"
	case Digests:
		return "digests"
	case Frames:
		return "frames"
	case Free:
		return "free"
	}
	return fmt.Sprintf("tree %d", uint8(t))
}

// record names a node of the tree in errors.
func (t Tree) record() string { return "node of the tree " + t.String() }

// Node reference: offset (8), length (4), sequence number (4), attempt id (16), tag (T).
const refFixed = 8 + 4 + 4 + 16

// Ref says where a node is and what authenticates it. Len is the node's length without the fill up to
// a sector. Tag is zero beyond the archive's tag size, so that references can be compared with ==.
type Ref struct {
	Off     int64
	Len     uint32
	Seq     uint32
	Attempt format.ID
	Tag     [format.MaxTag]byte
}

// RefSize is the stored size of a reference in an archive whose tags have tagSize bytes.
func RefSize(tagSize int) int { return refFixed + tagSize }

// Append writes the reference to b.
func (r Ref) Append(b []byte, tagSize int) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Off))
	b = binary.LittleEndian.AppendUint32(b, r.Len)
	b = binary.LittleEndian.AppendUint32(b, r.Seq)
	b = append(b, r.Attempt[:]...)
	return append(b, r.Tag[:tagSize]...)
}

// DecodeRef reads a reference to a node that exists.
func DecodeRef(c *format.Cursor, tagSize int) Ref {
	var r Ref
	r.Off = c.I64()
	r.Len = c.U32()
	r.Seq = c.U32()
	r.Attempt = c.ID()
	copy(r.Tag[:], c.Bytes(tagSize))
	if !r.plausible() {
		c.Fail("node reference out of range")
		return Ref{}
	}
	return r
}

func (r *Ref) plausible() bool {
	return r.Off >= format.DataStart && r.Off <= format.MaxLogicalEnd-format.MaxNode &&
		r.Len >= minNode && r.Len <= format.MaxNode
}

// refFrom reads a branch item's value without allocating; false when it is not a reference.
func refFrom(v []byte, tagSize int) (r Ref, ok bool) {
	if len(v) != RefSize(tagSize) {
		return r, false
	}
	off := binary.LittleEndian.Uint64(v)
	if off > uint64(format.MaxLogicalEnd) {
		return r, false
	}
	r.Off = int64(off)
	r.Len = binary.LittleEndian.Uint32(v[8:])
	r.Seq = binary.LittleEndian.Uint32(v[12:])
	copy(r.Attempt[:], v[16:])
	copy(r.Tag[:], v[refFixed:])
	return r, r.plausible()
}

// Root record: height (1), reserved (7), number of items (8), node reference (32 + T).
const rootFixed = 16

// Root is a whole tree. Height is its number of levels; 0 is the empty tree, whose Ref and Count are
// zero.
type Root struct {
	Ref    Ref
	Height uint8
	Count  uint64
}

// RootSize is the stored size of a root record.
func RootSize(tagSize int) int { return rootFixed + RefSize(tagSize) }

// Append writes the root record to b.
func (r Root) Append(b []byte, tagSize int) []byte {
	b = append(b, r.Height, 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.Count)
	return r.Ref.Append(b, tagSize)
}

// DecodeRoot reads a root record.
func DecodeRoot(c *format.Cursor, tagSize int) Root {
	var r Root
	r.Height = c.U8()
	c.Zero(7)
	r.Count = c.U64()
	switch {
	case r.Height > format.MaxHeight:
		c.Fail("tree too high")
	case r.Height == 0:
		c.Zero(RefSize(tagSize))
		if r.Count != 0 {
			c.Fail("an empty tree that counts items")
		}
	default:
		r.Ref = DecodeRef(c, tagSize)
		if r.Count == 0 {
			c.Fail("a tree with nodes that counts no items")
		}
	}
	if c.Err() != nil {
		return Root{}
	}
	return r
}

// Source hands out nodes whose tag was checked against ref and that ParseNode accepted.
type Source interface {
	Node(t Tree, ref Ref, level int) (*Node, error)
}

// Sink takes what Apply makes. Write stores a node and returns a reference to it whose Len is len(b);
// b is reused afterwards. Retire says that nothing in the new tree refers to the node any more; it is
// called once for a node, which in rare cases is one that the same Apply wrote.
type Sink interface {
	Write(t Tree, level int, b []byte) (Ref, error)
	Retire(t Tree, level int, ref Ref)
}

// load fetches a node and holds it to its place.
func load(src Source, t Tree, ref Ref, level int) (*Node, error) {
	n, err := src.Node(t, ref, level)
	if err != nil {
		return nil, err
	}
	if n.tree != t || int(n.level) != level {
		return nil, format.Corrupt(t.record(), ref.Off, "a node of another tree or level")
	}
	return n, nil
}
