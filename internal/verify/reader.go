package verify

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"lockbox/internal/format"
	"lockbox/internal/frames"
)

const (
	batchPlain = 4 << 20 // plain bytes at which a batch of frames is closed
	batchJobs  = 1024    // and the number of frames
	batchParts = 8 << 10 // and of their members
	groupBytes = 1 << 20 // what one read fetches, unless a frame alone is longer
	maxStreams = 256     // contents over several frames that are digested at the same time
)

// reader reads the frames that the walk of the frames tree gives it, in batches in the order of their
// numbers. Within a batch frames are read in the order of the file, neighbours with one read, by the
// workers. Batches are bounded, and so is how many are under way: a content over several frames is
// digested in order, and bytes that arrive too early wait.
type reader struct {
	c       *checker
	ctx     context.Context
	cancel  context.CancelCauseFunc
	batch   *batch
	free    []*batch
	flight  []*batch // oldest first
	window  int
	work    chan task
	serial  *worker // with one job: does the work itself
	streams map[int]*stream
	extents int64  // bytes of the extents that were given to be read
	plain   uint64 // and of what they hold
	bytes   atomic.Int64
	account
}

// job is a frame to be read. Its parts are those from lo to hi of its batch.
type job struct {
	info   frames.Info
	ext    format.Extent
	listed bool // the parts are all that the frame holds
	lo, hi int
}

// part is a share of a content in a frame, and what the content as a whole must be.
type part struct {
	share
	rank   int
	size   int64
	digest format.Digest
	stream *stream // nil when the share is the whole content, or is not to be digested here
	skip   bool
	xattrs bool // an entry has its extended attributes in the content
}

type batch struct {
	jobs  []job
	parts []part
	plain int64
	left  atomic.Int32 // tasks that are not done
	done  chan struct{}

	// Of a run of a pass:
	must  bool        // it is read however late it is
	cut   atomic.Bool // it was not all read, because it was late
	units int         // whole ones, counted from the run's start, that end in this batch or before
}

// task is a group of a batch's frames that one read fetches.
type task struct {
	b      *batch
	lo, hi int
}

func newReader(c *checker) *reader {
	r := &reader{c: c, streams: make(map[int]*stream), window: 2 * c.o.Jobs}
	r.ctx, r.cancel = context.WithCancelCause(c.ctx)
	return r
}

// run has the workers ready while walk gives frames to add.
func (r *reader) run(walk func() error) error {
	defer r.cancel(nil)
	var wg sync.WaitGroup
	if r.c.o.Jobs > 1 {
		r.work = make(chan task, 4*r.c.o.Jobs)
		for range r.c.o.Jobs {
			wg.Go(func() {
				w := newWorker(r)
				defer w.end()
				for t := range r.work {
					w.task(t)
				}
			})
		}
	} else {
		r.serial = newWorker(r)
		defer r.serial.end()
	}
	err := walk()
	if err == nil {
		err = r.flush()
	}
	if err != nil {
		r.cancel(err)
	}
	if r.work != nil {
		close(r.work)
		wg.Wait()
	}
	if err == nil {
		err = r.drain(0)
	}
	if r.c.portion != nil {
		r.rewind(err != nil)
	}
	// A stream that is left lacks a frame: its content is looked at again on its own.
	for rank, s := range r.streams {
		if r.c.portion == nil || s.first < r.kept {
			r.give(rank, s)
		}
	}
	return err
}

// failure is why reading must stop, or nil.
func (r *reader) failure() error {
	if r.ctx.Err() == nil {
		return nil
	}
	return context.Cause(r.ctx)
}

// add takes a frame and what of it belongs to which content.
func (r *reader) add(j job, parts []part) error {
	t := &r.c.contents
	if r.c.o.Only != nil {
		if !slices.ContainsFunc(parts, func(p part) bool { return t.flags[p.rank]&isSelected != 0 }) {
			return nil
		}
	}
	// Frames own their bytes: where they take more than the file has, some overlap, which the ownership
	// check reports. Reading them all could take for ever.
	if j.ext.End() <= r.c.size {
		r.extents += j.ext.Len
	}
	if r.extents > r.c.size {
		r.c.partial = true
		return nil
	}
	r.plain += uint64(j.info.Plain)
	b := r.batch
	if b == nil {
		if n := len(r.free); n > 0 {
			b, r.free = r.free[n-1], r.free[:n-1]
		} else {
			b = &batch{done: make(chan struct{}, 1)}
		}
		b.jobs, b.parts, b.plain = b.jobs[:0], b.parts[:0], 0
		b.must = false
		b.cut.Store(false)
		r.batch = b
	}
	b.must = b.must || r.must
	j.lo = len(b.parts)
	for _, p := range parts {
		p.stream, p.skip = r.stream(&p)
		b.parts = append(b.parts, p)
	}
	j.hi = len(b.parts)
	b.jobs = append(b.jobs, j)
	if b.plain += int64(j.info.Plain); b.plain >= batchPlain || len(b.jobs) >= batchJobs || len(b.parts) >= batchParts {
		return r.flush()
	}
	return nil
}

// stream finds the stream that a part belongs to. Streams go by the order of frames; a content whose shares stand
// otherwise is put off.
func (r *reader) stream(p *part) (s *stream, skip bool) {
	t := &r.c.contents
	if r.c.portion != nil {
		t.flags[p.rank] |= isTouched
	}
	if f := t.flags[p.rank]; f&isSelected == 0 || f&isDeferred != 0 {
		return nil, true
	}
	if p.length == p.size {
		return nil, false
	}
	s = r.streams[p.rank]
	if s == nil && p.pos == 0 && len(r.streams) < maxStreams {
		s = newStream(r, p)
		r.streams[p.rank] = s
		if r.c.portion != nil {
			r.begun(s)
		}
	}
	if s == nil || s.given != p.pos {
		r.give(p.rank, s)
		return nil, true
	}
	if s.given += p.length; s.given == p.size {
		delete(r.streams, p.rank)
	}
	return s, false
}

// give puts a content off until all frames were read. It has a stream, or s is nil. A run of a pass leaves out
// contents that would cost it too much.
func (r *reader) give(rank int, s *stream) {
	if r.c.portion != nil {
		r.c.contents.flags[rank] |= isGiven
	}
	if r.c.portion == nil || r.c.contents.size[rank] <= deferredMost {
		r.c.contents.flags[rank] |= isDeferred
	}
	delete(r.streams, rank)
	if s != nil {
		s.end()
	}
}

// flush hands the current batch to the workers.
func (r *reader) flush() error {
	b := r.batch
	if b == nil {
		return r.drain(0)
	}
	r.batch = nil
	byOffset := func(x, y job) int { return cmp.Compare(x.ext.Off, y.ext.Off) }
	if !slices.IsSortedFunc(b.jobs, byOffset) {
		slices.SortFunc(b.jobs, byOffset)
	}
	var ends [batchJobs]int // of the groups
	groups := 0
	for i := range b.jobs {
		if i > 0 && b.jobs[i].ext.Off == b.jobs[i-1].ext.End() && b.jobs[i].ext.End()-b.jobs[start(ends[:], groups-1)].ext.Off <= groupBytes {
			ends[groups-1] = i + 1
			continue
		}
		ends[groups] = i + 1
		groups++
	}
	b.left.Store(int32(groups))
	b.units = r.handed
	r.flight = append(r.flight, b)
	for g := range groups {
		t := task{b, start(ends[:], g), ends[g]}
		if r.serial != nil {
			r.serial.task(t)
			continue
		}
		select {
		case r.work <- t:
		case <-r.ctx.Done():
			return r.failure()
		}
	}
	return r.drain(max(r.window-1, 0))
}

// start is the first job of group g when ends has the groups' ends.
func start(ends []int, g int) int {
	if g == 0 {
		return 0
	}
	return ends[g-1]
}

// drain waits until at most n batches are under way. It always waits for the oldest: all that waits for
// its turn in a stream belongs to a batch after it.
func (r *reader) drain(n int) error {
	for len(r.flight) > n {
		select {
		case <-r.flight[0].done:
		case <-r.ctx.Done():
			return r.failure()
		}
		r.confirm(r.flight[0], r.ctx.Err() == nil)
		r.free = append(r.free, r.flight[0])
		r.flight = slices.Delete(r.flight, 0, 1)
	}
	return r.failure()
}
