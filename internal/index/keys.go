package index

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
)

// Keys of the trees contents, frames and free are a number, 8 bytes big-endian, so that the order of
// keys is the order of numbers. A key of the tree digests is a digest prefix (8) and a content number.

// AppendNumKey appends the key of a number to b.
func AppendNumKey(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

// NumKey is the key of a number.
func NumKey(n uint64) []byte { return AppendNumKey(make([]byte, 0, 8), n) }

// DecodeNumKey is the inverse of NumKey.
func DecodeNumKey(key []byte) (uint64, error) {
	if len(key) != 8 {
		return 0, format.Corrupt("key", -1, "%d bytes instead of 8", len(key))
	}
	return binary.BigEndian.Uint64(key), nil
}

// DigestKey is the key of a content in the tree digests. With content 0 it lies before all contents
// that have the prefix.
func DigestKey(prefix [8]byte, content uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 16), prefix[:]...), content)
}

// DecodeDigestKey is the inverse of DigestKey.
func DecodeDigestKey(key []byte) (prefix [8]byte, content uint64, err error) {
	if len(key) != 16 {
		return prefix, 0, format.Corrupt("digest key", -1, "%d bytes instead of 16", len(key))
	}
	copy(prefix[:], key)
	if content = binary.BigEndian.Uint64(key[8:]); content == 0 || content > maxNumber {
		return prefix, 0, format.Corrupt("digest key", -1, "content number %d", content)
	}
	return prefix, content, nil
}

// maxNumber bounds content and frame numbers, so that differences between them fit in an int64.
const maxNumber = 1<<63 - 1

// KeyText shows a key, or the part of one that a separator is, to a person. An empty one stands for the end of a range,
// which is called end.
func (t Tree) KeyText(key []byte, end string) string {
	switch {
	case len(key) == 0:
		return end
	case t == Entries:
		return `"` + pathsafe.Quote(string(bytes.ReplaceAll(key, []byte{0}, []byte{'/'}))) + `"`
	case t == Digests:
		return fmt.Sprintf("%x", key)
	}
	var b [8]byte
	copy(b[:], key)
	return fmt.Sprint(binary.BigEndian.Uint64(b[:]))
}
