package revault

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"lockbox/internal/format"
)

const (
	maxFrame    = 4 << 20 // plain bytes of a frame
	maxWindow   = 8 << 20 // of zstd
	maxManifest = 1 << 20

	frameBudget = 48 << 20 // decoded frames kept
	pageBudget  = 32 << 20 // pages kept
)

// decoder is made when it is first needed, as every start of the program would pay for it, and shared: it keeps no state between calls. Its output never grows past the buffer that it is given.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only for options that contradict each other
	}
	return d
})

// decompress returns the n bytes that b holds.
func decompress(codec uint8, b []byte, n int, off int64) ([]byte, error) {
	switch codec {
	case codecStored:
		if len(b) != n {
			return nil, corrupt("page", off, "%d bytes stand where %d belong", len(b), n)
		}
		return b, nil
	case codecZstd:
		out, err := decoder().DecodeAll(b, make([]byte, 0, n+1)) // one more, so that too much is told from enough
		if err != nil || len(out) != n {
			return nil, corrupt("page", off, "compressed bytes do not give the %d that belong there", n)
		}
		return out, nil
	}
	return nil, corrupt("page", off, "compression %d is unknown", codec)
}

// descriptor says what a frame is and where its stored bytes stand. Its fields were checked against each other.
type descriptor struct {
	id            uint64
	codec         uint8
	plain, stored int
	sum           format.Digest
	segments      []segment
}

// segment is a stretch of a frame's stored bytes.
type segment struct {
	page   int64
	object uint64
	off, n int
}

// chunk is a stretch of a file: n bytes from off of a frame.
type chunk struct {
	at, n int64
	frame *descriptor
	off   int
}

// identity reads the five fields that a descriptor and each of its segments repeat.
func identity(c *format.Cursor) (d descriptor) {
	d.id = c.Uvarint(^uint64(0))
	d.codec = uint8(c.Uvarint(codecZstd))
	d.plain, d.stored = int(c.Uvarint(maxFrame)), int(c.Uvarint(maxFrame))
	d.sum = c.Digest()
	if d.stored > d.plain || d.codec == codecStored && d.stored != d.plain {
		c.Fail("lengths of a frame contradict each other")
	}
	return d
}

func readDescriptor(c *format.Cursor) descriptor {
	d := identity(c)
	n := c.Uvarint(uint64(c.Len()) / 5)
	d.segments = make([]segment, n)
	for i := range d.segments {
		s := &d.segments[i]
		s.page = int64(c.Uvarint(uint64(format.MaxLogicalEnd)))
		c.Uvarint(^uint64(0)) // the length of the page, which its header says better
		s.object = c.Uvarint(^uint64(0))
		s.off = int(c.Uvarint(uint64(d.stored)))
		s.n = int(c.Uvarint(uint64(d.stored - s.off)))
	}
	inOrder := slices.SortedFunc(slices.Values(d.segments), func(x, y segment) int {
		if x.off != y.off {
			return x.off - y.off
		}
		return x.n - y.n
	})
	end := 0
	for _, s := range inOrder {
		if s.off != end {
			break
		}
		end += s.n
	}
	if end != d.stored {
		c.Fail("segments do not cover their frame exactly once")
	}
	return d
}

// frame returns the plain bytes of a frame, which the caller must not change.
func (a *Archive) frame(d *descriptor) ([]byte, error) {
	return a.frames.get(d, func() ([]byte, int64, error) {
		b, err := a.readFrame(d)
		return b, int64(len(b)) + 64, err
	})
}

func (a *Archive) readFrame(d *descriptor) ([]byte, error) {
	stored := make([]byte, d.stored)
	for _, s := range d.segments {
		p, err := a.pages.shared(s.page, maxDataPage)
		if err != nil {
			return nil, err
		}
		payload, err := p.object(kindSegment, s.object)
		if err != nil {
			return nil, err
		}
		b, err := segmentBytes(payload, d, s)
		if err != nil {
			return nil, err
		}
		copy(stored[s.off:], b)
	}
	at := int64(-1)
	if len(d.segments) > 0 {
		at = d.segments[0].page
	}
	if checksum(stored) != d.sum {
		return nil, corrupt("frame", at, "its checksum is wrong")
	}
	return decompress(d.codec, stored, d.plain, at)
}

// segmentBytes returns the bytes of the segment s of the frame d.
func segmentBytes(payload []byte, d *descriptor, s segment) ([]byte, error) {
	c := format.NewCursor(payload, "reVault frame segment", s.page)
	if !bytes.Equal(c.Bytes(4), []byte("LBCS")) || c.U8() != 1 {
		return nil, corrupt("frame segment", s.page, "it does not begin as one")
	}
	is := identity(c)
	c.Uvarint(maxManifest)
	c.Uvarint(codecZstd)
	c.Bytes(int(c.Uvarint(maxManifest))) // the manifest: paths as they once were
	off, n := c.Uvarint(maxFrame), c.Uvarint(maxFrame)
	b := c.Bytes(int(n))
	if err := c.Done(); err != nil {
		return nil, err
	}
	if is.id != d.id || is.codec != d.codec || is.plain != d.plain || is.stored != d.stored || is.sum != d.sum ||
		off != uint64(s.off) || n != uint64(s.n) {
		return nil, corrupt("frame segment", s.page, "it belongs to another frame")
	}
	return b, nil
}

// content reads a file's chunks one after the other. A chunk is handed out only when its whole frame is right.
type content struct {
	a      *Archive
	path   string
	chunks []chunk
	now    []byte
	err    error
}

func (r *content) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, r.err
	}
	for len(r.now) == 0 && r.err == nil {
		r.next()
	}
	if r.err != nil {
		return 0, r.err
	}
	n := copy(b, r.now)
	r.now = r.now[n:]
	return n, nil
}

func (r *content) next() {
	if len(r.chunks) == 0 {
		r.err = io.EOF
		return
	}
	k := r.chunks[0]
	r.chunks = r.chunks[1:]
	b, err := r.a.frame(k.frame)
	if err != nil {
		r.err = ofEntry(err, r.path)
		return
	}
	r.now = b[k.off : k.off+int(k.n)]
}

func (r *content) Close() error {
	r.chunks, r.now, r.err = nil, nil, errClosed
	return nil
}

var errClosed = errors.New("read after close")

// ofEntry says in an error to which entry it happened.
func ofEntry(err error, path string) error {
	if e, ok := errors.AsType[*format.Error](err); ok && e.Entry == "" {
		of := *e
		of.Entry = path
		return &of
	}
	return err
}
