package seal

import (
	"sync"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
)

const digestSize = 32

// NewSigned returns the suite of an archive that is signed and not encrypted. Its tags need no key: the
// signature authenticates the root, the root's digests the nodes, and these everything else.
func NewSigned() Suite { return signed{} }

// signed makes tags that nobody can find other bytes for: BLAKE3-256 of context and bytes.
type signed struct{}

func (signed) ID() format.Suite     { return format.SuiteSigned }
func (signed) Algorithm() Algorithm { return BLAKE3 }
func (signed) TagSize() int         { return digestSize }
func (signed) Hider() *Hider        { return nil }
func (signed) Wipe()                {}

func (signed) Prefix(d *format.Digest) [8]byte { return [8]byte(d[:8]) }

func (signed) Seal(c *Context, kind Kind, block uint32, b, tag []byte) {
	d := digest(c, kind, block, b)
	copy(tag, d[:])
}

func (signed) Open(c *Context, kind Kind, block uint32, b, tag []byte) bool {
	return len(tag) >= digestSize && format.Digest(tag[:digestSize]) == digest(c, kind, block, b)
}

// hashers are reused: one is ten kilobytes large.
var hashers = sync.Pool{New: func() any { return new(hashing{h: blake3.New()}) }}

type hashing struct {
	h   *blake3.Hasher
	ctx [ContextSize]byte
	sum format.Digest
}

func digest(c *Context, kind Kind, block uint32, b []byte) format.Digest {
	x := hashers.Get().(*hashing)
	x.h.Reset()
	x.ctx = c.bind(kind, block)
	x.h.Write(x.ctx[:])
	x.h.Write(b)
	x.h.Sum(x.sum[:0])
	d := x.sum
	hashers.Put(x)
	return d
}
