package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockbox/internal/frames"
)

// What a compaction has moved under a reader leaves an older copy; a later removal overwrites that as well.
func TestOlderCopies(t *testing.T) {
	defer func(batch, stage, compact int64) {
		wipeBatchBytes, stageBytes, compactRoom = batch, stage, compact
	}(wipeBatchBytes, stageBytes, compactRoom)
	wipeBatchBytes, stageBytes, compactRoom = 1<<20, 1<<20, 1<<20
	w := newWorld(t, 1, Options{Jobs: 1})
	w.create(CreateOptions{Level: frames.LevelNone})
	r := rand.New(rand.NewPCG(1, 1))
	files := map[string][]byte{}
	for i := range 40 {
		files[fmt.Sprintf("f%02d", i)] = randomBytes(r, 200<<10)
	}
	w.change(func(tx *Tx) { w.add(tx, files) })
	w.change(func(tx *Tx) {
		for i := 0; i < 20; i++ {
			w.remove(tx, fmt.Sprintf("f%02d", i))
		}
	})
	reader, err := Open(ctx, name, w.opt)
	if err != nil {
		t.Fatal(err)
	}
	w.compact(CompactOptions{})
	reader.Close()
	a, _ := Open(ctx, name, w.opt)
	t.Logf("stage %d, retire %d, pending %d", totalLen(a.cur.commit.Stage), totalLen(a.cur.commit.Retire), a.cur.commit.Counters.Pending)
	a.Close()
	var gone []string
	w.change(func(tx *Tx) {
		for i := 20; i < 40; i += 2 {
			n := fmt.Sprintf("f%02d", i)
			w.remove(tx, n)
			gone = append(gone, n)
		}
	})
	a, _ = OpenWrite(ctx, name, w.opt)
	t.Logf("after: stage %d, retire %d, pending %d", totalLen(a.cur.commit.Stage), totalLen(a.cur.commit.Retire), a.cur.commit.Counters.Pending)
	a.Close()
	img := w.mem.Bytes(name)
	for _, n := range gone {
		if bytes.Contains(img, files[n][100000:100032]) {
			t.Errorf("%s was removed and is still there", n)
		}
	}
}
