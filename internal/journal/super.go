package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

const (
	magic        = "\x89LBX\r\n\x1a\n"
	superSize    = 512
	superSummed  = 480 // bytes under the checksum; equal in all copies
	rootContext  = "lockbox 2026-11-30 root v1"
	digestBLAKE3 = 1
	copies       = 4

	// maxGeneration leaves room for a lock of its own for every generation past the end of any file.
	maxGeneration = 1 << 61
)

// Features that this program knows; any other bit in the first two sets makes it refuse.
const (
	knownToRead  uint64 = 0
	knownToWrite uint64 = 0
)

// Super is a superblock: everything that all copies of it share.
type Super struct {
	Suite      format.Suite
	Cipher     seal.Algorithm // of encrypted archives, else 0
	Sector     int64
	Archive    format.ID
	MustKnow   uint64 // features a reader must know
	WriteKnow  uint64 // features a writer must know
	MayIgnore  uint64
	Generation uint64
	Attempt    format.ID
	End        int64 // logical end
	CommitOff  int64
	CommitLen  uint32
	KeyDirOff  int64
	KeyDirLen  uint32
	CommitHash format.Digest
	KeyDirHash format.Digest
	PrevRoot   format.Digest
}

// encode returns the bytes under the checksum.
func (s *Super) encode() []byte {
	b := make([]byte, superSummed)
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint16(b[8:], format.Version)
	b[10] = byte(s.Suite)
	b[11] = byte(s.algorithm())
	b[12] = digestBLAKE3
	b[13] = byte(s.signature())
	b[14] = byte(bits.TrailingZeros64(uint64(s.Sector)))
	copy(b[16:], s.Archive[:])
	le.PutUint64(b[32:], s.MustKnow)
	le.PutUint64(b[40:], s.WriteKnow)
	le.PutUint64(b[48:], s.MayIgnore)
	le.PutUint64(b[56:], s.Generation)
	copy(b[64:], s.Attempt[:])
	le.PutUint64(b[80:], uint64(s.End))
	le.PutUint64(b[88:], uint64(s.CommitOff))
	le.PutUint32(b[96:], s.CommitLen)
	le.PutUint32(b[100:], s.KeyDirLen)
	le.PutUint64(b[104:], uint64(s.KeyDirOff))
	copy(b[112:], s.CommitHash[:])
	copy(b[144:], s.KeyDirHash[:])
	copy(b[176:], s.PrevRoot[:])
	return b
}

// algorithm is what the archive's tags are made by.
func (s *Super) algorithm() seal.Algorithm {
	switch s.Suite {
	case format.SuiteNone:
		return seal.XXH3
	case format.SuiteSigned:
		return seal.BLAKE3
	}
	return s.Cipher
}

func (s *Super) signature() seal.SignatureAlgorithm {
	if s.Suite.Signed() {
		return seal.Ed25519
	}
	return seal.Unsigned
}

// decodeSuper reads bytes whose magic and checksum are right.
func decodeSuper(b []byte, off int64) (*Super, error) {
	if v := binary.LittleEndian.Uint16(b[8:]); v != format.Version {
		return nil, &format.Error{Kind: format.ErrVersion, Record: "superblock", Offset: off, Detail: fmt.Sprintf("version %d", v)}
	}
	c := format.NewCursor(b[10:], "superblock", off)
	s := &Super{Suite: format.Suite(c.U8())}
	tag, digest, sig, shift := c.U8(), c.U8(), c.U8(), c.U8()
	c.Zero(1)
	s.Archive = c.ID()
	s.MustKnow, s.WriteKnow, s.MayIgnore, s.Generation = c.U64(), c.U64(), c.U64(), c.U64()
	s.Attempt = c.ID()
	s.End, s.CommitOff = c.I64(), c.I64()
	s.CommitLen, s.KeyDirLen = c.U32(), c.U32()
	s.KeyDirOff = c.I64()
	s.CommitHash, s.KeyDirHash, s.PrevRoot = c.Digest(), c.Digest(), c.Digest()
	c.Zero(superSummed - 208)
	if err := c.Done(); err != nil {
		return nil, err
	}
	if s.Suite.Encrypted() {
		s.Cipher = seal.Algorithm(tag)
	}
	if s.Suite > format.SuiteBoth || !seal.Algorithm(tag).Fits(s.Suite) || digest != digestBLAKE3 || sig != byte(s.signature()) || s.MustKnow&^knownToRead != 0 {
		return nil, &format.Error{Kind: format.ErrVersion, Record: "superblock", Offset: off,
			Detail: "it uses protection or features that this program does not know"}
	}
	s.Sector = 1 << (shift & 63)
	switch {
	case shift > 63 || !format.SectorOK(s.Sector):
		c.Fail("sector size is neither 512 nor 4096")
	case s.Generation == 0 || s.Generation > maxGeneration:
		c.Fail("generation out of range")
	case s.End%s.Sector != 0 || s.CommitOff%s.Sector != 0:
		c.Fail("offset not at a sector")
	case s.CommitOff < format.DataStart || s.CommitLen < commitHeader || s.CommitLen > format.MaxCommitBlock || s.CommitOff+int64(s.CommitLen) > s.End:
		c.Fail("commit block outside the archive")
	case !s.Suite.Encrypted() && (s.KeyDirLen != 0 || s.KeyDirOff != 0 || s.KeyDirHash != format.Digest{}):
		c.Fail("a key directory in an archive that is not encrypted")
	case s.Suite.Encrypted() && (s.KeyDirOff < format.DataStart || s.KeyDirOff%s.Sector != 0 || s.KeyDirLen < keyDirHeader || s.KeyDirLen > format.MaxKeyDir || s.KeyDirExtent().End() > s.End):
		c.Fail("key directory outside the archive")
	}
	return s, c.Err()
}

// looseSuper reads what says which kind of archive it is, and its id.
func looseSuper(b []byte) (*Super, bool) {
	s := &Super{Suite: format.Suite(b[10]), Sector: 1 << (b[14] & 63), Archive: format.ID(b[16:32])}
	if s.Suite.Encrypted() {
		s.Cipher = seal.Algorithm(b[11])
	}
	ok := s.Suite <= format.SuiteBoth && seal.Algorithm(b[11]).Fits(s.Suite) && format.SectorOK(s.Sector)
	return s, ok && string(s.encode()[8:32]) == string(b[8:32])
}

// Writable returns an error of kind ErrVersion when this program must not change the archive.
func (s *Super) Writable() error {
	if s.WriteKnow&^knownToWrite != 0 {
		return &format.Error{Kind: format.ErrVersion, Record: "superblock", Offset: -1, Detail: "it has features that this program can read but must not change"}
	}
	return nil
}

// CommitExtent is where the commit block stands.
func (s *Super) CommitExtent() format.Extent {
	return format.Extent{Off: s.CommitOff, Len: format.AlignUp(int64(s.CommitLen), s.Sector)}
}

// KeyDirExtent is where the key directory stands, twice; empty without one.
func (s *Super) KeyDirExtent() format.Extent {
	return format.Extent{Off: s.KeyDirOff, Len: 2 * format.AlignUp(int64(s.KeyDirLen), s.Sector)}
}

// KeyDirCopy is where copy n, 0 or 1, of the key directory begins.
func (s *Super) KeyDirCopy(n int) int64 {
	return s.KeyDirOff + int64(n)*format.AlignUp(int64(s.KeyDirLen), s.Sector)
}

// RootHash is what the archive's state is known by, and what a signature signs. commit is the commit
// block, in plain form.
func (s *Super) RootHash(commit []byte) format.Digest {
	b := s.encode()
	body := blake3.Sum256(commit[:signedPart(commit)])
	h := blake3.NewDeriveKey(rootContext)
	h.Write(b[0:112])
	h.Write(body[:])
	h.Write(b[144:208])
	var d format.Digest
	h.Sum(d[:0])
	return d
}

// Copies is what the four superblock copies say.
type Copies struct {
	Current *Super
	raw     []byte       // the current superblock's bytes under the checksum
	marked  bool         // the clean mark named the current superblock
	next    []byte       // where the next generation's first copy will stand, as it was read
	current [copies]bool // which copies hold it
	bad     [copies]bool // which copies are not valid
}

// place is the offset, pair and copy number of copy i in file order.
func place(i int) (off int64, pair, copy byte) {
	return int64(i) * format.PageSize, byte(i % 2), byte(i / 2)
}

// AllEqual reports whether all four copies hold the current superblock.
func (c *Copies) AllEqual() bool { return c.current == [copies]bool{true, true, true, true} }

// Marked reports whether the clean mark named the current superblock when the copies were read.
func (c *Copies) Marked() bool { return c.marked }

// Damaged is how many of the four copies cannot be read.
func (c *Copies) Damaged() (n int) {
	for _, b := range c.bad {
		if b {
			n++
		}
	}
	return n
}

// Holds reports whether copy n of a pair holds the current superblock.
func (c *Copies) Holds(pair, n int) bool { return c.current[2*n+pair] }

// Same reports whether both describe the same current superblock, copy by copy.
func (c *Copies) Same(o *Copies) bool {
	return bytes.Equal(c.raw, o.raw) && c.current == o.current && c.bad == o.bad
}

func validCopy(page []byte, i int) bool {
	_, pair, cp := place(i)
	if string(page[:8]) != magic || page[496] != pair || page[497] != cp {
		return false
	}
	for _, b := range page[498:superSize] {
		if b != 0 {
			return false
		}
	}
	s := xxh3.Hash128(page[:superSummed])
	return binary.LittleEndian.Uint64(page[superSummed:]) == s.Lo && binary.LittleEndian.Uint64(page[superSummed+8:]) == s.Hi
}

func checksum(b []byte) []byte {
	s := xxh3.Hash128(b)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, s.Lo), s.Hi)
}

// DecodeCopies reads the first 16 KiB of a file, or all of a shorter one. Its errors are of the kinds
// ErrNotLockbox, ErrVersion and ErrCorrupt.
func DecodeCopies(b []byte) (*Copies, error) {
	var c Copies
	var supers [copies]*Super // nil where a copy is not valid
	seen, textMode := false, false
	var damage, later error
	for i := range copies {
		off, _, _ := place(i)
		c.bad[i] = true
		if int64(len(b)) < off+superSize {
			seen = seen || int64(len(b)) >= off+8 && string(b[off:off+8]) == magic
			continue
		}
		page := b[off : off+superSize]
		if string(page[:8]) != magic {
			textMode = textMode || looksTextMode(page)
			continue
		}
		seen = true
		if !validCopy(page, i) {
			// A later version may have another checksum; believe its number only when two pages agree on it.
			if v := binary.LittleEndian.Uint16(page[8:]); v != format.Version && i >= 2 && string(b[off-2*format.PageSize:][:10]) == string(page[:10]) {
				later = &format.Error{Kind: format.ErrVersion, Record: "superblock", Offset: off, Detail: fmt.Sprintf("version %d", v)}
			}
			continue
		}
		if c.Current != nil && bytes.Equal(page[:superSummed], c.raw) {
			c.bad[i] = false
			supers[i] = c.Current
			continue
		}
		s, err := decodeSuper(page[:superSummed], off)
		switch {
		case errors.Is(err, format.ErrVersion):
			later = err
		case err != nil:
			damage = err
		default:
			c.bad[i] = false
			supers[i] = s
			if c.Current == nil || s.Generation > c.Current.Generation {
				c.Current, c.raw = s, page[:superSummed]
			}
		}
	}
	switch {
	case later != nil:
		// A valid copy that this program does not understand may be the newest one.
		return nil, later
	case damage != nil:
		// Its checksum is right, so it is as it was written, and it may be the newest one too.
		return nil, damage
	case c.Current == nil && seen && len(b) < format.CopiesSize:
		return nil, format.Corrupt("superblock", 0, "file cut short: %d bytes", len(b))
	case c.Current == nil && seen:
		return nil, format.Corrupt("superblock", 0, "none of the four copies is valid")
	case c.Current == nil && textMode:
		return nil, format.Corrupt("superblock", 0, "the file was changed by a text-mode transfer")
	case c.Current == nil:
		return nil, &format.Error{Kind: format.ErrNotLockbox, Offset: -1}
	}
	for i, s := range supers {
		if s == nil {
			continue
		}
		off, _, _ := place(i)
		if s.Archive != c.Current.Archive {
			return nil, format.Corrupt("superblock", off, "copies of two different archives")
		}
		// Any two are compared, not only those of the newest generation: a fork further back means that
		// two programs have written here, each without the other.
		for _, o := range supers[:i] {
			if o != nil && o != s && o.Generation == s.Generation && *o != *s {
				return nil, format.Corrupt("superblock", off, "two different states claim generation %d: the archive has been forked", s.Generation)
			}
		}
		c.current[i] = s == c.Current || *s == *c.Current
	}
	kept := make([]byte, 0, superSummed+superSize)
	kept = append(kept, c.raw...)
	if off := nextCopy(c.Current.Generation); int64(len(b)) >= off+superSize {
		c.next = append(kept, b[off:off+superSize]...)[superSummed:]
	}
	c.raw = kept[:superSummed:superSummed]
	return &c, nil
}

// nextCopy is the offset of the first copy that publishing the generation after g writes.
func nextCopy(g uint64) int64 {
	return int64(Pair(g+1)) * format.PageSize
}

// Moved reports whether a generation may have been published since the copies were read. Publishing writes both
// copies of its pair, so one that still holds the same bytes says no.
func (c *Copies) Moved(r io.ReaderAt) (bool, error) {
	if c.next == nil {
		return true, nil
	}
	var b [superSize]byte
	n, err := r.ReadAt(b[:], nextCopy(c.Current.Generation))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("reading superblocks: %w", err)
	}
	return !bytes.Equal(b[:n], c.next), nil
}

// looksTextMode recognises a magic whose line ends or high bit a text-mode transfer has changed.
func looksTextMode(p []byte) bool {
	for _, m := range []string{"\x89LBX\n\x1a\n", "\x89LBX\r\n\x1a\r\n", "\x89LBX\r\r\n\x1a\r\n", "\x09LBX\r\n\x1a\n", "\x89LBX\r\x1a\r"} {
		if bytes.HasPrefix(p, []byte(m)) {
			return true
		}
	}
	return false
}
