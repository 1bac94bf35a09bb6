package store

import (
	"sync/atomic"

	"lockbox/internal/frames"
)

// openFrame is a frame that can be read from without looking up its record: decoded, or raw with its tag
// table, or raw and of a single block. It is immutable.
type openFrame struct {
	v     *view // where ref's extent holds
	ref   frameRef
	plain []byte // all plain bytes, or the first frames.HeadSize; nil: to be read from the file each time
	table *frames.Table
}

// covers reports whether the frame gives bytes up to position end.
func (o *openFrame) covers(v *view, number uint64, end int64) bool {
	return o != nil && o.v == v && o.ref.Number == number && (o.plain == nil || end <= int64(len(o.plain)))
}

// recentFrames is how many frames a handle keeps ready beside the cache.
const recentFrames = 64

// recent are frames that a handle's readers have used lately, by number. It spares them the lookup of a record
// and the cache's lock. The zero value is ready.
type recent [recentFrames]atomic.Pointer[openFrame]

func (r *recent) get(number uint64) *openFrame { return r[number%recentFrames].Load() }

// put keeps a frame unless it is so large that the slots could hold more than the cache's budget.
func (r *recent) put(o *openFrame, budget int64) {
	size := cap(o.plain)
	if o.table != nil {
		size = o.table.Size()
	}
	if int64(size) <= budget/recentFrames {
		r[o.ref.Number%recentFrames].Store(o)
	}
}

// ready returns the frame of a number if it is ready to give bytes up to position end, else nil.
func (f *File) ready(number uint64, end int64) *openFrame {
	of := f.last.Load()
	if !of.covers(f.v, number, end) {
		if of = f.a.recent.get(number); !of.covers(f.v, number, end) {
			return nil
		}
		f.last.Store(of)
	}
	f.a.stats.CacheHits.Add(1)
	return of
}

// open makes a frame ready for reading up to position end.
func (f *File) open(ref *frameRef, end int64) (of *openFrame, err error) {
	of = &openFrame{v: f.v, ref: *ref}
	switch {
	case ref.Codec != frames.Raw && f.headOnly(ref, end):
		of.plain, err = f.a.headFrame(ref)
	case ref.Codec != frames.Raw:
		of.plain, err = f.a.plainFrame(ref)
	case ref.BlockShift != 0:
		of.table, err = f.a.table(ref)
	}
	if err != nil {
		return nil, err
	}
	f.a.recent.put(of, f.a.cache.budget)
	f.last.Store(of)
	return of, nil
}

// headOnly reports whether decoding the head of a compressed frame is enough: what is read lies in it, and
// nothing says that the rest will be read soon, as beginning with the file's first frame does, or going on in the
// same or the neighbouring one.
func (f *File) headOnly(ref *frameRef, end int64) bool {
	if ref.Class != frames.NoPack || end > frames.HeadSize || ref.Plain <= frames.HeadSize {
		return false
	}
	if last := f.last.Load(); last == nil && ref.Number == f.content.Runs[0].Frame || last != nil && ref.Number-last.ref.Number <= 1 {
		return false
	}
	return !f.a.cache.has(cacheKey{ref.Attempt, ref.Number, cacheFrame})
}
