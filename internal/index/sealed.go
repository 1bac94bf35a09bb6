package index

import (
	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// StoredLen is how many bytes of a node's extent are sealed, and so must be read: its own, in an encrypted
// archive together with the fill up to a sector.
func StoredLen(s seal.Suite, length uint32, sector int64) int64 {
	if s.Hider() == nil {
		return int64(length)
	}
	return format.AlignUp(int64(length), sector)
}

func nodeContext(archive format.ID, t Tree, ref *Ref, stored int) seal.Context {
	return seal.Context{Archive: archive, Attempt: ref.Attempt, Number: uint64(ref.Seq), Plain: ref.Len, Stored: uint32(stored), Codec: uint8(t)}
}

// SealNode seals a node in its extent, which zeros fill, and puts the tag into ref. All of ref but the tag and
// the offset is known.
func SealNode(s seal.Suite, archive format.ID, t Tree, ref *Ref, extent []byte, sector int64) {
	b := extent[:StoredLen(s, ref.Len, sector)]
	c := nodeContext(archive, t, ref, len(b))
	s.Seal(&c, seal.KindNode, seal.NoBlock, b, ref.Tag[:])
}

// OpenNode checks b, StoredLen bytes as read, and returns the node in it, which b becomes. It returns false,
// with b unspecified, when b does not verify.
func OpenNode(s seal.Suite, archive format.ID, t Tree, ref *Ref, b []byte) ([]byte, bool) {
	if len(b) < int(ref.Len) {
		return nil, false
	}
	c := nodeContext(archive, t, ref, len(b))
	if !s.Open(&c, seal.KindNode, seal.NoBlock, b, ref.Tag[:]) {
		return nil, false
	}
	for _, x := range b[ref.Len:] {
		if x != 0 {
			return nil, false
		}
	}
	return b[:ref.Len:ref.Len], true
}
