package zip

import (
	"io"
	"math"

	"lockbox/internal/migrate/source"
)

// local is what an entry's local header adds: its extra fields, and where the data begin.
type local struct {
	extra string
	data  int64
}

// readLocal reads an entry's local header and holds it against the directory: where the two do not agree, two programs
// would unpack two different files, and neither can be called the right one.
func readLocal(in source.Input, h *header) (l local, err error) {
	var b [lenLocal]byte
	if _, err := in.ReadAt(b[:], h.off); err != nil {
		return l, noEOF(err, h.off)
	}
	if le.Uint32(b[:]) != sigLocal {
		return l, corrupt(h.off, "no local header stands where the directory says")
	}
	n, x := int(le.Uint16(b[26:])), int(le.Uint16(b[28:]))
	text := make([]byte, n+x)
	if _, err := in.ReadAt(text, h.off+lenLocal); err != nil {
		return l, noEOF(err, h.off)
	}
	l.extra = string(text[n:])
	l.data = h.off + lenLocal + int64(n+x)
	disagree := func(what string) (local, error) {
		return l, corrupt(h.off, "the local header and the directory have %s", what)
	}
	flags := le.Uint16(b[6:])
	masked := flags&flagMasked != 0
	switch {
	case string(text[:n]) != h.raw && !masked:
		return disagree("different names")
	case le.Uint16(b[8:]) != h.method:
		return disagree("different methods")
	case (flags^h.flags)&(flagEncrypted|flagStrong) != 0:
		return disagree("different flags")
	}
	crc, packed, size := le.Uint32(b[14:]), int64(le.Uint32(b[18:])), int64(le.Uint32(b[22:]))
	if packed == math.MaxUint32 || size == math.MaxUint32 {
		if f, ok := field(l.extra, 0x0001); ok {
			for _, v := range []*int64{&size, &packed} {
				if *v == math.MaxUint32 && len(f) >= 8 {
					*v, f = int64(le.Uint64([]byte(f[:8]))), f[8:]
				}
			}
		}
	}
	if flags&flagDescriptor != 0 {
		// What was not known when the header was written stands behind the data; here are zeros, or what is true.
		if crc != 0 && crc != h.crc || packed != 0 && packed != h.packed && packed != math.MaxUint32 || size != 0 && size != h.size && size != math.MaxUint32 {
			return disagree("different lengths or check sums")
		}
	} else if crc != h.crc || packed != h.packed || size != h.size {
		return disagree("different lengths or check sums")
	}
	if l.data > h.limit || h.packed > h.limit-l.data {
		return l, corrupt(h.off, "its data reach into what comes after it")
	}
	return l, nil
}

// noEOF makes the end of the file damage.
func noEOF(err error, off int64) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return corrupt(off, "the file ends inside it")
	}
	return err
}
