package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"lockbox/internal/format"
)

// recorded is the contender that is not here: what was measured of it, encrypted and signed, on a machine with two CPUs.
// What its files held was not recorded; these here do not compress.
const recorded = "reVault 0.3.15, as recorded"

// What was recorded, deriving keys excluded. lockbox, encrypted and signed, has to be ten times better, with as many CPUs.
const (
	recordedOpen     = 3 * time.Millisecond    // of 2,000 × 1 KiB
	recordedOpenRead = 5300 * time.Microsecond // one of the files
	recordedBulk     = 540 * time.Millisecond  // 512 × 4 KiB
	recordedMedium   = 155 * time.Millisecond  // 4 × 8 MiB
	recordedLarge    = 2590 * time.Millisecond // 4 × 64 MiB
	recordedRanges   = 115 * time.Millisecond  // three of 8 KiB in each of four files
	recordedAdd      = 5 * time.Second         // one file of 2 MiB to 2,000 small ones; to 13 s
	recordedGrowth   = 7_300_000               // of the archive then: from 2.2 to 9.5 MB
	recordedChanges  = 513_000                 // growth by 50 one-byte replacements: from 18 to 531 KB
	recordedPart     = 0.1
	recordedCPUs     = 2
)

// records are the same shapes in archives that are encrypted and signed.
func records() []workload {
	return []workload{
		{"recorded", "2,000 × 1 KiB", false, 8 * mib, (*env).recordedEntries},
		{"recorded", "512 × 4 KiB, all", false, 8 * mib, func(e *env) error { return e.recordedStream(512, 4*kib, recordedBulk) }},
		{"recorded", "4 × 8 MiB", false, 40 * mib, func(e *env) error { return e.recordedStream(4, 8*mib, recordedMedium) }},
		{"recorded", "4 × 64 MiB", true, 264 * mib, func(e *env) error { return e.recordedStream(4, 64*mib, recordedLarge) }},
		{"recorded", "three 8 KiB ranges in each of 4 files", false, 40 * mib, (*env).recordedRanges},
		{"recorded", "add one 2 MiB file to 2,000 × 1 KiB", false, 40 * mib, (*env).recordedAdd},
		{"recorded", "50 one-byte replacements of one 16 KiB file", false, 8 * mib, (*env).recordedChanges},
	}
}

// withBoth makes an archive that is encrypted and signed, has run use it on two CPUs, and removes it.
func (e *env) withBoth(files []File, run func(*variant) error) (err error) {
	p, err := e.protect(format.SuiteBoth, format.PadNone)
	if err != nil {
		return err
	}
	vs := []variant{{name: "lockbox", file: filepath.Join(e.dir, "both.lbx"), p: p}}
	defer func() { err = errors.Join(err, removeAll(vs)) }()
	if err := e.make(vs, files); err != nil {
		return err
	}
	defer onCPUs(min(recordedCPUs, runtime.NumCPU()))()
	return run(&vs[0])
}

// record compares a set with a recorded time.
func (e *env) record(s *Set, was time.Duration) {
	then := Set{Section: s.Section, Workload: s.Workload, Contender: recorded, Samples: []time.Duration{was}}
	if s.Contender != "lockbox" { // several in one workload
		then.Contender += s.Contender[len("lockbox"):]
	}
	s.Compared(&then, true)
	s.WithGoal(recordedPart)
	e.add(*s, then)
}

func (e *env) recordedEntries() error {
	const count = 2000
	files := each(count, kib, nil)
	return e.withBoth(files, func(v *variant) error {
		pick := func(i int) string { return files[(i*811+77)%count].Name }
		sets, err := e.take(2*e.samples, []string{v.file}, e.findLockbox(e.batch(20), v.name, v.file, v.p, pick)[:2]...)
		if err != nil {
			return err
		}
		sets[0].Archive = v.size
		e.record(&sets[0], recordedOpen)
		e.record(&sets[1], recordedOpenRead)
		return nil
	})
}

func (e *env) recordedStream(count int, size int64, was time.Duration) error {
	files := each(count, size, nil)
	return e.withBoth(files, func(v *variant) error {
		var s sink
		sets, err := e.take(e.samples, []string{v.file}, Contender{Name: v.name, Run: timed(func() error {
			return streamLockbox(e.ctx, v.file, reading{jobs: min(recordedCPUs, e.Jobs), p: v.p, w: &s})
		})})
		if err != nil {
			return err
		}
		sets[0].Archive, sets[0].Bytes = v.size, totalSize(files)
		e.record(&sets[0], was)
		return nil
	})
}

// recordedRanges has opening the archive and its files in the time.
func (e *env) recordedRanges() error {
	const size = 8 * mib
	files := each(4, size, nil)
	return e.withBoth(files, func(v *variant) error {
		if err := e.compareRanges(v.file, v.p, files, 20, size); err != nil {
			return err
		}
		p := make([]byte, window)
		sets, err := e.take(2*e.samples, []string{v.file}, Contender{Name: v.name, Run: whole(e.batch(20), func(i int) error {
			o, err := e.openAll(v.file, v.p, files)
			if err != nil {
				return err
			}
			return errors.Join(o.readRanges(p, offsets(i, size)), o.close())
		})})
		if err != nil {
			return err
		}
		sets[0].Bytes = 12 * window
		e.record(&sets[0], recordedRanges)
		return nil
	})
}

// recordedAdd adds to a fresh copy of the archive each time. The file's own bytes have to go somewhere, so growth is
// told beyond them.
func (e *env) recordedAdd() error {
	const size = 2 * mib
	return e.withBoth(each(2000, kib, nil), func(v *variant) error {
		before, err := os.ReadFile(v.file)
		if err != nil {
			return err
		}
		f := Raw("added", size, 2_000_000)
		f = f.Load()
		sets, err := e.take(e.samples, []string{v.file}, Contender{Name: v.name, Prepare: func() error {
			if err := os.WriteFile(v.file, before, 0o600); err != nil {
				return err
			}
			return e.settle(v.file)
		}, Run: timed(func() error { return e.putOne(v.file, v.p, f) })})
		if err != nil {
			return err
		}
		sets[0].Bytes = size
		if sets[0].Archive, err = fileSize(v.file); err != nil {
			return err
		}
		if err := e.compareOne(v, f); err != nil {
			return err
		}
		e.record(&sets[0], recordedAdd)
		grown := sets[0].Archive - v.size
		e.recordGrowth("growth beyond the file's own bytes", v.size, sets[0].Archive, float64(grown-size)/(recordedGrowth-size), recordedGrowth-size)
		return nil
	})
}

func (e *env) recordedChanges() error {
	f := Raw("changed.bin", 16*kib, 31)
	f = f.Load()
	return e.withBoth([]File{f}, func(v *variant) error {
		begin := time.Now()
		for i := range 50 {
			b := slices.Clone(f.base)
			b[i*300]++
			f = Bytes(f.Name, b)
			if err := e.putOne(v.file, v.p, f); err != nil {
				return err
			}
		}
		took := msSince(begin)
		after, err := fileSize(v.file)
		if err != nil {
			return err
		}
		if err := e.compareOne(v, f); err != nil {
			return err
		}
		e.recordGrowth(fmt.Sprintf("growth, %.0f ms in all", took), v.size, after, float64(after-v.size)/recordedChanges, recordedChanges)
		return nil
	})
}

// recordGrowth tells how much an archive grew by what was recorded.
func (e *env) recordGrowth(what string, before, after int64, part float64, was int64) {
	s := e.figure("growth by that of "+recorded, fmt.Sprintf("%s: %s → %s, recorded %s", what, showBytes(before), showBytes(after), showBytes(was)), part, "")
	s.Archive = after
	s.WithGoal(recordedPart)
	e.add(s)
}

// compareOne compares the bytes of one file of an archive.
func (e *env) compareOne(v *variant, f File) (err error) {
	a, err := e.openProtected(v.file, v.p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	got := make([]byte, f.Size)
	if err := findLockbox(a, f.Name, got); err != nil {
		return err
	}
	c := newChecker([]File{f})
	return c.at(&f, got, 0)
}
