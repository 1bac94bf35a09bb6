package rar

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"lockbox/internal/migrate/source"
)

// Signatures of the two layouts, and of the one before them that is not read.
const (
	magic4  = "Rar!\x1a\x07\x00"
	magic5  = "Rar!\x1a\x07\x01\x00"
	magic14 = "RE~^"
)

// A block of the older layout: CRC-16 (2), kind (1), flags (2), header length (2), and with flag 0x8000 the length of
// what follows the header (4). Those of files and services go on with 21 bytes, the name's length among them, and
// with flag 0x100 the upper half of the data's length.
const (
	kind4Archive = 0x73
	kind4File    = 0x74
	kind4Service = 0x7a
	kind4End     = 0x7b
)

// A block of the newer layout: CRC-32 (4), header length, kind, flags, with flag 1 the length of the extra area,
// with flag 2 the length of what follows the header; fields; the extra area. Numbers are varints.
const (
	kind5Archive = 1
	kind5File    = 2
	kind5Service = 3
	kind5Encrypt = 4
	kind5End     = 5
)

const maxHeader5 = 2 << 20

// facts is what the headers say that the library does not.
type facts struct {
	begins    bool // the first block is what it must be
	volume    bool // one of several
	hidden    bool // headers are encrypted, and the rest is not known
	ends      bool // what made it marks the end of what it makes
	exponent  int  // the largest exponent of a key's derivation, for one key
	work      int64
	sums      map[int][blakeSize]byte // of files, by number, whose only checksum is BLAKE2sp
	unchecked map[int]bool            // and of those that have another that the library does not check
	after     int64                   // bytes behind the end
	services  map[string]int          // parts that belong to files or the archive, by name
}

// walk reads the headers behind the signature at off. It ends quietly where they are not as they should be: the
// library says so then.
func walk(in source.Input, off int64) *facts {
	f := &facts{sums: map[int][blakeSize]byte{}, unchecked: map[int]bool{}, services: map[string]int{}}
	var sig [8]byte
	if _, err := in.ReadAt(sig[:], off); err != nil && err != io.EOF {
		return f
	}
	if string(sig[:]) == magic5 {
		f.walk5(in, off+int64(len(magic5)))
	} else {
		f.walk4(in, off+int64(len(magic4)))
	}
	return f
}

func (f *facts) walk4(in source.Input, off int64) {
	var b [64]byte
	for off >= 0 && off < in.Size {
		n, err := in.ReadAt(b[:], off)
		if n < 7 || err != nil && err != io.EOF {
			return
		}
		flags := binary.LittleEndian.Uint16(b[3:])
		size := int64(binary.LittleEndian.Uint16(b[5:]))
		if size < 7 {
			return
		}
		if flags&0x8000 != 0 {
			if n < 11 {
				return
			}
			size += int64(binary.LittleEndian.Uint32(b[7:]))
		}
		switch kind := b[2]; kind {
		case kind4Archive:
			f.begins = size >= 13 && n >= 13 && uint16(crc32.ChecksumIEEE(b[2:13])) == binary.LittleEndian.Uint16(b[:])
			f.volume = flags&1 != 0
			if flags&0x80 != 0 {
				f.hidden, f.ends = true, true
				return
			}
		case kind4End:
			f.after = max(0, in.Size-off-size)
			return
		case kind4File, kind4Service:
			if n < 40 {
				return
			}
			name := 32
			if flags&0x100 != 0 {
				size += int64(binary.LittleEndian.Uint32(b[32:])&0x3fffffff) << 32
				name += 8
			}
			// What RAR 3 brought with the mark: services, exact times, its compression.
			f.ends = f.ends || kind == kind4Service || flags&0x1000 != 0 || b[24] >= 29
			if kind == kind4Service {
				f.service(string(b[name : name+min(8, int(binary.LittleEndian.Uint16(b[26:])))]))
			}
		}
		off += size
	}
}

func (f *facts) service(name string) {
	if len(f.services) < 100 {
		f.services[name]++
	}
}

// vints reads varints; after the first that is not whole it is empty.
type vints []byte

func (v *vints) next() uint64 {
	n, k := binary.Uvarint(*v)
	if k <= 0 {
		*v = nil
		return 0
	}
	*v = (*v)[k:]
	return n
}

func (v *vints) take(n uint64) vints {
	n = min(n, uint64(len(*v)))
	p := (*v)[:n]
	*v = (*v)[n:]
	return p
}

func (f *facts) walk5(in source.Input, off int64) {
	files := 0
	for off >= 0 && off < in.Size {
		var b [16]byte
		n, err := in.ReadAt(b[:], off)
		if n < 7 || err != nil && err != io.EOF {
			return
		}
		size, k := binary.Uvarint(b[4:n])
		if k <= 0 || size < 2 || size > maxHeader5 || int64(size) > in.Size-off {
			return
		}
		h := make([]byte, size) // no longer than the file
		if _, err := in.ReadAt(h, off+4+int64(k)); err != nil && err != io.EOF {
			return
		}
		if crc32.Update(crc32.ChecksumIEEE(b[4:4+k]), crc32.IEEETable, h) != binary.LittleEndian.Uint32(b[:]) {
			return
		}
		off += 4 + int64(k) + int64(size)
		v := vints(h)
		kind, flags := v.next(), v.next()
		var extra vints
		if flags&1 != 0 {
			if n := v.next(); n <= uint64(len(v)) {
				extra = v[uint64(len(v))-n:]
			}
		}
		if flags&2 != 0 {
			n := v.next()
			if n > uint64(in.Size) {
				return
			}
			off += int64(n)
		}
		switch kind {
		case kind5Archive:
			f.begins = true
			f.volume = v.next()&1 != 0
		case kind5Encrypt:
			f.begins = true
			v.next()
			v.next()
			f.hidden = true
			f.derive(v)
			return
		case kind5File, kind5Service:
			f.file5(v, extra, files, kind == kind5Service)
			if kind == kind5File && flags&8 == 0 {
				files++
			}
		case kind5End:
			f.after = max(0, in.Size-off)
			return
		}
	}
}

// file5 reads the header of a file or a service from its own flags on.
func (f *facts) file5(v, extra vints, number int, service bool) {
	flags := v.next()
	v.next() // unpacked length
	v.next() // attributes
	if flags&2 != 0 {
		v.take(4)
	}
	hasCRC := flags&4 != 0
	if hasCRC {
		v.take(4)
	}
	v.next() // compression
	v.next() // host
	if service {
		f.service(string(v.take(min(v.next(), 8))))
	}
	sealed, hashed, sum := false, false, vints(nil)
	for len(extra) > 0 {
		r := extra.take(extra.next())
		switch r.next() {
		case 1: // encryption: version, flags, exponent, salt, ...
			sealed = true
			r.next()
			r.next()
			f.derive(r)
		case 2:
			hashed = true
			if r.next() == 0 {
				sum = r
			}
		}
	}
	switch {
	case !hashed || hasCRC || service:
	case sealed || len(sum) != blakeSize: // a sum of what is encrypted takes its key
		f.unchecked[number] = true
	default:
		f.sums[number] = [blakeSize]byte(sum)
	}
}

// derive notes the exponent that stands first in v.
func (f *facts) derive(v vints) {
	if len(v) > 0 {
		f.exponent = max(f.exponent, int(v[0]))
		f.work += 1 << min(v[0], 40)
	}
}
