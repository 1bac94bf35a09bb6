package dump

import (
	"errors"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/recover"
)

// withoutCopies goes on where no state can be told from the superblock copies, for the reason why: by the clean mark, which
// repeats the superblock, else by what a search of the file finds.
func (d *dumper) withoutCopies(why error) error {
	page := make([]byte, min(d.size, format.CopiesSize))
	for off := 0; off < len(page); off += format.PageSize {
		b := page[off:min(off+format.PageSize, len(page))]
		if n, _ := d.f.ReadAt(b, int64(off)); n < len(b) {
			clear(b) // printed as damaged
		}
	}
	if s := journal.SuperOfMark(d.f); s != nil {
		if d.o.Encrypted && !s.Suite.Encrypted() {
			return ErrNotEncrypted
		}
		d.copies(page, nil)
		d.line(1, "%d  clean mark: names a commit block that is there", format.CleanMarkOff)
		d.lostCopies(why)
		d.line(0, "superblock, as the clean mark repeats it: nothing else shows that it is the current one")
		d.superblock(s)
		return nil
	}
	r, err := recover.Search(d.ctx, d.f, d.o.Unlock)
	switch {
	case errors.Is(err, format.ErrNotLockbox):
		return why
	case d.staysLocked(err):
	case err != nil:
		return err
	}
	d.suite, d.sum.Locked = r.Suite, r.Suite == nil
	switch {
	case d.o.Encrypted && r.Suite != nil && !r.Suite.ID().Encrypted():
		return ErrNotEncrypted
	case d.o.ExpectRoot != nil || len(d.o.Signers) > 0:
		return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: "the archive cannot be shown to be in the expected state, or signed: no superblock can be read"}
	}
	d.copies(page, nil)
	d.line(1, "%d  clean mark: names no commit block that is there", format.CleanMarkOff)
	d.lostCopies(why)
	return d.remains(r)
}

// lostCopies prints why no state can be told from the copies.
func (d *dumper) lostCopies(why error) {
	text := "no copy is there"
	if errors.Is(why, format.ErrCorrupt) {
		text = detail(why)
	}
	d.sum.Damaged++
	d.line(1, "DAMAGED superblocks: %s", text)
}

// remains prints what a search has found.
func (d *dumper) remains(r *recover.Remains) error {
	d.searched = true
	d.line(0, "FOUND BY SEARCHING the file: nothing shows that it is the current state, or that it was ever published")
	for _, n := range r.Notes {
		d.line(1, "%s", n)
	}
	for _, k := range r.Keys[:d.room(len(r.Keys))] {
		d.line(0, "key directory, found at %d", k.Super.KeyDirOff)
		d.line(1, "archive id     %v", k.Super.Archive)
		d.line(1, "suite          %s", suiteText(k.Super))
		d.line(1, "attempt        %v", k.Dir.Attempt)
		d.line(1, "generation     %d", k.Dir.Generation)
		d.slots(k.Dir)
	}
	d.more(0, uint64(len(r.Keys)), uint64(d.room(len(r.Keys))))
	if r.Suite == nil {
		d.line(0, "%s", lockedText)
		return nil
	}
	d.line(0, "frames, found: %d", r.Frames)
	d.line(0, "commit blocks, found: %d", len(r.States))
	for i, s := range r.States[:d.room(len(r.States))] {
		leads := ""
		if i == r.Leads {
			leads = ", the first that leads to entries"
		}
		d.line(1, "generation %d at %d, %d bytes%s", s.Generation, s.CommitOff, s.CommitLen, leads)
	}
	d.more(1, uint64(len(r.States)), uint64(d.room(len(r.States))))
	if r.Leads < 0 {
		return nil
	}
	return d.foundState(r)
}

// foundState prints a commit block that was found, and the trees that it leads to.
func (d *dumper) foundState(r *recover.Remains) error {
	s := r.States[r.Leads]
	d.super, d.sum.Generation = s, s.Generation
	d.line(0, "archive, as far as that shows")
	d.line(1, "archive id     %v", s.Archive)
	d.line(1, "suite          %s", suiteText(s))
	d.line(1, "sector         %d", s.Sector)
	trust := ""
	if !s.Suite.Encrypted() {
		trust = ", NOT VERIFIED: nothing tells its digest"
	}
	if s.Suite.Signed() {
		trust += ", signature not checked"
	}
	d.line(0, "commit block, found at %d: generation %d%s", s.CommitOff, s.Generation, trust)
	roots := slices.Clone(r.Roots[index.Entries:])
	m, err := d.foundCommit(s)
	if err == nil {
		var named []index.Root
		if named, err = d.commit(m); err != nil {
			return err
		}
		for i, root := range named {
			if root.Height == 0 { // an empty tree has no node that could be found
				roots[i], r.Have[index.Entries+index.Tree(i)] = root, true
			}
		}
	} else if err = d.broken(1, "commit block", err); err != nil {
		return err
	}
	for i, root := range roots {
		t := index.Entries + index.Tree(i)
		if r.Have[t] {
			err = d.tree(t, root)
		} else {
			err = d.broken(0, "tree "+t.String(), format.Corrupt("", -1, "its root cannot be read"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foundCommit reads a commit block whose digest nothing tells.
func (d *dumper) foundCommit(s *journal.Super) (*journal.Commit, error) {
	b := make([]byte, s.CommitLen)
	if err := d.read(b, s.CommitOff, "commit block"); err != nil {
		return nil, err
	}
	b, err := journal.OpenCommit(b, s, d.suite)
	if err != nil {
		return nil, err
	}
	return journal.DecodeCommit(b, s)
}
