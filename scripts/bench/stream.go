package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"runtime"

	"lockbox/internal/store"
)

// sink takes bytes and drops them, without the short cuts that copying to io.Discard takes.
type sink struct{ n int64 }

func (s *sink) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return len(p), nil
}

var _ io.Writer = (*sink)(nil)

// streaming measures whole archives read file after file.
func (b *bench) streaming() error {
	for _, w := range []struct {
		name        string
		count, size int
		text        bool
		goal        float64
		slow        bool
	}{
		{"512 × 4 KiB raw", 512, 4 * kib, false, 0.15, false},
		{"512 × 4 KiB text", 512, 4 * kib, true, 0.17, false},
		{"4 × 1 MiB text", 4, mib, true, 0.30, false},
		{"4 × 8 MiB raw", 4, 8 * mib, false, 1.0, false},
		{"4 × 8 MiB text", 4, 8 * mib, true, 0.28, false},
		{"2,000 × 1 KiB text", 2000, kib, true, 0, false},
		{"16 MiB raw", 1, 16 * mib, false, 0, false},
		{"4 × 64 MiB raw", 4, 64 * mib, false, 1.0, true},
		{"4 × 64 MiB text", 4, 64 * mib, true, 0.28, true},
		{"1 GiB text", 1, 1024 * mib, true, 0, true},
	} {
		if w.slow && b.quick || !b.wanted(1, w.name) {
			continue
		}
		files, err := b.files(w.count, w.size, w.text)
		if err != nil {
			return err
		}
		if err := b.stream(w.name, files, w.text, w.goal); err != nil {
			return err
		}
	}
	if b.wanted(1, "16 MiB repetitive text") {
		if err := b.stream("16 MiB repetitive text", repetitive(), true, 0); err != nil {
			return err
		}
	}
	if b.wanted(1, "400 mixed files") {
		files, err := b.mixed()
		if err != nil {
			return err
		}
		if err := b.stream("400 mixed files", files, true, 0); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) stream(name string, files []file, text bool, goal float64) (err error) {
	a, err := b.build("stream", files, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()

	// One CPU for everybody, so that work is compared and not parallelism.
	cpus := runtime.GOMAXPROCS(1)
	var s sink
	stats, err := b.compare(b.samples,
		contender{name: "lockbox", run: timed(func() error { return streamLockbox(b.ctx, a.lbx, 1, nil, &s, nil) })},
		contender{name: "archive/zip", run: timed(func() error { return streamZip(a.zip, &s, nil) })},
		contender{name: "klauspost zip", run: timed(func() error { return streamKZip(a.zip, &s, nil) })},
		contender{name: "lockbox, bulk", run: timed(func() error {
			return bulkLockbox(b.ctx, a.lbx, 1, func(p store.Piece) error { s.n += int64(len(p.Data)); return p.Err })
		})})
	runtime.GOMAXPROCS(cpus)
	if err != nil {
		return err
	}
	b.report.ratio(1, name, stats[0], fastest(stats[1:3]), goal)
	b.report.ratio(1, name+", bulk", stats[3], fastest(stats[1:3]), goal)

	if len(files) == 512 {
		if err := b.shuffled(name, a); err != nil {
			return err
		}
	}
	if cpus > 1 && len(files[0].data) >= 8*mib {
		return b.allCores(name, a, text && goal > 0)
	}
	return nil
}

// shuffled reads the same files in random order, and then all of them a second time through one handle.
func (b *bench) shuffled(name string, a *archives) error {
	cpus := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(cpus)
	perm := order(rand.New(rand.NewPCG(1, 2)).Perm(len(a.files)))
	var s sink
	stats, err := b.compare(b.samples,
		contender{name: "lockbox", run: timed(func() error { return streamLockbox(b.ctx, a.lbx, 1, perm, &s, nil) })},
		contender{name: "archive/zip", run: timed(func() error { return shuffledZip(a.zip, perm, &s, nil) })},
		contender{name: "klauspost zip", run: timed(func() error { return shuffledKZip(a.zip, perm, &s, nil) })})
	if err != nil {
		return err
	}
	b.report.ratio(1, name+", shuffled", stats[0], fastest(stats[1:]), 0)

	open := func(int) (*store.Archive, error) {
		ar, err := store.Open(b.ctx, a.lbx, store.Options{Jobs: 1})
		if err != nil {
			return nil, err
		}
		return ar, readAll(b.ctx, ar, nil, &s, nil)
	}
	again, err := b.compare(b.samples, contender{name: "lockbox", run: repeated(1, open,
		func(ar *store.Archive, _ int) error { return readAll(b.ctx, ar, nil, &s, nil) }, (*store.Archive).Close)})
	if err != nil {
		return err
	}
	b.report.ratio(1, name+", read again through the same handle", again[0], fastest(stats[1:]), 0)
	return nil
}

// allCores measures what more workers gain.
func (b *bench) allCores(name string, a *archives, hasGoal bool) error {
	var s sink
	stats, err := b.compare(b.samples,
		contender{name: "all cores", run: timed(func() error { return streamLockbox(b.ctx, a.lbx, 0, nil, &s, nil) })},
		contender{name: "one job", run: timed(func() error { return streamLockbox(b.ctx, a.lbx, 1, nil, &s, nil) })})
	if err != nil {
		return err
	}
	r := row{section: 1, workload: name + ", speed-up with all cores", ours: stats[0].String(), against: "one job " + stats[1].String(),
		value: float64(stats[1].median()) / float64(stats[0].median()), atLeast: true}
	if hasGoal && runtime.NumCPU() == 2 { // the goal is for two
		r.goal = 1.7
	}
	b.report.add(r)
	return nil
}
