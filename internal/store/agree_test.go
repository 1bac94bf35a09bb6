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

// A pass over an archive that is changed and compacted between its runs finds nothing wrong, ends, and does so again.
// When all has come to rest, damage anywhere in it is found before the second pass from there has ended.
func TestPassOverLivingArchive(t *testing.T) {
	const seed = 7
	w := newWorld(t, 5, Options{Jobs: 1, CacheBytes: 1 << 20})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(seed, 3))
	state, passes, moved := &verify.State{}, 0, 0
	run := func(b []byte, until time.Time) (s verify.Summary, found int) {
		t.Helper()
		s, err := verify.Run(ctx, sized{bytes.NewReader(b)}, verify.Options{Full: true, Jobs: 1, State: state, Until: until, Finding: func(f verify.Finding) { found++ }})
		if err != nil || s.Part == nil || s.Part.Anew != "" {
			t.Fatalf("seed %d: %+v, %v", seed, s, err)
		}
		state = s.Part.State
		if s.Part.Complete() {
			passes++
		}
		return s, found
	}
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	for round := range rounds {
		w.change(func(tx *Tx) {
			w.add(tx, map[string][]byte{fmt.Sprintf("f%d", round%25): randomBytes(r, 1+r.IntN(300_000)), fmt.Sprintf("t%d", round): textBytes(r, 20_000)})
			if old := fmt.Sprintf("t%d", round-30); round >= 30 {
				w.remove(tx, old)
			}
		})
		if round%10 == 9 && w.compact(CompactOptions{}).Moved > 0 {
			moved++
		}
		if s, found := run(w.mem.Bytes(name), time.Unix(1, 0)); found > 0 || !s.Complete {
			t.Fatalf("seed %d, round %d: %+v", seed, round, s)
		}
	}
	if passes < 2 || moved == 0 {
		t.Errorf("%d passes have ended, frames have moved %d times", passes, moved)
	}
	good := w.mem.Bytes(name)
	rest := state
	for range 30 {
		b := bytes.Clone(good)
		b[format.DataStart+r.IntN(len(b)-format.DataStart)] ^= 1
		whole := 0
		sum, err := verify.Run(ctx, sized{bytes.NewReader(b)}, verify.Options{Full: true, Jobs: 1, Finding: func(verify.Finding) { whole++ }})
		if err != nil || !sum.Complete {
			continue // the structure is checked in every run
		}
		state, passes = rest, 0
		told := 0
		for passes < 2 {
			_, found := run(b, time.Unix(1, 0))
			told += found
		}
		if (told > 0) != (whole > 0) {
			t.Fatalf("seed %d: a whole check finds %d places, two passes have found %d", seed, whole, told)
		}
	}
}
