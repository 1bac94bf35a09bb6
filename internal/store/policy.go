package store

import (
	"math/bits"
	"runtime"

	"lockbox/internal/format"
	"lockbox/internal/frames"
)

// Sizes that a writer chooses. The format lets each archive have others; docs/decisions has the
// measurements behind these.
const (
	nodeSize   = 8 << 10  // bytes of a tree node
	rawUnit    = 1 << 20  // plain bytes of a frame of a content that does not compress
	minPack    = 16 << 10 // plain bytes of the second class's packs; the smallest class has half
	maxPack    = 256 << 10
	packFactor = 16        // a pack's target over its class's largest file
	smallMax   = 128 << 10 // a larger file has frames of its own
)

// blockShift is log2 of the verification blocks of raw frames: small where a tag costs next to nothing, larger
// where it has to be worth setting up a cipher, largest where a hash is only fast over many blocks of its own.
func blockShift(s format.Suite) uint8 {
	switch {
	case s.Signed():
		return 15
	case s.Encrypted():
		return 13
	}
	return 12
}

// unit is the plain length of the frames of a large content.
func unit(l frames.Level) int {
	switch l {
	case frames.LevelNone:
		return rawUnit
	case frames.LevelBest:
		return 1 << 20
	}
	return 256 << 10
}

// looksRandom reports whether 32 samples of b, 512 bytes each, have the spread of bytes that random ones
// have. It chooses the frame size of a large file and nothing else: each frame is still tried.
func looksRandom(b []byte) bool {
	const samples, size = 32, 512
	if len(b) < samples*size {
		return false
	}
	var count [256]int
	for k := range samples {
		off := (len(b) - size) / (samples - 1) * k
		for _, x := range b[off : off+size] {
			count[x]++
		}
	}
	// Pairs of equal bytes: n²/512 are expected of n random bytes; text has ten times as many.
	pairs, n := 0, samples*size
	for _, c := range count {
		pairs += c * (c - 1) / 2
	}
	return pairs < n*n/512*11/10
}

// Pack classes: class k holds files of at most minPack/packFactor << k bytes.
const packClasses = 8

// classOf returns the pack class of a file of size bytes, 1 to smallMax.
func classOf(size int64) uint8 {
	return uint8(bits.Len64(uint64((size - 1) / (minPack / packFactor))))
}

// packTarget is the plain length at which a pack of a class is closed: 16 times the class's largest file,
// and half of that for the smallest files, of which a tree has many but few bytes.
func packTarget(class uint8) int {
	if class == 0 {
		return minPack / 2
	}
	return min(minPack<<class, maxPack)
}

// AutoJobs is the number of workers that --jobs auto means: one per CPU, six at most.
func AutoJobs() int { return min(runtime.GOMAXPROCS(0), 6) }
