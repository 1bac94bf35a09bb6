package revault

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
)

const (
	magicV1   = "LBX1HDR\x00"
	magicV2   = "LBX2HDR\x00"
	magicPage = "LBX1PAG\x00" // of both formats

	headerV1 = 96         // bytes of the only header of format 1
	slotV2   = 160        // bytes of each of the two headers of format 2
	frontV2  = 2 * slotV2 // where the pages of format 2 begin
	macFrom  = 104        // where the MAC of a slot stands, and what it covers
	macSize  = 24
	sumFrom  = macFrom + macSize
)

// header is a header whose checksum is right. Only its MAC, or the pages it leads to, prove that it is genuine.
type header struct {
	version    int
	at         int64
	generation uint64
	root, auth int64 // pages, 0 for none
	sequence   uint64
	keyDirs    [2]int64
	id         format.ID
	cleaned    uint64 // sequence of the last commit whose clean-up is done
	raw        []byte // what the MAC covers
	mac        []byte // nil in format 1
}

// base is where pages begin.
func (h *header) base() int64 {
	if h.version == 1 {
		return headerV1
	}
	return frontV2
}

// front is what the beginning of a file says.
type front struct {
	verdict source.Verdict
	headers []header // the newest first
	damage  string   // what is wrong with a header that is not in headers
}

// slot is what stands where a header can stand: a header, or why it is none.
type slot struct {
	header      *header
	known       bool   // it has the magic of a header
	damage      string // why it is not valid
	unsupported string // it is valid, but not of a format that this package knows
	generation  uint64 // of an unsupported one
}

// Probe looks at the beginning of in.
func Probe(in source.Input) source.Verdict {
	f, err := readFront(in)
	if err != nil {
		return source.Verdict{}
	}
	return f.verdict
}

func readFront(in source.Input) (front, error) {
	b := make([]byte, min(in.Size, frontV2+int64(len(magicPage))))
	n, err := in.ReadAt(b, 0)
	if n < len(b) && err != nil && !errors.Is(err, io.EOF) {
		return front{}, err
	}
	b = b[:n]
	first := readSlot(b, 0)
	if h := first.header; h != nil && h.version == 1 {
		return front{verdict: supported("revault-1"), headers: []header{*h}}, nil
	}
	if first.unsupported != "" && first.generation == 0 {
		return unsupported(first.unsupported), nil
	}
	second := readSlot(b, slotV2)
	if second.header != nil && second.header.version == 1 {
		second = slot{damage: "a header of format 1 stands where the second of format 2 belongs"}
	}
	return choose(b, first, second), nil
}

// choose puts the headers of format 2 in order, the newest first.
func choose(b []byte, first, second slot) front {
	var f front
	var newest uint64
	for i, s := range []slot{first, second} {
		switch {
		case s.header != nil:
			f.headers = append(f.headers, *s.header)
			newest = max(newest, s.header.generation)
		case s.unsupported != "":
			f.damage = fmt.Sprintf("header copy %d is of %s", i, s.unsupported)
		default:
			f.damage = fmt.Sprintf("header copy %d is damaged: %s", i, s.damage)
		}
	}
	for _, s := range []slot{first, second} {
		if s.unsupported != "" && s.generation > newest {
			return unsupported(s.unsupported)
		}
	}
	switch h := f.headers; {
	case len(h) == 2 && h[0].generation < h[1].generation:
		h[0], h[1] = h[1], h[0]
	case len(h) == 2 && h[0].generation == h[1].generation && !bytes.Equal(h[0].raw, h[1].raw):
		f.damage = "both header copies claim to be the newest and differ"
	}
	switch {
	case len(f.headers) > 0:
		f.verdict = supported("revault-2")
	case first.known || second.known || pageAt(b, headerV1) || pageAt(b, frontV2):
		f.verdict = supported("revault")
		f.verdict.Detail = "its header is damaged"
	default:
		return front{}
	}
	return f
}

func pageAt(b []byte, off int) bool {
	return len(b) >= off && bytes.HasPrefix(b[off:], []byte(magicPage))
}

func supported(name string) source.Verdict { return source.Verdict{Format: name, Supported: true} }

func unsupported(detail string) front {
	return front{verdict: source.Verdict{Format: "revault", Detail: detail}}
}

func readSlot(b []byte, off int) slot {
	if len(b) <= off {
		return slot{damage: "the file ends before it"}
	}
	b = b[off:]
	switch {
	case bytes.HasPrefix(b, []byte(magicV1)):
		return readV1(b)
	case bytes.HasPrefix(b, []byte(magicV2)):
		return readV2(b, off)
	}
	return slot{damage: "it does not begin as a header does"}
}

func readV1(b []byte) slot {
	if len(b) < headerV1 {
		return slot{known: true, damage: "it is cut short"}
	}
	if sum := checksum(b[:64]); !bytes.Equal(sum[:], b[64:headerV1]) {
		return slot{known: true, damage: "its checksum is wrong"}
	}
	c := format.NewCursor(b[8:64], "reVault header", 0)
	version, flags, length := c.U16(), c.U16(), c.U32()
	if version != 1 {
		return slot{known: true, unsupported: fmt.Sprintf("version %d under the name of format 1, which was never released", version)}
	}
	h := &header{version: 1, root: c.I64(), sequence: c.U64()}
	h.keyDirs[0], h.id, h.auth = c.I64(), c.ID(), c.I64()
	if c.Err() != nil || flags != 0 || length != headerV1 {
		return slot{known: true, damage: "its fields are out of range"}
	}
	return slot{known: true, header: h}
}

func readV2(b []byte, off int) slot {
	c := format.NewCursor(b[8:], "reVault header", int64(off))
	version, flags, length := c.U16(), c.U16(), c.U32()
	if off == 0 && version == 1 && length == headerV1 && len(b) >= headerV1 {
		if sum := checksum(b[:64]); bytes.Equal(sum[:], b[64:headerV1]) {
			return slot{known: true, unsupported: "a dialect from before format 1, which was never released"}
		}
	}
	if len(b) < slotV2 {
		return slot{known: true, damage: "it is cut short"}
	}
	if sum := checksum(b[:sumFrom]); !bytes.Equal(sum[:], b[sumFrom:slotV2]) {
		return slot{known: true, damage: "its checksum is wrong"}
	}
	h := &header{version: 2, at: int64(off), generation: c.U64(), raw: b[:macFrom], mac: b[macFrom:sumFrom]}
	if version != 2 {
		return slot{known: true, unsupported: fmt.Sprintf("version %d, which is newer than this program knows", version), generation: max(1, h.generation)}
	}
	h.root, h.sequence = c.I64(), c.U64()
	h.keyDirs[0], h.keyDirs[1], h.id, h.auth, h.cleaned = c.I64(), c.I64(), c.ID(), c.I64(), c.U64()
	if c.Err() != nil || flags != 0 || length != slotV2 || h.generation == 0 || h.cleaned > h.sequence {
		return slot{known: true, damage: "its fields are out of range"}
	}
	return slot{known: true, header: h}
}
