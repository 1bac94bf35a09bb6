package main

import (
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// sameLinks are the files with several names of a comparison, on both sides. A side's first name of a file is the first
// one that both sides have, so that a name that only one of them has is that difference and no other.
type sameLinks struct {
	found  linker
	stored map[uint64]pathsafe.Path // first names, by link group
}

// firsts returns which earlier path is another name of the same file: as stored, and on the disk. Zero is none. An entry
// with neither an owner nor a link group, as --reproducible stores it, says nothing of other names; nor does a system
// that has no numbers for files.
func (s *sameLinks) firsts(c *comparison) (stored, found pathsafe.Path) {
	e, it := c.entry, c.item
	if e.Kind != index.File || it.Ino == 0 || e.LinkGroup == 0 && !e.HasOwner {
		return stored, found
	}
	if f := s.found.other(it); f != nil {
		found = f.first
	} else if s.found.several(it) {
		s.found.begin(it, 0)
	}
	if e.LinkGroup != 0 {
		first, ok := s.stored[e.LinkGroup]
		if ok {
			return first, found
		}
		if s.stored == nil {
			s.stored = map[uint64]pathsafe.Path{}
		}
		s.stored[e.LinkGroup] = e.Path
	}
	return stored, found
}
