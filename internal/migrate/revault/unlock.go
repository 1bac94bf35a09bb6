package revault

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/mlkem"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/crypto/argon2"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
)

// What deriving a key from a passphrase takes: the format has these as constants.
const (
	kdfMemory = 64 << 20 // bytes
	kdfPasses = 3

	maxTried          = 16 // passphrase slots
	defaultKDFMemory  = kdfMemory
	defaultKDFTime    = kdfPasses * maxTried
	magicPrivate      = "LBX1HPRV"
	privateSize       = 8 + 2 + 2 + 32 + 4 + mlkem.SeedSize
	recipientWrapSalt = "lockbox-v1-hybrid-contact-wrap"
	recipientWrapInfo = "x25519-mlkem768-chacha20poly1305"
)

// keys is what the caller can unlock an archive with.
type keys struct {
	raw        []byte
	identities []identityKey
	passphrase func() ([]byte, error)
	memory     int64
	passes     uint32
}

// identityKey is a recipient's private key.
type identityKey struct {
	share *ecdh.PrivateKey
	kem   *mlkem.DecapsulationKey768
}

func newKeys(o source.Options) (*keys, error) {
	k := &keys{raw: o.RawKey, memory: o.MaxKDFMemory, passes: o.MaxKDFTime}
	if k.memory == 0 {
		k.memory = defaultKDFMemory
	}
	if k.passes == 0 {
		k.passes = defaultKDFTime
	}
	if o.Passphrase != nil {
		k.passphrase = sync.OnceValues(o.Passphrase)
	}
	var err error
	k.identities, err = parseIdentities(o.Identities)
	return k, err
}

// parseIdentities reads private records, one after the other, as bytes or in hexadecimal, or one in PEM.
func parseIdentities(b []byte) ([]identityKey, error) {
	if block, _ := pem.Decode(b); block != nil {
		b = block.Bytes
	} else if len(b) > 0 && !bytes.HasPrefix(b, []byte(magicPrivate)) {
		text := bytes.Join(bytes.Fields(b), nil)
		b = make([]byte, hex.DecodedLen(len(text)))
		if _, err := hex.Decode(b, text); err != nil {
			return nil, failure(format.ErrAuth, "identity", "it is neither the bytes of a private record nor their hexadecimal form or PEM")
		}
	}
	var all []identityKey
	for len(b) > 0 {
		c := format.NewCursor(b[:min(len(b), privateSize)], "reVault identity", -1)
		magic, version, kind := c.Bytes(8), c.U16(), c.U16()
		scalar, seed := c.Bytes(32), bytes32(c)
		if c.Done() != nil || string(magic) != magicPrivate || version != 1 || kind != 1 || len(seed) != mlkem.SeedSize {
			return nil, failure(format.ErrAuth, "identity", "record %d is not a reVault private key of version 1", len(all)+1)
		}
		share, err := ecdh.X25519().NewPrivateKey(scalar)
		if err != nil {
			return nil, failure(format.ErrAuth, "identity", "record %d: %v", len(all)+1, err)
		}
		kem, err := mlkem.NewDecapsulationKey768(seed)
		if err != nil {
			return nil, failure(format.ErrAuth, "identity", "record %d: %v", len(all)+1, err)
		}
		all = append(all, identityKey{share, kem})
		b = b[privateSize:]
	}
	return all, nil
}

// content returns the archive's content key, which the caller wipes, and whether it proves itself: a raw key does not.
func (k *keys) content(ctx context.Context, ps *pages, h *header) (key []byte, proven bool, err error) {
	if len(k.raw) > 0 {
		return bytes.Clone(k.raw), false, nil
	}
	d, err := ps.readKeyDirectory(ctx, h)
	if errors.Is(err, format.ErrCorrupt) {
		err = fmt.Errorf("%w (a raw key would open the archive without it)", err)
	}
	if err != nil {
		return nil, false, err
	}
	if d == nil {
		return nil, false, failure(format.ErrAuth, "archive", "it was made with a raw key, which must be given")
	}
	for _, s := range d.slots {
		if s.kind != slotRecipient {
			continue
		}
		for _, id := range k.identities {
			if key := id.open(s); key != nil {
				return key, true, nil
			}
		}
	}
	return k.tryPassphrase(ctx, d)
}

func (k *keys) tryPassphrase(ctx context.Context, d *keyDirectory) (key []byte, proven bool, err error) {
	var slots []keySlot
	for _, s := range d.slots {
		if s.kind == slotPassphrase {
			slots = append(slots, s)
		}
	}
	switch {
	case len(slots) == 0:
		return nil, false, failure(format.ErrAuth, "key directory", "no key slot is for the identities given, and none is for a passphrase")
	case k.passphrase == nil:
		return nil, false, failure(format.ErrAuth, "key directory", "no key slot is for the identities given, and no passphrase is")
	case k.memory < kdfMemory:
		return nil, false, failure(format.ErrAuth, "key directory", "a passphrase takes %d bytes of memory to try, more than the limit of %d", kdfMemory, k.memory)
	}
	tries := min(len(slots), maxTried, int(k.passes/kdfPasses))
	if tries == 0 {
		return nil, false, failure(format.ErrAuth, "key directory", "a passphrase takes %d passes to try, more than the limit of %d", kdfPasses, k.passes)
	}
	passphrase, err := k.passphrase()
	if err != nil {
		return nil, false, err
	}
	for _, s := range slots[:tries] {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if key := unwrap(argon2.IDKey(passphrase, s.salt, kdfPasses, kdfMemory>>10, 1, 32), s.wrapped); key != nil {
			return key, true, nil
		}
	}
	if tries < len(slots) {
		return nil, false, failure(format.ErrAuth, "key directory", "the passphrase fits none of the %d slots tried; %d more were not, by the limit", tries, len(slots)-tries)
	}
	return nil, false, failure(format.ErrAuth, "key directory", "the passphrase is wrong, or its key slot is damaged")
}

// open returns the key in a recipient's slot, or nil when the slot is for somebody else.
func (id identityKey) open(s keySlot) []byte {
	peer, err := ecdh.X25519().NewPublicKey(s.share)
	if err != nil {
		return nil
	}
	one, err := id.share.ECDH(peer)
	if err != nil {
		return nil
	}
	two, err := id.kem.Decapsulate(s.kem)
	if err != nil {
		return nil
	}
	wrapping, err := recipientKey(one, two)
	if err != nil {
		return nil
	}
	return unwrap(wrapping, s.wrapped)
}

// recipientKey joins the two shared secrets of a recipient's slot.
func recipientKey(one, two []byte) ([]byte, error) {
	ikm := append(binary.LittleEndian.AppendUint32(nil, uint32(len(one))), one...)
	ikm = append(binary.LittleEndian.AppendUint32(ikm, uint32(len(two))), two...)
	defer clear(ikm)
	return hkdf.Key(sha256.New, ikm, []byte(recipientWrapSalt), recipientWrapInfo, 32)
}

// unwrap returns what wrapped holds, or nil when the wrapping key, which it wipes, is not the right one.
func unwrap(wrapping, wrapped []byte) []byte {
	defer clear(wrapping)
	key, err := newCipher(wrapping).Open(nil, make([]byte, nonceSize), wrapped, nil)
	if err != nil || len(key) == 0 {
		return nil
	}
	return key
}

// checkKey checks the MACs of format 2's headers. The other header's must be right too: with a wrong one it may have
// been the newest, altered by somebody who has no key.
func checkKey(key []byte, proven bool, h *header, others []header) error {
	if h.mac == nil {
		return nil
	}
	right := func(h *header) bool { return hmac.Equal(headerMAC(key, h.raw), h.mac) }
	wrong := 0
	for i := range others {
		if !right(&others[i]) {
			wrong++
		}
	}
	switch {
	case right(h) && wrong == 0:
		return nil
	case !right(h) && !proven && wrong == len(others):
		return failure(format.ErrAuth, "header", "the raw key is not this archive's, or the headers were altered")
	case !right(h):
		return corrupt("header", h.at, "it was altered: its authentication code is wrong")
	}
	return errOtherHeader
}

// errOtherHeader says that a header beside the one in use does not authenticate.
var errOtherHeader = errors.New("the other header copy was altered: its authentication code is wrong")
