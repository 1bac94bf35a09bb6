package format

import "encoding/hex"

// ID is a 128-bit identifier: of an archive, or of one transaction attempt.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Digest is a BLAKE3-256 value.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Suite says how an archive is protected.
type Suite uint8

const (
	SuiteNone      Suite = 0
	SuiteSigned    Suite = 1
	SuiteEncrypted Suite = 2
	SuiteBoth      Suite = 3
)

func (s Suite) String() string {
	switch s {
	case SuiteNone:
		return "none"
	case SuiteSigned:
		return "signed"
	case SuiteEncrypted:
		return "encrypted"
	case SuiteBoth:
		return "signed+encrypted"
	}
	return "unknown"
}

// Signed reports whether a signature authenticates the archive.
func (s Suite) Signed() bool { return s&SuiteSigned != 0 }

// Encrypted reports whether the archive has a content key.
func (s Suite) Encrypted() bool { return s&SuiteEncrypted != 0 }

// Extent is a range of the archive file in bytes; both numbers are multiples of the sector size.
type Extent struct{ Off, Len int64 }

// End is the first offset after the extent.
func (e Extent) End() int64 { return e.Off + e.Len }

// Overlaps reports whether the two extents share a byte.
func (e Extent) Overlaps(o Extent) bool { return e.Off < o.End() && o.Off < e.End() }
