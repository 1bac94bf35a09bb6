package journal

import (
	"encoding/binary"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// Sealed commit block: IV (24), hidden head: attempt id (16), generation (8), plain length (4), reserved (4), root
// hash (32); tag (T), sealed plain form, which zeros fill up to a whole sector. The root hash binds the
// superblock, which nothing else authenticates in an archive that is not signed.
const (
	sealedRoot   = 16 + 8 + 4 + 4
	sealedFields = sealedRoot + 32
	sealedHead   = seal.IVSize + sealedFields
)

func commitContext(s *Super, n int) seal.Context {
	return seal.Context{Archive: s.Archive, Attempt: s.Attempt, Number: s.Generation, Plain: uint32(n), Stored: uint32(n)}
}

// SealCommit returns the stored form of a commit block, which s.Attempt's transaction publishes.
func SealCommit(block []byte, s *Super, suite seal.Suite) []byte {
	h := suite.Hider()
	if h == nil {
		return block
	}
	body := sealedHead + suite.TagSize()
	b := make([]byte, format.AlignUp(int64(body+len(block)), s.Sector))
	copy(b[seal.IVSize:], s.Attempt[:])
	binary.LittleEndian.PutUint64(b[seal.IVSize+16:], s.Generation)
	binary.LittleEndian.PutUint32(b[seal.IVSize+24:], uint32(len(block)))
	root := s.RootHash(block)
	copy(b[seal.IVSize+sealedRoot:], root[:])
	h.Hide(seal.KindCommit, b[:sealedHead])
	copy(b[body:], block)
	ctx := commitContext(s, len(b)-body)
	suite.Seal(&ctx, seal.KindCommit, seal.NoBlock, b[body:], b[sealedHead:body])
	return b
}

// CommitHead is what the head of a sealed commit block says.
type CommitHead struct {
	Attempt    format.ID
	Generation uint64
	Plain      uint32
}

// CommitHeadSize is how many bytes RevealCommit needs.
const CommitHeadSize = sealedHead

// RevealCommit reads the head of a commit block, if a sealed one of the hider's archive begins with b. It
// changes b.
func RevealCommit(b []byte, h *seal.Hider) (c CommitHead, ok bool) {
	if len(b) < sealedHead || !h.Reveal(seal.KindCommit, b[:sealedHead]) {
		return c, false
	}
	c.Attempt = format.ID(b[seal.IVSize:])
	c.Generation = binary.LittleEndian.Uint64(b[seal.IVSize+16:])
	c.Plain = binary.LittleEndian.Uint32(b[seal.IVSize+24:])
	return c, binary.LittleEndian.Uint32(b[seal.IVSize+28:]) == 0
}

// SealedLen is the stored length of a commit block of plain bytes.
func SealedLen(plain uint32, suite seal.Suite, sector int64) int64 {
	return format.AlignUp(int64(sealedHead+suite.TagSize())+int64(plain), sector)
}

// boundRoot is the root hash in a stored commit block that OpenCommit has opened.
func boundRoot(b []byte) format.Digest { return format.Digest(b[seal.IVSize+sealedRoot : sealedHead]) }

// OpenCommit returns the plain form of a stored commit block, whose bytes it changes. It does not hold it
// against the rest of the superblock.
func OpenCommit(b []byte, s *Super, suite seal.Suite) ([]byte, error) {
	h := suite.Hider()
	if h == nil {
		return b, nil
	}
	bad := func(what string) ([]byte, error) { return nil, format.Corrupt("commit block", s.CommitOff, "%s", what) }
	body := sealedHead + suite.TagSize()
	if len(b) < body || int64(len(b))%s.Sector != 0 {
		return bad("length out of range")
	}
	head, ok := RevealCommit(b, h)
	switch {
	case !ok:
		return bad("its head is not one of this archive")
	case head.Attempt != s.Attempt || head.Generation != s.Generation:
		return bad("generation differs from the superblock's")
	case head.Plain > format.MaxCommitBlock || SealedLen(head.Plain, suite, s.Sector) != int64(len(b)):
		return bad("length out of range")
	}
	tag, sealed := b[sealedHead:body], b[body:len(b):len(b)]
	ctx := commitContext(s, len(sealed))
	if !suite.Open(&ctx, seal.KindCommit, seal.NoBlock, sealed, tag) {
		return bad("tag does not verify")
	}
	for _, x := range sealed[head.Plain:] {
		if x != 0 {
			return bad("its fill is not zero")
		}
	}
	return sealed[:head.Plain], nil
}
