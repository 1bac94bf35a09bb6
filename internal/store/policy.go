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
	nodeSize   = 8 << 10   // bytes of a tree node
	rawUnit    = 1 << 20   // plain bytes of a frame of a content that does not compress
	baseUnit   = 256 << 10 // plain bytes of a compressed frame, and of the largest packs
	minPack    = 16 << 10  // plain bytes of the second class's packs; the smallest class has half
	packFactor = 16        // a pack's target over its class's largest file
	smallMax   = 128 << 10 // a larger file has frames of its own
	wholeMax   = 4 << 20   // a file up to this is read whole by one worker
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

// scale is by what power of two the levels that are chosen for size have larger packs and frames.
func scale(l frames.Level) int {
	switch l {
	case frames.LevelBetter:
		return 1
	case frames.LevelBest:
		return 2
	}
	return 0
}

// unit is the plain length of the frames of a large content.
func unit(l frames.Level) int {
	if l == frames.LevelNone {
		return rawUnit
	}
	return baseUnit << scale(l)
}

// maxPack is the plain length that no pack exceeds.
func maxPack(l frames.Level) int { return baseUnit << scale(l) }

// level is the archive's compression level.
func (v *view) level() frames.Level { return frames.Level(v.commit.Options.Level) }

// Pack classes: class k holds files of at most minPack/packFactor << k bytes.
const packClasses = 8

// classOf returns the pack class of a file of size bytes, 1 to smallMax.
func classOf(size int64) uint8 {
	return uint8(bits.Len64(uint64((size - 1) / (minPack / packFactor))))
}

// packTarget is the plain length at which a pack of a class is closed: 16 times the class's largest file, or
// more at the levels that are chosen for size, and half of that for the smallest files, of which a tree has
// many but few bytes.
func packTarget(l frames.Level, class uint8) int {
	n := min(minPack<<class, baseUnit)
	if class == 0 {
		n = minPack / 2
	}
	return n << scale(l)
}

// AutoJobs is the number of workers that --jobs auto means: one per CPU, six at most.
func AutoJobs() int { return min(runtime.GOMAXPROCS(0), 6) }
