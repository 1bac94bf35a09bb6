package format

import "math/bits"

// Padding says how lengths are rounded up, so that they tell less.
type Padding uint8

const (
	PadNone  Padding = 0
	PadPadme Padding = 1 // to numbers with few significant bits: at most 12 % more, less for large ones
	PadPow2  Padding = 2 // to powers of two: at most twice as much
)

func (p Padding) String() string {
	switch p {
	case PadNone:
		return "none"
	case PadPadme:
		return "padme"
	case PadPow2:
		return "pow2"
	}
	return "unknown"
}

// Size is the length to which n bytes are padded, in whole sectors. It is n, rounded up to a sector, or
// more, and depends on nothing but the padding's steps between lengths.
func (p Padding) Size(n, sector int64) int64 {
	if n > 1 {
		switch p {
		case PadPadme:
			// Padmé (Nikitin et al., PETS 2019): of the E+1 bits of n as many are zero as leaves log2 E + 1.
			e := bits.Len64(uint64(n)) - 1
			low := int64(1)<<(e-bits.Len(uint(e))) - 1
			n = (n + low) &^ low
		case PadPow2:
			n = 1 << bits.Len64(uint64(n-1))
		}
	}
	return AlignUp(n, sector)
}
