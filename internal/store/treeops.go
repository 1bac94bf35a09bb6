package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// trees applies the transaction to the four trees that hold the archive's content and returns the new
// roots and counters. The free tree comes later: it depends on what these supersede.
func (t *Tx) trees(ctx context.Context) (roots [5]index.Root, k journal.Counters, err error) {
	roots = t.base.roots
	k = t.base.commit.Counters
	tag := t.a.suite.TagSize()
	apply := func(tree index.Tree, ops iter.Seq[index.Op]) {
		switch {
		case err != nil:
		case ctx.Err() != nil:
			err = ctx.Err()
		case t.compact != nil && t.compact.rebuild:
			roots[tree-1], err = t.rebuildTree(tree, roots[tree-1], ops)
		default:
			roots[tree-1], err = index.Apply(t.a, t, tree, roots[tree-1], tag, nodeSize, ops)
		}
		if errors.Is(err, fs.ErrNotExist) {
			// What is deleted here another record of the archive has named.
			err = format.Corrupt("tree "+tree.String(), -1, "its records and those of another tree disagree: %v", err)
		}
	}
	contents, digests, cerr := t.contentOps(&k)
	if cerr != nil {
		return roots, k, cerr
	}
	frameOps, ferr := t.frameOps(&k)
	if ferr != nil {
		return roots, k, ferr
	}
	apply(index.Contents, contents)
	apply(index.Digests, digests)
	apply(index.Frames, frameOps)
	apply(index.Entries, func(yield func(index.Op) bool) {
		e := &t.entries
		for i := range e.ops {
			o := &e.ops[i]
			op := index.Op{Key: e.key(o), Delete: o.vlen < 0}
			if o.vlen >= 0 {
				op.Value = e.value(o)
			}
			if !yield(op) {
				return
			}
		}
	})
	k.Entries = roots[index.Entries-1].Count
	k.NextContent = t.nextContent()
	k.NextFrame = t.nextFrame
	return roots, k, err
}

// contentOps returns the changes of the trees contents and digests.
func (t *Tx) contentOps(k *journal.Counters) (contents, digests iter.Seq[index.Op], err error) {
	type change struct {
		n     uint64
		value []byte // nil: delete
	}
	type digestKey [16]byte
	var old []change
	var dropped, added []digestKey
	key := func(d *format.Digest, n uint64) digestKey { return digestKey(index.DigestKey(t.a.suite.Prefix(d), n)) }
	for _, n := range slices.Sorted(maps.Keys(t.changed)) {
		c := t.changed[n]
		if c.Refs == 0 {
			old = append(old, change{n: n})
			dropped = append(dropped, key(&c.Digest, n))
			k.PlainBytes -= uint64(c.Size)
			continue
		}
		was, _, err := index.Get(t.a, index.Contents, t.base.tree(index.Contents), index.AppendNumKey(nil, n))
		if err != nil {
			return nil, nil, err
		}
		if v := index.AppendContent(nil, c); !bytes.Equal(v, was) {
			old = append(old, change{n: n, value: v})
		}
	}
	added = make([]digestKey, 0, t.fresh.len())
	for i, c := range t.fresh.all() {
		if c.refs > 0 {
			added = append(added, key(&c.digest, t.firstContent+uint64(i)))
			k.PlainBytes += uint64(c.size)
		}
	}
	slices.SortFunc(dropped, func(x, y digestKey) int { return bytes.Compare(x[:], y[:]) })
	slices.SortFunc(added, func(x, y digestKey) int { return bytes.Compare(x[:], y[:]) })
	contents = func(yield func(index.Op) bool) {
		for _, c := range old {
			if !yield(index.Op{Key: index.AppendNumKey(nil, c.n), Value: c.value, Delete: c.value == nil}) {
				return
			}
		}
		for i, f := range t.fresh.all() {
			if f.refs == 0 {
				continue
			}
			c := index.Content{Size: f.size, Digest: f.digest, Refs: uint64(f.refs),
				Runs: []index.Run{{Frame: f.frame, Off: f.off, Len: f.size, Unit: int64(f.unit)}}}
			if !yield(index.Op{Key: index.AppendNumKey(nil, t.firstContent+uint64(i)), Value: index.AppendContent(nil, &c)}) {
				return
			}
		}
	}
	digests = func(yield func(index.Op) bool) {
		for i, j := 0, 0; i < len(dropped) || j < len(added); {
			del := j == len(added) || i < len(dropped) && bytes.Compare(dropped[i][:], added[j][:]) < 0
			op := index.Op{Delete: del}
			if del {
				op.Key = dropped[i][:]
				i++
			} else {
				op.Key = added[j][:]
				j++
			}
			if !yield(op) {
				return
			}
		}
	}
	return contents, digests, nil
}

// frameOps returns the changes of the frames tree, and puts the extents of what it drops on the lists.
func (t *Tx) frameOps(k *journal.Counters) (iter.Seq[index.Op], error) {
	var dropped []uint64
	moved := map[uint64]*index.Frame{}
	if t.compact != nil {
		for n, ext := range t.compact.moves {
			rec, err := t.frameRecord(n)
			if err != nil {
				return nil, err
			}
			t.retired = append(t.retired, journal.Planned{Extent: rec.Ext, Generation: t.gen, Kind: journal.OwnerFrame, Owner: n})
			rec.Ext = ext
			moved[n] = rec
			dropped = append(dropped, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(t.gone)) {
		rec, err := t.frameRecord(n)
		if err != nil {
			return nil, err
		}
		p := journal.Planned{Extent: rec.Ext, Generation: t.gen}
		if n >= t.firstFrame {
			t.unused = append(t.unused, p)
			continue
		}
		p.Kind, p.Owner = journal.OwnerFrame, n
		t.retired = append(t.retired, p)
		dropped = append(dropped, n)
		k.StoredBytes -= uint64(rec.Stored)
		k.FrameBytes -= uint64(rec.Ext.Len)
	}
	for i, f := range t.frames.all() {
		if !t.gone[t.firstFrame+uint64(i)] {
			k.StoredBytes += uint64(f.Stored)
			k.FrameBytes += uint64(f.Ext.Len)
		}
	}
	slices.Sort(dropped)
	return func(yield func(index.Op) bool) {
		for _, n := range dropped {
			op := index.Op{Key: index.AppendNumKey(nil, n), Delete: true}
			if rec := moved[n]; rec != nil {
				op.Value, op.Delete = index.AppendFrame(nil, rec, t.a.suite.TagSize(), t.a.sector), false
			}
			if !yield(op) {
				return
			}
		}
		for i, f := range t.frames.all() {
			n := t.firstFrame + uint64(i)
			if t.gone[n] {
				continue
			}
			v := index.AppendFrame(nil, f, t.a.suite.TagSize(), t.a.sector)
			if !yield(index.Op{Key: index.AppendNumKey(nil, n), Value: v}) {
				return
			}
		}
	}, nil
}
