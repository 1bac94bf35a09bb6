package recover

import (
	"fmt"
	"io"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// xattrs reads the extended attributes that a content holds.
func (s *salvage) xattrs(number uint64) ([]index.Xattr, error) {
	b, err := s.named(number, anySize)
	if err != nil {
		return nil, err
	}
	if b.size > index.MaxXattrsContent {
		return nil, fmt.Errorf("they have %d bytes, more than there may be", b.size)
	}
	p := make([]byte, b.size)
	r := b.open()
	if _, err := io.ReadFull(r, p); err != nil {
		return nil, err
	}
	return index.DecodeXattrs(p)
}

// linked is the first name of a file that was handed on.
type linked struct {
	path pathsafe.Path
	sum  format.Digest // of its record
}

// link gives an entry the number that its link group has in the new archive, and says of which entry that was handed on
// before it is a further name. note is for an entry that differs from the file that it is said to be a name of.
func (s *salvage) link(e, old *index.Entry) (to pathsafe.Path, note string) {
	if old.LinkGroup == 0 {
		return to, ""
	}
	known := *old
	known.Unknown = nil
	sum := format.Digest(blake3.Sum256(index.AppendEntry(nil, &known)))
	first, ok := s.links[old.LinkGroup]
	if ok && first.sum != sum {
		e.LinkGroup = 0
		return to, "it was stored as a hard link of a file that it differs from, and is now a file of its own"
	}
	if ok {
		return first.path, ""
	}
	if e.LinkGroup = s.sink.NewLinkGroup(); s.links == nil {
		s.links = map[uint64]linked{}
	}
	s.links[old.LinkGroup] = linked{old.Path, sum}
	return to, ""
}

// inFile turns ranges of a content into ranges of the sparse file that has it.
func inFile(runs []index.SparseRun, rs []Range) (out []Range) {
	if runs == nil {
		return rs
	}
	var off, pos int64 // where the run begins, in the file and in the content
	for _, run := range runs {
		for _, r := range rs {
			if lo, hi := max(r.From, pos), min(r.To, pos+run.Data); lo < hi && len(out) < maxRanges {
				out = append(out, Range{lo - pos + off, hi - pos + off})
			}
		}
		off, pos = off+run.Data+run.Hole, pos+run.Data
	}
	return out
}
