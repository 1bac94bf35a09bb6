package bench

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

const window = 8 * kib

// randoms are reading a little out of much, on one CPU.
func randoms() []workload {
	return []workload{
		{"random", "12 ranges of 8 KiB in 4 raw files", false, 72 * mib, func(e *env) error { return e.ranges(false, 1.5) }},
		{"random", "12 ranges of 8 KiB in 4 text files", false, 40 * mib, func(e *env) error { return e.ranges(true, 0.02) }},
		{"random", "19.5 MB text", false, 24 * mib, (*env).windows},
		{"random", "2,000 entries", false, 8 * mib, func(e *env) error { return e.small() }},
		{"random", "1,000,000 entries", true, 320 * mib, (*env).million},
	}
}

// opened is a fresh handle with some of its files open.
type opened struct {
	a     *store.Archive
	files []*store.File
}

func (o *opened) close() error { return o.a.Close() }

func (o *opened) open(files []File) error {
	for i := range files {
		f, err := openOne(o.a, files[i].Name)
		if err != nil {
			return err
		}
		o.files = append(o.files, f)
	}
	return nil
}

// readRanges reads a window at each of these places of each open file.
func (o *opened) readRanges(p []byte, at [3]int64) error {
	for _, f := range o.files {
		for _, off := range at {
			if err := readFull(f, p, off); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *env) open(name string) (*store.Archive, error) {
	return e.openProtected(name, nil)
}

func (e *env) openProtected(name string, p *protection) (*store.Archive, error) {
	return store.Open(e.ctx, name, p.options(1))
}

func (e *env) openAll(name string, p *protection, files []File) (*opened, error) {
	a, err := e.openProtected(name, p)
	if err != nil {
		return nil, err
	}
	o := &opened{a: a}
	if err := o.open(files); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return o, nil
}

func openOne(a *store.Archive, name string) (*store.File, error) {
	p, err := pathsafe.Parse(name)
	if err != nil {
		return nil, err
	}
	e, err := a.Get(p)
	if err != nil {
		return nil, err
	}
	return a.Open(&e)
}

func readFull(r io.ReaderAt, p []byte, off int64) error {
	if n, err := r.ReadAt(p, off); n < len(p) {
		return err
	}
	return nil
}

// offsets are three ascending, unaligned places a window apart or more, other ones for each i.
func offsets(i int, size int64) (o [3]int64) {
	r := rng(i)
	for k := range o {
		part := (int(size) - window) / len(o)
		o[k] = int64(k*part + r.n(part-window))
	}
	return o
}

func (e *env) ranges(text bool, goal float64) (err error) {
	defer oneCPU()()
	const size = 8 * mib
	batch := e.batch(20)
	files, err := e.files(4, size, text)
	if err != nil {
		return err
	}
	a, err := e.build("ranges", files, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()
	if err := e.compareRanges(a.lbx, nil, files, 20, size); err != nil {
		return err
	}
	p := make([]byte, window)
	read := func(o *opened, i int) error { return o.readRanges(p, offsets(i, size)) }
	open := func(int) (*opened, error) { return e.openAll(a.lbx, nil, files) }
	warm := func(i int) (*opened, error) {
		o, err := open(i)
		if err != nil {
			return nil, err
		}
		if err := read(o, i); err != nil {
			return nil, errors.Join(err, o.close())
		}
		return o, nil
	}
	z, err := zip.OpenReader(a.zip)
	if err != nil {
		return err
	}
	defer z.Close()
	zipRead, zipBatch := func(i int) error { return inflateRanges(z.File, offsets(i, size), p) }, 1
	if !text {
		raw, err := os.Open(a.zip)
		if err != nil {
			return err
		}
		defer raw.Close()
		if zipRead, err = storedRanges(z.File, raw, p, size); err != nil {
			return err
		}
		zipBatch = batch
	}
	sets, err := e.take(2*e.samples, []string{a.lbx, a.zip},
		Contender{Name: "lockbox: files open, nothing cached", Run: repeated(batch, open, read, (*opened).close)},
		Contender{Name: stdZip, Run: whole(zipBatch, zipRead)},
		Contender{Name: "lockbox: opening the files included", Run: repeated(batch,
			func(int) (*opened, error) { ar, err := e.open(a.lbx); return &opened{a: ar}, err },
			func(o *opened, i int) error { return errors.Join(o.open(files), read(o, i)) }, (*opened).close)},
		Contender{Name: "lockbox: the same ranges again", Run: repeated(batch, warm, read, (*opened).close)})
	if err != nil {
		return err
	}
	for i := range sets {
		if i != 1 {
			sets[i].Compared(&sets[1], true)
		}
	}
	sets[0].WithGoal(goal)
	withBytes(sets, 12*window)
	e.add(sets...)
	if text {
		return nil
	}
	return e.secondReader(a)
}

// compareRanges compares the bytes of every range that is timed.
func (e *env) compareRanges(name string, p *protection, files []File, n int, size int64) error {
	o, err := e.openAll(name, p, files)
	if err != nil {
		return err
	}
	buf, c := make([]byte, window), newChecker(files)
	for i := range n {
		for k, f := range o.files {
			for _, off := range offsets(i, size) {
				if err := errors.Join(readFull(f, buf, off), c.at(&files[k], buf, off)); err != nil {
					return errors.Join(err, o.close())
				}
			}
		}
	}
	return o.close()
}

// storedRanges reads ranges of stored files straight from the archive, which verifies nothing.
func storedRanges(files []*zip.File, raw io.ReaderAt, p []byte, size int64) (func(i int) error, error) {
	var starts []int64
	for _, f := range files {
		s, err := f.DataOffset()
		if err != nil {
			return nil, err
		}
		starts = append(starts, s)
	}
	return func(i int) error {
		at := offsets(i, size)
		for _, s := range starts {
			for _, off := range at {
				if err := readFull(raw, p, s+off); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// inflateRanges reads ascending ranges of each file in one pass.
func inflateRanges(files []*zip.File, at [3]int64, p []byte) error {
	for _, f := range files {
		r, err := f.Open()
		if err != nil {
			return err
		}
		pos := int64(0)
		for _, off := range at {
			if _, err := io.CopyN(io.Discard, r, off-pos); err != nil {
				return errors.Join(err, r.Close())
			}
			if _, err := io.ReadFull(r, p); err != nil {
				return errors.Join(err, r.Close())
			}
			pos = off + int64(len(p))
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}

// secondReader counts what a second read of a verified raw block costs, under both policies of trust.
func (e *env) secondReader(a *archives) error {
	every, _, err := e.readTwice(a, store.EveryRead)
	if err != nil {
		return err
	}
	// No handle trusts a file that has just been changed.
	select {
	case <-e.ctx.Done():
		return e.ctx.Err()
	case <-time.After(trustAge):
	}
	earned, o, err := e.readTwice(a, store.Earned)
	if err != nil {
		return err
	}
	defer o.close()
	again := o.files[0]
	v := e.figure("blocks verified for a second reader, every read", fmt.Sprint(every), float64(every), "")
	w := e.figure("blocks verified for a second reader, earned trust", fmt.Sprint(earned), float64(earned), "")
	w.MustBeZero()
	p, big := make([]byte, window), make([]byte, mib)
	small, err := allocations(func() error { return readFull(again, p, 0) })
	if err != nil {
		return err
	}
	large, err := allocations(func() error { return readFull(again, big, 0) })
	if err != nil {
		return err
	}
	s := e.figure("allocations of a read of 8 KiB", fmt.Sprint(small), small, "")
	l := e.figure("allocations of a read of 1 MiB", fmt.Sprint(large), large, "")
	l.WithGoal(max(small, 1))
	e.add(v, w, s, l)
	return nil
}

// trustAge is a little more than the age from which on a handle trusts the times of a file.
const trustAge = 2500 * time.Millisecond

// readTwice reads a range, opens its file again, and returns how many blocks are verified for the same range then. With
// earned trust the handle stays open for the caller.
func (e *env) readTwice(a *archives, trust store.Trust) (verified uint64, o *opened, err error) {
	ar, err := store.Open(e.ctx, a.lbx, store.Options{Jobs: 1, Trust: trust})
	if err != nil {
		return 0, nil, err
	}
	o = &opened{a: ar}
	defer func() {
		if err != nil || trust != store.Earned {
			err = errors.Join(err, o.close())
		}
	}()
	p := make([]byte, window)
	var before uint64
	for range 2 {
		o.files = nil
		if err := o.open(a.files[:1]); err != nil {
			return 0, o, err
		}
		before = ar.Counters().BlocksVerified
		if err := readFull(o.files[0], p, 100_000); err != nil {
			return 0, o, err
		}
	}
	return ar.Counters().BlocksVerified - before, o, nil
}
