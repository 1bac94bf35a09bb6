package frames

import (
	"github.com/klauspost/compress/zstd"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// Level is a compression level in the order of FORMAT.md.
type Level uint8

const (
	LevelNone Level = iota
	LevelFast
	LevelDefault
	LevelBetter
	LevelBest
)

var zstdLevels = [...]zstd.EncoderLevel{
	LevelFast:    zstd.SpeedFastest,
	LevelDefault: zstd.SpeedDefault,
	LevelBetter:  zstd.SpeedBetterCompression,
	LevelBest:    zstd.SpeedBestCompression,
}

// Encoder makes frame extents. It is not safe for concurrent use: one worker, one encoder.
type Encoder struct {
	suite   seal.Suite
	archive format.ID
	level   Level
	shift   uint8
	sector  int64
	z       *zstd.Encoder
	other   *zstd.Encoder // a fast one beside a slow z; a thorough one, once needed, beside a quick z
	window  int
	members []byte

	// Compressed, when it is set, is called in every Encode between compressing and sealing. Whoever measures
	// has a clock; this package has none.
	Compressed func()
}

// NewEncoder returns an encoder for an archive. blockShift is the log2 of raw frames' verification
// blocks; window, a power of two, bounds the plain length of the frames that it will be given.
func NewEncoder(s seal.Suite, archive format.ID, level Level, blockShift uint8, sector int64, window int) (*Encoder, error) {
	e := &Encoder{suite: s, archive: archive, level: level, shift: blockShift, sector: sector, window: window}
	if level == LevelNone {
		return e, nil
	}
	var err error
	if e.z, err = newWriter(level, window); err != nil {
		return nil, err
	}
	if level > LevelDefault {
		e.other, err = newWriter(LevelFast, window)
	}
	return e, err
}

func newWriter(level Level, window int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstdLevels[level]),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true),
		zstd.WithWindowSize(max(window, zstd.MinWindowSize)))
}

// pays reports whether n stored bytes are few enough for plain ones: a thirty-second saved is what a decode on
// every later read has to earn.
func pays(n, plain int) bool { return n < plain-plain/32 }

// compress appends plain to dst, compressed or, when that does not pay, as it is.
func (e *Encoder) compress(dst, plain []byte) ([]byte, uint8) {
	h := len(dst)
	try := func(z *zstd.Encoder) bool {
		dst = z.EncodeAll(plain, dst[:h])
		return pays(len(dst)-h, len(plain))
	}
	quick := e.level <= LevelDefault
	switch {
	case e.level == LevelNone:
	case !quick && LooksRandom(plain) && !try(e.other):
		// A slow encoder takes far longer to give up than a quick one to see that it should.
	case try(e.z):
		return dst, Zstd
	case quick && looksMixed(plain) && try(e.thorough()):
		// A quick encoder strides through what does not compress, past short parts that do.
		return dst, Zstd
	}
	return append(dst[:h], plain...), Raw
}

// thorough returns the encoder for what a quick one fails at, which is rare.
func (e *Encoder) thorough() *zstd.Encoder {
	if e.other == nil {
		var err error
		if e.other, err = newWriter(LevelBetter, e.window); err != nil {
			e.other = e.z // it cannot be: the options are those of z, but for the level
		}
	}
	return e.other
}

// Encode appends the extent of a frame to dst[:0] and returns it, zero-filled to a whole sector. The
// caller has set Number, Attempt and Class of i; Encode sets the rest. The members' lengths add up
// to len(plain), which is between 1 and format.MaxFramePlain. plain is not changed.
func (e *Encoder) Encode(dst []byte, i *Info, plain []byte, members []Member) []byte {
	t := e.suite.TagSize()
	h := HeaderSize(t)
	e.members = appendMembers(e.members[:0], members)
	i.Plain, i.MemberTable = uint32(len(plain)), uint32(len(e.members))
	dst = append(dst[:0], make([]byte, h)...)
	dst, i.Codec = e.compress(dst, plain)
	i.Stored, i.BlockShift = uint32(len(dst)-h), 0
	if i.Codec == Raw && len(plain) > 1<<e.shift {
		i.BlockShift = e.shift
	}
	if e.Compressed != nil {
		e.Compressed()
	}
	ctx := i.context(e.archive)
	stored := dst[h:]
	if i.BlockShift == 0 {
		e.suite.Seal(&ctx, seal.KindBlock, 0, stored, i.Commitment[:t])
	} else {
		table := make([]byte, i.TableSize(t))
		for k := range i.Blocks() {
			lo := k << e.shift
			e.suite.Seal(&ctx, seal.KindBlock, uint32(k), stored[lo:min(lo+1<<e.shift, len(stored))], table[k*t:])
		}
		dst = append(dst, table...)
		e.suite.Seal(&ctx, seal.KindTable, noBlock, table, i.Commitment[:t])
	}
	dst = append(dst, e.members...)
	putHeader(dst[:h], e.suite, e.archive, i, e.members)
	fill := format.AlignUp(int64(len(dst)), e.sector) - int64(len(dst))
	return append(dst, make([]byte, fill)...)
}
