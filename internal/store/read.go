package store

import (
	"errors"
	"fmt"
	"io"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// pread fills b from the archive file. Bytes that are missing there are damage; other errors are not.
func (a *Archive) pread(b []byte, off int64, record string) error {
	n, err := a.f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	a.DropTrust()
	if err == nil || errors.Is(err, io.EOF) {
		return format.Corrupt(record, off, "file cut short")
	}
	return fmt.Errorf("reading %s at offset %d: %w", record, off, err)
}

// Node implements index.Source: a verified node, shared through the cache.
func (a *Archive) Node(t index.Tree, ref index.Ref, level int) (*index.Node, error) {
	v, err := a.cache.get(cacheKey{ref.Attempt, uint64(t)<<32 | uint64(ref.Seq), cacheNode}, func() (any, int64, error) {
		n, err := a.readNode(t, ref, level)
		return n, int64(ref.Len) + 128, err
	})
	if err != nil {
		return nil, err
	}
	n := v.(*index.Node)
	if n.Level() != level {
		return nil, format.Corrupt("node", ref.Off, "level %d where %d is due", n.Level(), level)
	}
	return n, nil
}

func (a *Archive) readNode(t index.Tree, ref index.Ref, level int) (*index.Node, error) {
	if ref.Len == 0 || ref.Len > format.MaxNode || ref.Off < format.DataStart || ref.Off > format.MaxLogicalEnd {
		return nil, format.Corrupt("node reference", ref.Off, "out of range")
	}
	b := make([]byte, index.StoredLen(a.suite, ref.Len, a.sector))
	if err := a.pread(b, ref.Off, t.String()+" node"); err != nil {
		return nil, err
	}
	b, ok := index.OpenNode(a.suite, a.id, t, &ref, b)
	if !ok {
		a.DropTrust()
		return nil, format.Corrupt(t.String()+" node", ref.Off, "tag does not verify")
	}
	a.stats.NodesDecoded.Add(1)
	return index.ParseNode(b, t, level, a.suite.TagSize(), ref.Off)
}

func (a *Archive) content(v *view, number uint64) (index.Content, error) {
	var c index.Content
	err := a.contentInto(&c, v, number)
	return c, err
}

// contentInto reads a content's record into c, whose runs it reuses.
func (a *Archive) contentInto(c *index.Content, v *view, number uint64) error {
	return a.find(&a.finder[0], index.Contents, v, number, func(value []byte) error {
		err := c.Decode(value)
		if err == nil {
			err = v.plausible(c)
		}
		return err
	})
}

// plausible refuses a content whose runs claim more frames than the archive has.
func (v *view) plausible(c *index.Content) error {
	for i := range c.Runs {
		if r := &c.Runs[i]; r.Frames() > v.tree(index.Frames).Count || r.Frame+r.Frames() > v.commit.Counters.NextFrame {
			return format.Corrupt("content", -1, "a run of %d frames from frame %d on, which the archive does not have", r.Frames(), r.Frame)
		}
	}
	return nil
}

// frameRef is a frame as reading needs it: its info and where its stored bytes stand.
type frameRef struct {
	frames.Info
	ext format.Extent
}

func (f *frameRef) storedOff(tagSize int) int64 { return f.ext.Off + int64(frames.HeaderSize(tagSize)) }

// toRef turns an index record into what reading needs.
func toRef(number uint64, r *index.Frame) frameRef {
	return frameRef{
		Info: frames.Info{Number: number, Attempt: r.Attempt, Codec: r.Codec, BlockShift: r.BlockShift, Class: r.Class,
			Plain: r.Plain, Stored: r.Stored, MemberTable: r.MemberTable, Commitment: r.Commitment},
		ext: r.Ext,
	}
}

func (a *Archive) checkRef(f *frameRef) error {
	if what := f.Valid(); what != "" {
		return format.Corrupt(fmt.Sprintf("frame %d", f.Number), f.ext.Off, "%s", what)
	}
	if f.Used(a.suite.TagSize()) > f.ext.Len {
		return format.Corrupt(fmt.Sprintf("frame %d", f.Number), f.ext.Off, "extent too short")
	}
	return nil
}

func (a *Archive) frame(v *view, number uint64) (f frameRef, err error) {
	err = a.find(&a.finder[1], index.Frames, v, number, func(value []byte) error {
		f, err = a.decodeRef(number, value)
		return err
	})
	return f, err
}

// frameRecord is a frame's record with its members.
func (a *Archive) frameRecord(v *view, number uint64) (r index.Frame, err error) {
	err = a.find(&a.finder[1], index.Frames, v, number, func(value []byte) error {
		r, err = index.DecodeFrame(value, a.suite.TagSize(), a.sector)
		return err
	})
	return r, err
}

// decodeRef reads a frame's record and holds it to what a frame can be.
func (a *Archive) decodeRef(number uint64, value []byte) (frameRef, error) {
	r, err := index.DecodeFrameLean(value, a.suite.TagSize(), a.sector)
	if err != nil {
		return frameRef{}, err
	}
	f := toRef(number, &r)
	return f, a.checkRef(&f)
}

// decodeFrame turns the stored bytes of a frame with one tag, which it may change, into plain bytes:
// verified, then decoded into dst, whose length is the frame's plain length.
func (a *Archive) decodeFrame(f *frameRef, stored, dst []byte) error {
	c, err := frames.Check(a.suite, a.id, &f.Info, stored)
	if err != nil {
		return err
	}
	a.stats.BlocksVerified.Add(1)
	if f.Codec != frames.Raw {
		a.stats.FramesDecoded.Add(1)
	}
	return c.Decode(dst)
}

// checkFrame reads a frame's stored bytes and verifies them, without decoding.
func (a *Archive) checkFrame(f *frameRef) error {
	if f.BlockShift != 0 {
		buf := getBuf(a.wholeSize(f))
		defer putBuf(buf)
		return a.readWhole(f, *buf)
	}
	buf := getBuf(int(f.Stored))
	defer putBuf(buf)
	if err := a.pread(*buf, f.storedOff(a.suite.TagSize()), "frame"); err != nil {
		return err
	}
	a.stats.BlocksVerified.Add(1)
	_, err := frames.Check(a.suite, a.id, &f.Info, *buf)
	return err
}

// plainFrame returns all plain bytes of a frame, shared through the cache.
func (a *Archive) plainFrame(f *frameRef) ([]byte, error) {
	v, err := a.cache.get(cacheKey{f.Attempt, f.Number, cacheFrame}, func() (any, int64, error) {
		n := a.wholeSize(f)
		b := make([]byte, n, n+frames.Slack)
		return b[:f.Plain], int64(cap(b)) + 128, a.readWhole(f, b)
	})
	if err != nil {
		return nil, err
	}
	return v.([]byte), nil
}

// wholeSize is the length of a buffer for all plain bytes of a frame, with room for what is read with them.
func (a *Archive) wholeSize(f *frameRef) int {
	return int(f.Plain) + f.TableSize(a.suite.TagSize())
}

// readWhole reads all of a frame into b, which has the length that wholeSize gives, verifies and decodes it. The plain
// bytes stand in front.
func (a *Archive) readWhole(f *frameRef, b []byte) error {
	off := f.storedOff(a.suite.TagSize())
	if f.BlockShift != 0 {
		if err := a.pread(b, off, "frame"); err != nil {
			return err
		}
		t, err := frames.CheckTable(a.suite, a.id, &f.Info, b[f.Stored:])
		if err != nil {
			return err
		}
		a.stats.BlocksVerified.Add(uint64(f.Blocks()))
		return t.Open(0, b[:f.Stored])
	}
	buf := getBuf(int(f.Stored))
	defer putBuf(buf)
	if err := a.pread(*buf, off, "frame"); err != nil {
		return err
	}
	return a.decodeFrame(f, *buf, b)
}

// headFrame returns the first plain bytes of a compressed frame that has more than frames.HeadSize of them,
// shared through the cache: those, or all where the frame is not made of blocks of that size.
func (a *Archive) headFrame(f *frameRef) ([]byte, error) {
	v, err := a.cache.get(cacheKey{f.Attempt, f.Number, cacheHead}, func() (any, int64, error) {
		stored := getBuf(int(f.Stored))
		defer putBuf(stored)
		if err := a.pread(*stored, f.storedOff(a.suite.TagSize()), "frame"); err != nil {
			return nil, 0, err
		}
		plain := getBuf(int(f.Plain))
		defer putBuf(plain)
		c, err := frames.Check(a.suite, a.id, &f.Info, *stored)
		if err != nil {
			return nil, 0, err
		}
		a.stats.BlocksVerified.Add(1)
		a.stats.FramesDecoded.Add(1)
		n, err := c.DecodeHead(*plain)
		if err != nil {
			return nil, 0, err
		}
		b := append([]byte(nil), (*plain)[:n]...)
		return b, int64(cap(b)) + 128, nil
	})
	if err != nil {
		return nil, err
	}
	return v.([]byte), nil
}

// table returns the verified tag table of a raw frame with blocks, shared through the cache.
func (a *Archive) table(f *frameRef) (*frames.Table, error) {
	v, err := a.cache.get(cacheKey{f.Attempt, f.Number, cacheTable}, func() (any, int64, error) {
		t, err := a.readTable(f, make([]byte, f.TableSize(a.suite.TagSize())))
		if err != nil {
			return nil, 0, err
		}
		return t, int64(t.Size()), nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*frames.Table), nil
}

// readTable reads and verifies a tag table. The table keeps b, which has its length.
func (a *Archive) readTable(f *frameRef, b []byte) (*frames.Table, error) {
	if err := a.pread(b, f.storedOff(a.suite.TagSize())+int64(f.Stored), "tag table"); err != nil {
		return nil, err
	}
	return frames.CheckTable(a.suite, a.id, &f.Info, b)
}

// smallRange is up to how many bytes of touched blocks are read with one call beside the caller's buffer;
// a copy of that much costs less than a second call.
const smallRange = 64 << 10

// readRaw fills dst with the bytes from off on of a raw frame with blocks. Whole blocks of a long range are
// read and verified in dst itself, rawPiece at a time; what is wanted of a block in part, and short ranges, are read
// and verified beside it and copied. On failure what is not verified of dst holds zeros.
func (a *Archive) readRaw(f *frameRef, t *frames.Table, dst []byte, off int64) (err error) {
	defer func() {
		if err != nil {
			clear(dst)
		}
	}()
	base := f.storedOff(a.suite.TagSize())
	for len(dst) > 0 {
		first := int(off >> f.BlockShift)
		lo, hi := t.BlockRange(first)
		_, end := t.BlockRange(int((off + int64(len(dst)) - 1) >> f.BlockShift))
		whole := off == lo && off+int64(len(dst)) == end
		if !whole && end-lo <= smallRange {
			hi = end
		}
		if !whole && (off != lo || hi == end) {
			buf := getBuf(int(hi - lo))
			err := a.openBlocks(t, first, *buf, base+lo)
			n := 0
			if err == nil {
				n = copy(dst, (*buf)[off-lo:])
			}
			putBuf(buf)
			if err != nil {
				return err
			}
			a.stats.BytesCopied.Add(uint64(n))
			dst, off = dst[n:], off+int64(n)
			continue
		}
		n := int64(len(dst))
		if !whole {
			n &^= 1<<f.BlockShift - 1
		}
		n = min(n, max(rawPiece, int64(1)<<f.BlockShift))
		if err := a.openBlocks(t, first, dst[:n], base+lo); err != nil {
			return err
		}
		dst, off = dst[n:], off+n
	}
	return nil
}

func (a *Archive) openBlocks(t *frames.Table, first int, b []byte, off int64) error {
	if err := a.pread(b, off, "frame"); err != nil {
		return err
	}
	lo, hi := t.BlockRange(first)
	a.stats.BlocksVerified.Add(uint64((int64(len(b)) + hi - lo - 1) / (hi - lo)))
	return t.Open(first, b)
}
