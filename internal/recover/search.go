package recover

import (
	"context"
	"fmt"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/seal"
)

// Remains is what a search of the file finds of an archive's structure when no superblock leads to a state. None of it is
// known to be current, or to have been published.
type Remains struct {
	Keys   []KeyDir         // key directories, as they stand in the file
	Suite  seal.Suite       // the caller wipes it; nil: the archive is encrypted and was not unlocked
	States []*journal.Super // what commit blocks let be known of their superblocks: the highest generations first
	Frames int              // intact heads of frames
	Notes  []string

	// Leads is which of States is the first that leads to entries: the reference of each tree that Have names
	// verifies. -1 when there is none.
	Leads int
	Roots [index.Free + 1]index.Root
	Have  [index.Free + 1]bool
}

// KeyDir is a key directory that was found.
type KeyDir struct {
	Super *journal.Super // what it repeats of the superblock
	Dir   *journal.KeyDir
}

// Search looks for key directories, commit blocks and frames by their markers, as Run does where no superblock is left. When
// none of the key directories can be unlocked they alone are found, and the error is of kind format.ErrAuth beside them. A file
// in which nothing is found is of kind format.ErrNotLockbox.
func Search(ctx context.Context, src Source, unlock seal.Unlock) (*Remains, error) {
	size, err := src.Size()
	if err != nil {
		return nil, fmt.Errorf("size of the archive: %w", err)
	}
	r := &Remains{Leads: -1}
	s := newSalvage(ctx, src, size, Options{Unlock: unlock, Note: func(n string) { r.Notes = append(r.Notes, n) }})
	s.keyDirs = func(su *journal.Super, d *journal.KeyDir) { r.Keys = append(r.Keys, KeyDir{su, d}) }
	defer func() {
		if s.key != nil {
			s.key.Wipe()
		}
		if r.Suite == nil {
			s.suite.Wipe()
		}
	}()
	if err = s.guess(); err != nil {
		return r, err
	}
	sc, err := s.scan(true)
	if err != nil {
		return r, err
	}
	if r.Frames = len(s.found); r.Frames == 0 && len(r.Keys) == 0 && len(sc.blocks) == 0 {
		return r, &format.Error{Kind: format.ErrNotLockbox, Offset: -1}
	}
	s.sector = sc.sector()
	r.States = s.possible(sc)
	if r.Leads = slices.IndexFunc(r.States, s.takeFound); r.Leads >= 0 {
		r.Roots, r.Have = s.base.roots, s.base.have
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	r.Suite = s.suite
	return r, nil
}
