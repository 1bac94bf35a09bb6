package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// unreadable reads every entry through the engine and returns those of which something cannot be read. whole is false
// when entries were not even listed.
func unreadable(t *testing.T, opt Options, want map[string][]byte) (bad map[string]bool, whole bool) {
	t.Helper()
	a, err := Open(ctx, name, opt)
	if err != nil {
		return nil, false
	}
	defer a.Close()
	bad = map[string]bool{}
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			return bad, false
		}
		if e.Kind != index.File {
			continue
		}
		path := e.Path.String()
		f, err := a.Open(&e)
		if err != nil {
			bad[path] = true
			continue
		}
		buf := make([]byte, f.Size())
		if _, err := f.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
			bad[path] = true
		} else if !bytes.Equal(buf, want[path]) {
			t.Fatalf("%s: other bytes", path)
		}
	}
	return bad, true
}

// named checks an archive, in one go or in the runs of a pass, and returns the entries that are named.
func named(t *testing.T, w *world, b []byte, runs bool) (paths map[string]bool, complete bool) {
	t.Helper()
	paths, complete = map[string]bool{}, true
	o := verify.Options{Full: true, Jobs: 1, Unlock: w.opt.Unlock, Signers: w.opt.Signers, Finding: func(f verify.Finding) {
		if f.Path != "" {
			paths[f.Path] = true
		}
	}}
	if runs {
		o.State, o.Until = &verify.State{}, time.Unix(1, 0) // each run reads as little as it may
	}
	for range 1000 {
		s, err := verify.Run(ctx, sized{bytes.NewReader(b)}, o)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return paths, false
		}
		complete = complete && s.Complete
		if !runs || s.Part.Complete() {
			return paths, complete
		}
		o.State = s.Part.State
	}
	t.Fatal("the pass does not end")
	return nil, false
}

// The engine and the check share no code above the layers of frames and trees. Whatever is damaged, both say the same
// entries are, and so do the runs of a pass.
func TestCheckAndEngineAgreeOnDamage(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 12
	}
	const seed = 20
	for _, k := range []combo{{level: frames.LevelDefault}, {level: frames.LevelNone}, {suite: format.SuiteBoth, level: frames.LevelDefault, padding: format.PadPadme}} {
		w := newWorld(t, 5, Options{Jobs: 1, CacheBytes: 1 << 20})
		w.suite = k.suite
		w.create(CreateOptions{Level: k.level, Padding: k.padding})
		r := rand.New(rand.NewPCG(seed, 1))
		for part := range 3 {
			w.change(func(tx *Tx) {
				files := map[string][]byte{fmt.Sprint(part): nil}
				for i := range 40 {
					files[fmt.Sprintf("%d/text%d", part, i)] = textBytes(r, 1+r.IntN(9_000))
					files[fmt.Sprintf("%d/raw%d", part, i)] = randomBytes(r, 1+r.IntN(9_000))
				}
				files[fmt.Sprintf("%d/long", part)] = randomBytes(r, 3<<20)
				w.add(tx, files)
			})
		}
		good := w.mem.Bytes(name)
		damaged, unlisted := 0, 0
		for round := range rounds {
			b := bytes.Clone(good)
			for range 1 + r.IntN(3) {
				b[format.DataStart+r.IntN(len(b)-format.DataStart)] ^= 1 << r.IntN(8)
			}
			mem := vfs.Mem()
			mem.Put(name, b)
			opt := w.opt
			opt.FS = mem
			bad, whole := unreadable(t, opt, w.model)
			for _, runs := range []bool{false, true} {
				paths, complete := named(t, w, b, runs)
				switch {
				case !whole:
					if complete {
						t.Fatalf("%v, seed %d, round %d: the engine cannot list it, the check finds it whole", k, seed, round)
					}
					unlisted++
				case !maps.Equal(bad, paths):
					t.Fatalf("%v, seed %d, round %d, in runs %v: the engine cannot read %q, the check names %q", k, seed, round, runs,
						slices.Sorted(maps.Keys(bad)), slices.Sorted(maps.Keys(paths)))
				}
			}
			damaged += len(bad)
		}
		if damaged == 0 || unlisted == 2*rounds {
			t.Errorf("%v: no round damages an entry", k)
		}
	}
}
