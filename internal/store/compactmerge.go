package store

import (
	"cmp"
	"context"
	"slices"

	"lockbox/internal/format"
)

// mergePacks puts the contents of packs that are not full into new ones, in the classes where that gives fewer.
func (c *compaction) mergePacks(ctx context.Context) error {
	todo, err := c.mergeable()
	if err != nil {
		return err
	}
	for len(todo) > 0 {
		n, bytes := 0, int64(0)
		for n < len(todo) && bytes < c.opt.batch && n < batchMoves {
			bytes += todo[n].plain
			n++
		}
		r := rearrangement{zone: noZone, from: format.DataStart}
		var gone map[uint64]bool
		done, err := c.step(ctx, r, func(t *Tx) (bool, error) {
			if err := t.startPipe(); err != nil {
				return false, err
			}
			gone = t.gone
			for _, p := range todo[:n] {
				if t.gone[p.number] {
					continue // folded into the class's open pack already
				}
				if err := t.unpack(p.number, p.class); err != nil {
					return false, err
				}
			}
			return true, nil
		})
		if err != nil {
			return err
		}
		if !done {
			break
		}
		c.merged += n
		// A class's open pack, whose turn would come, was perhaps folded in.
		todo = slices.DeleteFunc(todo[n:], func(p packed) bool { return gone[p.number] })
	}
	if c.merged == 0 {
		return nil
	}
	return c.scan()
}

// mergeable returns the packs of the classes in which merging gives fewer packs, by class and number.
func (c *compaction) mergeable() (all []packed, err error) {
	slices.SortFunc(c.candidate, func(x, y packed) int { return cmp.Or(cmp.Compare(x.class, y.class), cmp.Compare(x.number, y.number)) })
	for rest := c.candidate; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].class == rest[0].class {
			n++
		}
		group := rest[:n]
		rest = rest[n:]
		if n == 1 {
			continue
		}
		after, err := c.rehearse(group)
		if err != nil {
			return nil, err
		}
		if n-after >= max(1, n/16) {
			all = append(all, group...)
		}
	}
	return all, nil
}

// rehearse returns how many packs the contents of a class's packs would be in after merging.
func (c *compaction) rehearse(group []packed) (packs int, err error) {
	a, v := c.a, c.a.cur
	bytes, members := int64(0), 0
	for _, p := range group {
		rec, err := a.frameRecord(v, p.number)
		if err != nil {
			return 0, err
		}
		for _, n := range rec.Contents {
			content, err := a.content(v, n)
			if err != nil {
				return 0, err
			}
			if bytes+content.Size > int64(maxPack(v.level())) {
				packs, bytes, members = packs+1, 0, 0
			}
			bytes += content.Size
			members++
			if bytes >= int64(packTarget(v.level(), p.class)) || members == format.MaxMembers {
				packs, bytes, members = packs+1, 0, 0
			}
		}
	}
	if members > 0 {
		packs++
	}
	return packs, nil
}
