package zip

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"

	"lockbox/internal/migrate/unpack"
)

// methods names those that ZIP has numbers for.
var methods = map[uint16]string{
	1: "Shrink", 2: "Reduce", 3: "Reduce", 4: "Reduce", 5: "Reduce", 6: "Implode", 10: "PKWARE's imploding", 16: "IBM z/OS CMPSC",
	18: "IBM TERSE", 19: "IBM LZ77", 94: "MP3", 96: "JPEG", 97: "WavPack", 98: "PPMd",
}

// errUnknownMethod names a method that is not read.
func errUnknownMethod(m uint16) error {
	if name := methods[m]; name != "" {
		return fmt.Errorf("it is compressed by %s (method %d), which is not read", name, m)
	}
	return fmt.Errorf("it is compressed by method %d, which is unknown", m)
}

// decompress undoes a method.
func decompress(method uint16, h *header, r io.Reader) (io.Reader, error) {
	switch method {
	case 0:
		return r, nil
	case 8:
		return newInflate(r)
	case 9:
		return newInflate64(r.(io.ByteReader)), nil
	case 12:
		return unpack.NewReader("bzip2", r, 0)
	case 20, 93:
		return unpack.NewReader("zstd", r, 0)
	case 95:
		return unpack.NewReader("xz", r, 0)
	case 14:
		return newLZMA(h, r)
	}
	return nil, errUnknownMethod(method)
}

// inflaters are decoders of deflate. Making one costs more than a small file does.
var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// inflate is one that goes back when it is closed.
type inflate struct{ io.ReadCloser }

func newInflate(r io.Reader) (io.Reader, error) {
	z := inflaters.Get().(io.ReadCloser)
	return &inflate{z}, z.(flate.Resetter).Reset(r, nil)
}

// Close may be called once; nothing is read after it.
func (i *inflate) Close() error {
	err := i.ReadCloser.Close()
	inflaters.Put(i.ReadCloser)
	return err
}

// newLZMA reads ZIP's head of LZMA data and gives the decoder the one that it knows. A window larger than the file is
// never needed.
func newLZMA(h *header, r io.Reader) (io.Reader, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, noEOF(err, -1)
	}
	if le.Uint16(head[2:]) != 5 {
		return nil, corrupt(-1, "the head of its LZMA data has %d bytes of properties, not 5", le.Uint16(head[2:]))
	}
	var b [13]byte
	b[0] = head[4]
	le.PutUint32(b[1:], uint32(max(min(int64(le.Uint32(head[5:])), h.size), 4<<10)))
	size := uint64(h.size)
	if h.flags&flagEOS != 0 {
		size = 1<<64 - 1
	}
	le.PutUint64(b[5:], size)
	return unpack.NewReader("lzma", io.MultiReader(bytes.NewReader(b[:]), r), 0)
}

// content reads an entry's bytes and, at their end, holds length and check sum against what the archive says.
type content struct {
	h       *header
	packed  io.Reader // what the decoder reads from
	r       io.Reader
	sum     hash.Hash32 // nil when another code stands for it
	n       int64
	err     error
	closing io.Closer
}

func (a *archive) open(h *header, l local) (io.ReadCloser, error) {
	section := io.NewSectionReader(a.in, l.data, h.packed)
	packed, method, err := a.decrypted(h, l, section)
	if err != nil {
		return nil, err
	}
	if _, ok := packed.(io.ByteReader); !ok {
		packed = bufio.NewReaderSize(packed, int(min(h.packed, 16<<10))) // so that no decoder reads further than it must
	}
	c := &content{h: h, packed: packed, sum: crc32.NewIEEE()}
	if h.method == methodAES {
		if f, err := parseAES(h.extra); err == nil && f.version == 2 {
			c.sum = nil
		}
	}
	if c.r, err = decompress(method, h, packed); err != nil {
		return nil, err
	}
	c.closing, _ = c.r.(io.Closer)
	return c, nil
}

func (c *content) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > c.h.size {
		c.err = corrupt(c.h.off, "it is longer than the %d bytes that the archive says", c.h.size)
		return 0, c.err
	}
	if c.sum != nil {
		c.sum.Write(p[:n])
	}
	if err != nil {
		if err == io.EOF {
			err = c.end()
		} else {
			err = damaged(c.h, err)
		}
		c.err = err
	}
	return n, err
}

// end is io.EOF when all is well.
func (c *content) end() error {
	if c.n != c.h.size {
		return corrupt(c.h.off, "it has %d bytes, the archive says %d", c.n, c.h.size)
	}
	// What is left was not part of the data; reading it also lets the cipher check its code.
	var b [512]byte
	left := 0
	for {
		n, err := c.packed.Read(b[:])
		left += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return damaged(c.h, err)
		}
		if left > len(b) {
			break
		}
	}
	if left > 0 {
		return corrupt(c.h.off, "more bytes follow its compressed data")
	}
	if c.sum != nil && c.sum.Sum32() != c.h.crc {
		return corrupt(c.h.off, "its check sum is %08x, the archive says %08x", c.sum.Sum32(), c.h.crc)
	}
	return io.EOF
}

func (c *content) Close() error {
	c.err = errors.New("closed")
	closing := c.closing
	if c.closing = nil; closing != nil {
		return closing.Close()
	}
	return nil
}
