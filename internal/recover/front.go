package recover

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// state is a superblock that is left.
type state struct {
	super *journal.Super
	mark  bool // it is the clean mark only
}

// front decides which state is recovered: the newest one whose commit block, or what is left of it, names a
// tree.
func (s *salvage) front() error {
	page := make([]byte, min(max(s.size, 0), format.DataStart))
	s.read(page, 0)
	_, cerr := journal.DecodeCopies(page[:min(len(page), format.CopiesSize)])
	if errors.Is(cerr, format.ErrVersion) {
		return cerr
	}
	states, sure, err := s.states(page)
	if err != nil {
		return err
	}
	if len(states) > 0 {
		s.newest = states[0].super
		s.rep.Newest = s.newest.Generation
		s.archive, s.sector = s.newest.Archive, s.newest.Sector
		if err := s.unlock(states); err != nil {
			return err
		}
	}
	for i, st := range states {
		ok, err := s.take(st)
		if err != nil {
			return err
		}
		if !ok {
			s.note("the commit block of generation %d, at offset %d, cannot be read", st.super.Generation, st.super.CommitOff)
			continue
		}
		s.rep.Current = sure && i == 0
		if i > 0 {
			s.note("generation %d, the newest, cannot be read; what is recovered is generation %d, an OLDER state: later changes are missing, and what was deleted since is here again",
				s.newest.Generation, s.base.super.Generation)
		}
		return s.expected()
	}
	if s.newest != nil {
		s.archive, s.sector = s.newest.Archive, s.newest.Sector
	}
	return s.blind(cerr)
}

// expected compares the state with the one that the caller asks for.
func (s *salvage) expected() error {
	if want := s.o.ExpectRoot; want != nil && (!s.base.verified || s.rep.Root != *want) {
		return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: "the archive cannot be shown to be in the expected state"}
	}
	if n := len(s.o.Signers); n > 0 && (!s.base.verified || !slices.Contains(s.o.Signers, s.rep.Signer)) {
		return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: "the archive cannot be shown to be signed by a key that was asked for"}
	}
	if s.suite.ID().Signed() && !s.base.verified {
		s.note("the signature cannot be checked any more: nothing shows that what is recovered is what was signed")
	}
	return nil
}

// states gives the superblocks that are valid, the newest first. sure is false when a newer one may be lost.
func (s *salvage) states(page []byte) (states []state, sure bool, err error) {
	var bad [4]bool
	add := func(su *journal.Super, mark bool) {
		for _, st := range states {
			if *st.super == *su {
				return
			}
		}
		states = append(states, state{su, mark})
	}
	for i := range bad {
		alone := make([]byte, format.CopiesSize)
		if off := i * format.PageSize; off < len(page) {
			copy(alone[off:off+format.PageSize], page[off:])
		}
		c, err := journal.DecodeCopies(alone)
		if errors.Is(err, format.ErrVersion) {
			return nil, false, err
		}
		if bad[i] = err != nil; !bad[i] {
			add(c.Current, false)
		}
	}
	for i, b := range bad {
		if b {
			s.note("superblock copy %d of 4, at offset %d, cannot be read", i+1, i*format.PageSize)
		}
	}
	marked := journal.SuperOfMark(s.src)
	if marked != nil && !slices.ContainsFunc(states, func(st state) bool { return st.super.Generation >= marked.Generation }) {
		add(marked, true)
	}
	slices.SortStableFunc(states, func(a, b state) int { return cmp.Compare(b.super.Generation, a.super.Generation) })
	if len(states) == 0 {
		return nil, false, nil
	}
	top := states[0].super
	sure = true
	if len(states) > 1 && states[1].super.Generation == top.Generation {
		s.note("two different states claim to be generation %d: the archive has been forked", top.Generation)
		sure = false
	}
	// A generation is published in one pair of copies first. When a pair is gone, only the mark, which is taken
	// back before the next one is, shows that nothing newer stood there.
	if (bad[0] && bad[2] || bad[1] && bad[3]) && (marked == nil || *marked != *top) {
		s.note("both copies of a pair of superblocks cannot be read: a LATER state than generation %d may be lost", top.Generation)
		sure = false
	}
	return states, sure, nil
}

// take makes a superblock's state the one to recover, when its commit block leads to a tree.
func (s *salvage) take(st state) (bool, error) {
	s.archive, s.sector = st.super.Archive, st.super.Sector
	m, raw, err := journal.ReadCommit(s.src, st.super, s.suite)
	switch {
	case err == nil:
		b := base{super: st.super, commit: m, verified: true}
		cur := format.NewCursor(m.Trees, "tree roots", st.super.CommitOff)
		for t := index.Entries; t <= index.Free; t++ {
			b.roots[t] = index.DecodeRoot(cur, s.tag)
			b.have[t] = cur.Err() == nil
		}
		if st.mark && !s.leads(&b) {
			return false, nil
		}
		s.base = b
		s.rep.Root, s.rep.Signer = st.super.RootHash(raw), m.Signer
	case errors.Is(err, format.ErrVersion), errors.Is(err, format.ErrAuth):
		return false, err
	case !s.takeLoose(st.super):
		return false, nil
	default:
		s.note("the commit block of generation %d, at offset %d, is damaged; the trees it still names are used", st.super.Generation, st.super.CommitOff)
	}
	s.rep.Generation = st.super.Generation
	s.rep.Origin = OriginSuperblock
	if st.mark {
		s.rep.Origin = OriginMark
		s.sector = s.sectorOf()
		s.note("no superblock can be read; the clean mark names generation %d", st.super.Generation)
	}
	return true, nil
}

// leads reports whether the archive id that goes with a commit block is right: one of its trees, if there is
// any, verifies with it. The mark's own bytes are not proven by anything else.
func (s *salvage) leads(b *base) bool {
	empty := true
	for t := index.Entries; t <= index.Free; t++ {
		if b.have[t] && b.roots[t].Height > 0 {
			empty = false
			ref := b.roots[t].Ref
			if _, ok := s.readNode(t, &ref, new([]byte)); ok {
				return true
			}
		}
	}
	return empty
}

const (
	firstField = 16 + 8 // payload of a commit block's first field: the five tree roots
	rootFixed  = 16     // of a root record, before the node reference
)

// takeLoose uses a commit block whose digest does not match or is not known. Nothing in it is believed but
// references to nodes that verify, which a node's tag, made for this archive and attempt, proves.
func (s *salvage) takeLoose(su *journal.Super) bool {
	raw := make([]byte, su.CommitLen)
	s.read(raw, su.CommitOff)
	raw, err := journal.OpenCommit(raw, su, s.suite)
	if err != nil {
		return false
	}
	b := base{super: su}
	if m, err := journal.DecodeCommit(raw, su); err == nil {
		b.commit = m
	}
	n := index.RootSize(s.tag)
	for t := index.Entries; t <= index.Free; t++ {
		at := firstField + int(t-index.Entries)*n
		if at+n > len(raw) {
			break
		}
		b.roots[t], b.have[t] = s.looseRoot(t, raw[at:at+n], su.CommitOff)
	}
	if !b.have[index.Entries] && !b.have[index.Contents] && !b.have[index.Frames] {
		return false
	}
	s.base = b
	return true
}

// looseRoot reads a root record of which only the reference counts: the node says its level itself.
func (s *salvage) looseRoot(t index.Tree, rec []byte, off int64) (index.Root, bool) {
	cur := format.NewCursor(rec[rootFixed:], "root record", off)
	ref := index.DecodeRef(cur, s.tag)
	if cur.Err() != nil {
		return index.Root{}, false
	}
	b, ok := s.readNode(t, &ref, new([]byte))
	if !ok {
		return index.Root{}, false
	}
	level := int(b[1])
	if _, err := index.ParseNode(b, t, level, s.tag, ref.Off); err != nil {
		return index.Root{}, false
	}
	return index.Root{Ref: ref, Height: uint8(level) + 1, Count: binary.LittleEndian.Uint64(rec[8:])}, true
}

// blind looks for commit blocks and frames by their markers, because no superblock leads to a tree.
func (s *salvage) blind(notLockbox error) error {
	if s.newest == nil {
		if err := s.guess(); err != nil {
			return err
		}
	}
	sc, err := s.scan(s.newest == nil)
	if err != nil {
		return err
	}
	if s.newest == nil {
		if len(s.found) == 0 {
			if notLockbox == nil {
				notLockbox = format.Corrupt("archive", 0, "neither superblocks nor frames are left")
			}
			return notLockbox
		}
		s.note("no superblock can be read; the archive is known by its frames")
		s.sector = sc.sector()
	}
	for _, su := range s.possible(sc) {
		if s.newest != nil && su.Generation >= s.newest.Generation {
			continue // never published, or a damaged one that was tried
		}
		if !s.takeFound(su) {
			continue
		}
		s.rep.Generation, s.rep.Origin = su.Generation, OriginScan
		s.note("generation %d was found by scanning, at offset %d: it may be an OLDER state, or one that was never published", su.Generation, su.CommitOff)
		return s.expected()
	}
	s.note("no state of the archive is left, and with it no name; contents are recovered from the frames that are intact")
	return s.expected()
}

// possible is what the commit blocks that a scan found let be known of their superblocks, the highest generations first.
func (s *salvage) possible(sc *scanner) []*journal.Super {
	stub := journal.Super{Suite: s.suite.ID(), Sector: s.sector, Archive: s.archive, End: format.AlignUp(s.size, 4096)}
	if stub.Suite.Encrypted() {
		stub.Cipher = s.suite.Algorithm()
	}
	var list []*journal.Super
	for _, b := range sc.blocks {
		su := new(stub)
		su.Generation, su.Attempt, su.CommitOff, su.CommitLen = b.generation, b.attempt, b.off, b.len
		list = append(list, su)
	}
	return list
}

// takeFound makes such a state the one to recover, when it leads to entries.
func (s *salvage) takeFound(su *journal.Super) bool {
	if !s.takeLoose(su) || !s.base.have[index.Entries] {
		s.base = base{}
		return false
	}
	if s.newest == nil {
		s.sector = s.sectorOf()
		su.Sector = s.sector
	}
	return true
}

// sectorOf finds the sector size of a state without a superblock: the one with which frame records point
// at frames.
func (s *salvage) sectorOf() int64 {
	guess := s.sector
	stop := errors.New("stop")
	tries := 0
	_ = s.walk(index.Frames, func(key, value []byte) error {
		for _, sector := range []int64{512, 4096} {
			f, err := index.DecodeFrame(value, s.tag, sector)
			if err != nil {
				continue
			}
			if i, ok := s.headerAt(f.Ext.Off); ok && i.Number == binary.BigEndian.Uint64(key) && i.Attempt == f.Attempt {
				guess = sector
				return stop
			}
		}
		if tries++; tries == 100 {
			return stop
		}
		return nil
	}, func([]byte, []byte, string) {})
	return guess
}
