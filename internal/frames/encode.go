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
	members []byte
}

// NewEncoder returns an encoder for an archive. blockShift is the log2 of raw frames' verification
// blocks; window, a power of two, bounds the plain length of the frames that it will be given.
func NewEncoder(s seal.Suite, archive format.ID, level Level, blockShift uint8, sector int64, window int) (*Encoder, error) {
	e := &Encoder{suite: s, archive: archive, level: level, shift: blockShift, sector: sector}
	if level == LevelNone {
		return e, nil
	}
	z, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstdLevels[level]),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true),
		zstd.WithWindowSize(max(window, zstd.MinWindowSize)))
	if err != nil {
		return nil, err
	}
	e.z = z
	return e, nil
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
	i.Codec, i.BlockShift = Raw, 0
	dst = append(dst[:0], make([]byte, h)...)
	if e.level != LevelNone {
		dst = e.z.EncodeAll(plain, dst)
		// A thirty-second saved is what a decode on every later read has to earn.
		if n := len(dst) - h; n < len(plain)-len(plain)/32 {
			i.Codec = Zstd
			i.Stored = uint32(n)
		}
	}
	if i.Codec == Raw {
		dst = append(dst[:h], plain...)
		i.Stored = i.Plain
		if len(plain) > 1<<e.shift {
			i.BlockShift = e.shift
		}
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
