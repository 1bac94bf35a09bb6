package sevenzip

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/bodgit/sevenzip"
	"github.com/klauspost/compress/flate"

	"lockbox/internal/format"
	"lockbox/internal/migrate/unpack"
)

// Coders by what 7z calls them.
const (
	coderLZMA2 = "\x21"
	coderLZMA  = "\x03\x01\x01"
	coderPPMd  = "\x03\x04\x01"
	coderFlate = "\x04\x01\x08"
	coderZstd  = "\x04\xf7\x11\x01"
	coderLZ4   = "\x04\xf7\x11\x04"
	coderAES   = "\x06\xf1\x07\x01"
)

// known are the coders that are decoded, with their number of inputs.
var known = map[string]int{
	"\x00": 1, "\x03": 1, coderLZMA: 1, "\x03\x03\x01\x03": 1, "\x03\x03\x01\x1b": 4, "\x03\x03\x02\x05": 1,
	"\x03\x03\x05\x01": 1, "\x03\x03\x08\x05": 1, coderFlate: 1, "\x04\x02\x02": 1, coderZstd: 1,
	"\x04\xf7\x11\x02": 1, coderLZ4: 1, coderAES: 1, "\x0a": 1, coderLZMA2: 1, coderPPMd: 1,
}

const (
	maxWindow      = 512 << 20 // 7-Zip's highest level takes 256 MiB; of a block that is shorter no more than its length is taken
	maxDerivations = 1 << 26   // hashes for keys, over all blocks; 7-Zip takes 2^19 for one archive
)

// register gives the library decoders of zstd and lz4 that stay within bounds and check their streams' ends, and all that
// may return bytes together with the end through apart: its own one for deflate lets BCJ2 lose the last byte.
var register = sync.OnceFunc(func() {
	for id, open := range map[string]func(io.Reader) (io.ReadCloser, error){
		coderFlate: func(r io.Reader) (io.ReadCloser, error) { return flate.NewReader(bufio.NewReader(r)), nil },
		coderZstd:  func(r io.Reader) (io.ReadCloser, error) { return unpack.NewReader("zstd", r, maxWindow) },
		coderLZ4:   func(r io.Reader) (io.ReadCloser, error) { return unpack.NewReader("lz4", r, maxWindow) },
	} {
		sevenzip.RegisterDecompressor([]byte(id), func(_ []byte, _ uint64, in []io.ReadCloser) (io.ReadCloser, error) {
			if len(in) != 1 {
				return nil, corrupt("method %x has %d inputs", id, len(in))
			}
			z, err := open(in[0])
			if err != nil {
				return nil, err
			}
			return &apart{ReadCloser: z}, nil
		})
	}
})

// apart never returns bytes and an error at once: the library's decoders that read from another by single bytes take the
// error and drop the byte.
type apart struct {
	io.ReadCloser
	err error
}

func (a *apart) Read(p []byte) (n int, err error) {
	if a.err != nil {
		return 0, a.err
	}
	if n, a.err = a.ReadCloser.Read(p); n > 0 {
		return n, nil
	}
	return 0, a.err
}

func (f *folder) encrypted() bool {
	return slices.ContainsFunc(f.coders, func(c coder) bool { return c.id == coderAES })
}

// derivations is how often a key's derivation hashes. The largest exponent stands for none at all.
func derivations(props []byte) int64 {
	if n := props[0] & 0x3f; n < 0x3f {
		return 1 << n
	}
	return 0
}

// ivLen is the length of the start vector at the end of the properties of AES.
func ivLen(props []byte) int { return int(props[0]>>6&1) + int(props[1]&0x0f) }

// check says why a block is not decoded, before anything of it is.
func (f *folder) check() error {
	for i := range f.coders {
		c := &f.coders[i]
		ins, ok := known[c.id]
		if !ok {
			return fmt.Errorf("%w: 7z method %x", unpack.ErrUnsupported, c.id)
		}
		if c.in != ins {
			return corrupt("method %x has %d inputs", c.id, c.in)
		}
		var window uint64
		switch c.id {
		case coderLZMA:
			if len(c.props) != 5 {
				return corrupt("properties of LZMA are %d bytes long", len(c.props))
			}
			window = min(uint64(binary.LittleEndian.Uint32(c.props[1:])), c.size)
		case coderLZMA2:
			if len(c.props) != 1 || c.props[0] > 40 {
				return corrupt("properties of LZMA2 are out of range")
			}
			c.props = shrink(c.props[0], c.size)
			window = lzma2Window(c.props[0])
		case coderPPMd:
			if len(c.props) != 5 {
				return corrupt("properties of PPMd are %d bytes long", len(c.props))
			}
			window = uint64(binary.LittleEndian.Uint32(c.props[1:]))
		case coderAES:
			if len(c.props) < 2 || c.props[0]&0xc0 == 0 {
				return corrupt("properties of AES are cut short")
			}
			salt := int(c.props[0]>>7) + int(c.props[1]>>4)
			if len(c.props) != 2+salt+ivLen(c.props) || derivations(c.props) > maxDerivations>>2 {
				return corrupt("properties of AES are out of range")
			}
		}
		if window > maxWindow {
			return fmt.Errorf("%w: window of %d bytes", unpack.ErrWindow, window)
		}
	}
	_, err := f.order()
	return err
}

func lzma2Window(p byte) uint64 { return (2 | uint64(p&1)) << (p/2 + 11) }

// shrink returns LZMA2's property for the smallest window that size bytes need, if that is smaller than p's.
func shrink(p byte, size uint64) []byte {
	for q := range p {
		if lzma2Window(q) >= size {
			return []byte{q}
		}
	}
	return []byte{p}
}

// inputs are the numbers of the coders' first inputs.
func (f *folder) inputs() []int {
	first := make([]int, len(f.coders))
	for i := 1; i < len(first); i++ {
		first[i] = first[i-1] + f.coders[i-1].in
	}
	return first
}

// order lists the coders so that each stands behind those that feed it, as the library wants them.
func (f *folder) order() ([]int, error) {
	first := f.inputs()
	var list []int
	placed := make([]bool, len(f.coders))
	for len(list) < len(f.coders) {
		n := len(list)
		for i, c := range f.coders {
			ready := !placed[i]
			for in := first[i]; in < first[i]+c.in; in++ {
				if w := f.writer(in); w >= 0 && !placed[w] {
					ready = false
				}
			}
			if ready {
				list, placed[i] = append(list, i), true
			}
		}
		if len(list) == n {
			return nil, corrupt("a block whose coders feed each other in a circle")
		}
	}
	return list, nil
}

// putNumber appends a number in 7z's longest form.
func putNumber(b []byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, 0xff), v)
}

// archiveOf makes an archive that holds one file, what f unpacks to, and has f's packed streams for its own.
func (f *folder) archiveOf(packed io.ReaderAt) (io.ReaderAt, int64, error) {
	order, err := f.order()
	if err != nil {
		return nil, 0, err
	}
	first := f.inputs()
	ins, outs := map[int]int{}, map[int]int{} // new numbers
	h := []byte{idHeader, idMainStreams, idPack}
	h = putNumber(putNumber(h, 0), uint64(len(f.sizes)))
	h = append(h, idSize)
	var total int64
	for _, n := range f.sizes {
		h = putNumber(h, uint64(n))
		total += n
	}
	h = append(h, idEnd, idUnpack, idFolder)
	h = append(putNumber(h, 1), 0)
	h = putNumber(h, uint64(len(order)))
	for _, i := range order {
		c := f.coders[i]
		for k := range c.in {
			ins[first[i]+k] = len(ins)
		}
		outs[i] = len(outs)
		flags := byte(len(c.id)) | 0x10
		if len(c.props) > 0 {
			flags |= 0x20
		}
		h = append(append(h, flags), c.id...)
		h = putNumber(putNumber(h, uint64(c.in)), 1)
		if len(c.props) > 0 {
			h = append(putNumber(h, uint64(len(c.props))), c.props...)
		}
	}
	for _, b := range f.binds {
		h = putNumber(putNumber(h, uint64(ins[b[0]])), uint64(outs[b[1]]))
	}
	if len(f.packed) > 1 {
		for _, in := range f.packed {
			h = putNumber(h, uint64(ins[in]))
		}
	}
	h = append(h, idUnpackSizes)
	for _, i := range order {
		h = putNumber(h, f.coders[i].size)
	}
	h = append(h, idEnd, idEnd, idFiles)
	h = putNumber(h, 1)
	h = append(putNumber(append(h, idNames), 5), 0, 'x', 0, 0, 0)
	h = append(h, idEnd, idEnd)

	s := make([]byte, startSize)
	copy(s, magic+"\x00\x04")
	binary.LittleEndian.PutUint64(s[12:], uint64(total))
	binary.LittleEndian.PutUint64(s[20:], uint64(len(h)))
	binary.LittleEndian.PutUint32(s[28:], crc32.ChecksumIEEE(h))
	binary.LittleEndian.PutUint32(s[8:], crc32.ChecksumIEEE(s[12:]))
	return &between{head: s, mid: io.NewSectionReader(packed, 0, total), tail: h}, startSize + total + int64(len(h)), nil
}

// between reads head, then mid, then tail.
type between struct {
	head, tail []byte
	mid        *io.SectionReader
}

func (b *between) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var k int
		at, mid := off+int64(n), int64(len(b.head))
		switch end := mid + b.mid.Size(); {
		case at < mid:
			k = copy(p[n:], b.head[at:])
		case at < end:
			k, err = b.mid.ReadAt(p[n:][:min(int64(len(p)-n), end-at)], at-mid)
			if k > 0 && err == io.EOF {
				err = nil
			}
		case at < end+int64(len(b.tail)):
			k = copy(p[n:], b.tail[at-end:])
		default:
			return n, io.EOF
		}
		n += k
		if err != nil {
			return n, err
		}
		if k == 0 {
			return n, io.ErrUnexpectedEOF // the input became shorter
		}
	}
	return n, nil
}

// openFolder returns what f unpacks to.
func (a *archive) openFolder(f *folder) (io.Reader, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	in, size, err := f.archiveOf(io.NewSectionReader(a.in, a.base+f.off, a.in.Size-a.base-f.off))
	if err != nil {
		return nil, err
	}
	var r io.Reader
	err = unpack.Guard("7z block", func() error {
		z, err := sevenzip.NewReaderWithPassword(in, size, a.passphrase)
		if err != nil {
			return err
		}
		r, err = z.File[0].Open()
		return err
	})
	if err != nil {
		return nil, damaged(err)
	}
	return unpack.Guarded("7z block", r), nil
}

// damaged makes of what the library says an error of our kinds.
func damaged(err error) error {
	var disk *fs.PathError
	switch {
	case errors.Is(err, format.ErrCorrupt), unsupported(err):
		return err
	case errors.As(err, &disk):
		return disk
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return format.Corrupt("7z block", -1, "its packed bytes end too early, or are damaged")
	}
	return format.Corrupt("7z block", -1, "%v", err)
}

// checked gives left bytes of r, and io.EOF only when their checksum matches.
type checked struct {
	r      io.Reader
	left   int64
	sum    uint32
	crc    uint32
	hasCRC bool
	err    error
}

func (c *checked) Read(p []byte) (int, error) {
	if c.err != nil || len(p) == 0 {
		return 0, c.err
	}
	if c.left == 0 {
		c.err = io.EOF
		if c.hasCRC && c.sum != c.crc {
			c.err = format.Corrupt("7z content", -1, "its checksum does not match")
		}
		return 0, c.err
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.sum = crc32.Update(c.sum, crc32.IEEETable, p[:n])
	c.left -= int64(n)
	if err != nil && (err != io.EOF || c.left > 0) {
		c.err = damaged(err)
	}
	return n, c.err
}
