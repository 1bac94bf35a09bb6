package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const smallDisk = 2 << 20

// fullPart works on a file system that is full.
func fullPart(r *run, fx *fixture, p *part) {
	freshPart(r, p)
	p.scenario("tmpfs of 2 MiB", func(rng *rand.Rand) (counts string, err error) {
		if err := canMount(); err != nil {
			return "", err
		}
		dir := filepath.Join(r.dir, "full")
		if err := mountTmpfs(dir, smallDisk); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, unmount(dir)) }()
		f := &fullDisk{fx: fx, r: r, dir: dir, path: filepath.Join(dir, target)}
		err = f.run(rng)
		return fmt.Sprintf("%d commands, %d of them refused", f.ran, f.refused), err
	})
}

// freshPart fills a file system right after an archive was made there: what can be removed then lives on the
// archive's reserve.
func freshPart(r *run, p *part) {
	p.scenario("removal from a fresh archive", func(rng *rand.Rand) (counts string, err error) {
		if err := canMount(); err != nil {
			return "", err
		}
		dir, src := filepath.Join(r.dir, "fresh"), filepath.Join(r.dir, "fresh-files")
		if err := mountTmpfs(dir, 8*smallDisk); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, unmount(dir), os.RemoveAll(src)) }()
		if err := os.Mkdir(src, 0o700); err != nil {
			return "", err
		}
		for i := range 500 {
			name := fmt.Sprintf("f%03d", i)
			if err := os.WriteFile(filepath.Join(src, name), noise(fmt.Sprint(name, rng.Uint64()), 20_000), 0o644); err != nil {
				return "", err
			}
		}
		f := &fullDisk{r: r, dir: dir, path: filepath.Join(dir, target)}
		if err := r.must("add", f.path, "-C", src, "."); err != nil {
			return "", err
		}
		for i := range 8 {
			if err := f.fill(0); err != nil { // what was given back is taken by others at once
				return "", err
			}
			if err := errors.Join(r.must("remove", f.path, fmt.Sprintf("f%03d", 60*i)), r.must("verify", "--full", f.path)); err != nil {
				return "", err
			}
		}
		return "8 files removed with no byte free", nil
	})
}

// fullDisk is an archive on a small file system.
type fullDisk struct {
	fx           *fixture
	r            *run
	dir, path    string
	ran, refused int
}

func (f *fullDisk) free() (int64, error) {
	var st syscall.Statfs_t
	err := syscall.Statfs(f.dir, &st)
	return int64(st.Bfree) * st.Bsize, err
}

// fill leaves a number of bytes free, rounded to pages.
func (f *fullDisk) fill(leave int64) error {
	free, err := f.free()
	if err != nil {
		return err
	}
	b := make([]byte, max(free-leave, 0))
	h, err := os.OpenFile(filepath.Join(f.dir, "filler"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = h.Write(b)
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, h.Close())
}

// change runs a command that may be refused for lack of space, and looks at what it left.
func (f *fullDisk) change(want string, args ...string) (done bool, err error) {
	old, err := f.fx.listing(f.path)
	if err != nil {
		return false, err
	}
	res := f.r.lockbox(args...)
	f.ran++
	if err := res.orderly(); err != nil {
		return false, err
	}
	now, err := f.sound()
	if err != nil {
		return false, fmt.Errorf("after %s: %w", res.why(), err)
	}
	switch done = res.code == 0; {
	case !done:
		f.refused++
		if now != old {
			return false, fmt.Errorf("a change that was refused has changed it:\n%s%s", diffLines(old, old, now), res.why())
		}
		if !strings.Contains(res.err, "space") {
			return false, fmt.Errorf("the message does not say that there is no space: %s", res.why())
		}
	case want != "" && !strings.Contains(now, want):
		return false, fmt.Errorf("%q is missing after success: %s", want, res.why())
	}
	return done, nil
}

// sound looks at the archive in all ways that need no space beside it.
func (f *fullDisk) sound() (string, error) {
	now, err := f.fx.listing(f.path)
	if err != nil || now == "" {
		return now, err
	}
	out, err := os.MkdirTemp(f.r.dir, "elsewhere-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(out)
	f.ran += 4
	res := f.r.lockbox("cat", f.path, "docs/a.txt")
	want, err := os.ReadFile(filepath.Join(f.fx.base, "docs/a.txt"))
	if err == nil && (res.code != 0 || res.out != string(want)) {
		err = fmt.Errorf("not what was stored: %s", res.why())
	}
	return now, errors.Join(err, f.r.must("verify", f.path, "--full"), f.r.must("extract", f.path, "-d", out))
}

func (f *fullDisk) run(rng *rand.Rand) error {
	if err := f.r.must("add", f.path, "-C", f.fx.base, "."); err != nil {
		return err
	}
	huge := filepath.Join(f.r.dir, "huge.bin")
	if err := os.WriteFile(huge, noise(fmt.Sprint("huge", rng.Uint64()), 4<<20), 0o644); err != nil {
		return err
	}
	defer os.Remove(huge)
	before, err := f.free()
	if err != nil {
		return err
	}
	// Too much, in an archive that is there and in a new one.
	for _, path := range []string{f.path, filepath.Join(f.dir, made)} {
		done, err := f.change("", "add", path, "-C", f.r.dir, "huge.bin")
		if err != nil {
			return err
		}
		if done {
			return errors.New("4 MiB that cannot be compressed were added to a file system of 2 MiB")
		}
	}
	after, err := f.free()
	if err != nil {
		return err
	}
	if after < before-64<<10 {
		return fmt.Errorf("refused additions keep %d bytes", before-after)
	}
	if err := onlyFiles(f.dir, target); err != nil {
		return err
	}
	// Less and less space, down to none.
	for _, leave := range []int64{256 << 10, 64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10, 0} {
		if err := f.fill(leave); err != nil {
			return err
		}
		name := fmt.Sprintf("fill-%d.bin", leave)
		if err := os.WriteFile(filepath.Join(f.r.dir, name), noise(name, 24<<10), 0o644); err != nil {
			return err
		}
		for _, args := range [][]string{{f.r.dir, name}, {f.fx.change, "."}, {f.fx.last, "."}} {
			if _, err := f.change("", "add", f.path, "-C", args[0], args[1]); err != nil {
				return fmt.Errorf("with %d KiB free: %w", leave>>10, err)
			}
		}
	}
	if f.refused < 4 {
		return fmt.Errorf("only %d additions were refused while the disk became full", f.refused)
	}
	return f.tidy()
}

// tidy makes room on the full file system with the archive's own means.
func (f *fullDisk) tidy() error {
	if err := f.fill(0); err != nil {
		return err
	}
	if free, err := f.free(); err != nil || free != 0 {
		return fmt.Errorf("the file system still has %d bytes free: %w", free, err)
	}
	if !f.r.has["remove"] || !f.r.has["compact"] {
		return nil
	}
	start, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	for _, name := range []string{"docs/sub/e.bin", secretName, "big.bin"} {
		done, err := f.change("", "remove", f.path, name)
		if err != nil {
			return err
		}
		if !done {
			return fmt.Errorf("on a full file system %s cannot be removed", name)
		}
		now, err := f.fx.listing(f.path)
		if err != nil {
			return err
		}
		if strings.Contains(now, `"path":"`+name+`"`) {
			return fmt.Errorf("%s is still listed after it was removed", name)
		}
		if err := f.fill(0); err != nil { // what was given back is taken by others at once
			return err
		}
	}
	if err := errors.Join(gone(f.path, f.fx.secret, secretName), gone(f.path, f.fx.big)); err != nil {
		return err
	}
	if done, err := f.change("docs/a.txt", "compact", f.path); err != nil || !done {
		return errors.Join(err, errors.New("compact was refused, or failed, on a full file system"))
	}
	end, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if end.Size() > start.Size()/2 {
		return fmt.Errorf("after almost everything was removed, the archive went from %d to %d bytes", start.Size(), end.Size())
	}
	if err := os.Remove(filepath.Join(f.dir, "filler")); err != nil {
		return err
	}
	if done, err := f.change("three.txt", "add", f.path, "-C", f.fx.more, "."); err != nil || !done {
		return errors.Join(err, errors.New("an addition was refused although there is space again"))
	}
	return onlyFiles(f.dir, target)
}

// onlyFiles checks that a directory holds nothing but the named files.
func onlyFiles(dir string, names ...string) error {
	es, err := os.ReadDir(dir)
	for _, e := range es {
		known := e.Name() == "lost+found"
		for _, n := range names {
			known = known || e.Name() == n
		}
		if !known {
			err = errors.Join(err, fmt.Errorf("%s was left behind", e.Name()))
		}
	}
	return err
}
