package store

import (
	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// Bounds of the reserve.
const (
	reserveFrom = 1 << 20 // a smaller archive has none, for it has little to give back
	reserveMax  = 384 << 10
)

// reserve is how much free space an archive of size bytes keeps: a removal writes nodes, and what stays of a
// pack, before it gives anything back, and on a full disk it can do that only within the file. So it is one path of
// every tree and a pack as well compressed as the rest, or a 32nd of the file when that is more; never more than
// a 16th.
func reserve(size int64, k *journal.Counters, roots *[5]index.Root, l frames.Level) int64 {
	if size < reserveFrom {
		return 0
	}
	path := uint64(0)
	for _, r := range roots {
		path += uint64(r.Height) * nodeSize
	}
	room := size / 32
	if roots[index.Contents-1].Count > roots[index.Frames-1].Count && k.PlainBytes > 0 { // there are packs
		pack := float64(maxPack(l)) * min(float64(k.StoredBytes)/float64(k.PlainBytes), 1)
		room = max(room, int64(pack)*9/8)
	}
	return min(int64(min(path, k.NodeBytes))+room, size/16, reserveMax) &^ 4095
}

func (v *view) reserve(size int64) int64 {
	return reserve(size, &v.commit.Counters, &v.roots, v.level())
}

// reserve makes sure that a transaction that lets the archive grow leaves it its reserve. The space is
// written, for a hole in the file reserves nothing.
func (t *Tx) reserve(edits *freeEdits, roots *[5]index.Root, k journal.Counters) error {
	s := &t.space
	if s.end == t.base.super.End {
		return nil // it may be a removal on a full disk
	}
	k.NodeBytes = uint64(max(int64(k.NodeBytes)+t.nodes, 0))
	want := reserve(s.end, &k, roots, t.level())
	free := totalLen(s.held) + totalLen(s.usable) + int64(t.base.commit.Counters.FreeBytes) + edits.free
	if free >= want/2 {
		return nil
	}
	e := format.Extent{Off: s.end, Len: format.AlignUp(want-max(free, 0), t.a.sector)}
	s.end += e.Len
	s.usable = append(s.usable, journal.Planned{Extent: e, Generation: t.gen})
	return t.out.write(zeros[:e.Len], e.Off)
}
