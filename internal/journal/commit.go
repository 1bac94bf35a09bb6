package journal

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/seal"
)

const (
	commitMagic   = "LBXC"
	commitVersion = 1
	commitHeader  = 16
	extentRecord  = 40
	countersSize  = 9 * 8
	optionsSize   = 8
)

// Tags of a commit block's fields.
const (
	tagTrees     = 1
	tagStage     = 2
	tagRetire    = 3
	tagCounters  = 4
	tagOptions   = 5
	tagOpenPacks = 6
	tagSalt      = 7
	tagSignature = 0xFFFF // the highest, so that it is the last field
)

const mustKnowField = 1 // flag of a field

const trees = 5 // numbered from 1

// SaltSize is the length of an encrypted archive's salts.
const SaltSize = 32

// maxNext bounds the next content and frame number: half of what numbers may be, so that they cannot run out.
const maxNext = 1 << 62

// Commit is a commit block: what a generation consists of beside its superblock.
type Commit struct {
	Trees     []byte // the five root records; see package index
	Stage     []Planned
	Retire    []Planned
	Counters  Counters
	Options   Options
	OpenPacks []uint64       // by pack class: frame number of the last pack that was not full, or NoFrame
	Salt      []byte         // SaltSize random bytes in an encrypted archive, else none: the root hash tells nothing to who guesses the rest
	Signer    seal.PublicKey // of a signed archive, when it was read: whose signature has verified
	signature []byte
	unknown   []byte // whole fields this program does not know and may skip
}

// NoFrame is the absence of a frame number.
const NoFrame = ^uint64(0)

// Counters are the archive's running numbers and sums.
type Counters struct {
	NextContent uint64 // the number that the next content gets
	NextFrame   uint64
	Entries     uint64
	PlainBytes  uint64 // of all contents
	StoredBytes uint64 // of all frames, as stored
	FrameBytes  uint64 // of all frames' extents
	NodeBytes   uint64 // of all nodes' extents
	FreeBytes   uint64 // wiped bytes in the free tree
	Pending     uint64 // extents in the free tree that are not wiped
}

// Options are what the archive was created with.
type Options struct {
	Level        uint8
	Padding      format.Padding
	Reproducible bool
}

// Owner kinds of a planned extent.
const (
	OwnerNone    uint8 = 0
	OwnerFrame   uint8 = 1 // by frame number
	OwnerNode    uint8 = 2 // by tree, 1 to 5
	OwnerCommit  uint8 = 3
	OwnerSeveral uint8 = 4 // neighbours joined into one extent
	OwnerKeyDir  uint8 = 5
)

// Planned is an extent of the stage or the retire set.
type Planned struct {
	format.Extent
	Generation uint64 // that retired it
	Owner      uint64
	Kind       uint8
	Deleted    bool // may hold content that was deleted
}

func appendField(b []byte, tag, flags uint16, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, tag)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

func appendSet(b []byte, set []Planned) []byte {
	for _, p := range set {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Off))
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Len))
		b = binary.LittleEndian.AppendUint64(b, p.Generation)
		b = binary.LittleEndian.AppendUint64(b, p.Owner)
		flags := byte(0)
		if p.Deleted {
			flags = 1
		}
		b = append(b, p.Kind, flags, 0, 0, 0, 0, 0, 0)
	}
	return b
}

func decodeSet(payload []byte, s *Super, record string) ([]Planned, error) {
	c := format.NewCursor(payload, record, s.CommitOff)
	n := len(payload) / extentRecord
	if n > format.MaxSetExtents {
		c.Fail("too many extents")
	}
	set := make([]Planned, 0, min(n, format.MaxSetExtents))
	at := int64(format.DataStart)
	for c.Len() > 0 {
		p := Planned{Extent: format.Extent{Off: c.I64(), Len: c.I64()}, Generation: c.U64(), Owner: c.U64(), Kind: c.U8()}
		flags := c.U8()
		c.Zero(6)
		if p.Off < at || p.Len <= 0 || p.Off%s.Sector != 0 || p.Len%s.Sector != 0 || p.End() > s.End ||
			p.Generation > s.Generation || p.Kind > OwnerKeyDir || p.Kind == OwnerNode && (p.Owner < 1 || p.Owner > trees) || flags > 1 {
			c.Fail("extent out of range or out of order")
		}
		p.Deleted = flags == 1
		at = p.End()
		if c.Err() == nil {
			set = append(set, p)
		}
	}
	return set, c.Done()
}

// Encode returns the commit block of a generation, without a signature.
func (m *Commit) Encode(generation uint64) []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, 1024), commitMagic...)
	b = le.AppendUint16(b, commitVersion)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, generation)
	b = appendField(b, tagTrees, mustKnowField, m.Trees)
	b = appendField(b, tagStage, mustKnowField, appendSet(nil, m.Stage))
	b = appendField(b, tagRetire, mustKnowField, appendSet(nil, m.Retire))
	var p []byte
	k := &m.Counters
	for _, v := range []uint64{k.NextContent, k.NextFrame, k.Entries, k.PlainBytes, k.StoredBytes, k.FrameBytes, k.NodeBytes, k.FreeBytes, k.Pending} {
		p = le.AppendUint64(p, v)
	}
	b = appendField(b, tagCounters, mustKnowField, p)
	o := [optionsSize]byte{m.Options.Level, byte(m.Options.Padding)}
	if m.Options.Reproducible {
		o[2] = 1
	}
	b = appendField(b, tagOptions, mustKnowField, o[:])
	p = p[:0]
	for _, f := range m.OpenPacks {
		p = le.AppendUint64(p, f)
	}
	b = appendField(b, tagOpenPacks, mustKnowField, p)
	if len(m.Salt) > 0 {
		b = appendField(b, tagSalt, mustKnowField, m.Salt)
	}
	return append(b, m.unknown...)
}

// signatureField is the length of a signature's field.
const signatureField = 8 + 4 + seal.SignatureSize

// EncodedLen is the length that Encode's block, with its signature, has in the file.
func (m *Commit) EncodedLen(suite seal.Suite, sector int64) int64 {
	n := int64(len(m.Encode(0)))
	if suite.ID().Signed() {
		n += signatureField
	}
	if suite.Hider() == nil {
		return n
	}
	return format.AlignUp(sealedHead+int64(suite.TagSize())+n, sector)
}

// AppendSignature adds to a block the signature of the root that it belongs to.
func AppendSignature(block, signature []byte) []byte {
	return appendField(block, tagSignature, mustKnowField, append([]byte{byte(seal.Ed25519), 0, 0, 0}, signature...))
}

// Carry keeps in m the fields of old that this program does not know.
func (m *Commit) Carry(old *Commit) { m.unknown = old.unknown }

// DecodeCommit reads a commit block, in plain form, whose digest is right. The result shares no memory with b.
func DecodeCommit(b []byte, s *Super) (*Commit, error) {
	c := format.NewCursor(b, "commit block", s.CommitOff)
	if string(c.Bytes(4)) != commitMagic {
		c.Fail("not a commit block")
	}
	if v := c.U16(); c.Err() == nil && v != commitVersion {
		return nil, &format.Error{Kind: format.ErrVersion, Record: "commit block", Offset: s.CommitOff, Detail: fmt.Sprintf("version %d", v)}
	}
	if c.U16() != 0 || c.U64() != s.Generation {
		c.Fail("generation differs from the superblock's")
	}
	m := &Commit{}
	seen := 0
	last := uint16(0)
	for c.Len() > 0 {
		field := b[len(b)-c.Len():]
		tag, flags, size := c.U16(), c.U16(), c.U32()
		if int64(size) > int64(c.Len()) || tag <= last {
			c.Fail("field too long or out of order")
		}
		if c.Err() != nil { // also when what is left is too short for a field
			break
		}
		last = tag
		p := c.Bytes(int(size))
		f := format.NewCursor(p, "commit block", s.CommitOff)
		var err error
		switch tag {
		case tagTrees:
			m.Trees = append([]byte(nil), p...)
			f.Bytes(len(p))
		case tagStage:
			m.Stage, err = decodeSet(f.Bytes(len(p)), s, "stage set")
		case tagRetire:
			m.Retire, err = decodeSet(f.Bytes(len(p)), s, "retire set")
		case tagCounters:
			k := &m.Counters
			for _, v := range []*uint64{&k.NextContent, &k.NextFrame, &k.Entries, &k.PlainBytes, &k.StoredBytes, &k.FrameBytes, &k.NodeBytes, &k.FreeBytes, &k.Pending} {
				*v = f.U64()
			}
			if k.NextContent-1 >= maxNext || k.NextFrame-1 >= maxNext {
				f.Fail("next number out of range")
			}
		case tagOptions:
			m.Options.Level, m.Options.Padding = f.U8(), format.Padding(f.U8())
			repro := f.U8()
			f.Zero(5)
			if m.Options.Level > 4 || m.Options.Padding > format.PadPow2 || repro > 1 {
				f.Fail("option out of range")
			}
			m.Options.Reproducible = repro == 1
		case tagOpenPacks:
			if len(p)%8 != 0 || len(p) > 16*8 {
				f.Fail("wrong number of pack classes")
			}
			for f.Len() > 0 {
				m.OpenPacks = append(m.OpenPacks, f.U64())
			}
		case tagSalt:
			if len(p) != SaltSize || !s.Suite.Encrypted() {
				f.Fail("a salt of another length, or in an archive that is not encrypted")
			}
			m.Salt = append([]byte(nil), f.Bytes(len(p))...)
		case tagSignature:
			alg := f.U8()
			f.Zero(3)
			m.signature = append([]byte(nil), f.Bytes(f.Len())...)
			if !s.Suite.Signed() || alg != byte(seal.Ed25519) || len(m.signature) != seal.SignatureSize {
				return nil, &format.Error{Kind: format.ErrVersion, Record: "commit block", Offset: s.CommitOff, Detail: "a signature of a kind that this program does not know"}
			}
		default:
			if flags&mustKnowField != 0 {
				return nil, &format.Error{Kind: format.ErrVersion, Record: "commit block", Offset: s.CommitOff, Detail: "a field that this program must know"}
			}
			m.unknown = append(m.unknown, field[:8+size]...)
			f.Bytes(len(p))
		}
		if err == nil {
			err = f.Done()
		}
		if err != nil {
			return nil, err
		}
		if tag <= tagOpenPacks {
			seen++
		}
	}
	if err := c.Done(); err != nil {
		return nil, err
	}
	if seen != tagOpenPacks || s.Suite.Encrypted() && m.Salt == nil {
		return nil, format.Corrupt("commit block", s.CommitOff, "a field is missing")
	}
	return m, nil
}

// signedPart is the length of a commit block before its signature field.
func signedPart(b []byte) int {
	for at := commitHeader; at+8 <= len(b); {
		size := int64(binary.LittleEndian.Uint32(b[at+4:]))
		if binary.LittleEndian.Uint16(b[at:]) == tagSignature || size > int64(len(b)-at-8) {
			return at
		}
		at += 8 + int(size)
	}
	return len(b)
}

// Sum is the digest that the superblock keeps of a commit block.
func Sum(b []byte) format.Digest { return blake3.Sum256(b) }
