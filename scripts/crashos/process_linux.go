package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// processPart sets processes against each other.
func processPart(r *run, fx *fixture, p *part) {
	for _, s := range []struct {
		name string
		run  func(dir string, rng *rand.Rand) (string, error)
	}{
		{"stopped reader", fx.stoppedReader},
		{"overlapping readers", fx.overlappingReaders},
		{"readers and writers", fx.crowd},
		{"lock timeout", fx.lockTimeout},
		{"changed from outside", fx.changedOutside},
	} {
		p.scenario(s.name, func(rng *rand.Rand) (counts string, err error) {
			dir, err := os.MkdirTemp(r.dir, "proc-")
			if err != nil {
				return "", err
			}
			defer os.RemoveAll(dir)
			if err := copyFile(fx.archive, filepath.Join(dir, target)); err != nil {
				return "", err
			}
			return s.run(dir, rng)
		})
	}
}

// stoppedReader: a reader that does not move delays the wiping of what it reads, info shows it, and the next change
// after it wipes. A reader that goes on reads its own generation to the end.
func (fx *fixture) stoppedReader(dir string, _ *rand.Rand) (string, error) {
	path := filepath.Join(dir, target)
	for n, end := range []string{"killed", "goes on"} {
		if err := copyFile(fx.archive, path); err != nil {
			return "", err
		}
		rd, err := fx.startReader(path, "big.bin")
		if err != nil {
			return "", err
		}
		err = errors.Join(rd.signal(syscall.SIGSTOP), fx.r.must("add", path, "-C", fx.change, "."))
		held, e := fx.pendingWipe(path)
		if err = errors.Join(err, e); err == nil && held < int64(len(fx.big)) {
			err = fmt.Errorf("a reader is stopped, and info shows %d bytes that wait to be wiped, not %d or more", held, len(fx.big))
		}
		if raw, e := os.ReadFile(path); e != nil || contains(raw, fx.big) < 0 {
			err = errors.Join(err, e, errors.New("what a reader still needs was overwritten"))
		}
		if n == 0 {
			err = errors.Join(err, rd.kill())
		} else {
			got, e := []byte(nil), rd.signal(syscall.SIGCONT)
			if e == nil {
				got, e = rd.finish()
			}
			if err = errors.Join(err, e); err == nil && !bytes.Equal(got, fx.big) {
				err = errors.New("a reader that was stopped did not get the bytes of its generation")
			}
		}
		if err == nil {
			err = fx.r.must("add", path, "-C", fx.last, ".")
		}
		if err == nil {
			held, err = fx.pendingWipe(path)
		}
		if err == nil && held != 0 {
			err = fmt.Errorf("after the reader and another change %d bytes still wait to be wiped", held)
		}
		if err = errors.Join(err, gone(path, fx.big), gone(path, fx.secret), fx.r.must("verify", path, "--full")); err != nil {
			return "", fmt.Errorf("the reader is %s: %w", end, err)
		}
	}
	return "2 readers held back a wipe, which the next change made up for", nil
}

// overlappingReaders: at every moment there is a reader, and each change still wipes what only readers that are gone
// could have needed.
func (fx *fixture) overlappingReaders(dir string, _ *rand.Rand) (counts string, err error) {
	path := filepath.Join(dir, target)
	rd, err := fx.startReader(path, "big.bin")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rd.kill()) }()
	const turns = 8
	old := fx.secret // what the first change replaces; the first reader's generation has it
	for n := range turns {
		fresh := noise(fmt.Sprint("turn", n), 20<<10)
		if err := fx.replace(path, dir, secretName, fresh); err != nil {
			return "", err
		}
		next, err := fx.startReader(path, "big.bin")
		if err != nil {
			return "", err
		}
		err = rd.kill()
		rd = next
		if err != nil {
			return "", err
		}
		// Of the generations before this one no reader is left; of this one there is.
		if err := fx.replace(path, dir, "docs/b.txt", noise(fmt.Sprint("other", n), 500)); err != nil {
			return "", err
		}
		if err := gone(path, old); err != nil {
			return "", fmt.Errorf("turn %d: a newer reader keeps it from being wiped: %w", n, err)
		}
		old = fresh
	}
	return fmt.Sprintf("%d changes wiped beside a reader of a newer generation", turns), nil
}

// replace stores new bytes under a name.
func (fx *fixture) replace(path, dir, name string, b []byte) error {
	p := filepath.Join(dir, "src", name)
	return errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, b, 0o644),
		fx.r.must("add", path, "-C", filepath.Join(dir, "src"), name))
}

// crowd: readers and writers at once, and someone who kills writers.
func (fx *fixture) crowd(dir string, rng *rand.Rand) (string, error) {
	path := filepath.Join(dir, target)
	var reads, writes, kills atomic.Int64
	var mu sync.Mutex
	var errs []error
	stop := make(chan struct{})
	fail := func(err error) {
		mu.Lock()
		errs = append(errs, err)
		mu.Unlock()
	}
	var wg sync.WaitGroup
	const writers = 3
	src := filepath.Join(dir, "src")
	latest := make([]uint64, writers) // acknowledged, and the one that may be there instead
	flying := make([]uint64, writers)
	for i := range writers {
		name := fmt.Sprint("w", i)
		if err := os.MkdirAll(src, 0o755); err != nil {
			return "", err
		}
		seed := rng.Uint64()
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for v := uint64(1); !closed(stop); v++ {
				size := rng.IntN(30 << 10)
				if err := os.WriteFile(filepath.Join(src, name), versioned(name, v, size), 0o644); err != nil {
					fail(err)
					return
				}
				flying[i] = v
				cmd, cancel := fx.r.command(fx.r.bin, "add", path, "-C", src, name, "--lock-timeout", "30s")
				var msg strings.Builder
				cmd.Stderr = &msg
				err := cmd.Start()
				killed := err == nil && rng.IntN(4) == 0
				if killed {
					time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
					_ = cmd.Process.Kill() // it may have ended by itself
					kills.Add(1)
				}
				if err == nil {
					err = cmd.Wait()
				}
				cancel()
				switch {
				case err == nil:
					latest[i] = v
					writes.Add(1)
				case !killed || strings.Contains(msg.String(), "lockbox: error"):
					fail(fmt.Errorf("writer %d: %w: %s", i, err, msg.String()))
					return
				}
			}
		})
	}
	for _, args := range [][]string{{"verify", path, "--full"}, {"list", path, "--digest"}, {"cat", path, "big.bin"}, {"cat", path, "w0"}} {
		wg.Go(func() {
			var last uint64
			for !closed(stop) {
				res := fx.r.lockbox(args...)
				reads.Add(1)
				name := args[len(args)-1]
				switch {
				case name == "w0" && res.code == 12 && last == 0: // not stored yet
				case res.code != 0:
					fail(errors.New(res.why()))
					return
				case name == "big.bin" && res.out != string(fx.big):
					fail(errors.New("cat of a file that never changes gave other bytes"))
					return
				case name == "w0":
					v, err := versionOf(name, []byte(res.out))
					if err == nil && v < last {
						err = fmt.Errorf("version %d was read after version %d", v, last)
					}
					if last = v; err != nil {
						fail(err)
						return
					}
				}
			}
		})
	}
	select {
	case <-time.After(6 * time.Second):
	case <-fx.r.ctx.Done():
	}
	close(stop)
	wg.Wait()
	counts := fmt.Sprintf("%d changes, %d writers killed, %d readings", writes.Load(), kills.Load(), reads.Load())
	errs = append(errs, fx.r.must("add", path, "-C", fx.last, "."), fx.r.must("verify", path, "--full"))
	for i := range writers {
		name := fmt.Sprint("w", i)
		res := fx.r.lockbox("cat", path, name)
		v, err := versionOf(name, []byte(res.out))
		if err == nil && v != latest[i] && (v != flying[i] || v < latest[i]) {
			err = fmt.Errorf("%s has version %d; %d was acknowledged and %d begun", name, v, latest[i], flying[i])
		}
		errs = append(errs, err)
	}
	if writes.Load() < writers || reads.Load() < 8 {
		errs = append(errs, errors.New("too little happened to mean anything"))
	}
	return counts, errors.Join(append(errs, onlyFiles(dir, target, "src"))...)
}
