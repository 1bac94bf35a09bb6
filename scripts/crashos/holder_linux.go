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
	"time"
)

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
