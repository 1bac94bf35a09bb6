package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"lockbox/internal/store"
)

// streams are whole archives read file after file, on one CPU by everybody, and then by all workers.
func streams() []workload {
	type shape struct {
		name   string
		count  int
		size   int64
		text   bool
		goal   float64
		slow   bool
		twice  bool // also shuffled and a second time
		faster bool // the goal for all workers applies
	}
	var ws []workload
	for _, s := range []shape{
		{name: "512 × 4 KiB raw", count: 512, size: 4 * kib, goal: 0.15, twice: true},
		{name: "512 × 4 KiB text", count: 512, size: 4 * kib, text: true, goal: 0.17, twice: true},
		{name: "4 × 1 MiB text", count: 4, size: mib, text: true, goal: 0.30},
		{name: "4 × 8 MiB raw", count: 4, size: 8 * mib, goal: 1.0},
		{name: "4 × 8 MiB text", count: 4, size: 8 * mib, text: true, goal: 0.28, faster: true},
		{name: "4 × 64 MiB raw", count: 4, size: 64 * mib, goal: 1.0, slow: true},
		{name: "4 × 64 MiB text", count: 4, size: 64 * mib, text: true, goal: 0.28, slow: true, faster: true},
		{name: "1 GiB text", count: 1, size: 1024 * mib, text: true, slow: true, faster: true},
		{name: "2,000 × 1 KiB text", count: 2000, size: kib, text: true},
		{name: "16 MiB raw", count: 1, size: 16 * mib},
	} {
		// Text takes less than half; a little more is needed for what stands beside the bytes.
		need := 2*int64(s.count)*s.size + 8*mib
		if s.text {
			need /= 2
		}
		ws = append(ws, workload{"streaming", s.name, s.slow, need, func(e *env) error {
			files, err := e.files(s.count, s.size, s.text)
			if err != nil {
				return err
			}
			return e.stream(files, s.text, s.goal, s.twice, s.faster)
		}})
	}
	return append(ws,
		workload{"streaming", "16 MiB repetitive text", false, 16 * mib, func(e *env) error {
			return e.stream(repetitive(), true, 0, false, false)
		}},
		workload{"streaming", "400 mixed files", false, 128 * mib, func(e *env) error {
			t, err := e.words()
			if err != nil {
				return err
			}
			return e.stream(mixed(t), true, 0, false, false)
		}})
}

func (e *env) stream(files []File, text bool, goal float64, twice, faster bool) (err error) {
	a, err := e.build("stream", files, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()

	var s sink
	var one, bulk store.Counters
	cs := []Contender{
		{Name: "lockbox", Run: timed(func() error { return streamLockbox(e.ctx, a.lbx, reading{jobs: 1, w: &s, counters: &one}) })},
		{Name: stdZip, Run: timed(func() error { return streamZip(e.ctx, a.zip, reading{w: &s}) })},
		{Name: kZip, Run: timed(func() error { return streamKZip(e.ctx, a.zip, reading{w: &s}) })},
		{Name: "lockbox, bulk", Run: timed(func() error {
			return bulkLockbox(e.ctx, a.lbx, store.Options{Jobs: 1}, &bulk, func(p store.Piece) error { s.n += int64(len(p.Data)); return p.Err })
		})},
	}
	restore := oneCPU()
	sets, err := e.take(e.samples, []string{a.lbx, a.zip}, cs...)
	restore()
	if err != nil {
		return err
	}
	for i, c := range cs {
		u, err := useOf(c)
		if err != nil {
			return err
		}
		sets[i].PeakHeap, sets[i].Allocated = u.live, u.allocated
		sets[i].Archive = a.zipSize
	}
	best := fastest(sets[1:3])
	for i, c := range map[int]store.Counters{0: one, 3: bulk} {
		sets[i].Archive, sets[i].SizeRatio = a.lbxSize, float64(a.lbxSize)/float64(a.zipSize)
		sets[i].Counters = counted(c)
		sets[i].Compared(best, true)
		sets[i].WithGoal(goal)
	}
	withBytes(sets, totalSize(files))
	e.add(sets...)
	if twice {
		if err := e.shuffled(a); err != nil {
			return err
		}
	}
	if runtime.NumCPU() > 1 && e.Jobs > 1 && totalSize(files) >= 8*mib {
		return e.allWorkers(a, faster)
	}
	return nil
}

// shuffled reads the same files in random order, and then all of them a second time through one handle.
func (e *env) shuffled(a *archives) error {
	defer oneCPU()()
	r := rng(1)
	order := r.perm(len(a.files))
	var s sink
	open := func(int) (*store.Archive, error) {
		ar, err := store.Open(e.ctx, a.lbx, store.Options{Jobs: 1})
		if err != nil {
			return nil, err
		}
		if err := readAll(e.ctx, ar, reading{w: &s}); err != nil {
			return nil, errors.Join(err, ar.Close())
		}
		return ar, nil
	}
	sets, err := e.take(e.samples, []string{a.lbx, a.zip},
		Contender{Name: "lockbox, shuffled", Run: timed(func() error { return streamLockbox(e.ctx, a.lbx, reading{jobs: 1, order: order, w: &s}) })},
		Contender{Name: stdZip + ", shuffled", Run: timed(func() error { return streamZip(e.ctx, a.zip, reading{order: order, w: &s}) })},
		Contender{Name: kZip + ", shuffled", Run: timed(func() error { return streamKZip(e.ctx, a.zip, reading{order: order, w: &s}) })},
		Contender{Name: "lockbox, read again through the same handle", Run: repeated(1, open,
			func(ar *store.Archive, _ int) error { return readAll(e.ctx, ar, reading{w: &s}) }, (*store.Archive).Close)})
	if err != nil {
		return err
	}
	best := fastest(sets[1:3])
	sets[0].Compared(best, true)
	sets[3].Compared(best, true)
	withBytes(sets, totalSize(a.files))
	e.add(sets...)
	return nil
}

// allWorkers measures what more workers gain.
func (e *env) allWorkers(a *archives, hasGoal bool) error {
	var s sink
	run := func(jobs int) func() (time.Duration, error) {
		return timed(func() error { return streamLockbox(e.ctx, a.lbx, reading{jobs: jobs, w: &s}) })
	}
	sets, err := e.take(e.samples, []string{a.lbx},
		Contender{Name: fmt.Sprintf("lockbox, speed-up by %d workers", e.Jobs), Run: run(e.Jobs)}, Contender{Name: "one worker", Run: run(1)})
	if err != nil {
		return err
	}
	sets[0].Speedup, sets[0].AtLeast = true, true
	sets[0].Compared(&sets[1], false)
	if hasGoal && e.Jobs == 2 { // the goal is for two
		sets[0].WithGoal(1.7)
	}
	withBytes(sets, totalSize(a.files))
	e.add(sets...)
	return nil
}
