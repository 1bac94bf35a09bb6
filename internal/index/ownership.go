package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"lockbox/internal/format"
)

// Owner is what an extent of the archive belongs to.
type Owner uint8

const (
	OwnerCommit Owner = 1 + iota // the commit block
	OwnerKeyDir                  // the key directory
	OwnerNode                    // a node; its number is the tree
	OwnerFrame                   // a frame; its number is the frame's
	OwnerStage                   // the stage set
	OwnerRetire                  // the retire set
	OwnerFree                    // the free tree
)

func (o Owner) label(number uint64) string {
	switch o {
	case OwnerCommit:
		return "the commit block"
	case OwnerKeyDir:
		return "the key directory"
	case OwnerNode:
		return "a node of the tree " + Tree(number).String()
	case OwnerFrame:
		return fmt.Sprintf("frame %d", number)
	case OwnerStage:
		return "the stage set"
	case OwnerRetire:
		return "the retire set"
	case OwnerFree:
		return "the free tree"
	}
	return fmt.Sprintf("owner %d", uint8(o))
}

// maxReported bounds how many overlaps and gaps an error lists.
const maxReported = 8

// Ownership collects who owns which extent, 32 bytes an extent, and shows whether every byte of a range
// has exactly one owner.
type Ownership struct{ owned []owned }

type owned struct {
	off, len int64
	number   uint64
	owner    Owner
}

// Add notes that ext belongs to an owner; number says which frame, or which tree's node, else 0.
func (o *Ownership) Add(ext format.Extent, owner Owner, number uint64) {
	o.owned = append(o.owned, owned{ext.Off, ext.Len, number, owner})
}

// Len is the number of extents added.
func (o *Ownership) Len() int { return len(o.owned) }

// Check reports, in one error of kind format.ErrCorrupt or several joined, the first extents that lie
// outside [start, end) or overlap and the first gaps. It sorts what was added.
func (o *Ownership) Check(start, end int64) error {
	slices.SortFunc(o.owned, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.len, b.len), cmp.Compare(a.owner, b.owner),
			cmp.Compare(a.number, b.number))
	})
	var errs []error
	report := func(off int64, detail string, args ...any) bool {
		errs = append(errs, format.Corrupt("extent", off, detail, args...))
		return len(errs) == maxReported
	}
	at := start
	var before *owned // the one that reaches up to at
	for i := range o.owned {
		x := &o.owned[i]
		label := x.owner.label(x.number)
		if x.len <= 0 || x.off < start || x.off > end || x.len > end-x.off {
			if report(x.off, "%d bytes of %s lie outside the archive's %d to %d", x.len, label, start, end) {
				return errors.Join(errs...)
			}
			continue
		}
		full := false
		if x.off > at {
			full = report(at, "%d bytes up to %s have no owner", x.off-at, label)
		} else if x.off < at {
			full = report(x.off, "%s begins inside %s, which ends at %d", label, before.owner.label(before.number), at)
		}
		if full {
			return errors.Join(errs...)
		}
		if e := x.off + x.len; e > at {
			at, before = e, x
		}
	}
	if at < end {
		report(at, "%d bytes up to the logical end have no owner", end-at)
	}
	return errors.Join(errs...)
}
