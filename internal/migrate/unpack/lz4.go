package unpack

import (
	"bufio"
	"encoding/binary"
	"io"

	"github.com/pierrec/lz4/v4"

	"lockbox/internal/format"
)

const (
	lz4Magic  = 0x184d2204
	lz4Legacy = 0x184c2102
	skippable = 0x184d2a50 // and the fifteen after it
)

// lz4Frames reads frame after frame and looks itself at what stands between them: the library stops behind a frame.
// Frames of the older format have neither an end mark nor a checksum; nobody can see that one was cut between blocks.
type lz4Frames struct {
	src *bufio.Reader
	dec *lz4.Reader
	in  bool // inside a frame
	any bool
}

func (l *lz4Frames) Read(p []byte) (int, error) {
	if !l.in {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n, err := l.dec.Read(p)
	if err == io.EOF {
		l.in, err = false, nil
	}
	return n, err
}

func (l *lz4Frames) next() error {
	for {
		head, err := l.src.Peek(4)
		if err == io.EOF && len(head) == 0 && l.any {
			return io.EOF
		}
		if err != nil {
			return noEOF(err)
		}
		switch magic := binary.LittleEndian.Uint32(head); {
		case magic == lz4Magic, magic == lz4Legacy:
			l.dec.Reset(l.src)
			l.in, l.any = true, true
			return nil
		case magic&^15 == skippable:
			if err := l.skip(); err != nil {
				return err
			}
		default:
			return format.Corrupt("lz4 stream", -1, "what follows a frame is not a frame")
		}
	}
}

func (l *lz4Frames) skip() error {
	var h [8]byte
	if _, err := io.ReadFull(l.src, h[:]); err != nil {
		return noEOF(err)
	}
	_, err := io.CopyN(io.Discard, l.src, int64(binary.LittleEndian.Uint32(h[4:])))
	return noEOF(err)
}
