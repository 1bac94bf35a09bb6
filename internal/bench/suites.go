package bench

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/store"
)

// unprotected is the contender that protected archives are compared with. It makes no row of its own.
const unprotected = "unprotected"

// suites are what signing and encryption cost, with one worker on one CPU: the same work in archives of all suites.
func suites() []workload {
	var ws []workload
	shape := func(verb string, need int64, count int, size int64, text bool, run func(*env, []File) error) {
		kind := "raw"
		if text {
			kind = "text"
		}
		name := fmt.Sprintf("%d × %d KiB %s", count, size/kib, kind)
		if size >= mib {
			name = fmt.Sprintf("%d × %d MiB %s", count, size/mib, kind)
		}
		ws = append(ws, workload{"suites", verb + name, false, need, func(e *env) (err error) {
			files, err := e.files(count, size, text)
			if err != nil {
				return err
			}
			return run(e, files)
		}})
	}
	rated := func(e *env, files []File) error { return e.suiteStreams(files, true) }
	stream := func(e *env, files []File) error { return e.suiteStreams(files, false) }
	shape("", 160*mib, 4, 8*mib, false, rated)
	shape("", 80*mib, 4, 8*mib, true, stream)
	shape("in bulk, ", 16*mib, 512, 4*kib, false, (*env).suiteBulk)
	shape("in bulk, ", 16*mib, 512, 4*kib, true, (*env).suiteBulk)
	shape("making ", 160*mib, 4, 8*mib, false, (*env).suiteWrites)
	shape("making ", 80*mib, 4, 8*mib, true, (*env).suiteWrites)
	return append(ws,
		workload{"suites", "2,000 entries", false, 16 * mib, (*env).suiteEntries},
		workload{"suites", "12 ranges of 8 KiB in 4 raw files", false, 160 * mib, (*env).suiteRanges},
		workload{"suites", "add one 1 KiB file to 2,000 entries", false, 24 * mib, (*env).suiteAdds},
		workload{"suites", "padding, 2,000 × 1 KiB text", false, 24 * mib, func(e *env) error {
			files, err := e.files(2000, kib, true)
			if err != nil {
				return err
			}
			return e.padded(files)
		}},
		workload{"suites", "padding, 400 mixed files", false, 320 * mib, func(e *env) error {
			t, err := e.words()
			if err != nil {
				return err
			}
			return e.padded(mixed(t))
		}})
}

// withSuites makes archives of all suites, has run use them on one CPU, and removes them.
func (e *env) withSuites(files []File, run func([]variant) error) error {
	vs, err := e.variants()
	if err != nil {
		return err
	}
	return e.with(vs, files, run)
}

func (e *env) with(vs []variant, files []File, run func([]variant) error) (err error) {
	defer func() { err = errors.Join(err, removeAll(vs)) }()
	if err := e.make(vs, files); err != nil {
		return err
	}
	defer oneCPU()()
	return run(vs)
}

// beside compares the sets of protected archives with those of the first one, way by way.
func beside(sets []Set, vs []variant, ways int) {
	for i := range vs {
		for w := range ways {
			s := &sets[i*ways+w]
			s.Archive = vs[i].size
			if i > 0 {
				s.Compared(&sets[w], false)
			}
		}
	}
}

// suiteStreams reads whole archives file after file, if rated in turn with the primitives.
func (e *env) suiteStreams(files []File, rated bool) error {
	return e.withSuites(files, func(vs []variant) error {
		var s sink
		counters := make([]store.Counters, len(vs))
		var cs []Contender
		for i, v := range vs {
			cs = append(cs, Contender{Name: v.name, Run: timed(func() error {
				return streamLockbox(e.ctx, v.file, reading{jobs: 1, p: v.p, w: &s, counters: &counters[i]})
			})})
		}
		var rs []rate
		if rated {
			var err error
			if rs, err = rates(vs[0].file, totalSize(files)); err != nil {
				return err
			}
			for _, r := range rs {
				cs = append(cs, r.contender)
			}
		}
		sets, err := e.take(e.samples, filesOf(vs), cs...)
		if err != nil {
			return err
		}
		beside(sets, vs, 1)
		for i := range vs {
			sets[i].Counters = counted(counters[i])
		}
		withBytes(sets, totalSize(files))
		e.add(sets...)
		if rated {
			e.addRates(vs, sets, rs)
		}
		return nil
	})
}

// suiteBulk reads many small files, each frame once.
func (e *env) suiteBulk(files []File) error {
	return e.withSuites(files, func(vs []variant) error {
		var s sink
		var cs []Contender
		for _, v := range vs {
			cs = append(cs, Contender{Name: v.name, Run: timed(func() error {
				return bulkLockbox(e.ctx, v.file, v.p.options(1), nil, func(p store.Piece) error { s.n += int64(len(p.Data)); return p.Err })
			})})
		}
		sets, err := e.take(e.samples, filesOf(vs), cs...)
		if err != nil {
			return err
		}
		beside(sets, vs, 1)
		withBytes(sets, totalSize(files))
		e.add(sets...)
		return nil
	})
}

// suiteWrites makes archives out of memory.
func (e *env) suiteWrites(files []File) error {
	files = loaded(files)
	return e.withSuites(files, func(vs []variant) error {
		var cs []Contender
		for _, v := range vs {
			cs = append(cs, Contender{Name: v.name, Prepare: func() error { return os.RemoveAll(v.file) },
				Run: timed(func() error { return writeProtected(e.ctx, v.file, 1, v.p, slices.Values(files)) })})
		}
		sets, err := e.take(e.samples, nil, cs...)
		if err != nil {
			return err
		}
		beside(sets, vs, 1)
		withBytes(sets, totalSize(files))
		e.add(sets...)
		return nil
	})
}

// suiteEntries opens archives of 2,000 files of 1 KiB and reads one of them.
func (e *env) suiteEntries() error {
	const count = 2000
	files, err := e.files(count, kib, true)
	if err != nil {
		return err
	}
	return e.withSuites(files, func(vs []variant) error {
		pick := func(i int) string { return files[(i*811+77)%count].Name }
		var cs []Contender
		ways := 0
		for _, v := range vs {
			more := e.findLockbox(e.batch(20), v.name, v.file, v.p, pick)
			ways = len(more)
			cs = append(cs, more...)
		}
		sets, err := e.take(2*e.samples, filesOf(vs), cs...)
		if err != nil {
			return err
		}
		beside(sets, vs, ways)
		for i := range sets {
			sets[i].Open = i%ways == 0 && i > 0
		}
		e.add(sets...)
		return nil
	})
}

// suiteRanges reads three windows in each of four files that do not compress.
func (e *env) suiteRanges() error {
	const size = 8 * mib
	files := each(4, size, nil)
	return e.withSuites(files, func(vs []variant) error {
		p := make([]byte, window)
		var cs []Contender
		for _, v := range vs {
			if err := e.compareRanges(v.file, v.p, files, 20, size); err != nil {
				return err
			}
			open := func(int) (*opened, error) { return e.openAll(v.file, v.p, files) }
			cs = append(cs, Contender{Name: v.name + ": files open, nothing cached", Run: repeated(e.batch(20), open,
				func(o *opened, i int) error { return o.readRanges(p, offsets(i, size)) }, (*opened).close)})
		}
		sets, err := e.take(2*e.samples, filesOf(vs), cs...)
		if err != nil {
			return err
		}
		beside(sets, vs, 1)
		withBytes(sets, 12*window)
		e.add(sets...)
		return nil
	})
}

// suiteAdds adds one file, from opening the archive to having closed it.
func (e *env) suiteAdds() error {
	files, err := e.files(2000, kib, true)
	if err != nil {
		return err
	}
	return e.withSuites(files, func(vs []variant) error {
		n := 0
		var f File
		fresh := func() error {
			n++
			f = Raw(fmt.Sprintf("added%05d", n), kib, uint64(1_000_000+n))
			f = f.Load()
			return nil
		}
		var cs []Contender
		for _, v := range vs {
			cs = append(cs, Contender{Name: v.name, Prepare: fresh, Run: timed(func() error { return e.putOne(v.file, v.p, f) })})
		}
		sets, err := e.take(2*e.samples, filesOf(vs), cs...)
		if err != nil {
			return err
		}
		beside(sets, vs, 1)
		withBytes(sets, kib)
		e.add(sets...)
		return nil
	})
}

// padded compares encrypted archives with and without padding: their sizes, and reading them.
func (e *env) padded(files []File) (err error) {
	vs := make([]variant, 0, 3)
	for _, p := range []format.Padding{format.PadNone, format.PadPadme, format.PadPow2} {
		how, err := e.protect(format.SuiteEncrypted, p)
		if err != nil {
			return err
		}
		vs = append(vs, variant{name: fmt.Sprintf("lockbox, %v", p), file: fmt.Sprintf("%s/%v.lbx", e.dir, p), p: how})
	}
	vs[0].name = "without padding"
	defer func() { err = errors.Join(err, removeAll(vs)) }()
	if err := e.make(vs, files); err != nil {
		return err
	}
	for i, v := range vs[1:] {
		s := e.figure("", fmt.Sprintf("%s, without %s", showBytes(v.size), showBytes(vs[0].size)), float64(v.size)/float64(vs[0].size), "")
		s.Contender, s.Archive = vs[1+i].name+": size by the one without", v.size
		e.add(s)
	}
	plain := e.figure("size without padding, by the bytes that are in it", showBytes(vs[0].size), float64(vs[0].size)/float64(totalSize(files)), "")
	plain.Archive = vs[0].size
	e.add(plain)
	defer oneCPU()()
	var s sink
	var cs []Contender
	for _, v := range vs {
		cs = append(cs, Contender{Name: v.name, Run: timed(func() error {
			return streamLockbox(e.ctx, v.file, reading{jobs: 1, p: v.p, w: &s})
		})})
	}
	sets, err := e.take(e.samples, filesOf(vs), cs...)
	if err != nil {
		return err
	}
	for i := range vs[1:] {
		sets[1+i].Contender += ": reading all"
	}
	beside(sets, vs, 1)
	withBytes(sets, totalSize(files))
	e.add(sets...)
	return nil
}
