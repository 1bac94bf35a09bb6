package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// copyBuffers are for the copies and the mark behind them.
var copyBuffers = sync.Pool{New: func() any { return new([format.CleanMarkOff + superSize]byte) }}

// ReadCopies reads the four superblock copies, and with them the clean mark.
func ReadCopies(r io.ReaderAt) (*Copies, error) {
	b := copyBuffers.Get().(*[format.CleanMarkOff + superSize]byte)
	defer copyBuffers.Put(b)
	n, err := ReadFront(r, b[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading superblocks: %w", err)
	}
	c, err := DecodeCopies(b[:min(n, format.CopiesSize)])
	if err == nil && n == len(b) {
		c.marked = marks(b[format.CleanMarkOff:], c.raw)
	}
	return c, err
}

// ReadFront reads the beginning of a file, copies and then the mark, as far as b goes. One copy that the device does not
// give back is left zero, which is no copy; two could be the pair that alone has the newest generation, so they
// are an error. A mark that it does not give back is none.
func ReadFront(r io.ReaderAt, b []byte) (n int, err error) {
	if n, err = r.ReadAt(b, 0); !vfs.Unreadable(err) {
		return n, err
	}
	n, err = 0, nil
	lost := 0
	for n < len(b) && err == nil {
		page := b[n:min(n+format.PageSize, len(b))]
		var k int
		if k, err = r.ReadAt(page, int64(n)); vfs.Unreadable(err) && (n >= format.CopiesSize || lost == 0) {
			if n < format.CopiesSize {
				lost++
			}
			clear(page)
			k = len(page)
		}
		if n += k; k == len(page) {
			err = nil
		}
	}
	return n, err
}

// Pair is the pair that a generation is published into; it is mirrored into the other.
func Pair(generation uint64) int { return int(generation % 2) }

// WriteCopy writes one copy of s: copy number n of a pair. It writes exactly one superblock, so that
// nothing else of the page is touched.
func WriteCopy(w io.WriterAt, s *Super, pair, n int) error {
	off, p, c := place(2*n + pair)
	core := s.encode()
	b := make([]byte, superSize)
	copy(b, core)
	copy(b[superSummed:], checksum(core))
	b[496], b[497] = p, c
	_, err := w.WriteAt(b, off)
	return err
}

// Written returns what the copies are after both copies of the given pair were set to s.
func (c *Copies) Written(s *Super, pairs ...int) *Copies {
	n := &Copies{Current: s, raw: s.encode(), bad: c.bad}
	if c.Current != nil && *c.Current == *s {
		n.current = c.current
	}
	for _, p := range pairs {
		n.current[p], n.current[2+p] = true, true
		n.bad[p], n.bad[2+p] = false, false
	}
	return n
}

// WriteMark writes the clean mark for s; ClearMark takes any mark back.
func WriteMark(w io.WriterAt, s *Super) error {
	b := make([]byte, superSize)
	copy(b, s.encode())
	_, err := w.WriteAt(b, format.CleanMarkOff)
	return err
}

// ClearMark takes the clean mark back.
func ClearMark(w io.WriterAt) error {
	_, err := w.WriteAt(make([]byte, superSize), format.CleanMarkOff)
	return err
}

// Marked reports whether the clean mark names s. A mark that the device does not give back is none.
func Marked(r io.ReaderAt, s *Super) (bool, error) {
	b := make([]byte, superSize)
	if n, err := r.ReadAt(b, format.CleanMarkOff); n < len(b) {
		if errors.Is(err, io.EOF) || vfs.Unreadable(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading clean mark: %w", err)
	}
	return marks(b, s.encode()), nil
}

// marks reports whether b is the clean mark of the superblock whose bytes under the checksum are core.
func marks(b, core []byte) bool {
	return bytes.HasPrefix(b, core) && [superSize - superSummed]byte(b[len(core):]) == [superSize - superSummed]byte{}
}

// ReadCommit reads and checks the commit block that s names, and the signature of a signed archive (of kind
// format.ErrAuth when it does not verify). The block's plain form is returned for RootHash.
func ReadCommit(r io.ReaderAt, s *Super, suite seal.Suite) (*Commit, []byte, error) {
	b := make([]byte, s.CommitLen)
	if n, err := r.ReadAt(b, s.CommitOff); n < len(b) {
		if errors.Is(err, io.EOF) {
			return nil, nil, format.Corrupt("commit block", s.CommitOff, "file cut short")
		}
		return nil, nil, fmt.Errorf("reading commit block: %w", err)
	}
	if Sum(b) != s.CommitHash {
		return nil, nil, format.Corrupt("commit block", s.CommitOff, "digest does not match the superblock")
	}
	stored := b
	b, err := OpenCommit(stored, s, suite)
	if err != nil {
		return nil, nil, err
	}
	if suite.Hider() != nil && boundRoot(stored) != s.RootHash(b) {
		return nil, nil, format.Corrupt("commit block", s.CommitOff, "it belongs to another superblock")
	}
	c, err := DecodeCommit(b, s)
	if err == nil && s.Suite.Signed() {
		err = c.verify(b, s)
	}
	return c, b, err
}

func (m *Commit) verify(block []byte, s *Super) error {
	signer, ok := seal.VerifyRoot(m.signature, s.RootHash(block))
	if !ok {
		return &format.Error{Kind: format.ErrAuth, Record: "commit block", Offset: s.CommitOff, Detail: "its signature is missing or does not verify"}
	}
	m.Signer = signer
	return nil
}

// SuperOfMark returns the superblock that the clean mark repeats, for when no copy can be read, or nil. The mark has no
// checksum of its own, so that it counts only together with the commit block that it names.
func SuperOfMark(r io.ReaderAt) *Super {
	b := make([]byte, superSummed)
	if n, _ := r.ReadAt(b, format.CleanMarkOff); n < len(b) || string(b[:8]) != magic {
		return nil
	}
	s, err := decodeSuper(b, format.CleanMarkOff)
	if err != nil {
		return nil
	}
	// Its digest; what is in it shows when the archive is unlocked.
	block := make([]byte, s.CommitLen)
	if n, _ := r.ReadAt(block, s.CommitOff); n < len(block) || Sum(block) != s.CommitHash {
		return nil
	}
	return s
}
