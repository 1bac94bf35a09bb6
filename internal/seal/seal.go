package seal

import (
	"encoding/binary"

	"lockbox/internal/format"

	"github.com/zeebo/xxh3"
)

// Kind says what sealed bytes are, so that one structure never verifies in another's place.
type Kind uint8

const (
	KindBlock  Kind = 1 // a block of a frame; a compressed frame is one block
	KindTable  Kind = 2 // the tag table of a raw frame
	KindHeader Kind = 3 // a frame's self-describing header and member table
	KindNode   Kind = 4 // a tree node
	KindCommit Kind = 5 // a commit block
	KindKeys   Kind = 6 // the labels in the key directory
)

// NoBlock is the block number of what does not consist of blocks.
const NoBlock = 1<<32 - 1

// Context is what a tag is bound to beside the bytes themselves.
type Context struct {
	Archive format.ID
	Attempt format.ID
	Number  uint64 // frame number, node sequence number within its attempt, or generation
	Plain   uint32 // plain length of the whole structure
	Stored  uint32 // stored length of the whole structure, without tags
	Codec   uint8
}

// ContextSize is the length of a context's bound form (see bind).
const ContextSize = 16 + 16 + 8 + 4 + 4 + 1 + 1 + 4

// bind writes the context, the kind and the block number in the order of FORMAT.md.
func (c *Context) bind(kind Kind, block uint32) (b [ContextSize]byte) {
	copy(b[0:], c.Archive[:])
	copy(b[16:], c.Attempt[:])
	binary.LittleEndian.PutUint64(b[32:], c.Number)
	binary.LittleEndian.PutUint32(b[40:], c.Plain)
	binary.LittleEndian.PutUint32(b[44:], c.Stored)
	b[48] = c.Codec
	b[49] = byte(kind)
	binary.LittleEndian.PutUint32(b[50:], block)
	return b
}

// Suite seals and opens blocks in place. Implementations are safe for concurrent use.
type Suite interface {
	ID() format.Suite
	// Algorithm is the tag algorithm of the superblock.
	Algorithm() Algorithm
	// TagSize is the width of a tag and of a commitment: 16, 32, 16, 48 bytes for none, signed,
	// encrypted and both.
	TagSize() int
	// Seal replaces b by its stored form, which has the same length, and writes the tag to
	// tag[:TagSize()]. Like Open it may use up to Slack bytes of b's spare capacity, and restores them:
	// where another goroutine may use those, b must have no spare capacity.
	Seal(c *Context, kind Kind, block uint32, b, tag []byte)
	// Open checks b against tag[:TagSize()] and replaces it by its plain form. It returns false, with
	// b unspecified, when b does not verify.
	Open(c *Context, kind Kind, block uint32, b, tag []byte) bool
	// Prefix is what the digests tree keeps of a content's digest.
	Prefix(d *format.Digest) [8]byte
	// Hider hides what describes itself; nil in an archive that is not encrypted.
	Hider() *Hider
	// Wipe overwrites the keys, as far as they can be reached. The suite is not usable afterwards.
	Wipe()
}

// Algorithm is how tags are made.
type Algorithm uint8

const (
	XXH3      Algorithm = 1
	BLAKE3    Algorithm = 2
	AESGCM    Algorithm = 3 // AES-256-GCM
	XChaCha20 Algorithm = 4 // XChaCha20-Poly1305
)

func (a Algorithm) String() string {
	switch a {
	case XXH3:
		return "XXH3-128"
	case BLAKE3:
		return "BLAKE3-256"
	case AESGCM:
		return "AES-256-GCM"
	case XChaCha20:
		return "XChaCha20-Poly1305"
	}
	return "unknown"
}

// Fits reports whether a suite's tags can be made by an algorithm.
func (a Algorithm) Fits(s format.Suite) bool {
	switch s {
	case format.SuiteNone:
		return a == XXH3
	case format.SuiteSigned:
		return a == BLAKE3
	case format.SuiteEncrypted, format.SuiteBoth:
		return a == AESGCM || a == XChaCha20
	}
	return false
}

// New returns the suite of an archive that is neither signed nor encrypted.
func New() Suite { return null{} }

// null detects damage, not forgery: its tag is XXH3-128 seeded with XXH3-64 of the context.
type null struct{}

func (null) ID() format.Suite     { return format.SuiteNone }
func (null) Algorithm() Algorithm { return XXH3 }
func (null) TagSize() int         { return 16 }
func (null) Hider() *Hider        { return nil }
func (null) Wipe()                {}

func (null) Prefix(d *format.Digest) [8]byte { return [8]byte(d[:8]) }

func (null) sum(c *Context, kind Kind, block uint32, b []byte) xxh3.Uint128 {
	ctx := c.bind(kind, block)
	return xxh3.Hash128Seed(b, xxh3.Hash(ctx[:]))
}

func (n null) Seal(c *Context, kind Kind, block uint32, b, tag []byte) {
	s := n.sum(c, kind, block, b)
	binary.LittleEndian.PutUint64(tag[0:], s.Lo)
	binary.LittleEndian.PutUint64(tag[8:], s.Hi)
}

func (n null) Open(c *Context, kind Kind, block uint32, b, tag []byte) bool {
	s := n.sum(c, kind, block, b)
	return len(tag) >= 16 && binary.LittleEndian.Uint64(tag[0:]) == s.Lo && binary.LittleEndian.Uint64(tag[8:]) == s.Hi
}
