package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// holder is a writer that has the lock and waits for its standard input.
type holder struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	errs   strings.Builder
	cancel func()
}

// hold starts a writer and waits until it has the lock.
func (fx *fixture) hold(path string) (*holder, error) {
	h := &holder{}
	h.cmd, h.cancel = fx.r.command(fx.r.bin, "add", path, "-", "--stdin-name", "held")
	h.cmd.Stderr = &h.errs
	in, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	h.in = in
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		res := fx.r.lockbox("add", path, "-C", fx.last, ".", "--lock-timeout", "1ms")
		if res.code == 16 {
			return h, nil
		}
		if res.code != 0 {
			return nil, errors.Join(errors.New(res.why()), h.kill())
		}
	}
	return nil, errors.Join(errors.New("a writer that waits for its input does not hold the lock"), h.kill())
}

func (h *holder) kill() error {
	defer h.cancel()
	err := h.cmd.Process.Kill()
	_ = h.cmd.Wait() // it was killed
	return err
}

// finish gives the writer its input and waits for its end.
func (h *holder) finish(input []byte) (code int, msg string) {
	defer h.cancel()
	_, err := h.in.Write(input)
	err = errors.Join(err, h.in.Close())
	if e := h.cmd.Wait(); e != nil {
		var ee *exec.ExitError
		if !errors.As(e, &ee) {
			return -1, e.Error()
		}
		return ee.ExitCode(), h.errs.String()
	}
	if err != nil {
		return -1, err.Error()
	}
	return 0, h.errs.String()
}

// lockTimeout: a second writer waits as long as it was told and says that another one is at work; a killed writer
// leaves no lock.
func (fx *fixture) lockTimeout(dir string, _ *rand.Rand) (string, error) {
	path := filepath.Join(dir, target)
	h, err := fx.hold(path)
	if err != nil {
		return "", err
	}
	const wait = 400 * time.Millisecond
	res := fx.r.lockbox("add", path, "-C", fx.last, ".", "--lock-timeout", wait.String())
	if res.code != 16 || res.took < wait || res.took > wait+5*time.Second {
		return "", errors.Join(fmt.Errorf("want exit 16 after %v, not %v: %s", wait, res.took, res.why()), h.kill())
	}
	read := errors.Join(fx.r.must("verify", path, "--full"), fx.r.must("cat", path, "docs/a.txt"))
	if err := errors.Join(read, h.kill()); err != nil {
		return "", err
	}
	res = fx.r.lockbox("add", path, "-C", fx.last, ".", "--lock-timeout", "1ms")
	if res.code != 0 {
		return "", fmt.Errorf("after the writer was killed: %s", res.why())
	}
	return "waited " + strconv.FormatInt(int64(wait/time.Millisecond), 10) + " ms; a killed writer left no lock", nil
}

// changedOutside: the archive is changed under a writer that has it open, and under one that waits for the lock, by
// something that takes no locks. Both refuse, and leave what they find as it is.
func (fx *fixture) changedOutside(dir string, _ *rand.Rand) (string, error) {
	path := filepath.Join(dir, target)
	whole, err := os.ReadFile(fx.archive)
	if err != nil {
		return "", err
	}
	// Another state of the same archive, and one that is longer.
	newer := filepath.Join(dir, "newer")
	if err := errors.Join(copyFile(fx.archive, newer), fx.r.must("add", newer, "-C", fx.more, ".")); err != nil {
		return "", err
	}
	longer, err := os.ReadFile(newer)
	if err != nil {
		return "", err
	}
	inPlace := func(b []byte) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b, 0)
		return errors.Join(err, f.Truncate(int64(len(b))), f.Close())
	}
	replace := func(b []byte) error {
		return errors.Join(os.WriteFile(path+".other", b, 0o644), os.Rename(path+".other", path))
	}
	flipped := bytes.Clone(whole)
	for i := range 4 {
		flipped[i*4096+200] ^= 0x55
	}
	small, large := []byte("a little input"), noise("input", 300<<10)
	n := 0
	var errs []error
	for _, c := range []struct {
		name string
		put  []byte
		how  func([]byte) error
	}{
		{"replaced by a copy", whole, replace},
		{"replaced by a newer state", longer, replace},
		{"overwritten by a newer state", longer, inPlace},
		{"truncated to half", whole[:len(whole)/2], inPlace},
		{"truncated by a byte", whole[:len(whole)-1], inPlace},
		{"truncated to nothing", nil, inPlace},
		{"its superblocks are damaged", flipped, inPlace},
	} {
		for _, input := range [][]byte{small, large} {
			for _, waiting := range []bool{false, true} {
				if waiting && len(input) > len(small) {
					continue // the one that waits has not begun
				}
				n++
				if err := replace(whole); err != nil {
					return "", err
				}
				if err := fx.changedUnder(path, c.put, c.how, input, waiting); err != nil {
					errs = append(errs, fmt.Errorf("%s, %d bytes of input, waiting for the lock: %v: %w", c.name, len(input), waiting, err))
				}
			}
		}
	}
	return fmt.Sprintf("%d changes under writers", n), errors.Join(errs...)
}

// changedUnder changes the archive under one that holds the lock, or under a second that waits for it.
func (fx *fixture) changedUnder(path string, put []byte, how func([]byte) error, input []byte, waiting bool) error {
	h, err := fx.hold(path)
	if err != nil {
		return err
	}
	// hold may have added a file before the lock was taken; from here on only put is there.
	var second *result
	var wg sync.WaitGroup
	if waiting {
		wg.Go(func() { second = fx.r.lockbox("add", path, "-C", fx.more, ".", "--lock-timeout", "5s") })
		time.Sleep(100 * time.Millisecond) // long enough to have opened the file; sooner is another case, no error
	}
	if err := how(put); err != nil {
		return errors.Join(err, h.kill())
	}
	if waiting {
		// The first one has gone without a word; the second gets the lock of the file it has opened.
		err := h.kill()
		wg.Wait()
		if err != nil {
			return err
		}
		now, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if second.code == 0 {
			// It took what it found for the archive, which it was: a whole state of it.
			return fx.r.must("verify", path, "--full")
		}
		return checkRefused(second.code, second.err, now, put)
	}
	code, msg := h.finish(input)
	now, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return checkRefused(code, msg, now, put)
}

func checkRefused(code int, msg string, now, put []byte) error {
	msg = strings.TrimSpace(msg)
	switch {
	case code == 0:
		return fmt.Errorf("the change was not refused")
	case !strings.Contains(msg, "lockbox: error: ") || strings.Contains(msg, "goroutine "):
		return fmt.Errorf("no orderly refusal: exit %d: %s", code, msg)
	case !bytes.Equal(now, put):
		at := 0
		for at < min(len(now), len(put)) && now[at] == put[at] {
			at++
		}
		return fmt.Errorf("refused, but what stood there was changed: %d bytes, now %d, the first difference at %d: exit %d: %s", len(put), len(now), at, code, msg)
	}
	return nil
}
