package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// windows reads a 19.5 MB text file 8 KiB at a time.
func (b *bench) windows() (err error) {
	const size = 19_500_000
	files, err := b.files(1, size, true)
	if err != nil {
		return err
	}
	a, err := b.build("window", files, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()
	p := make([]byte, window)
	g := rand.New(rand.NewPCG(5, 5))
	at := func() int64 { return int64(g.IntN(size/window)) * window }

	const cold = 200
	var first, second uint64
	for range cold {
		off := at()
		o, err := b.openAll(a.lbx, files)
		if err != nil {
			return err
		}
		for _, sum := range []*uint64{&first, &second} {
			before := o.a.Counters().FramesDecoded
			if err := readFull(o.files[0], p, off); err != nil {
				return errors.Join(err, o.close())
			}
			*sum += o.a.Counters().FramesDecoded - before
			if !bytes.Equal(p, files[0].data[off:][:window]) {
				return errors.Join(fmt.Errorf("other bytes at %d", off), o.close())
			}
		}
		if err := o.close(); err != nil {
			return err
		}
	}
	b.report.figure(2, "19.5 MB text: frames decoded by a cold 8 KiB window", fmt.Sprintf("%d in %d windows", first, cold), float64(first)/cold, "frames", 1.1)
	b.report.zero(2, "19.5 MB text: frames decoded by the same windows again", second)

	warmed, err := b.openAll(a.lbx, files)
	if err != nil {
		return err
	}
	defer warmed.close()
	// A working set that the cache holds: the first 8 MiB.
	const set = 8 * mib
	pass := func() error {
		for off := int64(0); off < set; off += window {
			if err := readFull(warmed.files[0], p, off); err != nil {
				return err
			}
		}
		return nil
	}
	z, err := zip.OpenReader(a.zip)
	if err != nil {
		return err
	}
	defer z.Close()
	none := func(int) (struct{}, error) { return struct{}{}, nil }
	noTear := func(struct{}) error { return nil }
	stats, err := b.compare(b.samples,
		contender{name: "lockbox", run: repeated(20, func(int) (*opened, error) { return b.openAll(a.lbx, files) },
			func(o *opened, _ int) error { return readFull(o.files[0], p, at()) }, (*opened).close)},
		contender{name: "archive/zip, inflating all", run: repeated(1, none, func(struct{}, int) error {
			r, err := z.File[0].Open()
			if err != nil {
				return err
			}
			return drain(&sink{}, r)
		}, noTear)},
		contender{name: "lockbox, warm", run: timed(pass)},
		contender{name: "copying memory", run: timed(func() error {
			src := files[0].data[:set]
			for len(src) > 0 {
				src = src[copy(p, src):]
			}
			return nil
		})})
	if err != nil {
		return err
	}
	b.report.ratio(2, "19.5 MB text: first window", stats[0], stats[1], 0.01)
	rate := func(d time.Duration) float64 { return float64(set) / d.Seconds() / 1e9 }
	b.report.add(row{section: 2, workload: "19.5 MB text: rate of warm windows ÷ memory's",
		ours: fmt.Sprintf("%.3g GB/s", rate(stats[2].median())), against: fmt.Sprintf("%.3g GB/s", rate(stats[3].median())),
		value: rate(stats[2].median()) / rate(stats[3].median()), goal: 0.25, atLeast: true})
	return nil
}
