package verify

import (
	"cmp"
	"fmt"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// Kinds of owners.
const (
	ownCommit = 1 + iota
	ownKeys
	ownNode  // number: the tree
	ownFrame // number: the frame's
	ownStage
	ownRetire
	ownFree
)

// ownership collects who owns which extent, 24 bytes an extent.
type ownership struct{ list []owned }

type owned struct {
	format.Extent
	owner uint64 // kind in the upper byte, number below
}

func (o *ownership) add(ext format.Extent, kind, number uint64) {
	o.list = append(o.list, owned{ext, kind<<56 | number&(1<<56-1)})
}

func (x *owned) String() string {
	n := x.owner & (1<<56 - 1)
	switch x.owner >> 56 {
	case ownCommit:
		return "the commit block"
	case ownKeys:
		return "the key directory"
	case ownNode:
		return "a node of the tree " + index.Tree(n).String()
	case ownFrame:
		return fmt.Sprintf("frame %d", n)
	case ownStage:
		return "the stage set"
	case ownRetire:
		return "the retire set"
	}
	return "the free tree"
}

// extentOK reports whether an extent is made of whole sectors between the first extent's place and the
// logical end.
func (c *checker) extentOK(e format.Extent) bool {
	return e.Off >= format.DataStart && e.Len > 0 && e.Off%c.super.Sector == 0 && e.Len%c.super.Sector == 0 &&
		e.Off <= c.super.End && e.Len <= c.super.End-e.Off
}

// ownershipPass shows that every byte up to the logical end has exactly one owner. What an unreadable
// part of a tree owns is not known, so gaps say nothing then.
func (c *checker) ownershipPass() {
	list := c.owners.list
	slices.SortFunc(list, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Len, b.Len), cmp.Compare(a.owner, b.owner))
	})
	gap := func(lo, hi int64, before string) {
		if lo < hi && c.sum.Complete {
			c.find(KindOwnership, lo, "%d bytes before %s belong to nothing", hi-lo, before)
		}
	}
	at, prev := int64(format.DataStart), -1
	for i := range list {
		x := &list[i]
		gap(at, x.Off, x.String())
		if x.Off < at {
			c.find(KindOwnership, x.Off, "%d bytes belong to %s and to %s", min(at, x.End())-x.Off, &list[prev], x)
		}
		if x.End() > at {
			at, prev = x.End(), i
		}
	}
	gap(at, c.super.End, "the logical end")
}
