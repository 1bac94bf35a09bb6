package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

// Key directory: magic (4), version (2), number of slots (2), bytes 8 to 31 of the superblock (24), attempt id
// (16), generation (8), key check value (32), length of the labels (4), their tag (T), the sealed labels; then
// for each slot its length (4) and its age file. The labels are for each slot a length (uvarint) and the
// bytes, then zeros up to a multiple of labelUnit.
const (
	keyDirMagic   = "LBXK"
	keyDirVersion = 1
	keyDirBound   = 56 // bytes before the check value
	keyDirHeader  = keyDirBound + 32 + 4
	labelUnit     = 256
)

// What of the superblock the directory repeats: version, algorithms, sector, archive id.
const superBoundFrom, superBoundTo = 8, 32

// KeySlot is one way to the content key.
type KeySlot struct {
	File  []byte // an age file
	Label string // known when it was unlocked
}

// KeyDir is the key directory of an encrypted archive.
type KeyDir struct {
	Attempt    format.ID // of the transaction that wrote it
	Generation uint64
	Slots      []KeySlot
	check      format.Digest
	tag        [format.MaxTag]byte
	labels     []byte // sealed
	bound      []byte // what the check value is over
}

// MaxSlots is how many slots a directory can have.
const MaxSlots = 64

func boundOf(b []byte) []byte {
	return append(append([]byte(nil), b[:keyDirBound]...), b[keyDirBound+32:]...)
}

// Encode returns the directory's stored form for the archive that s describes.
func (d *KeyDir) Encode(s *Super, suite seal.Suite, key *seal.ContentKey) ([]byte, error) {
	if n := len(d.Slots); n == 0 || n > MaxSlots {
		return nil, fmt.Errorf("a key directory of %d slots; it has 1 to %d", n, MaxSlots)
	}
	le := binary.LittleEndian
	b := append([]byte(nil), keyDirMagic...)
	b = le.AppendUint16(b, keyDirVersion)
	b = le.AppendUint16(b, uint16(len(d.Slots)))
	b = append(b, s.encode()[superBoundFrom:superBoundTo]...)
	b = append(b, d.Attempt[:]...)
	b = le.AppendUint64(b, d.Generation)
	b = append(b, make([]byte, 32)...)
	var labels []byte
	for _, x := range d.Slots {
		labels = binary.AppendUvarint(labels, uint64(len(x.Label)))
		labels = append(labels, x.Label...)
	}
	labels = append(labels, make([]byte, format.AlignUp(int64(len(labels)), labelUnit)-int64(len(labels)))...)
	b = le.AppendUint32(b, uint32(len(labels)))
	tag := make([]byte, suite.TagSize())
	ctx := d.context(s.Archive, len(labels))
	suite.Seal(&ctx, seal.KindKeys, seal.NoBlock, labels, tag)
	b = append(append(b, tag...), labels...)
	for _, x := range d.Slots {
		b = le.AppendUint32(b, uint32(len(x.File)))
		b = append(b, x.File...)
	}
	if len(b) > format.MaxKeyDir {
		return nil, fmt.Errorf("the key directory would have %d bytes, more than the format allows", len(b))
	}
	check := key.Check(boundOf(b))
	copy(b[keyDirBound:], check[:])
	return b, nil
}

func (d *KeyDir) context(archive format.ID, n int) seal.Context {
	return seal.Context{Archive: archive, Attempt: d.Attempt, Number: d.Generation, Plain: uint32(n), Stored: uint32(n)}
}

// DecodeKeyDir reads a directory whose digest is right.
func DecodeKeyDir(b []byte, s *Super) (*KeyDir, error) {
	d, n, err := decodeKeyDir(b, s)
	if err == nil && n != len(b) {
		err = format.Corrupt("key directory", s.KeyDirOff, "bytes left over after the last slot")
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// FindKeyDir reads a directory that b begins with, at off, when no superblock says that one is there. The
// superblock that it returns has what the directory repeats of it, and no more.
func FindKeyDir(b []byte, off int64) (s *Super, d *KeyDir, ok bool) {
	if len(b) < keyDirHeader || string(b[:4]) != keyDirMagic {
		return nil, nil, false
	}
	front := make([]byte, superSummed)
	copy(front, magic)
	copy(front[superBoundFrom:], b[8:])
	s, ok = looseSuper(front)
	if !ok || !s.Suite.Encrypted() {
		return nil, nil, false
	}
	s.KeyDirOff = off
	d, n, err := decodeKeyDir(b, s)
	if err != nil {
		return nil, nil, false
	}
	s.KeyDirLen, s.KeyDirHash = uint32(n), blake3.Sum256(b[:n])
	return s, d, true
}

// decodeKeyDir reads the directory that b begins with and returns its length.
func decodeKeyDir(b []byte, s *Super) (*KeyDir, int, error) {
	c := format.NewCursor(b, "key directory", s.KeyDirOff)
	if string(c.Bytes(4)) != keyDirMagic {
		c.Fail("not a key directory")
	}
	if v := c.U16(); c.Err() == nil && v != keyDirVersion {
		return nil, 0, &format.Error{Kind: format.ErrVersion, Record: "key directory", Offset: s.KeyDirOff, Detail: fmt.Sprintf("version %d", v)}
	}
	d := &KeyDir{}
	n := int(c.U16())
	if string(c.Bytes(superBoundTo-superBoundFrom)) != string(s.encode()[superBoundFrom:superBoundTo]) {
		c.Fail("it belongs to another archive")
	}
	d.Attempt, d.Generation, d.check = c.ID(), c.U64(), c.Digest()
	size := c.U32()
	if n == 0 || n > MaxSlots || size > MaxSlots*(seal.MaxLabel+2)+labelUnit || size%labelUnit != 0 {
		c.Fail("number of slots or length of the labels out of range")
	}
	copy(d.tag[:], c.Bytes(tagSize(s.Suite)))
	d.labels = append(d.labels, c.Bytes(int(size))...)
	for range n {
		k := c.U32()
		if k > seal.MaxSlot {
			c.Fail("key slot too long")
		}
		d.Slots = append(d.Slots, KeySlot{File: append([]byte(nil), c.Bytes(int(k))...)})
		if c.Err() != nil {
			break
		}
	}
	if err := c.Err(); err != nil {
		return nil, 0, err
	}
	n = len(b) - c.Len()
	d.bound = boundOf(b[:n])
	return d, n, nil
}

func tagSize(s format.Suite) int {
	switch s {
	case format.SuiteSigned:
		return 32
	case format.SuiteBoth:
		return 48
	}
	return 16
}

// KeyDirBytes returns the directory that s names, from the first copy that has the right digest. With both it
// reads both, and bad says which are not right.
func KeyDirBytes(r io.ReaderAt, s *Super, both bool) (b []byte, bad [2]bool, err error) {
	for n := range bad {
		c := make([]byte, s.KeyDirLen)
		k, e := r.ReadAt(c, s.KeyDirCopy(n))
		switch {
		case k == len(c) && blake3.Sum256(c) == s.KeyDirHash:
			if b = c; !both {
				return b, bad, nil
			}
			continue
		case k == len(c):
			e = format.Corrupt("key directory", s.KeyDirCopy(n), "digest does not match the superblock")
		case e == nil || errors.Is(e, io.EOF):
			e = format.Corrupt("key directory", s.KeyDirCopy(n), "file cut short")
		default:
			e = fmt.Errorf("reading key directory: %w", e)
		}
		if bad[n] = true; err == nil {
			err = e
		}
	}
	if b != nil {
		err = nil
	}
	return b, bad, err
}

// ReadKeyDir reads the directory that s names.
func ReadKeyDir(r io.ReaderAt, s *Super) (*KeyDir, error) {
	b, _, err := KeyDirBytes(r, s, false)
	if err != nil {
		return nil, err
	}
	return DecodeKeyDir(b, s)
}

// PutKeyDir returns the extent of a stored directory at off, and has s name it.
func PutKeyDir(s *Super, b []byte, off int64) []byte {
	s.KeyDirOff, s.KeyDirLen, s.KeyDirHash = off, uint32(len(b)), blake3.Sum256(b)
	ext := make([]byte, s.KeyDirExtent().Len)
	copy(ext, b)
	copy(ext[len(ext)/2:], b)
	return ext
}

// Public describes the slots, with labels where they are known.
func (d *KeyDir) Public() []seal.Slot {
	slots := make([]seal.Slot, len(d.Slots))
	for i, x := range d.Slots {
		slots[i] = seal.Slot{Number: i + 1, Kinds: seal.SlotKinds(x.File), Label: x.Label}
	}
	return slots
}

// Keys is what unlocks an encrypted archive: the directory, with labels, and the content key.
type Keys struct {
	Dir *KeyDir
	Key *seal.ContentKey
}

// Opening says how to come by an archive's suite.
type Opening struct {
	Unlock  seal.Unlock
	Loose   bool // take a key for right that an intact slot holds, whatever else of the directory is damaged
	Observe func(key [seal.KeySize]byte, n seal.Nonce)
}

// Suite returns the suite of the archive that s describes; of an encrypted one also its keys. It is of kind
// format.ErrAuth when it cannot be unlocked.
func (o Opening) Suite(ctx context.Context, r io.ReaderAt, s *Super) (seal.Suite, *Keys, error) {
	switch s.Suite {
	case format.SuiteNone:
		return seal.New(), nil, nil
	case format.SuiteSigned:
		return seal.NewSigned(), nil, nil
	}
	d, err := ReadKeyDir(r, s)
	if err != nil {
		return nil, nil, err
	}
	return o.With(ctx, s, d)
}

// With is Suite when the key directory is known.
func (o Opening) With(ctx context.Context, s *Super, d *KeyDir) (seal.Suite, *Keys, error) {
	var ids []seal.Identity
	var err error
	if o.Unlock != nil {
		if ids, err = o.Unlock(ctx, d.Public()); err != nil {
			return nil, nil, err
		}
	}
	files := make([][]byte, len(d.Slots))
	for i := range files {
		files[i] = d.Slots[i].File
	}
	key, err := seal.OpenSlots(ctx, files, ids)
	if err != nil {
		return nil, nil, err
	}
	if key.Check(d.bound) != d.check && !o.Loose {
		key.Wipe()
		return nil, nil, format.Corrupt("key directory", s.KeyDirOff, "its key check value does not fit the archive")
	}
	suite := seal.NewEncrypted(seal.Config{Signed: s.Suite.Signed(), Cipher: s.Cipher, Archive: s.Archive, Key: key, Observe: o.Observe})
	if err := d.readLabels(s, suite); err != nil && !o.Loose {
		suite.Wipe()
		key.Wipe()
		return nil, nil, err
	}
	return suite, &Keys{d, key}, nil
}

func (d *KeyDir) readLabels(s *Super, suite seal.Suite) error {
	b := append([]byte(nil), d.labels...)
	ctx := d.context(s.Archive, len(b))
	c := format.NewCursor(b, "labels of the key directory", s.KeyDirOff)
	if !suite.Open(&ctx, seal.KindKeys, seal.NoBlock, b, d.tag[:]) {
		c.Fail("tag does not verify")
	}
	for i := range d.Slots {
		d.Slots[i].Label = string(c.Bytes(int(c.Uvarint(seal.MaxLabel))))
	}
	c.Zero(c.Len())
	return c.Done()
}
