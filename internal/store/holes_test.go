package store

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lockbox/internal/vfs"
)

// Every sector of an archive has been written, the padding at its end too: a hole would be no reserve on a full disk, and what
// is allocated would tell how long the archive is without padding.
func TestNoHoles(t *testing.T) {
	for i, k := range sixteen() {
		var written []bool // by sector
		w := newWorld(t, uint64(i), Options{Jobs: 1})
		w.mem.Hook = func(op vfs.Op) error {
			switch op.Kind {
			case vfs.OpWrite:
				first, end := int(op.Off/512), int(op.Off+int64(op.Len)+511)/512
				written = append(written, make([]bool, max(end-len(written), 0))...)
				for s := first; s < end; s++ {
					written[s] = true
				}
			case vfs.OpTruncate:
				written = written[:min(len(written), int(op.Off+511)/512)]
			}
			return nil
		}
		w.suite = k.suite
		check := func(when string) {
			t.Helper()
			for s := range len(w.mem.Bytes(name)) / 512 {
				if s >= len(written) || !written[s] {
					t.Fatalf("%v, %s: the sector at %d of %d bytes is a hole", k, when, 512*s, len(w.mem.Bytes(name)))
				}
			}
		}
		w.create(CreateOptions{Level: k.level, Padding: k.padding})
		check("created")
		r := rand.New(rand.NewPCG(uint64(i), 3))
		for n := range 4 {
			w.change(func(tx *Tx) {
				w.add(tx, map[string][]byte{fmt.Sprint(n): randomBytes(r, 300_000*n+500), fmt.Sprint("t", n): textBytes(r, 40_000)})
			})
			check("grown")
		}
		w.change(func(tx *Tx) { w.remove(tx, "2") })
		check("something removed")
		a, err := OpenWrite(ctx, name, w.opt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Compact(ctx, CompactOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		check("compacted")
		w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"last": randomBytes(r, 900_000)}) })
		check("grown again")
		w.check()
	}
}
