package revault

import (
	"bytes"
	"context"
	"errors"

	"lockbox/internal/format"
)

const (
	magicKeyDir    = "LBX1KEY\x00"
	slotPassphrase = 1
	slotRecipient  = 2
	minSalt        = 16
)

// keyDirectory holds the archive's content key, wrapped for each of those who may have it.
type keyDirectory struct {
	generation uint64
	slots      []keySlot
}

// keySlot is one wrapped key. Salt is of a passphrase; share and kem are of a recipient.
type keySlot struct {
	kind       uint8
	id         uint64
	salt       []byte
	share, kem []byte
	wrapped    []byte
}

// readKeyDirectory reads the newest of the directory's copies; nil without an error when the archive has none, as when
// it was made with a raw key.
func (ps *pages) readKeyDirectory(ctx context.Context, h *header) (*keyDirectory, error) {
	if h.keyDirs == [2]int64{} {
		return nil, nil
	}
	var newest *keyDirectory
	var failed error
	try := func(off int64) error {
		d, err := ps.keyDirectoryAt(off)
		switch {
		case errors.Is(err, format.ErrVersion) || err != nil && !errors.Is(err, format.ErrCorrupt):
			return err
		case err != nil:
			failed = err
		case newest == nil || d.generation > newest.generation:
			newest = d
		}
		return nil
	}
	for _, off := range h.keyDirs {
		if off != 0 {
			if err := try(off); err != nil {
				return nil, err
			}
		}
	}
	if newest == nil && h.version == 1 {
		// Only the root, which the key opens, says where format 1 has the second copy. Nothing but a key is taken from
		// what the search finds, and a key proves itself.
		if err := ps.findClear(ctx, try); err != nil {
			return nil, err
		}
	}
	if newest == nil {
		return nil, failed
	}
	return newest, nil
}

// findClear calls try with the offset of each page that is not encrypted.
func (ps *pages) findClear(ctx context.Context, try func(off int64) error) error {
	const step = 1 << 20
	buf := make([]byte, step)
	for at := ps.base; at < ps.in.Size; at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(step, ps.in.Size-at)]
		if err := readFull(ps.in, b, at); err != nil {
			return err
		}
		for off := 0; off+pageHeader <= len(b); off += pageStep {
			if h := b[off:]; bytes.HasPrefix(h, []byte(magicPage)) && h[10] == unencrypted && h[11] == 0 {
				if err := try(at + int64(off)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (ps *pages) keyDirectoryAt(off int64) (*keyDirectory, error) {
	p, err := ps.read(off, maxOtherPage)
	if err != nil {
		return nil, err
	}
	payload, err := p.first(kindKeyDir)
	if err != nil {
		return nil, err
	}
	c := format.NewCursor(payload, "reVault key directory", off)
	magic, version := c.Bytes(8), c.U16()
	c.Zero(2)
	head, length, d := c.U32(), c.U64(), &keyDirectory{generation: c.U64()}
	id, copyNumber := c.ID(), c.U32()
	c.Zero(12)
	if c.Err() == nil && (string(magic) != magicKeyDir || head != 64 || length != uint64(len(payload)) || id != ps.id || copyNumber > 1) {
		c.Fail("its header is not that of this archive's key directory")
	}
	if c.Err() == nil && version != 1 {
		return nil, failure(format.ErrVersion, "key directory", "its version %d is unknown", version)
	}
	const least = 1 + 8 + 4 + 4
	n := c.U32()
	if uint64(n) > uint64(c.Len())/least {
		c.Fail("its slots do not fit")
	}
	for range n {
		if c.Err() != nil {
			break
		}
		s := keySlot{kind: c.U8(), id: c.U64()}
		switch {
		case c.Err() != nil:
		case s.kind == slotPassphrase:
			if s.salt = bytes32(c); len(s.salt) < minSalt {
				c.Fail("the salt of a slot is too short")
			}
		case s.kind == slotRecipient:
			s.share, s.kem = bytes32(c), bytes32(c)
		default:
			return nil, failure(format.ErrVersion, "key directory", "it has a slot of the unknown type %d", s.kind)
		}
		s.wrapped = bytes32(c)
		d.slots = append(d.slots, s)
	}
	return d, c.Done()
}
