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
	padding format.Padding
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

// Pad makes the encoder round the length of every extent up.
func (e *Encoder) Pad(p format.Padding) { e.padding = p }

// Encode appends the extent of a frame to dst[:0] and returns it, filled to a whole sector or as padding
// asks. The
// caller has set Number, Attempt and Class of i; Encode sets the rest. The members' lengths add up
// to len(plain), which is between 1 and format.MaxFramePlain. plain is not changed.
func (e *Encoder) Encode(dst []byte, i *Info, plain []byte, members []Member) []byte {
	h := HeaderSize(e.suite.TagSize())
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
	return e.seal(dst, i)
}

// Reseal is Encode for the stored bytes of a frame, as they are when they have been opened, whose codec, block
// shift and lengths i has already. It does not change them.
func (e *Encoder) Reseal(dst []byte, i *Info, stored []byte, members []Member) []byte {
	e.members = appendMembers(e.members[:0], members)
	i.MemberTable = uint32(len(e.members))
	dst = append(dst[:0], make([]byte, HeaderSize(e.suite.TagSize()))...)
	return e.seal(append(dst, stored...), i)
}

// seal completes a frame of which room for the header and the stored bytes are in dst.
func (e *Encoder) seal(dst []byte, i *Info) []byte {
	t := e.suite.TagSize()
	h := HeaderSize(t)
	ctx := i.context(e.archive)
	stored := dst[h:]
	if i.BlockShift == 0 {
		e.suite.Seal(&ctx, seal.KindBlock, 0, stored, i.Commitment[:t])
	} else {
		table := make([]byte, i.TableSize(t))
		for k := range i.Blocks() {
			lo := k << i.BlockShift
			e.suite.Seal(&ctx, seal.KindBlock, uint32(k), stored[lo:min(lo+1<<i.BlockShift, len(stored))], table[k*t:])
		}
		e.suite.Seal(&ctx, seal.KindTable, noBlock, table, i.Commitment[:t])
		dst = append(dst, table...)
	}
	putHeader(dst[:h], e.suite, e.archive, i, e.members)
	dst = append(dst, e.members...)
	used := len(dst)
	dst = append(dst, make([]byte, e.padding.Size(int64(used), e.sector)-int64(used))...)
	if hider := e.suite.Hider(); hider != nil {
		hider.Fill(dst, dst[used:])
	}
	return dst
}
