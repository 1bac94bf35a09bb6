package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lockbox/internal/frames"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// writes are making archives out of memory. lockbox's is durable when it is there: its syncs are part of its time.
func writes() []workload {
	var ws []workload
	for _, s := range []struct {
		name  string
		count int
		size  int64
		text  bool
	}{
		{"512 × 4 KiB raw", 512, 4 * kib, false},
		{"512 × 4 KiB text", 512, 4 * kib, true},
		{"4 × 8 MiB raw", 4, 8 * mib, false},
		{"4 × 8 MiB text", 4, 8 * mib, true},
	} {
		ws = append(ws, workload{"writing", s.name, false, 4 * int64(s.count) * s.size, func(e *env) error {
			files, err := e.files(s.count, s.size, s.text)
			if err != nil {
				return err
			}
			return e.create(files, s.text)
		}})
	}
	return append(ws, workload{"writing", "400 mixed files", true, 256 * mib, func(e *env) error {
		t, err := e.words()
		if err != nil {
			return err
		}
		return e.create(mixed(t), true)
	}})
}

func (e *env) create(files []File, deflate bool) (err error) {
	files = loaded(files)
	lbx, zipped := filepath.Join(e.dir, "new.lbx"), filepath.Join(e.dir, "new.zip")
	defer func() { err = errors.Join(err, os.RemoveAll(lbx), os.RemoveAll(zipped)) }()
	clear := func() error { return errors.Join(os.RemoveAll(lbx), os.RemoveAll(zipped)) }
	if err := e.compareCreated(files, lbx, zipped, deflate); err != nil {
		return err
	}
	run := func(name string, write func() error) Contender {
		return Contender{Name: name, Prepare: clear, Run: timed(write)}
	}
	cs := []Contender{
		run("lockbox", func() error { return WriteLockbox(e.ctx, lbx, 1, slices.Values(files)) }),
		run(stdZip, func() error { return WriteZip(e.ctx, zipped, slices.Values(files), deflate) }),
		run(kZip, func() error { return writeKZip(e.ctx, zipped, slices.Values(files), deflate) }),
	}
	restore := oneCPU()
	sets, err := e.take(e.samples, nil, cs...)
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
		name := zipped
		if i == 0 {
			name = lbx
		}
		if sets[i].Archive, err = fileSize(name); err != nil {
			return err
		}
		if err := clear(); err != nil {
			return err
		}
	}
	best := fastest(sets[1:])
	sets[0].Compared(best, true)
	sets[0].SizeRatio = float64(sets[0].Archive) / float64(best.Archive)
	if sets[0].Counters, err = e.countCreate(files, lbx); err != nil {
		return err
	}
	withBytes(sets, totalSize(files))
	e.add(sets...)
	if e.Jobs < 2 || totalSize(files) < 8*mib {
		return nil
	}
	if sets, err = e.take(e.samples, nil,
		run(fmt.Sprintf("lockbox, speed-up by %d workers", e.Jobs), func() error { return WriteLockbox(e.ctx, lbx, e.Jobs, slices.Values(files)) }),
		run("one worker", func() error { return WriteLockbox(e.ctx, lbx, 1, slices.Values(files)) })); err != nil {
		return err
	}
	sets[0].Speedup, sets[0].AtLeast = true, true
	sets[0].Compared(&sets[1], false)
	withBytes(sets, totalSize(files))
	e.add(sets...)
	return nil
}

// compareCreated makes the archives that are timed and compares what they hold.
func (e *env) compareCreated(files []File, lbx, zipped string, deflate bool) error {
	a := &archives{lbx: lbx, zip: zipped, files: files}
	if err := WriteLockbox(e.ctx, lbx, e.Jobs, slices.Values(files)); err != nil {
		return err
	}
	for _, write := range []func() error{
		func() error { return WriteZip(e.ctx, zipped, slices.Values(files), deflate) },
		func() error { return writeKZip(e.ctx, zipped, slices.Values(files), deflate) },
	} {
		if err := errors.Join(os.RemoveAll(zipped), write()); err != nil {
			return err
		}
		if err := a.compareBytes(e.ctx); err != nil {
			return err
		}
	}
	return nil
}

// countCreate returns what making an archive counts.
func (e *env) countCreate(files []File, name string) (map[string]uint64, error) {
	a, err := store.Create(e.ctx, name, store.Options{Jobs: 1}, store.CreateOptions{Level: frames.LevelDefault})
	if err != nil {
		return nil, err
	}
	err = change(e.ctx, a, func(tx *store.Tx) error { return addFiles(e.ctx, tx, slices.Values(files)) })
	err = errors.Join(err, a.Close())
	return counted(a.Counters()), err
}

// opening counts the calls of the file system beside the handle: they are what C2 to C4 promise.
type opening struct {
	a      *store.Archive
	counts *vfs.Counts
}

func openCounting(ctx context.Context, name string) (*opening, error) {
	fs, counts := vfs.Counting(vfs.OS())
	a, err := store.OpenWrite(ctx, name, store.Options{FS: fs})
	return &opening{a, counts}, err
}

// msSince is for figures that are shown, not compared.
func msSince(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1e3 }
