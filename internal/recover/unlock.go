package recover

import (
	"errors"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// unlock comes by the suite of the archive that the states are of. Any state's key directory does, whole or
// not: it opens or it does not.
func (s *salvage) unlock(states []state) error {
	opening := journal.Opening{Unlock: s.o.Unlock}
	var first error
	for _, st := range states {
		suite, keys, err := opening.Suite(s.ctx, s.src, st.super)
		if err == nil {
			return s.unlocked(suite, keys)
		}
		if !errors.Is(err, format.ErrCorrupt) {
			return err
		}
		if first == nil {
			first = err
			s.note("the key directory of generation %d, at offset %d, is damaged", st.super.Generation, st.super.KeyDirOff)
		}
		for n := range 2 {
			b := make([]byte, st.super.KeyDirLen)
			s.read(b, st.super.KeyDirCopy(n))
			su, d, ok := journal.FindKeyDir(b, st.super.KeyDirOff)
			if !ok || su.Archive != st.super.Archive {
				continue
			}
			if suite, keys, err := (journal.Opening{Unlock: s.o.Unlock, Loose: true}).With(s.ctx, st.super, d); err == nil {
				return s.unlocked(suite, keys)
			}
		}
	}
	// An older one may be left somewhere.
	found, err := s.findKeys(&s.newest.Archive)
	if err == nil && !found {
		err = first
	}
	return err
}

func (s *salvage) unlocked(suite seal.Suite, keys *journal.Keys) error {
	s.use(suite)
	if keys != nil {
		s.key = keys.Key
	}
	return nil
}

// maxSlots bounds the key slots that a search tries: one that asks for a passphrase may take seconds and much memory.
const maxSlots = 2 * journal.MaxSlots

// findKeys searches the file for a key directory, of the given archive or of any, that can be unlocked. What only looks
// like directories, made to keep this busy, ends the search early.
func (s *salvage) findKeys(archive *format.ID) (bool, error) {
	opening := journal.Opening{Unlock: s.o.Unlock, Loose: true}
	var refused error
	budget, slots := s.readBudget(), 0
	tried := map[format.Digest]bool{}
	buf := make([]byte, scanChunk)
	for at := int64(format.DataStart); at < s.size; at += int64(len(buf)) {
		if err := s.ctx.Err(); err != nil {
			return false, err
		}
		b := buf[:min(scanChunk, s.size-at)]
		s.read(b, at)
		for pos := 0; pos+4 <= len(b); pos += stride {
			if string(b[pos:pos+4]) != "LBXK" {
				continue
			}
			off := at + int64(pos)
			dir := make([]byte, min(format.MaxKeyDir, s.size-off))
			if budget -= int64(len(dir)); budget < 0 {
				s.note("the search for a key directory ended at offset %d: too much before it looks like one", off)
				return false, refused
			}
			s.read(dir, off)
			su, d, ok := journal.FindKeyDir(dir, off)
			if !ok || archive != nil && su.Archive != *archive || tried[su.KeyDirHash] {
				continue
			}
			tried[su.KeyDirHash] = true
			if slots += len(d.Slots); slots > maxSlots {
				s.note("the search for a key directory ended at offset %d: none of %d key slots could be opened", off, slots-len(d.Slots))
				return false, refused
			}
			if s.keyDirs != nil {
				s.keyDirs(su, d)
			}
			suite, keys, err := opening.With(s.ctx, su, d)
			if s.ctx.Err() != nil {
				return false, s.ctx.Err()
			}
			if err == nil {
				s.archive, s.sector = su.Archive, su.Sector
				s.note("the key directory was found by scanning, at offset %d", off)
				return true, s.unlocked(suite, keys)
			}
			if refused == nil && !errors.Is(err, format.ErrCorrupt) {
				refused = err
			}
		}
	}
	return false, refused
}

// guess finds out what kind of archive it is when no superblock is left: by a key directory, or by what makes
// the tag of the first frame's header verify.
func (s *salvage) guess() error {
	if found, err := s.findKeys(nil); found || err != nil {
		return err
	}
	buf := make([]byte, scanChunk)
	tries := 0
	for at := int64(format.DataStart); at < s.size; at += int64(len(buf)) {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(scanChunk, s.size-at)]
		s.read(b, at)
		for pos := 0; pos+24 <= len(b); pos += stride {
			if string(b[pos:pos+8]) != frameMarker {
				continue
			}
			if s.fits(at+int64(pos), format.ID(b[pos+8:pos+24])) {
				return nil
			}
			if tries++; tries == 1000 {
				s.use(seal.New())
				return nil
			}
		}
	}
	s.use(seal.New())
	return nil
}

// fits finds the suite of the frame at off, if there is one that verifies.
func (s *salvage) fits(off int64, id format.ID) bool {
	was := s.archive
	defer func() { s.archive = was }()
	s.archive = id
	for _, suite := range []seal.Suite{seal.New(), seal.NewSigned()} {
		s.use(suite)
		if info, ok := s.headerAt(off); ok {
			p := place{info, off}
			if _, ok := s.members(&p, id, new([]byte)); ok {
				return true
			}
		}
	}
	return false
}
