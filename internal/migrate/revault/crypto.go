package revault

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"lockbox/internal/format"
)

// What each use of SHA-256 begins with. The first two say v1 in both formats.
const (
	checksumLabel  = "lockbox-v1-public-checksum/sha256"
	pageKeyLabel   = "lockbox-v1-content-key/chacha20poly1305"
	headerMACLabel = "lockbox-v2-header-metadata-auth/hmac-sha256"
)

func labelled(label string, b []byte) (sum format.Digest) {
	h := sha256.New()
	h.Write([]byte(label))
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	h.Write(b)
	h.Sum(sum[:0])
	return sum
}

// checksum has no key: it finds accidents, and proves nothing.
func checksum(b []byte) format.Digest { return labelled(checksumLabel, b) }

// pageCipher is what seals the pages of the archive whose content key is key.
func pageCipher(key []byte) cipher.AEAD {
	k := labelled(pageKeyLabel, key)
	return newCipher(k[:])
}

func newCipher(key []byte) cipher.AEAD {
	c, err := chacha20poly1305.New(key)
	if err != nil {
		panic(err) // only for a length other than 32, which no caller has
	}
	return c
}

// headerMAC is the keyed part of a format 2 header whose first bytes are b.
func headerMAC(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(headerMACLabel))
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	h.Write(b)
	return h.Sum(nil)[:macSize]
}

func corrupt(record string, off int64, detail string, args ...any) error {
	return format.Corrupt("reVault "+record, off, detail, args...)
}

func failure(kind error, record string, detail string, args ...any) error {
	return &format.Error{Kind: kind, Record: "reVault " + record, Offset: -1, Detail: fmt.Sprintf(detail, args...)}
}

// detail is the last part of an error, for a sentence that has said the rest.
func detail(err error) string {
	if e, ok := errors.AsType[*format.Error](err); ok {
		return strings.TrimPrefix(e.Error(), e.Kind.Error()+": ")
	}
	return err.Error()
}
