package seal

import (
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
)

// KeySize is the length of every symmetric key.
const KeySize = 32

// ContentKey is the random key of an archive, from which all others come.
type ContentKey [KeySize]byte

// Contexts of derived keys. Each use has its own, so that no key serves two purposes.
const (
	contextAttempt = "lockbox 2026-11-30 attempt key v1"
	contextHead    = "lockbox 2026-11-30 hidden head v1"
	contextStream  = "lockbox 2026-11-30 hidden stream v1"
	contextPrefix  = "lockbox 2026-11-30 digest prefix v1"
	contextCheck   = "lockbox 2026-11-30 key check v1"
)

// NewContentKey draws a key.
func NewContentKey(entropy io.Reader) (*ContentKey, error) {
	var k ContentKey
	if _, err := io.ReadFull(entropy, k[:]); err != nil {
		return nil, fmt.Errorf("drawing a content key: %w", err)
	}
	if k == (ContentKey{}) {
		return nil, errors.New("drawing a content key: the source of randomness gives zeros")
	}
	return &k, nil
}

// derive makes a key by BLAKE3 in derive-key mode, of the content key followed by parts of fixed length.
func (k *ContentKey) derive(context string, parts ...[]byte) *[KeySize]byte {
	material := append(make([]byte, 0, 128), k[:]...)
	for _, p := range parts {
		material = append(material, p...)
	}
	var out [KeySize]byte
	blake3.DeriveKey(context, material, out[:])
	clear(material)
	return &out
}

// keyed returns a hasher in keyed mode. A key of the right length is all that it can fail for.
func keyed(key *[KeySize]byte) *blake3.Hasher {
	h, err := blake3.NewKeyed(key[:])
	if err != nil {
		panic(err)
	}
	return h
}

// Check is the key check value over bound, which says what the key belongs to.
func (k *ContentKey) Check(bound []byte) (d format.Digest) {
	key := k.derive(contextCheck)
	h := keyed(key)
	clear(key[:])
	h.Write(bound)
	h.Sum(d[:0])
	return d
}

// Wipe overwrites the key.
func (k *ContentKey) Wipe() { clear(k[:]) }
