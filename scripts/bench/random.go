package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

const window = 8 * kib

// random measures reading a little out of much.
func (b *bench) random() error {
	cpus := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(cpus)
	for _, text := range []bool{false, true} {
		name, goal := "three 8 KiB ranges in each of four raw 8 MiB files", 1.5
		if text {
			name, goal = "three 8 KiB ranges in each of four text 8 MiB files", 0.02
		}
		if b.wanted(2, name) {
			if err := b.ranges(name, text, goal); err != nil {
				return err
			}
		}
	}
	if b.wanted(2, "2,000 × 1 KiB") {
		if err := b.small(); err != nil {
			return err
		}
	}
	if b.wanted(2, "19.5 MB through 8 KiB windows") {
		if err := b.windows(); err != nil {
			return err
		}
	}
	return nil
}

// opened is a fresh handle with some of its files open.
type opened struct {
	a     *store.Archive
	files []*store.File
}

func (o *opened) close() error { return o.a.Close() }

func (b *bench) openAll(name string, files []file) (*opened, error) {
	a, err := store.Open(b.ctx, name, store.Options{Jobs: 1})
	if err != nil {
		return nil, err
	}
	o := &opened{a: a}
	for i := range files {
		f, err := openOne(a, files[i].name)
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		o.files = append(o.files, f)
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

func readFull(f *store.File, p []byte, off int64) error {
	if n, err := f.ReadAt(p, off); n < len(p) {
		return err
	}
	return nil
}

// offsets are three ascending, unaligned places a window apart or more, other ones for each i.
func offsets(i, size int) (o [3]int64) {
	g := rand.New(rand.NewPCG(uint64(i), 99))
	for k := range o {
		part := (size - window) / len(o)
		o[k] = int64(k*part + g.IntN(part-window))
	}
	return o
}

func (b *bench) ranges(name string, text bool, goal float64) (err error) {
	const size, batch = 8 * mib, 20
	files, err := b.files(4, size, text)
	if err != nil {
		return err
	}
	a, err := b.build("ranges", files, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()
	p := make([]byte, window)

	// The bytes first.
	o, err := b.openAll(a.lbx, files)
	if err != nil {
		return err
	}
	for i := range batch {
		for k, f := range o.files {
			for _, off := range offsets(i, size) {
				if err := readFull(f, p, off); err != nil {
					return err
				}
				if !bytes.Equal(p, files[k].data[off:][:window]) {
					return fmt.Errorf("%s: other bytes at %d", files[k].name, off)
				}
			}
		}
	}
	if err := o.close(); err != nil {
		return err
	}

	read := func(o *opened, i int) error {
		at := offsets(i, size)
		for _, f := range o.files {
			for _, off := range at {
				if err := readFull(f, p, off); err != nil {
					return err
				}
			}
		}
		return nil
	}
	open := func(int) (*opened, error) { return b.openAll(a.lbx, files) }
	warm := func(i int) (*opened, error) {
		o, err := open(i)
		if err != nil {
			return nil, err
		}
		return o, read(o, i)
	}
	none := func(int) (struct{}, error) { return struct{}{}, nil }
	raw, err := os.Open(a.zip)
	if err != nil {
		return err
	}
	defer raw.Close()
	z, err := zip.OpenReader(a.zip)
	if err != nil {
		return err
	}
	defer z.Close()
	var zipRead func(struct{}, int) error
	if text {
		zipRead = func(_ struct{}, i int) error { return inflateRanges(z, offsets(i, size), p) }
	} else {
		var starts []int64
		for _, f := range z.File {
			s, err := f.DataOffset()
			if err != nil {
				return err
			}
			starts = append(starts, s)
		}
		zipRead = func(_ struct{}, i int) error {
			at := offsets(i, size)
			for _, s := range starts {
				for _, off := range at {
					if _, err := raw.ReadAt(p, s+off); err != nil {
						return err
					}
				}
			}
			return nil
		}
	}
	zipBatch := batch
	if text {
		zipBatch = 1
	}
	stats, err := b.compare(2*b.samples,
		contender{name: "lockbox", run: repeated(batch, open, read, (*opened).close)},
		contender{name: "archive/zip", run: repeated(zipBatch, none, zipRead, func(struct{}) error { return nil })},
		contender{name: "lockbox, warm", run: repeated(batch, warm, read, (*opened).close)},
		contender{name: "lockbox, opening", run: repeated(batch,
			func(int) (*store.Archive, error) { return store.Open(b.ctx, a.lbx, store.Options{Jobs: 1}) },
			func(ar *store.Archive, i int) error {
				o := &opened{a: ar}
				for k := range files {
					f, err := openOne(ar, files[k].name)
					if err != nil {
						return err
					}
					o.files = append(o.files, f)
				}
				return read(o, i)
			}, (*store.Archive).Close)})
	if err != nil {
		return err
	}
	b.report.ratio(2, name+"; files open, nothing cached", stats[0], stats[1], goal)
	b.report.ratio(2, name+"; opening the four files included", stats[3], stats[1], 0)
	b.report.ratio(2, name+"; the same ranges again", stats[2], stats[1], 0)
	if text {
		return nil
	}
	return b.secondReader(a, files, p)
}

// secondReader shows what a second read of a verified raw block costs: no tag is computed.
func (b *bench) secondReader(a *archives, files []file, p []byte) error {
	o, err := b.openAll(a.lbx, files)
	if err != nil {
		return err
	}
	defer o.close()
	if err := readFull(o.files[0], p, 100_000); err != nil {
		return err
	}
	again, err := openOne(o.a, files[0].name)
	if err != nil {
		return err
	}
	before := o.a.Counters()
	if err := readFull(again, p, 100_000); err != nil {
		return err
	}
	verified := o.a.Counters().BlocksVerified - before.BlocksVerified
	b.report.zero(2, "second reader of a verified raw block: blocks verified", verified)
	big := make([]byte, mib)
	var failed error
	allocs := func(p []byte) float64 {
		return testing.AllocsPerRun(20, func() {
			if err := readFull(again, p, 0); err != nil {
				failed = err
			}
		})
	}
	small, large := allocs(p), allocs(big)
	b.report.figure(2, "allocations of a read of 8 KiB", fmt.Sprint(small), small, "", 0)
	b.report.figure(2, "allocations of a read of 1 MiB", fmt.Sprint(large), large, "", max(small, 1))
	return failed
}

// inflateRanges reads ascending ranges of each file in one pass.
func inflateRanges(z *zip.ReadCloser, at [3]int64, p []byte) error {
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return err
		}
		pos := int64(0)
		for _, off := range at {
			if _, err := io.CopyN(io.Discard, r, off-pos); err != nil {
				return err
			}
			if _, err := io.ReadFull(r, p); err != nil {
				return err
			}
			pos = off + int64(len(p))
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}

// findZip finds one file by its name and reads it.
func findZip(z *zip.ReadCloser, name string, p *bytes.Buffer) error {
	for _, f := range z.File {
		if f.Name != name {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		p.Reset()
		_, err = p.ReadFrom(r)
		return errors.Join(err, r.Close())
	}
	return fmt.Errorf("no %s", name)
}

func findLockbox(a *store.Archive, name string, p []byte) error {
	f, err := openOne(a, name)
	if err != nil {
		return err
	}
	return readFull(f, p[:f.Size()], 0)
}

func (b *bench) small() (err error) {
	const count, batch = 2000, 20
	files, err := b.files(count, kib, true)
	if err != nil {
		return err
	}
	a, err := b.build("small", files, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.remove()) }()
	p, buf := make([]byte, kib), new(bytes.Buffer)
	pick := func(i int) string { return files[(i*811+77)%count].name }

	openLbx := func(int) (*store.Archive, error) { return store.Open(b.ctx, a.lbx, store.Options{Jobs: 1}) }
	openZip := func(int) (*zip.ReadCloser, error) { return zip.OpenReader(a.zip) }
	closeZip := func(z *zip.ReadCloser) error { return z.Close() }
	none := func(int) (struct{}, error) { return struct{}{}, nil }
	noTear := func(struct{}) error { return nil }
	both := func(read bool) (contender, contender) {
		return contender{name: "lockbox", run: repeated(batch, none, func(_ struct{}, i int) error {
				ar, err := openLbx(i)
				if err != nil {
					return err
				}
				if read {
					err = findLockbox(ar, pick(i), p)
				}
				return errors.Join(err, ar.Close())
			}, noTear)},
			contender{name: "archive/zip", run: repeated(batch, none, func(_ struct{}, i int) error {
				z, err := openZip(i)
				if err != nil {
					return err
				}
				if read {
					err = findZip(z, pick(i), buf)
				}
				return errors.Join(err, z.Close())
			}, noTear)}
	}
	l1, z1 := both(false)
	l2, z2 := both(true)
	stats, err := b.compare(2*b.samples, l1, z1, l2, z2,
		contender{name: "lockbox", run: repeated(batch, openLbx, func(ar *store.Archive, i int) error { return findLockbox(ar, pick(i), p) }, (*store.Archive).Close)},
		contender{name: "archive/zip", run: repeated(batch, openZip, func(z *zip.ReadCloser, i int) error { return findZip(z, pick(i), buf) }, closeZip)})
	if err != nil {
		return err
	}
	b.report.ratio(2, "2,000 × 1 KiB: open and close", stats[0], stats[1], 0.05)
	b.report.ratio(2, "2,000 × 1 KiB: open and read one", stats[2], stats[3], 0.2)
	b.report.ratio(2, "2,000 × 1 KiB: read one, cold, open excluded", stats[4], stats[5], 2.5)
	if b.quick || !b.wanted(2, "1,000,000 entries") {
		return nil
	}
	return b.million(l1, l2)
}

// million makes an archive of a million entries and compares it with the small one, whose contenders it is given.
func (b *bench) million(openSmall, readSmall contender) (err error) {
	const count, batch = 1_000_000, 20
	name := filepath.Join(b.tmp, "million.lbx")
	begin := time.Now()
	if err := b.makeMillion(name, count); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	took := time.Since(begin)
	b.report.figure(2, "1,000,000 entries: make the archive", duration(took), took.Seconds(), "s", 30)

	a, err := store.Open(b.ctx, name, store.Options{Jobs: 1})
	if err != nil {
		return err
	}
	info, err := a.Info()
	if err != nil {
		return errors.Join(err, a.Close())
	}
	if info.Entries != count {
		return errors.Join(fmt.Errorf("%d entries instead of %d", info.Entries, count), a.Close())
	}
	atOpen := a.Counters().NodesDecoded
	e, err := a.Get(mustParse(millionName(count / 2)))
	if err != nil {
		return errors.Join(err, a.Close())
	}
	lookup := a.Counters().NodesDecoded
	if err := errors.Join(readOne(a, &e), a.Close()); err != nil {
		return err
	}
	b.report.zero(2, "1,000,000 entries: nodes decoded by opening", atOpen)
	b.report.figure(2, "1,000,000 entries: nodes decoded by a lookup, height of the entries tree as the goal", fmt.Sprint(lookup-atOpen), float64(lookup-atOpen), "nodes", float64(info.Heights[index.Entries-1]))

	run := func(read bool) contender {
		return contender{name: "1,000,000 entries", run: repeated(batch, func(int) (struct{}, error) { return struct{}{}, nil },
			func(_ struct{}, i int) error {
				a, err := store.Open(b.ctx, name, store.Options{Jobs: 1})
				if err == nil && read {
					err = findLockbox(a, millionName((i*48611+5)%count), make([]byte, kib))
				}
				if a != nil {
					err = errors.Join(err, a.Close())
				}
				return err
			}, func(struct{}) error { return nil })}
	}
	openSmall.name, readSmall.name = "2,000 entries", "2,000 entries"
	stats, err := b.compare(2*b.samples, run(false), openSmall, run(true), readSmall)
	if err != nil {
		return err
	}
	b.report.ratio(2, "1,000,000 entries: open and close", stats[0], stats[1], 3)
	b.report.ratio(2, "1,000,000 entries: open and read one", stats[2], stats[3], 3)
	return nil
}

func millionName(i int) string { return fmt.Sprintf("group%04d/file%07d", i/1000, i) }

func mustParse(s string) pathsafe.Path {
	p, err := pathsafe.Parse(s)
	if err != nil {
		panic(err) // names that this program has made
	}
	return p
}

func readOne(a *store.Archive, e *index.Entry) error {
	f, err := a.Open(e)
	if err != nil {
		return err
	}
	return readFull(f, make([]byte, f.Size()), 0)
}

func (b *bench) makeMillion(name string, count int) error {
	return writeLockbox(b.ctx, name, func(yield func(file) bool) {
		for i := range count {
			if !yield(file{millionName(i), fmt.Appendf(nil, "content of file %d\n", i)}) {
				return
			}
		}
	})
}
