package bench

import (
	"archive/zip"
	"errors"
	"fmt"
)

// windows reads a 19.5 MB text file 8 KiB at a time.
func (e *env) windows() (err error) {
	defer oneCPU()()
	const size = 19_500_000
	files, err := e.files(1, size, true)
	if err != nil {
		return err
	}
	a, err := e.build("window", files, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()
	if err := e.countWindows(a, size); err != nil {
		return err
	}
	p, r := make([]byte, window), rng(5)
	at := func() int64 { return int64(r.n(size/window)) * window }
	warmed, err := e.openAll(a.lbx, nil, files)
	if err != nil {
		return err
	}
	defer warmed.close()
	const set = 8 * mib // what the cache holds
	src := files[0].Load().base[:set]
	z, err := zip.OpenReader(a.zip)
	if err != nil {
		return err
	}
	defer z.Close()
	var s sink
	sets, err := e.take(e.samples, []string{a.lbx, a.zip},
		Contender{Name: "lockbox: first window", Run: repeated(e.batch(20), func(int) (*opened, error) { return e.openAll(a.lbx, nil, files) },
			func(o *opened, _ int) error { return readFull(o.files[0], p, at()) }, (*opened).close)},
		Contender{Name: stdZip + ", inflating all", Run: timed(func() error {
			return readZip(e.ctx, z.File, nil, reading{w: &s})
		})},
		Contender{Name: "lockbox: rate of warm windows by memory's", Run: timed(func() error {
			for off := int64(0); off < set; off += window {
				if err := readFull(warmed.files[0], p, off); err != nil {
					return err
				}
			}
			return nil
		})},
		Contender{Name: "copying memory", Run: timed(func() error {
			for rest := src; len(rest) > 0; {
				rest = rest[copy(p, rest):]
			}
			return nil
		})})
	if err != nil {
		return err
	}
	sets[0].Compared(&sets[1], true)
	sets[0].WithGoal(0.01)
	sets[0].Bytes, sets[1].Bytes = window, size
	sets[2].Speedup, sets[2].AtLeast = true, true
	sets[2].Compared(&sets[3], false)
	sets[2].WithGoal(0.25)
	withBytes(sets[2:], set)
	e.add(sets...)
	return nil
}

// countWindows counts the frames that windows cost, first and again, and compares their bytes.
func (e *env) countWindows(a *archives, size int) error {
	const cold = 200
	p, r, c := make([]byte, window), rng(9), newChecker(a.files)
	var first, second uint64
	for range cold {
		off := int64(r.n(size/window)) * window
		o, err := e.openAll(a.lbx, nil, a.files)
		if err != nil {
			return err
		}
		for _, sum := range []*uint64{&first, &second} {
			before := o.a.Counters().FramesDecoded
			if err := errors.Join(readFull(o.files[0], p, off), c.at(&a.files[0], p, off)); err != nil {
				return errors.Join(err, o.close())
			}
			*sum += o.a.Counters().FramesDecoded - before
		}
		if err := o.close(); err != nil {
			return err
		}
	}
	f := e.figure("frames decoded by a cold window of 8 KiB", fmt.Sprintf("%d in %d", first, cold), float64(first)/cold, "frames")
	f.WithGoal(1.1)
	again := e.figure("frames decoded by the same windows again", fmt.Sprint(second), float64(second), "")
	again.MustBeZero()
	e.add(f, again)
	return nil
}
