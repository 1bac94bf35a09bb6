package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// state is what an archive holds: a version for each name.
type state map[string]uint64

func sameState(a, b state) bool { return maps.Equal(a, b) }

// madeArchive is an archive that one command makes.
type madeArchive struct {
	name  string
	state state
}

// moment counts what was begun and what was acknowledged.
type moment struct {
	begun, done, madeBegun, madeDone int
	read                             uint64 // the highest generation that a reader has reported
}

// workload changes an archive by one command after the other, and knows what each leads to.
type workload struct {
	r         *run
	dir       string // where the archive is
	src, last string
	rng       *rand.Rand

	mu      sync.Mutex
	states  []state // state 0 and that after each command begun
	made    []madeArchive
	now     moment
	version uint64
	wg      sync.WaitGroup
	quit    chan struct{}
	err     error

	cuts, acked, flight, commands int
}

func newWorkload(r *run, dir string, rng *rand.Rand) (*workload, error) {
	w := &workload{r: r, dir: dir, src: filepath.Join(dir, "..", filepath.Base(dir)+"-src"), last: filepath.Join(r.dir, "last"), rng: rng}
	// A first archive, so that there is always one to look at.
	v, err := w.source("f0")
	if err != nil {
		return nil, err
	}
	w.states = []state{{"f0": v}}
	return w, r.must("add", filepath.Join(dir, target), "-C", w.src, "f0")
}

// source writes a new version of a file to be added.
func (w *workload) source(name string) (uint64, error) {
	w.version++
	size := w.rng.IntN(2000)
	if w.rng.IntN(3) == 0 {
		size = w.rng.IntN(120 << 10)
	}
	err := errors.Join(os.MkdirAll(w.src, 0o755), os.WriteFile(filepath.Join(w.src, name), versioned("", w.version, size), 0o644))
	return w.version, err
}

// start begins to run commands, and to push pages of the archive to the device at moments the commands know nothing of.
func (w *workload) start() {
	w.quit, w.err = make(chan struct{}), nil
	quit := w.quit
	seed := w.rng.Uint64()
	w.wg.Go(func() {
		for !closed(quit) {
			if err := w.step(); err != nil {
				w.mu.Lock()
				w.err = err
				w.mu.Unlock()
				return
			}
		}
	})
	w.wg.Go(func() {
		for !closed(quit) {
			// After a cut it fails, and while the archive's readers wait for a publication it is late.
			if g, err := w.r.generation(filepath.Join(w.dir, target)); err == nil {
				w.mu.Lock()
				w.now.read = max(w.now.read, g)
				w.mu.Unlock()
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	w.wg.Go(func() { pushPages(filepath.Join(w.dir, target), rand.New(rand.NewPCG(seed, 1)), quit) })
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const writeBackNow = 1 | 2 | 4 // SYNC_FILE_RANGE: wait before, write, wait after

// pushFront writes back the pages that hold an archive's superblocks.
func pushFront(path string) {
	f, err := os.Open(path)
	if err != nil {
		return // it has no name yet
	}
	defer f.Close()
	_ = syscall.SyncFileRange(int(f.Fd()), 0, 16<<10, writeBackNow)
}

// pushPages writes back random pages of a file, as a system short of memory does.
func pushPages(path string, rng *rand.Rand, quit chan struct{}) {
	f, err := os.Open(path)
	if err != nil {
		return // without it the cut finds less on the disk
	}
	defer f.Close()
	for !closed(quit) {
		fi, err := f.Stat()
		if err != nil {
			return
		}
		off := rng.Int64N(fi.Size()/4096+1) * 4096
		_ = syscall.SyncFileRange(int(f.Fd()), off, 4096*(1+rng.Int64N(8)), writeBackNow)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	}
}

// stop ends the workload. After a cut its last command fails, as it must.
func (w *workload) stop(cut bool) error {
	close(w.quit)
	w.wg.Wait()
	if cut {
		return nil
	}
	return w.err
}

func (w *workload) moment() moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *workload) state(i int) state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.states[i]
}

func (w *workload) madeUpTo(n int) []madeArchive {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.made[:n])
}

// step runs one command.
func (w *workload) step() error {
	next := maps.Clone(w.state(len(w.states) - 1))
	names := slices.Sorted(maps.Keys(next))
	path := filepath.Join(w.dir, target)
	pick := func() string { return names[w.rng.IntN(len(names))] }
	var args []string
	switch n := w.rng.IntN(12); {
	case n == 0:
		return w.makeArchive()
	case n == 1 && w.r.has["compact"]:
		args = []string{"compact", path}
	case n < 4 && w.r.has["remove"] && len(names) > 3:
		name := pick()
		delete(next, name)
		args = []string{"remove", path, name}
	case n < 6 && w.r.has["move"]:
		from, to := pick(), fmt.Sprint("m", w.rng.IntN(6))
		if _, ok := next[to]; ok {
			return nil
		}
		next[to] = next[from]
		delete(next, from)
		args = []string{"move", path, from, to}
	default:
		args = []string{"add", path, "-C", w.src}
		for range 1 + w.rng.IntN(3) {
			name := fmt.Sprint("f", w.rng.IntN(8))
			v, err := w.source(name)
			if err != nil {
				return err
			}
			next[name] = v
			if !slices.Contains(args, name) {
				args = append(args, name)
			}
		}
	}
	w.mu.Lock()
	w.states = append(w.states, next)
	w.now.begun = len(w.states) - 1
	w.mu.Unlock()
	if err := w.r.must(args...); err != nil {
		return err
	}
	w.mu.Lock()
	w.now.done = w.now.begun
	w.commands++
	w.mu.Unlock()
	return nil
}

// makeArchive makes another archive as a whole.
func (w *workload) makeArchive() error {
	v, err := w.source("single")
	if err != nil {
		return err
	}
	m := madeArchive{fmt.Sprintf("made-%d.lbx", v), state{"single": v}}
	w.mu.Lock()
	w.made = append(w.made, m)
	w.now.madeBegun = len(w.made)
	w.mu.Unlock()
	if err := w.r.must("add", filepath.Join(w.dir, m.name), "-C", w.src, "single"); err != nil {
		return err
	}
	w.mu.Lock()
	w.now.madeDone = w.now.madeBegun
	w.commands++
	w.mu.Unlock()
	return nil
}

// read extracts an archive and returns which versions it holds; every file must be whole.
func (w *workload) read(path string) (state, error) {
	out, err := os.MkdirTemp(w.r.dir, "read-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	if err := w.r.must("extract", path, "-d", out); err != nil {
		return nil, err
	}
	got := state{}
	err = filepath.WalkDir(out, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "last.txt" {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		got[d.Name()], err = versionOf("", b)
		return err
	})
	return got, err
}

// found counts what a cut left.
func (w *workload) found(at int, from moment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts++
	if at == from.done {
		w.acked++
	} else {
		w.flight++
	}
}

// rebase goes on from the state that a cut left.
func (w *workload) rebase(at int, dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = []state{w.states[at]}
	w.made, w.now = nil, moment{}
	es, err := os.ReadDir(dir)
	for _, e := range es {
		if strings.HasPrefix(e.Name(), "made-") {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	// Else the next cut brings them back.
	return errors.Join(err, syncPath(dir))
}

func (w *workload) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%d cuts under %d commands: %d as last acknowledged, %d newer", w.cuts, w.commands, w.acked, w.flight)
}
