package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// readPath is a way in which stored bytes reach somebody. It returns what kept it from reading a file's bytes
// around pos, and fails the test when anything but the right bytes was handed out.
type readPath struct {
	name string
	opt  func(o *Options)
	read func(w *world, a *Archive, path string, pos int64) error
}

// into reads a range of a file into a buffer that must hold nothing unverified when that fails.
func into(size func(f *File, pos int64) (off, n int64)) func(w *world, a *Archive, path string, pos int64) error {
	return func(w *world, a *Archive, path string, pos int64) error {
		e, err := a.Get(mustPath(path))
		if err != nil {
			return err
		}
		f, err := a.Open(&e)
		if err != nil {
			return err
		}
		off, n := size(f, pos)
		off = max(off, 0)
		n = min(n, f.Size()-off)
		buf := bytes.Repeat([]byte{0xAA}, int(n))
		k, err := f.ReadAt(buf, off)
		if err == io.EOF {
			err = nil
		}
		if !bytes.Equal(buf[:k], w.model[path][off:off+int64(k)]) {
			w.t.Fatalf("%s: other bytes", path)
		}
		// What was verified before damage was met may be there; never a wrong byte, nor one of the damaged block.
		for i := k; i < len(buf); i++ {
			at := off + int64(i)
			wiped := buf[i] == 0 || buf[i] == 0xAA
			if damaged := at == pos || path == "raw" && at>>12 == pos>>12; !wiped && (damaged || buf[i] != w.model[path][at]) {
				w.t.Fatalf("%s: the unverified byte at %d is in the buffer", path, at)
			}
		}
		return err
	}
}

// prefix takes the first bytes of a file and nothing else.
type prefix struct {
	w    *world
	want []byte
}

func (p *prefix) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(p.want, b) {
		p.w.t.Fatal("a stream handed out other bytes")
	}
	p.want = p.want[len(b):]
	return len(b), nil
}

func stream(w *world, a *Archive, path string, _ int64) error {
	e, err := a.Get(mustPath(path))
	if err != nil {
		return err
	}
	f, err := a.Open(&e)
	if err != nil {
		return err
	}
	_, err = f.CopyRange(ctx, &prefix{w, w.model[path]}, 0, f.Size())
	return err
}

func bulkOf(w *world, a *Archive, path string, _ int64) error {
	e, err := a.Get(mustPath(path))
	if err != nil {
		return err
	}
	failed := make(chan error, 100)
	err = a.Bulk(ctx, one(e), func(p Piece) error {
		if p.Err != nil {
			if len(p.Data) > 0 {
				w.t.Error("data beside an error")
			}
			failed <- p.Err
		} else if !bytes.HasPrefix(w.model[path][p.Off:], p.Data) {
			w.t.Error("other bytes in bulk")
		}
		return nil
	})
	if err == nil && len(failed) > 0 {
		err = <-failed
	}
	return err
}

func jobs(n int) func(o *Options) { return func(o *Options) { o.Jobs = n } }

var readPaths = []readPath{
	{"a byte", nil, into(func(f *File, pos int64) (int64, int64) { return pos, 1 })},
	{"an unaligned range", nil, into(func(f *File, pos int64) (int64, int64) { return pos - 5000, 10_000 })},
	{"a block", nil, into(func(f *File, pos int64) (int64, int64) { return pos &^ 4095, 4096 })},
	{"aligned blocks", nil, into(func(f *File, pos int64) (int64, int64) { return pos&^4095 - 8192, 100 << 10 })},
	{"a long range", nil, into(func(f *File, pos int64) (int64, int64) { return pos - 100_001, 400_000 })},
	{"the whole file", nil, into(func(f *File, pos int64) (int64, int64) { return 0, f.Size() })},
	{"with earned trust", func(o *Options) { o.Trust = Earned }, into(func(f *File, pos int64) (int64, int64) { return pos - 5000, 10_000 })},
	{"after trust was dropped", func(o *Options) { o.Trust = Earned }, func(w *world, a *Archive, path string, pos int64) error {
		read := into(func(f *File, pos int64) (int64, int64) { return pos - 5000, 10_000 })
		if err := read(w, a, path, pos); err == nil {
			return nil
		}
		a.DropTrust()
		return read(w, a, path, pos)
	}},
	{"a serial stream", jobs(1), stream},
	{"a parallel stream", jobs(3), stream},
	{"bulk with one job", jobs(1), bulkOf},
	{"bulk with four jobs", jobs(4), bulkOf},
	{"checkFrame", nil, func(w *world, a *Archive, path string, pos int64) error {
		e, err := a.Get(mustPath(path))
		if err != nil {
			return err
		}
		c, err := a.content(a.view(), e.Content)
		if err != nil {
			return err
		}
		number, _, _ := c.Locate(pos)
		ref, err := a.frame(a.view(), number)
		if err != nil {
			return err
		}
		return a.checkFrame(&ref)
	}},
	{"copy", nil, func(w *world, a *Archive, _ string, _ int64) error {
		err := a.CopyTo(ctx, "copy.lbx", CopyOptions{})
		if err != nil && w.mem.Bytes("copy.lbx") != nil {
			w.t.Fatal("a copy of damage got its name")
		}
		if err == nil {
			err = w.mem.Remove("copy.lbx")
		}
		return err
	}},
}

// site is a stored byte whose change damages a file around a position of it.
type site struct {
	what, path string
	off, pos   int64
}

// sites are bytes of the first and the last frame of each file, and of the nodes above them.
func sites(w *world, paths ...string) (all []site) {
	a := mustOpen(w.t, w.opt)
	tag := a.suite.TagSize()
	for _, path := range paths {
		f := mustFile(w.t, a, path)
		for _, pos := range []int64{0, f.Size() - 1} {
			number, in, _ := f.content.Locate(pos)
			ref, err := a.frame(f.v, number)
			if err != nil {
				w.t.Fatal(err)
			}
			kind := "compressed"
			if ref.Codec == frames.Raw {
				kind = fmt.Sprintf("raw, %d blocks", ref.Blocks())
			}
			for _, k := range []int64{0, int64(ref.Stored) / 2, int64(ref.Stored) - 1} {
				at := pos
				if ref.Codec == frames.Raw { // where the byte itself stands, if it is the file's
					at = min(max(pos-in+k, 0), f.Size()-1)
				}
				all = append(all, site{fmt.Sprintf("%s (%s): stored byte %d of frame %d", path, kind, k, number), path, ref.storedOff(tag) + k, at})
			}
			if n := int64(ref.TableSize(tag)); n > 0 {
				all = append(all, site{fmt.Sprintf("%s: tag table of frame %d", path, number), path, ref.storedOff(tag) + int64(ref.Stored) + n/2, pos})
			}
		}
	}
	for t := index.Entries; t <= index.Frames; t++ {
		if t != index.Digests { // which no reader looks at
			all = append(all, site{t.String() + " node", paths[0], a.view().tree(t).Ref.Off + 30, 0})
		}
	}
	return all
}

// Whatever stored byte changes under a handle, no path hands anything out that did not verify: it fails with
// damage, and what it read into somebody's buffer is wiped. With the byte as it was, everything reads again.
func TestDamageOnEveryPath(t *testing.T) {
	w := newWorld(t, 4, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(5, 5))
	for path, data := range map[string][]byte{ // in transactions of their own, so that a small raw file is a frame of one block
		"raw": randomBytes(r, 3<<20+70_000), "text": textBytes(r, 2<<20+300_000), "single": randomBytes(r, 3000), "packed": randomBytes(r, 100_000),
	} {
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{path: data}) })
	}
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"small1": textBytes(r, 800), "small2": textBytes(r, 900), "small3": textBytes(r, 700)})
	})
	disk, err := w.mem.Open(name, true)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	flip := func(off int64) {
		b := make([]byte, 1)
		if _, err := disk.ReadAt(b, off); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x20
		if _, err := disk.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]int{}
	for i, s := range sites(w, "raw", "text", "single", "packed", "small2") {
		kinds[s.path]++
		if testing.Short() && i%3 != 0 {
			continue
		}
		for _, p := range readPaths {
			o := w.opt
			if p.opt != nil {
				p.opt(&o)
			}
			a, err := Open(ctx, name, o)
			if err != nil {
				t.Fatal(err)
			}
			flip(s.off)
			if err := p.read(w, a, s.path, s.pos); !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%s: %s: %v", s.what, p.name, err)
			}
			flip(s.off)
			// The same handle has kept nothing of it.
			if err := p.read(w, a, s.path, s.pos); err != nil {
				t.Errorf("%s mended: %s: %v", s.what, p.name, err)
			}
			a.Close()
		}
	}
	if kinds["raw"] < 8 || kinds["single"] < 3 {
		t.Errorf("sites %v", kinds)
	}
	a := mustOpen(t, w.opt)
	if ref, err := a.frame(a.view(), mustFile(t, a, "single").content.Runs[0].Frame); err != nil || ref.Codec != frames.Raw || ref.BlockShift != 0 {
		t.Errorf("no raw frame of one block: %+v, %v", ref, err)
	}
	if ref, err := a.frame(a.view(), mustFile(t, a, "small2").content.Runs[0].Frame); err != nil || ref.Codec == frames.Raw || ref.Class == frames.NoPack {
		t.Errorf("no compressed pack: %+v, %v", ref, err)
	}
}

// Damage in the middle of a list of files costs bulk reading the files that lie in it and no other.
func TestBulkGoesOnPastDamage(t *testing.T) {
	for _, jobs := range []int{1, 3} {
		w := newWorld(t, 4, Options{Jobs: jobs})
		w.create(CreateOptions{Level: frames.LevelDefault})
		r := rand.New(rand.NewPCG(6, 6))
		files := map[string][]byte{}
		for i := range 30 {
			files[fmt.Sprintf("f%02d", i)] = randomBytes(r, 6000)
		}
		w.change(func(tx *Tx) { w.add(tx, files) })
		b := w.mem.Bytes(name)
		at := bytes.Index(b, files["f11"][3000:3100])
		b[at] ^= 1
		w.mem.Put(name, b)
		a := mustOpen(t, w.opt)
		type outcome struct {
			path string
			bad  bool
		}
		got := make(chan outcome, 100)
		err := a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error {
			path := p.Entry.Path.String()
			if p.Err == nil && !bytes.HasPrefix(files[path][p.Off:], p.Data) {
				t.Errorf("%s: other bytes", path)
			}
			got <- outcome{path, p.Err != nil}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		close(got)
		bad, seen := map[string]bool{}, 0
		for o := range got {
			seen++
			if o.bad {
				bad[o.path] = true
			}
		}
		// A block may hold the end of one file and the start of the next.
		if seen != 30 || !bad["f11"] || len(bad) > 2 {
			t.Errorf("jobs %d: %d pieces, damaged %v", jobs, seen, bad)
		}
	}
}
