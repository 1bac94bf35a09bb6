package frames

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// corrupt says what is wrong with a frame.
func corrupt(i *Info, detail string, args ...any) error {
	return format.Corrupt(fmt.Sprintf("frame %d", i.Number), -1, detail, args...)
}

// Checked is the stored form of a frame whose single tag verified. Only Check makes one.
type Checked struct {
	info   *Info
	stored []byte
}

// Check verifies the stored bytes of a frame that has one tag. It keeps stored, and may change it in
// place.
func Check(s seal.Suite, archive format.ID, i *Info, stored []byte) (Checked, error) {
	if what := i.Valid(); what != "" {
		return Checked{}, corrupt(i, "%s", what)
	}
	if i.BlockShift != 0 || len(stored) != int(i.Stored) {
		return Checked{}, corrupt(i, "stored length disagrees with the index")
	}
	ctx := i.context(archive)
	if !s.Open(&ctx, seal.KindBlock, 0, stored, i.Commitment[:]) {
		return Checked{}, corrupt(i, "tag does not verify")
	}
	return Checked{info: i, stored: stored}, nil
}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(format.MaxFramePlain),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	return d
}}

// decodeAll decodes stored into dst[:0], which must have room for all that comes.
func decodeAll(stored, dst []byte) ([]byte, error) {
	d, ok := decoders.Get().(*zstd.Decoder)
	if !ok {
		return nil, errors.New("no decoder")
	}
	defer decoders.Put(d)
	return d.DecodeAll(stored, dst[:0:min(cap(dst), len(dst)+Slack)])
}

// Slack is the spare capacity behind dst with which Decode is fastest: the decoder then copies in whole
// blocks and may overrun the end by less than this.
const Slack = 64

// Decode writes the frame's plain bytes to dst, whose length is the plain length. It may also write to
// the first Slack bytes of dst's spare capacity. When it fails, dst holds zeros.
func (c Checked) Decode(dst []byte) error {
	if c.info == nil || len(dst) != int(c.info.Plain) {
		return format.Corrupt("frame", -1, "decoded into a buffer of another length")
	}
	if c.info.Codec == Raw {
		copy(dst, c.stored)
		return nil
	}
	out, err := decodeAll(c.stored, dst)
	if err != nil {
		clear(dst)
		return corrupt(c.info, "zstd: %v", err)
	}
	if len(out) != len(dst) {
		clear(dst)
		return corrupt(c.info, "%d plain bytes where the index has %d", len(out), len(dst))
	}
	return nil
}

// HeadSize is what DecodeHead spares the rest for: the plain length of a full zstd block.
const HeadSize = 128 << 10

// DecodeHead decodes the first HeadSize plain bytes of a compressed frame that has more, if they are its first
// zstd block, and else all. dst has the frame's plain length and spare capacity as in Decode. It returns how many
// bytes are decoded; what follows them in dst is unspecified. When it fails, dst holds zeros.
func (c Checked) DecodeHead(dst []byte) (int, error) {
	end := 0
	if c.info != nil && c.info.Codec == Zstd && len(dst) == int(c.info.Plain) && len(dst) > HeadSize {
		end = firstBlock(c.stored)
	}
	if end > 0 {
		// Cut off there, the decoder gives what it has when it misses the next block.
		out, err := decodeAll(c.stored[:end:end], dst)
		if len(out) == HeadSize && errors.Is(err, io.ErrUnexpectedEOF) {
			return HeadSize, nil
		}
	}
	return len(dst), c.Decode(dst)
}

// firstBlock returns where a zstd frame's first block ends if another follows, else 0.
func firstBlock(stored []byte) int {
	var h zstd.Header
	if h.Decode(stored) != nil || !h.FirstBlock.OK || h.FirstBlock.Last {
		return 0
	}
	const blockHeader = 3
	if end := h.HeaderSize + blockHeader + h.FirstBlock.CompressedSize; h.FirstBlock.Compressed && end < len(stored) {
		return end
	}
	return 0
}

// Table is the verified tag table of a raw frame with blocks. Only CheckTable makes one. It is
// immutable and safe for concurrent use.
type Table struct {
	info  Info
	ctx   seal.Context
	suite seal.Suite
	tags  []byte
}

// CheckTable verifies a tag table. It keeps table.
func CheckTable(s seal.Suite, archive format.ID, i *Info, table []byte) (*Table, error) {
	if what := i.Valid(); what != "" {
		return nil, corrupt(i, "%s", what)
	}
	if i.BlockShift == 0 || len(table) != i.TableSize(s.TagSize()) {
		return nil, corrupt(i, "tag table: length disagrees with the index")
	}
	t := &Table{info: *i, ctx: i.context(archive), suite: s, tags: table}
	if !s.Open(&t.ctx, seal.KindTable, noBlock, table, i.Commitment[:]) {
		return nil, corrupt(i, "tag table: tag does not verify")
	}
	return t, nil
}

// Size is the number of bytes that a cache should count for the table.
func (t *Table) Size() int { return len(t.tags) + 128 }

// BlockRange is where block k stands in the stored bytes.
func (t *Table) BlockRange(k int) (lo, hi int64) {
	lo = int64(k) << t.info.BlockShift
	return lo, min(lo+1<<t.info.BlockShift, int64(t.info.Stored))
}

// Open verifies b in place: the whole blocks first to last of the frame, in order. When a block
// fails, all of b is wiped and the error names the block.
func (t *Table) Open(first int, b []byte) error {
	n := t.suite.TagSize()
	for k, rest := first, b; len(rest) > 0; k++ {
		lo, hi := t.BlockRange(k)
		if hi <= lo || int64(len(rest)) < hi-lo {
			clear(b)
			return corrupt(&t.info, "blocks do not cover the bytes read")
		}
		if !t.suite.Open(&t.ctx, seal.KindBlock, uint32(k), rest[:hi-lo], t.tags[k*n:(k+1)*n]) {
			clear(b)
			return corrupt(&t.info, "block %d: tag does not verify", k)
		}
		rest = rest[hi-lo:]
	}
	return nil
}
