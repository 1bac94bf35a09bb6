package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"lockbox/internal/frames"
)

// words returns text that compresses about threefold.
func words(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = fmt.Appendf(b, "%x %s\n", r.Uint32(), "the same words in every line")
	}
	return b[:n]
}

// From an archive that has never been changed, files can be removed when the disk is full: it has a reserve.
func TestRemoveFromAFreshArchiveOnAFullDisk(t *testing.T) {
	for _, size := range []int{300, 4000, 20_000, 60_000, 300_000, -4000, -20_000, -60_000} {
		content := words
		if size < 0 {
			size, content = -size, randomBytes
		}
		w := newWorld(t, uint64(size), Options{})
		r := rand.New(rand.NewPCG(1, uint64(size)))
		w.create(CreateOptions{Level: frames.LevelDefault})
		w.change(func(tx *Tx) {
			files := map[string][]byte{}
			for i := range 12_000_000 / size {
				files[fmt.Sprintf("d%02d/f%05d", i%20, i)] = content(r, size)
			}
			w.add(tx, files)
		})
		w.mem.Limit = int64(len(w.mem.Bytes(name)))
		for i := range 10 {
			w.change(func(tx *Tx) { w.remove(tx, fmt.Sprintf("d%02d/f%05d", i, i)) })
			w.mem.Limit = int64(len(w.mem.Bytes(name))) // what is given back somebody else takes
		}
		w.check()
		w.verify()
	}
}

// A transaction that is larger than those before it finds the free space of the whole archive after Restage.
func TestRestage(t *testing.T) {
	w := newWorld(t, 1, Options{})
	r := rand.New(rand.NewPCG(1, 1))
	w.create(CreateOptions{Level: frames.LevelNone})
	w.change(func(tx *Tx) {
		files := map[string][]byte{}
		for i := range 100 {
			files[fmt.Sprintf("d0/f%03d", i)] = words(r, 200_000)
		}
		for i := range 1000 {
			files[fmt.Sprintf("d1/f%03d", i)] = words(r, 8000)
		}
		w.add(tx, files)
	})
	w.change(func(tx *Tx) {
		for i := 0; i < 100; i += 2 {
			w.remove(tx, fmt.Sprintf("d0/f%03d", i))
		}
	})
	w.change(func(tx *Tx) { w.remove(tx, "d1/f001") }) // a small change stages little
	w.mem.Limit = int64(len(w.mem.Bytes(name)))
	half := func(tx *Tx) error {
		for i := 0; i < 1000; i += 2 {
			if err := tx.Remove(mustPath(fmt.Sprintf("d1/f%03d", i))); err != nil {
				return err
			}
		}
		_, err := tx.Commit(ctx)
		return err
	}
	try := func(restage bool) error {
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		if restage {
			if some, err := a.Restage(ctx); err != nil || !some {
				t.Fatal(some, err)
			}
		}
		t.Logf("%d bytes staged, %d free", totalLen(a.cur.commit.Stage), a.cur.commit.Counters.FreeBytes)
		tx, err := a.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return errors.Join(half(tx), a.Close())
	}
	if err := try(false); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the stage set is larger than this test expects: %v", err)
	}
	w.check()
	if err := try(true); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 1000; i += 2 {
		delete(w.model, fmt.Sprintf("d1/f%03d", i))
	}
	w.check()
	w.verify()
}
