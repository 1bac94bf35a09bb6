package dump

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
)

// superblocks prints the four copies and what the current one says.
func (d *dumper) superblocks() error {
	page := make([]byte, min(d.size, format.CopiesSize))
	n, err := journal.ReadFront(d.f, page)
	err = whole(n, len(page), 0, "superblock", err)
	var all *journal.Copies
	if err == nil {
		all, err = journal.DecodeCopies(page)
	}
	switch {
	case errors.Is(err, format.ErrCorrupt), errors.Is(err, format.ErrNotLockbox):
		return d.withoutCopies(err)
	case err != nil:
		return err
	}
	s := all.Current
	if d.o.Encrypted && !s.Suite.Encrypted() {
		return ErrNotEncrypted
	}
	d.copies(page, s)
	marked := "does not name the current superblock"
	if ok, err := journal.Marked(d.f, s); err != nil {
		return err
	} else if ok {
		marked = "names the current superblock: the archive was closed in order"
	}
	d.line(1, "%d  clean mark: %s", format.CleanMarkOff, marked)
	d.line(0, "current superblock")
	d.superblock(s)
	return nil
}

// copies prints the four copies. current, if not nil, is the current superblock.
func (d *dumper) copies(page []byte, current *journal.Super) {
	d.line(0, "superblock copies")
	for i := range format.CopiesSize / format.PageSize {
		off := i * format.PageSize
		what := fmt.Sprintf("%d  copy %c%d", off, 'A'+rune(i%2), i/2+1)
		// Each is read alone, or the current one would answer for it.
		alone := make([]byte, format.CopiesSize)
		if off < len(page) {
			copy(alone[off:off+format.PageSize], page[off:])
		}
		c, err := journal.DecodeCopies(alone)
		switch {
		case err != nil:
			d.sum.Damaged++
			d.line(1, "%s: DAMAGED", what)
		case current != nil && *c.Current == *current:
			d.line(1, "%s: generation %d, current", what, c.Current.Generation)
		default:
			d.line(1, "%s: generation %d", what, c.Current.Generation)
		}
	}
}

// superblock prints what a superblock says, and makes it the one of the dump.
func (d *dumper) superblock(s *journal.Super) {
	d.super, d.sum.Generation = s, s.Generation
	d.line(1, "archive id     %v", s.Archive)
	d.line(1, "generation     %d", s.Generation)
	d.line(1, "attempt        %v", s.Attempt)
	d.line(1, "suite          %s", suiteText(s))
	d.line(1, "sector         %d", s.Sector)
	d.line(1, "features       must know %#x, must know to write %#x, may ignore %#x", s.MustKnow, s.WriteKnow, s.MayIgnore)
	d.line(1, "logical end    %d", s.End)
	note := ""
	switch {
	case d.size < s.End:
		d.sum.Damaged++
		note = ": the file is cut short"
	case d.size > s.End:
		note = ": the rest is left of a change that did not finish"
	}
	d.line(1, "file size      %d%s", d.size, note)
	d.line(1, "commit block   %s, %d bytes, digest %v", extentText(s.CommitExtent()), s.CommitLen, s.CommitHash)
	if s.KeyDirLen > 0 {
		d.line(1, "key directory  %s, twice %d bytes, digest %v", extentText(s.KeyDirExtent()), s.KeyDirLen, s.KeyDirHash)
	}
	d.line(1, "previous root  %v", s.PrevRoot)
}

func suiteText(s *journal.Super) string {
	switch s.Suite {
	case format.SuiteNone:
		return "none: tags " + seal.XXH3.String()
	case format.SuiteSigned:
		return "signed: tags " + seal.BLAKE3.String()
	case format.SuiteEncrypted:
		return "encrypted: " + s.Cipher.String()
	}
	return "encrypted and signed: " + s.Cipher.String()
}

// keys prints the key directory and opens the archive's suite, which stays nil where there is no key.
func (d *dumper) keys() (err error) {
	s := d.super
	if !s.Suite.Encrypted() {
		d.suite, _, err = journal.Opening{}.Suite(d.ctx, d.f, s)
		return err
	}
	d.line(0, "key directory")
	b, bad, err := journal.KeyDirBytes(d.f, s, true)
	if err != nil {
		d.sum.Locked = true
		return d.broken(1, "key directory", err)
	}
	for k := range bad {
		state := "intact"
		if bad[k] {
			d.sum.Damaged++
			state = "DAMAGED"
		}
		d.line(1, "%d  copy %d: %s", s.KeyDirCopy(k), k+1, state)
	}
	dir, err := journal.DecodeKeyDir(b, s)
	if err != nil {
		d.sum.Locked = true
		return d.broken(1, "key directory", err)
	}
	d.line(1, "attempt        %v", dir.Attempt)
	d.line(1, "generation     %d", dir.Generation)
	var keys *journal.Keys
	d.suite, keys, err = journal.Opening{Unlock: d.o.Unlock}.With(d.ctx, s, dir)
	if d.staysLocked(err) {
		d.sum.Locked = true
	} else if err != nil {
		// A damaged slot is damage like any other; without a key that fits there is nothing more to print.
		if d.sum.Locked = true; !errors.Is(err, format.ErrCorrupt) {
			return err
		}
		if err = d.broken(1, "key slots", err); err != nil {
			return err
		}
	} else {
		dir = keys.Dir
		defer keys.Key.Wipe()
	}
	d.slots(dir)
	if d.sum.Locked {
		d.line(0, "%s", lockedText)
	}
	return nil
}

const lockedText = "locked: commit block, trees and frames show only with a key"

// slots prints the slots of a key directory, with labels where they are known.
func (d *dumper) slots(dir *journal.KeyDir) {
	for i, slot := range dir.Public() {
		text := fmt.Sprintf("slot %d  %s, %d bytes", slot.Number, strings.Join(quoteAll(slot.Kinds), ", "), len(dir.Slots[i].File))
		if slot.Label != "" {
			text += ", " + pathsafe.Quote(slot.Label)
		}
		d.line(1, "%s", text)
	}
}

func quoteAll(words []string) []string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = pathsafe.Quote(w)
	}
	return quoted
}

// commitBlock prints the commit block. Without one that can be read there are no roots.
func (d *dumper) commitBlock() ([]index.Root, error) {
	s := d.super
	d.line(0, "commit block")
	m, raw, err := journal.ReadCommit(d.f, s, d.suite)
	if err != nil {
		return nil, d.broken(1, "commit block", err)
	}
	d.sum.Root = s.RootHash(raw)
	refuse := func(detail string, args ...any) error {
		return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: fmt.Sprintf(detail, args...)}
	}
	switch e := d.o.ExpectRoot; {
	case e != nil && d.sum.Root != *e:
		return nil, refuse("the archive's root is %v, expected was %v", d.sum.Root, *e)
	case len(d.o.Signers) > 0 && !slices.Contains(d.o.Signers, m.Signer):
		return nil, refuse("the archive is not signed by a key that was asked for")
	}
	d.line(1, "root           %v", d.sum.Root)
	if s.Suite.Signed() {
		d.line(1, "signed by      %v", m.Signer)
	}
	return d.commit(m)
}

// commit prints a commit block's fields, and returns the roots.
func (d *dumper) commit(m *journal.Commit) ([]index.Root, error) {
	if m.Salt != nil {
		d.line(1, "salt           %x", m.Salt)
	}
	c := &m.Counters
	d.line(1, "next numbers   content %d, frame %d", c.NextContent, c.NextFrame)
	d.line(1, "entries        %d", c.Entries)
	d.line(1, "bytes          plain %d, stored %d, extents of frames %d, extents of nodes %d", c.PlainBytes, c.StoredBytes, c.FrameBytes, c.NodeBytes)
	d.line(1, "free           %d bytes wiped, %d extents pending", c.FreeBytes, c.Pending)
	d.line(1, "options        level %d, padding %v, reproducible %v", m.Options.Level, m.Options.Padding, m.Options.Reproducible)
	for class, frame := range m.OpenPacks {
		if frame != journal.NoFrame {
			d.line(1, "open pack      class %d: frame %d", class, frame)
		}
	}
	var roots []index.Root
	cur := format.NewCursor(m.Trees, "tree roots", d.super.CommitOff)
	for t := index.Entries; t <= index.Free; t++ {
		root := index.DecodeRoot(cur, d.suite.TagSize())
		roots = append(roots, root)
		if cur.Err() == nil {
			d.line(1, "%-14s %d items, %d levels", t, root.Count, root.Height)
		}
	}
	if err := cur.Done(); err != nil {
		return nil, d.broken(1, "tree roots", err)
	}
	d.planned("stage set", m.Stage)
	d.planned("retire set", m.Retire)
	return roots, nil
}

// planned prints a set of extents.
func (d *dumper) planned(what string, set []journal.Planned) {
	d.line(0, "%s: %d extents", what, len(set))
	for _, p := range set[:d.room(len(set))] {
		text := fmt.Sprintf("%s  retired by generation %d, was %s", extentText(p.Extent), p.Generation, ownerText(p))
		if p.Deleted {
			text += ", may hold what was deleted"
		}
		d.line(1, "%s", text)
	}
	d.more(1, uint64(len(set)), uint64(d.room(len(set))))
}

// more prints how many items were left out.
func (d *dumper) more(depth int, all, shown uint64) {
	if all > shown {
		d.line(depth, "... and %d more", all-shown)
	}
}

func ownerText(p journal.Planned) string {
	switch p.Kind {
	case journal.OwnerNone:
		return "nothing"
	case journal.OwnerFrame:
		return fmt.Sprintf("frame %d", p.Owner)
	case journal.OwnerNode:
		return fmt.Sprintf("a node of the tree %v", index.Tree(p.Owner))
	case journal.OwnerCommit:
		return "a commit block"
	case journal.OwnerSeveral:
		return "several things"
	case journal.OwnerKeyDir:
		return "the key directory"
	}
	return fmt.Sprintf("of the unknown kind %d", p.Kind)
}
