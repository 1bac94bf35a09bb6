package bench

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lockbox/internal/frames"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// changes are small changes of archives that hold much already, and archives that were changed again and again.
func changes() []workload {
	few := func(e *env) (iter.Seq[File], string, error) {
		files, err := e.files(2000, kib, true)
		if err != nil {
			return nil, "", err
		}
		return slices.Values(files), files[0].Name, nil
	}
	many := func(*env) (iter.Seq[File], string, error) { return tiny(200_000), tinyName(123_456), nil }
	large := func(*env) (iter.Seq[File], string, error) {
		return slices.Values(append(each(16, 64*mib, nil), Raw("one", kib, 77))), "one", nil
	}
	one := func(fixture func(*env) (iter.Seq[File], string, error), deflate bool) func(*env) error {
		return func(e *env) error { return e.changeOne(fixture, deflate) }
	}
	return []workload{
		{"changes", "one 1 KiB file in 2,000 entries", false, 16 * mib, one(few, true)},
		{"changes", "one 1 KiB file in 200,000 entries", true, 160 * mib, one(many, false)},
		{"changes", "one 1 KiB file in 1 GiB", true, 3300 * mib, one(large, false)},
		{"changes", "50 one-byte replacements of one 1 MiB file", false, 16 * mib, (*env).replacements},
		{"changes", "1,000 single adds of 1 KiB files", false, 16 * mib, (*env).singleAdds},
	}
}

// changeOne adds, replaces and removes one file, and counts what that costs. ZIP does it as ZIP programs do: all
// other entries are copied, compressed as they are, into a new file. The two libraries copy alike.
func (e *env) changeOne(fixture func(*env) (iter.Seq[File], string, error), deflate bool) (err error) {
	files, old, err := fixture(e)
	if err != nil {
		return err
	}
	lbx, zipped := filepath.Join(e.dir, "change.lbx"), filepath.Join(e.dir, "change.zip")
	defer func() { err = errors.Join(err, os.RemoveAll(lbx), os.RemoveAll(zipped), os.RemoveAll(zipped+".new")) }()
	if err := WriteLockbox(e.ctx, lbx, e.Jobs, files); err != nil {
		return err
	}
	if err := WriteZip(e.ctx, zipped, files, deflate); err != nil {
		return err
	}
	if err := e.settle(lbx, zipped); err != nil {
		return err
	}
	n := 0
	fresh := func() File {
		n++
		f := Raw(fmt.Sprintf("added%05d", n), kib, uint64(1_000_000+n))
		return f.Load()
	}
	again := func() File { f := fresh(); f.Name = old; return f }
	var f File
	add := func(make func() File) []Contender {
		prepare := func() error { f = make(); return nil }
		return []Contender{
			{Name: "lockbox", Prepare: prepare, Run: timed(func() error { return e.putOne(lbx, nil, f) })},
			{Name: stdZip, Prepare: prepare, Run: timed(func() error { return rewriteZip(e.ctx, zipped, f.Name, &f) })},
		}
	}
	removal := add(fresh)
	removal[0].Prepare = func() error { f = fresh(); return e.putOne(lbx, nil, f) }
	removal[0].Run = timed(func() error { return e.dropOne(lbx, f.Name) })
	removal[1].Run = timed(func() error { return rewriteZip(e.ctx, zipped, old, nil) })
	for _, c := range []struct {
		verb string
		cs   []Contender
	}{{"add", add(fresh)}, {"replace", add(again)}, {"remove", removal}} {
		if err := e.verb(c.verb, c.cs, []string{lbx, zipped}); err != nil {
			return err
		}
	}
	if err := e.countAdd(lbx); err != nil {
		return err
	}
	if err := e.countRemove(lbx); err != nil {
		return err
	}
	return e.compareChanged(lbx, zipped)
}

func (e *env) verb(verb string, cs []Contender, cold []string) error {
	for i := range cs {
		cs[i].Name += ": " + verb
	}
	sets, err := e.take(e.samples, cold, cs...)
	if err != nil {
		return err
	}
	sets[0].Compared(&sets[1], true)
	withBytes(sets, kib)
	e.add(sets...)
	return nil
}

// putOne adds or replaces one file and closes the archive, so that all three syncs and the wiping are in.
func (e *env) putOne(name string, p *protection, f File) error {
	a, err := store.OpenWrite(e.ctx, name, p.options(1))
	if err != nil {
		return err
	}
	return errors.Join(change(e.ctx, a, func(tx *store.Tx) error { return addFiles(e.ctx, tx, slices.Values([]File{f})) }), a.Close())
}

func (e *env) dropOne(name, stored string) error {
	a, err := store.OpenWrite(e.ctx, name, store.Options{Jobs: 1})
	if err != nil {
		return err
	}
	return errors.Join(change(e.ctx, a, removing(stored)), a.Close())
}

func removing(stored string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		p, err := pathsafe.Parse(stored)
		if err != nil {
			return err
		}
		return tx.Remove(p)
	}
}

// rewriteZip makes a ZIP archive anew, beside the old one, with one file added, replaced or, when f is nil, removed.
func rewriteZip(ctx context.Context, name, changed string, f *File) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	err = writeFile(name+".new", func(out io.Writer) error {
		w := zip.NewWriter(out)
		for _, old := range z.File {
			if old.Name == changed {
				continue
			}
			if err := errors.Join(w.Copy(old), ctx.Err()); err != nil {
				return err
			}
		}
		if f != nil {
			e, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
			if err == nil {
				err = fill(ctx, e, f)
			}
			if err != nil {
				return err
			}
		}
		return w.Close()
	})
	return errors.Join(err, z.Close())
}

// countAdd counts what adding one file writes and syncs.
func (e *env) countAdd(name string) error {
	o, err := openCounting(e.ctx, name)
	if err != nil {
		return err
	}
	start := o.counts.Snapshot()
	f := Raw("counted", kib, 424242)
	if err := change(e.ctx, o.a, func(tx *store.Tx) error { return addFiles(e.ctx, tx, slices.Values([]File{f})) }); err != nil {
		return errors.Join(err, o.a.Close())
	}
	committed := o.counts.Snapshot()
	if err := o.a.Close(); err != nil {
		return err
	}
	end := o.counts.Snapshot()
	figure := func(what string, n int64, goal float64) {
		s := e.figure("add: "+what, fmt.Sprint(n), float64(n), "syncs")
		s.WithGoal(goal)
		e.add(s)
	}
	figure("syncs to the acknowledgement", committed.Sub(start).Syncs, 2)
	figure("syncs at close", end.Sub(committed).Syncs, 1)
	written := float64(end.Sub(start).BytesWritten) / kib
	s := e.figure("add: written", fmt.Sprintf("%.1f KiB", written), written, "KiB")
	s.WithGoal(256)
	s.Counters = counted(o.a.Counters())
	e.add(s)
	return nil
}

// countRemove removes the file that countAdd has added, and counts the same, wiping included.
func (e *env) countRemove(name string) error {
	o, err := openCounting(e.ctx, name)
	if err != nil {
		return err
	}
	start, begin := o.counts.Snapshot(), time.Now()
	if err := errors.Join(change(e.ctx, o.a, removing("counted")), o.a.Close()); err != nil {
		return err
	}
	took, done := msSince(begin), o.counts.Snapshot().Sub(start)
	s := e.figure("remove: syncs, wiping and close included", fmt.Sprint(done.Syncs), float64(done.Syncs), "syncs")
	s.WithGoal(9)
	written := float64(done.BytesWritten) / kib
	b := e.figure("remove: written, wiping included", fmt.Sprintf("%.1f KiB in %.1f ms", written, took), written, "KiB")
	b.Counters = counted(o.a.Counters())
	e.add(s, b)
	return nil
}

// compareChanged adds one more file to both archives and compares its bytes.
func (e *env) compareChanged(lbx, zipped string) (err error) {
	f := Raw("last", kib, 31337)
	if err := errors.Join(e.putOne(lbx, nil, f), rewriteZip(e.ctx, zipped, f.Name, &f)); err != nil {
		return err
	}
	a, err := e.open(lbx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	z, err := zip.OpenReader(zipped + ".new")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	got, want, buf := make([]byte, kib), f.Load().base, new(bytes.Buffer)
	if err := errors.Join(findLockbox(a, f.Name, got), std().read(z, f.Name, buf)); err != nil {
		return err
	}
	if !bytes.Equal(got, want) || !bytes.Equal(buf.Bytes(), want) {
		return fmt.Errorf("%s: other bytes than the fixture's", f.Name)
	}
	return nil
}

func (e *env) replacements() error {
	f := Raw("", mib, 31)
	base := f.Load().base
	var versions []File
	for i := range 50 {
		v := slices.Clone(base)
		v[i*1000]++
		versions = append(versions, Bytes("changed.bin", v))
	}
	return e.grown(versions, versions[49:], 0) // its goal is for after compact
}

func (e *env) singleAdds() error {
	files, err := e.files(1000, kib, true)
	if err != nil {
		return err
	}
	return e.grown(files, files, 2)
}

// grown commits files one by one and compares the archive's size, before and after compact, with one that was made at
// once.
func (e *env) grown(steps, last []File, goal float64) (err error) {
	grown, fresh := filepath.Join(e.dir, "grown.lbx"), filepath.Join(e.dir, "fresh.lbx")
	defer func() { err = errors.Join(err, os.RemoveAll(grown), os.RemoveAll(fresh)) }()
	a, err := store.Create(e.ctx, grown, store.Options{}, store.CreateOptions{Level: frames.LevelDefault})
	if err != nil {
		return err
	}
	if err := errors.Join(change(e.ctx, a, func(tx *store.Tx) error { return addFiles(e.ctx, tx, slices.Values(steps[:1])) }), a.Close()); err != nil {
		return err
	}
	for _, f := range steps[1:] {
		if err := e.putOne(grown, nil, f); err != nil {
			return err
		}
	}
	if err := WriteLockbox(e.ctx, fresh, 1, slices.Values(last)); err != nil {
		return err
	}
	once, err := fileSize(fresh)
	if err != nil {
		return err
	}
	before, err := fileSize(grown)
	if err != nil {
		return err
	}
	if a, err = store.OpenWrite(e.ctx, grown, store.Options{}); err != nil {
		return err
	}
	sum, err := a.Compact(e.ctx, store.CompactOptions{})
	if err = errors.Join(err, a.Close()); err != nil {
		return err
	}
	c := newChecker(last)
	if err := streamLockbox(e.ctx, grown, reading{jobs: 1, w: c, check: c}); err != nil {
		return err
	}
	kb := func(n int64) string {
		return fmt.Sprintf("%.0f kB, made at once %.0f kB", float64(n)/1e3, float64(once)/1e3)
	}
	size := e.figure("size by one made at once, without compact", kb(before), float64(before)/float64(once), "")
	size.WithGoal(goal)
	// 64 KiB more are allowed, so that a small archive is not judged by its smallest parts.
	compacted := e.figure("size by one made at once, compacted, less 64 KiB", kb(sum.After), float64(max(sum.After-64*kib, 0))/float64(once), "")
	compacted.WithGoal(1.05)
	size.Archive, compacted.Archive = before, sum.After
	e.add(size, compacted)
	return nil
}
