package sevenzip

import (
	"fmt"

	"lockbox/internal/format"
)

// coder is one step of unpacking. Every coder has one output here; the library knows none with more.
type coder struct {
	id    string
	in    int
	props []byte
	size  uint64 // of its output
}

// folder is what 7z calls a block of one or more packed streams that are decoded together.
type folder struct {
	coders []coder
	binds  [][2]int // input, and the output that feeds it
	packed []int    // inputs that are fed from the file
	off    int64    // of the first packed stream, behind the start header
	sizes  []int64  // of the packed streams, which follow one another
	first  int      // its first stream
	crc    uint32
	hasCRC bool
	bad    error // it cannot be decoded
}

// stream is the content of one file: a stretch of what a folder unpacks to.
type stream struct {
	folder int
	size   int64
	crc    uint32
	hasCRC bool
}

// main is the coder whose output is the folder's.
func (f *folder) main() int {
	for i := range f.coders {
		if f.reader(i) < 0 {
			return i
		}
	}
	return -1
}

// reader is the input that an output feeds, or -1.
func (f *folder) reader(out int) int {
	for _, b := range f.binds {
		if b[1] == out {
			return b[0]
		}
	}
	return -1
}

// writer is the output that feeds an input, or -1.
func (f *folder) writer(in int) int {
	for _, b := range f.binds {
		if b[0] == in {
			return b[1]
		}
	}
	return -1
}

// parseStreams reads what is packed, how, and into what it falls apart. Packed streams stand within space bytes.
func parseStreams(c *format.Cursor, space int64) (folders []folder, streams []stream) {
	var pos int64
	var packed []int64
	for last := byte(0); c.Err() == nil; {
		id := c.U8()
		if id != idEnd && id <= last {
			c.Fail("parts that describe streams are out of order") // the later refer to the earlier
			return nil, nil
		}
		last = id
		switch id {
		case idEnd:
			place(c, folders, packed, pos, space)
			if streams == nil && c.Err() == nil {
				streams = whole(folders)
			}
			return folders, streams
		case idPack:
			pos, packed = parsePack(c, space)
		case idUnpack:
			folders = parseFolders(c)
		case idSubStreams:
			streams = parseSubStreams(c, folders)
		default:
			c.Fail(fmt.Sprintf("unknown part of kind %d where streams are described", id))
		}
	}
	return nil, nil
}

func parsePack(c *format.Cursor, space int64) (pos int64, sizes []int64) {
	p := number(c)
	if p > uint64(space) {
		c.Fail("packed streams begin behind the end of the file")
		return 0, nil
	}
	// Each takes a byte or more of the header.
	n := count(c, c.Len(), "packed streams")
	for c.Err() == nil {
		switch id := c.U8(); id {
		case idEnd:
			if len(sizes) != n {
				c.Fail("packed streams without sizes")
			}
			return int64(p), sizes
		case idSize:
			for range n {
				v := number(c)
				if v > uint64(space) || c.Err() != nil {
					c.Fail("a packed stream longer than the file")
					return 0, nil
				}
				sizes = append(sizes, int64(v))
			}
		case idCRC:
			digests(c, n, func(int, uint32) {}) // of the packed bytes; those of the plain ones say more
		default:
			c.Fail("unknown part where packed streams are described")
		}
	}
	return 0, nil
}

func parseFolders(c *format.Cursor) []folder {
	if c.U8() != idFolder {
		c.Fail("no blocks where they are expected")
	}
	n := count(c, min(maxFolders, c.Len()), "blocks")
	if c.U8() != 0 {
		c.Fail("blocks are described in a stream of their own")
	}
	var list []folder
	for range n {
		f := parseFolder(c)
		if c.Err() != nil {
			return nil
		}
		list = append(list, f)
	}
	if c.U8() != idUnpackSizes {
		c.Fail("no sizes of blocks")
	}
	for i := range list {
		for j := range list[i].coders {
			list[i].coders[j].size = number(c)
			if list[i].coders[j].size > uint64(format.MaxFileSize) {
				c.Fail("size of a block is out of range")
			}
		}
	}
	id := c.U8()
	if id == idCRC {
		digests(c, n, func(i int, crc uint32) { list[i].crc, list[i].hasCRC = crc, true })
		id = c.U8()
	}
	if id != idEnd {
		c.Fail("unknown part where blocks are described")
	}
	return list
}

func parseFolder(c *format.Cursor) (f folder) {
	n := count(c, maxCoders, "coders")
	ins := 0
	for range n {
		k, flags := coder{in: 1}, c.U8()
		k.id = string(c.Bytes(int(flags & 0x0f)))
		outs := 1
		if flags&0x10 != 0 {
			k.in = count(c, maxStreams, "inputs")
			outs = count(c, maxStreams, "outputs")
		}
		if flags&0x20 != 0 {
			k.props = c.Bytes(count(c, maxProperties, "bytes of a coder's properties"))
		}
		if flags&0xc0 != 0 || outs != 1 || k.in < 1 {
			c.Fail("a coder of a shape that is not known")
		}
		ins += k.in
		f.coders = append(f.coders, k)
	}
	if n < 1 || ins > maxStreams || ins < n {
		c.Fail("a block whose coders do not fit together")
		return f
	}
	for range n - 1 {
		in, out := count(c, ins-1, "inputs"), count(c, n-1, "outputs")
		if f.writer(in) >= 0 || f.reader(out) >= 0 {
			c.Fail("a block binds a coder twice")
			return f
		}
		f.binds = append(f.binds, [2]int{in, out})
	}
	free := ins - (n - 1)
	if free == 1 {
		for in := range ins {
			if f.writer(in) < 0 {
				f.packed = append(f.packed, in)
			}
		}
		return f
	}
	seen := [maxStreams]bool{}
	for range free {
		in := count(c, ins-1, "inputs")
		if f.writer(in) >= 0 || seen[in] {
			c.Fail("a block feeds an input twice")
			return f
		}
		seen[in] = true
		f.packed = append(f.packed, in)
	}
	return f
}

// place gives the folders their packed streams.
func place(c *format.Cursor, folders []folder, packed []int64, pos, space int64) {
	for i := range folders {
		f := &folders[i]
		if len(packed) < len(f.packed) {
			c.Fail("a block without packed streams")
			return
		}
		f.off, f.sizes, packed = pos, packed[:len(f.packed)], packed[len(f.packed):]
		for _, n := range f.sizes {
			if n > space-pos {
				c.Fail("packed streams reach behind the end of the file")
				return
			}
			pos += n
		}
	}
}

// whole makes one stream of each folder.
func whole(folders []folder) []stream {
	list := make([]stream, len(folders))
	for i := range folders {
		f := &folders[i]
		list[i] = stream{i, int64(f.coders[f.main()].size), f.crc, f.hasCRC}
	}
	return list
}

func parseSubStreams(c *format.Cursor, folders []folder) []stream {
	counts := make([]int, len(folders))
	for i := range counts {
		counts[i] = 1
	}
	id := c.U8()
	if id == idNumStreams {
		left := maxFiles
		for i := range counts {
			counts[i] = count(c, left, "contents")
			left -= counts[i]
		}
		id = c.U8()
	}
	list := []stream{}
	for i := range folders {
		left := int64(folders[i].coders[folders[i].main()].size)
		for k := range counts[i] {
			s := stream{folder: i, size: left}
			if k < counts[i]-1 {
				if id != idSize {
					c.Fail("contents of a block without sizes")
				}
				if c.Err() != nil {
					return nil
				}
				v := number(c)
				if v > uint64(left) {
					c.Fail("contents of a block are longer than the block")
					return nil
				}
				s.size = int64(v)
			} else if counts[i] == 1 {
				s.crc, s.hasCRC = folders[i].crc, folders[i].hasCRC
			}
			left -= s.size
			list = append(list, s)
		}
	}
	if id == idSize {
		id = c.U8()
	}
	if id == idCRC {
		// Those that a block of one content has already are not said again.
		var missing []int
		for i := range list {
			if !list[i].hasCRC {
				missing = append(missing, i)
			}
		}
		digests(c, len(missing), func(i int, crc uint32) { list[missing[i]].crc, list[missing[i]].hasCRC = crc, true })
		id = c.U8()
	}
	if id != idEnd {
		c.Fail("unknown part where contents are described")
	}
	return list
}
