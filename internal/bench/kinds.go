package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"lockbox/internal/format"
	"lockbox/internal/frames"
)

// kinds are all sixteen kinds of archives, of one small mixture of files: that no combination of protection, compression and
// padding costs what its parts do not.
func kinds() []workload {
	return []workload{{"kinds", "256 × 4 KiB and 4 × 256 KiB text", false, 160 * mib, func(e *env) error {
		small, err := e.files(256, 4*kib, true)
		if err != nil {
			return err
		}
		large, err := e.files(4, 256*kib, true)
		if err != nil {
			return err
		}
		for i := range large {
			large[i].Name = fmt.Sprintf("large%d", i)
		}
		return e.sixteen(loaded(append(small, large...)))
	}}}
}

// sixteenKinds are these archives, not made yet. The first of each eight has neither protection nor padding.
func (e *env) sixteenKinds() (vs []variant, err error) {
	for _, c := range []struct {
		name  string
		level frames.Level
	}{{"compressed", frames.LevelDefault}, {"stored", frames.LevelNone}} {
		for _, pad := range []format.Padding{format.PadNone, format.PadPadme} {
			for _, s := range []struct {
				name  string
				suite format.Suite
			}{{unprotected, format.SuiteNone}, {"signed", format.SuiteSigned}, {"encrypted", format.SuiteEncrypted}, {"encrypted and signed", format.SuiteBoth}} {
				p, err := e.protect(s.suite, pad)
				if err != nil {
					return nil, err
				}
				p.level = c.level
				v := variant{name: s.name + ", " + c.name, p: p}
				if pad != format.PadNone {
					v.name += ", padded"
				}
				v.file = filepath.Join(e.dir, fmt.Sprintf("kind%02d.lbx", len(vs)))
				vs = append(vs, v)
			}
		}
	}
	return vs, nil
}

// sixteen makes and reads all of them, in turn, and compares each with the one of its compression that has nothing else.
func (e *env) sixteen(files []File) error {
	vs, err := e.sixteenKinds()
	if err != nil {
		return err
	}
	return e.with(vs, files, func(vs []variant) error {
		var s sink
		var read, made []Contender
		for i, v := range vs {
			name := "lockbox, %s " + v.name
			if i%8 == 0 {
				name = v.name + ": %s"
			}
			read = append(read, Contender{Name: fmt.Sprintf(name, "reading"), Run: timed(func() error {
				return streamLockbox(e.ctx, v.file, reading{jobs: 1, p: v.p, w: &s})
			})})
			made = append(made, Contender{Name: fmt.Sprintf(name, "making"), Prepare: func() error { return os.RemoveAll(v.file) },
				Run: timed(func() error { return writeProtected(e.ctx, v.file, 1, v.p, slices.Values(files)) })})
		}
		for _, cs := range [][]Contender{read, made} {
			sets, err := e.take(e.samples, filesOf(vs), cs...)
			if err != nil {
				return err
			}
			beside(sets[:8], vs[:8], 1)
			beside(sets[8:], vs[8:], 1)
			withBytes(sets, totalSize(files))
			e.add(sets...)
		}
		return nil
	})
}
