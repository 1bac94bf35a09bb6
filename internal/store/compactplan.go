package store

import (
	"cmp"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/journal"
)

// place is where a frame stands.
type place struct {
	format.Extent
	number uint64
}

// move gives a frame another place.
type move struct {
	place
	to int64
}

// Bounds of one batch of moves.
const (
	batchBytes = 32 << 20
	batchMoves = 4096
)

// sequentialHole is the room in a hole from which on frames go into it in the order of their offsets, so
// that neighbours stay neighbours; a smaller one gets the largest frame that fits.
const sequentialHole = 2 << 20

// planFill moves frames that reach beyond packed, where all frames would end if they stood side by
// side, into the free extents before reach. least is the length of the shortest one that could not move.
func planFill(places []place, holes []journal.Planned, packed, reach, batch int64) (moves []move, least int64) {
	first, _ := slices.BinarySearchFunc(places, packed, func(p place, off int64) int { return cmp.Compare(p.End(), off+1) })
	tail := places[first:]
	bySize := make([]int, len(tail)) // indices of tail
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(x, y int) int { return cmp.Compare(tail[x].Len, tail[y].Len) })
	// left[k] leads from position k of bySize to the next unused position at or before it, plus 1.
	left := make([]int, len(tail)+1)
	for k := range left {
		left[k] = k
	}
	unused := func(k int) int {
		for left[k] != k {
			left[k] = left[left[k]]
			k = left[k]
		}
		return k
	}
	used := make([]bool, len(tail))
	position := make([]int, len(tail))
	for k, i := range bySize {
		position[i] = k
	}
	next, bytes := 0, int64(0)
	for _, hole := range holes {
		for hole.Len > 0 && hole.Off < reach && bytes < batch && len(moves) < batchMoves {
			i := -1
			for next < len(tail) && used[next] {
				next++
			}
			if hole.Len >= sequentialHole && next < len(tail) && tail[next].Len <= hole.Len {
				i = next
			} else {
				k, _ := slices.BinarySearchFunc(bySize, hole.Len, func(x int, n int64) int { return cmp.Compare(tail[x].Len, n+1) })
				if k = unused(k); k > 0 {
					i = bySize[k-1]
				}
			}
			if i < 0 || tail[i].Off <= hole.Off {
				break
			}
			used[i] = true
			left[position[i]+1] = position[i]
			moves = append(moves, move{tail[i], hole.Off})
			bytes += tail[i].Len
			hole.Off += tail[i].Len
			hole.Len -= tail[i].Len
		}
	}
	for _, i := range bySize {
		if !used[i] {
			return moves, tail[i].Len
		}
	}
	return moves, 0
}

// frontier returns the index of the first frame before which the gaps between frames add up to more than
// budget, and where the frames before it end; len(places) when there is none.
func frontier(places []place, budget int64) (i int, end int64) {
	end = format.DataStart
	for i, p := range places {
		if gap := p.Off - end; gap > budget {
			return i, end
		} else if gap > 0 {
			budget -= gap
		}
		end = p.End()
	}
	return len(places), end
}

// planSlide moves the frames that follow a gap down into it, in their order.
func planSlide(places []place, gap format.Extent, batch int64) (moves []move) {
	bytes := int64(0)
	for _, p := range places {
		if p.Len > gap.Len || p.Off < gap.End() && len(moves) == 0 || bytes >= batch || len(moves) >= batchMoves {
			break
		}
		moves = append(moves, move{p, gap.Off})
		bytes += p.Len
		gap.Off += p.Len
		gap.Len -= p.Len
	}
	return moves
}

// planEvacuate moves the first frames to end, where there is room for them, so that a gap of the size that is
// wanted comes to be where they and the gap before them are. From zone on there is nothing to make room for.
func planEvacuate(places []place, gap, room, end, zone, want int64) (moves []move) {
	for _, p := range places {
		if gap >= want || p.Len > room || len(moves) >= batchMoves || p.Off >= zone {
			break
		}
		moves = append(moves, move{p, end})
		end += p.Len
		gap += p.Len
		room -= p.Len
	}
	return moves
}

func total(moves []move) (n int64) {
	for _, m := range moves {
		n += m.Len
	}
	return n
}

// withhold returns holes without the last bytes of them, at least need, which the transaction's nodes and
// commit block will take.
func withhold(holes []journal.Planned, need int64) []journal.Planned {
	holes = slices.Clone(holes)
	for n := len(holes); n > 0 && need > 0; n-- {
		last := &holes[n-1]
		take := min(last.Len, need)
		need -= take
		if last.Len -= take; last.Len == 0 {
			holes = holes[:n-1]
		}
	}
	return holes
}
