package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// smallWorld has an archive with a bit of everything.
func smallWorld(t testing.TB) *world { return smallWorldOf(t, combo{level: frames.LevelDefault}) }

func smallWorldOf(t testing.TB, k combo) *world {
	w := newWorld(t, 5, Options{Jobs: 1, CacheBytes: 1 << 20})
	w.suite = k.suite
	w.create(CreateOptions{Level: k.level, Padding: k.padding})
	r := rand.New(rand.NewPCG(1, 1))
	w.change(func(tx *Tx) {
		w.add(tx, map[string][]byte{"d": nil, "d/text": textBytes(r, 3000), "d/raw": randomBytes(r, 9000), "d/empty": {}, "gone": textBytes(r, 500)})
	})
	w.change(func(tx *Tx) {
		if err := tx.Remove(mustPath("gone")); err != nil {
			t.Fatal(err)
		}
		delete(w.model, "gone")
	})
	w.check()
	return w
}

// readAll reads everything that can be read, and returns an error for anything that differs from want.
func readAll(opt Options, want map[string][]byte) (wrong, failed error) {
	a, err := Open(ctx, name, opt)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	seen := 0
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			return nil, err
		}
		seen++
		data, ok := want[e.Path.String()]
		if !ok {
			return fmt.Errorf("%v came out of nowhere", e.Path), nil
		}
		if e.Kind != index.File {
			continue
		}
		f, err := a.Open(&e)
		if err != nil {
			failed = err
			continue
		}
		buf := bytes.Repeat([]byte{0xAA}, int(min(f.Size(), 1<<20)))
		if n, err := f.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
			failed = err
			if !bytes.Equal(buf[:n], data[:n]) || slices.ContainsFunc(buf[n:], func(b byte) bool { return b != 0 && b != 0xAA }) {
				return fmt.Errorf("%v: unverified bytes in the buffer", e.Path), nil
			}
		} else if !bytes.Equal(buf, data) {
			return fmt.Errorf("%v: other bytes", e.Path), nil
		}
	}
	if failed == nil && seen != len(want) {
		return fmt.Errorf("%d entries of %d", seen, len(want)), nil
	}
	var mu sync.Mutex
	err = a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error {
		mu.Lock()
		defer mu.Unlock()
		data := want[p.Entry.Path.String()]
		if p.Err != nil {
			failed = p.Err
		} else if !bytes.Equal(p.Data, data[p.Off:p.Off+int64(len(p.Data))]) {
			wrong = fmt.Errorf("%v: other bytes in bulk", p.Entry.Path)
		}
		return nil
	})
	if err != nil {
		failed = err
	}
	return wrong, failed
}

// No flipped byte, zeroed sector or cut makes a reader return anything but the right bytes or an error of
// a known kind.
func TestDamageNeverReachesAReader(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7
	}
	damageNeverReachesAReader(t, combo{level: frames.LevelDefault}, step)
	for i, k := range sixteen() {
		damageNeverReachesAReader(t, k, 53*step+i)
	}
}

func damageNeverReachesAReader(t *testing.T, c combo, step int) {
	w := smallWorldOf(t, c)
	good := w.mem.Bytes(name)
	try := func(what string, b []byte) {
		mem := vfs.Mem()
		mem.Put(name, b)
		opt := w.opt
		opt.FS = mem
		wrong, failed := readAll(opt, w.model)
		if wrong != nil {
			t.Fatalf("%v, %s: %v", c, what, wrong)
		}
		if failed != nil && !errors.Is(failed, format.ErrCorrupt) && !errors.Is(failed, format.ErrVersion) && !errors.Is(failed, format.ErrNotLockbox) {
			t.Fatalf("%v, %s: %v", c, what, failed)
		}
	}
	for k := 0; k < len(good); k += step {
		if k >= 600 && k < format.PageSize {
			k = format.PageSize // the rest of the first page is never read
		}
		b := bytes.Clone(good)
		b[k] ^= 1 << (k % 8)
		try(fmt.Sprintf("byte %d flipped", k), b)
	}
	for k := 0; k < len(good); k += 512 {
		b := bytes.Clone(good)
		clear(b[k : k+512])
		try(fmt.Sprintf("sector at %d zeroed", k), b)
		try(fmt.Sprintf("cut to %d", k), good[:k])
	}
	for _, n := range []int{0, 1, 7, 8, 511, len(good) - 1, len(good) - 100} {
		try(fmt.Sprintf("cut to %d", n), good[:n])
	}
}

// Adding files again mends an archive whose stored bytes have rotted: what does not verify is not shared.
func TestAddingAgainMends(t *testing.T) {
	w := newWorld(t, 5, Options{})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 1))
	files := map[string][]byte{"a": textBytes(r, 3000), "b": textBytes(r, 2500), "raw": randomBytes(r, 300<<10)}
	w.change(func(tx *Tx) { w.add(tx, files) })
	a, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	var at []int64
	for n := uint64(1); n < a.cur.commit.Counters.NextFrame; n++ {
		f, err := a.frame(a.cur, n)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, f.storedOff(16)+10)
	}
	a.Close()
	f, err := w.mem.Open(name, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range at {
		if _, err := f.WriteAt([]byte{1, 2, 3}, off); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	if _, failed := readAll(w.opt, w.model); failed == nil {
		t.Fatal("the damage is not noticed")
	}
	w.change(func(tx *Tx) { w.add(tx, files) })
	w.check()
}

func TestOpenErrors(t *testing.T) {
	w := smallWorld(t)
	good := w.mem.Bytes(name)
	later := bytes.Clone(good)
	for i := range 4 {
		later[i*format.PageSize+8] = 2
	}
	rotten := bytes.Clone(good)
	for i := range 4 {
		rotten[i*format.PageSize+100] ^= 1
	}
	oneRotten := bytes.Clone(good)
	oneRotten[100] ^= 1
	for what, c := range map[string]struct {
		b    []byte
		kind error
	}{
		"empty":               {nil, format.ErrNotLockbox},
		"garbage":             {randomBytes(rand.New(rand.NewPCG(1, 1)), 50000), format.ErrNotLockbox},
		"zip":                 {append([]byte("PK\x03\x04"), make([]byte, 30000)...), format.ErrNotLockbox},
		"cut by one byte":     {good[:len(good)-1], format.ErrCorrupt},
		"cut by half":         {good[:len(good)/2], format.ErrCorrupt},
		"only the magic":      {good[:8], format.ErrCorrupt},
		"a later version":     {later, format.ErrVersion},
		"all copies rotten":   {rotten, format.ErrCorrupt},
		"text mode":           {bytes.ReplaceAll(good, []byte("\r\n"), []byte("\n")), format.ErrCorrupt},
		"one copy rotten":     {oneRotten, nil},
		"last bytes are zero": {append(bytes.Clone(good[:len(good)-4096]), make([]byte, 4096)...), nil},
	} {
		mem := vfs.Mem()
		mem.Put(name, c.b)
		opt := w.opt
		opt.FS = mem
		a, err := Open(ctx, name, opt)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", what, err, c.kind)
		}
		if err == nil {
			a.Close()
		}
	}
	if _, err := Open(ctx, "nowhere", w.opt); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzOpen reads and changes an archive that is b, or the golden one when b is empty, with over written at an
// offset and, with a bit of how, the tags made right again. Whatever it is, errors are of known kinds. What the
// independent checker finds no fault with can be read and changed, and is without fault afterwards.
func FuzzOpen(f *testing.F) {
	golden := goldenFile(f, ".lbx")
	end := uint32(len(golden))
	f.Add([]byte(nil), end, []byte(nil), byte(0))
	for _, at := range []uint32{8, 14, 40, 60, 88, 4096 + 56, 16384, 20480, 20600, 21504, 21520, 24576, 25088, end - 1000} {
		f.Add([]byte(nil), at, []byte{0xFF, 1}, byte(at))
		f.Add([]byte(nil), at, []byte{0}, byte(at+1))
	}
	f.Add(golden[:9000], end, []byte(nil), byte(0))
	f.Add([]byte("PK\x03\x04"), end, []byte(nil), byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint32, over []byte, how byte) {
		if len(b) > 1<<18 {
			return
		}
		if len(b) == 0 {
			b = golden
		}
		b = bytes.Clone(b)
		if int(at) < len(b) {
			copy(b[at:], over)
		}
		if how&1 != 0 {
			b = mend(b)
		}
		tryAnything(t, "fuzz", b)
	})
}

// tryAnything holds reading and changing an archive to what FuzzOpen says.
func tryAnything(t *testing.T, how string, b []byte) {
	t.Helper()
	mem := vfs.Mem()
	mem.Put(name, b)
	opt := Options{FS: mem, Jobs: 1, CacheBytes: 1 << 20, Entropy: rand.NewChaCha8([32]byte{1})}
	sound := func() bool {
		s, err := verify.Run(ctx, sized{bytes.NewReader(mem.Bytes(name))}, verify.Options{Full: true, Jobs: 1})
		return err == nil && s.Damaged == 0 && s.Complete
	}
	wasSound := sound()
	known := func(what string, err error, more ...error) {
		t.Helper()
		kinds := append([]error{format.ErrCorrupt, format.ErrVersion, format.ErrNotLockbox}, more...)
		if err != nil && !slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) }) {
			t.Fatalf("%s: %s: %v", how, what, err)
		}
		if err != nil && wasSound && len(more) == 0 {
			t.Fatalf("%s: %s fails in an archive that was found sound: %v", how, what, err)
		}
	}
	a, err := Open(ctx, name, opt)
	known("open", err)
	if err != nil {
		return
	}
	_, err = a.Info()
	known("info", err)
	n := 0
	for e, err := range a.List(pathsafe.Path{}) {
		known("list", err)
		if n++; err != nil || n > 1000 {
			break
		}
		if e.Kind != index.File {
			continue
		}
		f, err := a.Open(&e)
		known("open a file", err)
		if err != nil {
			continue
		}
		if _, err = f.ReadAt(make([]byte, 4096), 0); err != io.EOF {
			known("read", err)
		}
		_, err = a.Digest(&e)
		known("digest", err)
	}
	err = a.Bulk(ctx, a.List(pathsafe.Path{}), func(p Piece) error {
		known("piece", p.Err)
		return nil
	})
	known("bulk", err)
	known("close", a.Close())
	if !bytes.Equal(mem.Bytes(name), b) {
		t.Fatalf("%s: reading changed the file", how)
	}

	a, err = OpenWrite(ctx, name, opt)
	known("open for writing", err, format.ErrVersion) // a sound archive may have features that writers must know
	if err != nil {
		return
	}
	tx, err := a.Begin(ctx)
	known("begin", err)
	if err == nil {
		known("add", tx.Add(ctx, slices.Values([]Source{fileSource("new", []byte("new")), fileSource("docs/same", randomBytes(rand.New(rand.NewPCG(1, 1)), 5000))}), nil))
		err = tx.Remove(mustPath("a/b/noise"))
		known("remove", err, fs.ErrNotExist)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = tx.Move(mustPath("docs/readme"), mustPath("docs/moved"))
			known("move", err, fs.ErrNotExist)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			_, err = tx.Commit(ctx)
			known("commit", err, ErrConflict)
		}
	}
	known("close after the change", a.Close())
	if wasSound && !sound() {
		t.Fatalf("%s: a change made a sound archive unsound", how)
	}
}

// A full disk: the command fails, the archive is as it was and no larger, and smaller changes still work.
func TestFullDisk(t *testing.T) {
	w := newWorld(t, 5, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelDefault})
	r := rand.New(rand.NewPCG(1, 1))
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"a": textBytes(r, 3000)}) })
	size := len(w.mem.Bytes(name))
	w.mem.Limit = int64(size) + 200<<10
	a, err := OpenWrite(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = tx.Add(ctx, slices.Values([]Source{fileSource("big", randomBytes(r, 2<<20))}), nil)
	if err == nil {
		_, err = tx.Commit(ctx)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if _, err := a.Begin(ctx); err == nil {
		t.Fatal("the handle goes on after a failed write")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.check()
	// The next writer gives back what the failed one had taken, before anything else.
	if a, err = OpenWrite(ctx, name, w.opt); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.mem.Bytes(name)); n > size {
		t.Errorf("the failed change left the file at %d bytes, it had %d", n, size)
	}
	w.check()
	w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"small": textBytes(r, 3000)}) })
	w.check()
}
