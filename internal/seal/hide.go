package seal

import (
	"crypto/subtle"
	"sync"

	"github.com/zeebo/blake3"
	"golang.org/x/crypto/chacha20"

	"lockbox/internal/format"
)

// IVSize is the length of what a hidden head begins with.
const IVSize = chacha20.NonceSizeX

// fillBlock is the first block of the key stream that enciphers fill: no head reaches it.
const fillBlock = 16

// Hider makes the parts of an encrypted archive that describe themselves, for recovery, look like any other
// sealed bytes. A head is sealed deterministically: its first IVSize bytes, the IV, are a keyed BLAKE3 of
// its kind and fields, and the fields are enciphered with XChaCha20 under another key and that IV. So
// the IV is what whoever has the key recognises a head by, and equal only for equal fields.
type Hider struct {
	stream *[KeySize]byte
	head   *[KeySize]byte // the key of heads
	heads  sync.Pool      // of keyed *blake3.Hasher
}

func newHider(k *ContentKey, archive format.ID) *Hider {
	h := &Hider{stream: k.derive(contextStream, archive[:]), head: k.derive(contextHead, archive[:])}
	h.heads.New = func() any { return keyed(h.head) }
	return h
}

func (h *Hider) wipe() {
	clear(h.stream[:])
	clear(h.head[:])
}

func (h *Hider) iv(kind Kind, fields []byte) (iv [IVSize]byte) {
	x := h.heads.Get().(*blake3.Hasher)
	x.Reset()
	x.Write([]byte{byte(kind)})
	x.Write(fields)
	var sum format.Digest
	x.Sum(sum[:0])
	h.heads.Put(x)
	copy(iv[:], sum[:])
	return iv
}

func (h *Hider) xor(iv []byte, block uint32, b []byte) {
	c, err := chacha20.NewUnauthenticatedCipher(h.stream[:], iv)
	if err != nil {
		panic(err) // lengths are constants
	}
	c.SetCounter(block)
	c.XORKeyStream(b, b)
}

// Hide replaces head, whose first IVSize bytes are free, by its hidden form.
func (h *Hider) Hide(kind Kind, head []byte) {
	iv := h.iv(kind, head[IVSize:])
	copy(head, iv[:])
	h.xor(iv[:], 0, head[IVSize:])
}

// Reveal replaces a head's fields by their plain form and reports whether it is one of this archive and kind.
func (h *Hider) Reveal(kind Kind, head []byte) bool {
	h.xor(head[:IVSize], 0, head[IVSize:])
	iv := h.iv(kind, head[IVSize:])
	return subtle.ConstantTimeCompare(iv[:], head[:IVSize]) == 1
}

// Fill enciphers or deciphers the fill that belongs to a head with this IV: zeros become noise and back.
func (h *Hider) Fill(iv, fill []byte) { h.xor(iv[:IVSize], fillBlock, fill) }
