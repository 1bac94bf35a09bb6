package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

const imageSize = 48 << 20

// powerPart cuts the power of file systems under running commands, in two ways: the file system is told to
// stop where it is, and then mounted again; or its image is copied at one moment while it goes on, and the copy
// is mounted. Both leave what had reached the device, and the file system's journal to recover the rest.
func powerPart(r *run, fx *fixture, p *part) {
	noTracer := r.traceWorks()
	ops, _ := fx.ops(false) // what cannot be run here, the first part has said
	p.scenario("ext4 at calls", func(rng *rand.Rand) (string, error) {
		if noTracer != nil {
			return "", noTracer
		}
		return r.cutAtCalls(rng, ops)
	})
	for _, kind := range []string{"ext4", "xfs"} {
		p.scenario(kind+" stopped", func(rng *rand.Rand) (string, error) { return r.stopRounds(rng, kind) })
	}
	p.scenario("ext4 snapshots", func(rng *rand.Rand) (string, error) { return r.snapshotRounds(rng) })
}

func sizeOf(kind string) int64 {
	if kind == "xfs" {
		return 320 << 20 // mkfs.xfs makes none below 300 MiB
	}
	return imageSize
}

// cutAtCalls cuts the power before each call of some commands, and after the last one. Every second time the archive's
// superblocks, and nothing else that was not synced, have reached the device.
func (r *run) cutAtCalls(rng *rand.Rand, ops []*op) (counts string, err error) {
	image, dir := filepath.Join(r.dir, "calls.img"), filepath.Join(r.dir, "calls")
	if err := r.tryImage(image, "ext4", dir, imageSize); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unmount(dir), os.Remove(image)) }()
	var t tally
	odd := rng.IntN(2)
	for _, o := range ops {
		switch o.name {
		case "add new archive", "add", "add replacing", "add to unclean", "remove", "compact":
		default:
			continue // extraction promises nothing here; the others take the same steps
		}
		for n, more := 1, true; more && r.ctx.Err() == nil; n++ {
			front := (n+odd)%2 == 0
			more, err = o.cutAtCall(&t, image, dir, n, front)
			if err != nil {
				return t.String(), fmt.Errorf("%s, cut before call %d, superblocks written back: %v: %w", o.name, n, front, err)
			}
		}
	}
	return t.String(), nil
}

func (o *op) cutAtCall(t *tally, image, mount string, n int, front bool) (met bool, err error) {
	r := o.fx.r
	dir := filepath.Join(mount, "d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return false, err
	}
	if o.from != "" {
		err = errors.Join(copyFile(o.from, filepath.Join(dir, target)), syncPath(filepath.Join(dir, target)))
	}
	if err := errors.Join(err, syncPath(dir), syncPath(mount)); err != nil {
		return false, err
	}
	p := plan{N: n, Kill: true, Cut: mount}
	if front {
		p.Front = filepath.Join(dir, o.file)
	}
	res, rep, err := r.traced(p, o.args(dir)...)
	if err != nil {
		return false, err
	}
	if met = rep.Met != ""; !met {
		if err := cutPower(mount); err != nil {
			return false, err
		}
	}
	if err := errors.Join(unmount(mount), r.mountImage(image, "ext4", mount)); err != nil {
		return false, err
	}
	state, err := o.examine(dir)
	if err != nil {
		return met, err
	}
	if !met && (res.code != 0 || state != "new") {
		return met, fmt.Errorf("success was reported before the cut, and the state is %s: %s", state, res.why())
	}
	t.add(state)
	return met, os.RemoveAll(dir)
}

// syncPath makes a file or a directory durable.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (r *run) stopRounds(rng *rand.Rand, kind string) (counts string, err error) {
	image, dir := filepath.Join(r.dir, kind+".img"), filepath.Join(r.dir, kind)
	if err := r.tryImage(image, kind, dir, sizeOf(kind)); err != nil {
		return "", err
	}
	mounted := true
	defer func() {
		if mounted {
			err = errors.Join(err, unmount(dir))
		}
		err = errors.Join(err, os.Remove(image))
	}()
	w, err := newWorkload(r, dir, rng)
	if err != nil {
		return "", err
	}
	for n := 1; n <= r.rounds && r.ctx.Err() == nil; n++ {
		w.start()
		time.Sleep(time.Duration(20+rng.IntN(330)) * time.Millisecond)
		from := w.moment()
		cut := cutPower(dir)
		to := w.moment()
		if err := w.stop(cut == nil); err != nil || cut != nil {
			return w.String(), errors.Join(err, cut)
		}
		err := unmount(dir)
		if mounted = err != nil; mounted {
			return w.String(), err
		}
		if err := r.mountImage(image, kind, dir); err != nil {
			return w.String(), err
		}
		mounted = true
		if err := w.check(dir, from, to, true); err != nil {
			return w.String(), fmt.Errorf("power cut %d: %w", n, err)
		}
	}
	return w.String(), nil
}

func (r *run) snapshotRounds(rng *rand.Rand) (counts string, err error) {
	if err := errors.Join(canMount(), needs("mount", "losetup", "mkfs.ext4")); err != nil {
		return "", err
	}
	// Copies at one moment need a file system that shares blocks: the one that is there, or else XFS in an image.
	store := filepath.Join(r.dir, "store")
	if err := os.Mkdir(store, 0o755); err != nil {
		return "", err
	}
	probe := filepath.Join(store, "probe")
	if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
		return "", err
	}
	if clone(probe, probe+"2") != nil {
		outer := filepath.Join(r.dir, "store.img")
		if err := r.tryImage(outer, "xfs", store, 400<<20); err != nil {
			return "", skipError{"no file system here copies files by sharing blocks, and none can be made: " + err.Error()}
		}
		defer func() { err = errors.Join(err, unmount(store), os.Remove(outer)) }()
	}
	image, dir := filepath.Join(store, "ext4.img"), filepath.Join(r.dir, "live")
	if err := r.tryImage(image, "ext4", dir, imageSize); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unmount(dir)) }()
	w, err := newWorkload(r, dir, rng)
	if err != nil {
		return "", err
	}
	w.start()
	for n := 1; n <= r.rounds && r.ctx.Err() == nil && err == nil; n++ {
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
		err = w.snapshot(image, filepath.Join(store, "snapshot.img"), filepath.Join(r.dir, "snapshot"))
		if err != nil {
			err = fmt.Errorf("snapshot %d: %w", n, err)
		}
	}
	err = errors.Join(err, w.stop(false))
	return w.String(), err
}

// snapshot copies the image at one moment, mounts the copy, and checks what it holds.
func (w *workload) snapshot(image, copied, dir string) (err error) {
	from := w.moment()
	if err := clone(image, copied); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(copied)) }()
	to := w.moment()
	if err := w.r.mountImage(copied, "ext4", dir); err != nil {
		return fmt.Errorf("the copy cannot be mounted: %w", err)
	}
	defer func() { err = errors.Join(err, unmount(dir)) }()
	return w.check(dir, from, to, false)
}

// check looks at what a power cut left in dir. Everything acknowledged at the first moment must be there, nothing that
// was begun after the second one can be. With resume the workload goes on from there.
func (w *workload) check(dir string, from, to moment, resume bool) error {
	path := filepath.Join(dir, target)
	if err := w.r.must("list", path); err != nil {
		return err
	}
	if err := w.r.must("verify", path, "--full"); err != nil {
		return err
	}
	got, err := w.read(path)
	if err != nil {
		return err
	}
	if g, err := w.r.generation(path); err != nil || g < from.read {
		return errors.Join(err, fmt.Errorf("generation %d, but a reader had reported %d before the cut", g, from.read))
	}
	at := -1
	for i := to.begun; i >= from.done; i-- {
		if sameState(w.state(i), got) {
			at = i
			break
		}
	}
	if at < 0 {
		older := ""
		for i := range from.done {
			if sameState(w.state(i), got) {
				older = fmt.Sprintf(": it is the older state %d", i)
			}
		}
		return fmt.Errorf("the archive is in none of the states %d (acknowledged) to %d (begun)%s:\n%v\n%v", from.done, to.begun, older, got, w.state(from.done))
	}
	known, err := w.checkMade(dir, from, to)
	if err != nil {
		return err
	}
	if err := onlyFiles(dir, append(known, target)...); err != nil {
		return err
	}
	if err := errors.Join(w.r.must("add", path, "-C", w.last, "."), w.r.must("verify", path, "--full")); err != nil {
		return fmt.Errorf("after the next writer: %w", err)
	}
	w.found(at, from)
	if resume {
		return w.rebase(at, dir)
	}
	return nil
}

// checkMade looks at the archives that were made as a whole. It returns the names that may be there.
func (w *workload) checkMade(dir string, from, to moment) (known []string, err error) {
	for i, m := range w.madeUpTo(to.madeBegun) {
		path := filepath.Join(dir, m.name)
		known = append(known, m.name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && i >= from.madeDone {
			continue
		}
		if err := w.r.must("verify", path, "--full"); err != nil {
			return nil, err
		}
		got, err := w.read(path)
		if err != nil {
			return nil, err
		}
		if !sameState(got, m.state) {
			return nil, fmt.Errorf("%s holds %v, want %v", m.name, got, m.state)
		}
	}
	return known, nil
}
