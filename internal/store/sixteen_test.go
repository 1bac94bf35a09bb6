package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockbox/internal/index"
)

// The life of an archive of each of the sixteen kinds: what is stored, removed, compacted and copied is the same
// for all, and padding is never dropped on the way.
func TestSixteenKinds(t *testing.T) {
	for i, k := range sixteen() {
		t.Run(k.String(), func(t *testing.T) {
			w := newWorld(t, uint64(40+i), Options{Jobs: 1 + i%2})
			w.suite = k.suite
			w.create(CreateOptions{Level: k.level, Padding: k.padding})
			r := rand.New(rand.NewPCG(uint64(i), 3))
			padded := func(when string) {
				t.Helper()
				b := w.mem.Bytes(name)
				if size := int64(len(b)); size != k.padding.Size(size, 512) {
					t.Errorf("%s: the file has %d bytes", when, size)
				}
				a, err := Open(ctx, name, w.opt)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				it := index.NewIter(a, index.Frames, a.cur.tree(index.Frames))
				for ok := it.Next(); ok; ok = it.Next() {
					f, err := index.DecodeFrame(it.Value(), a.suite.TagSize(), a.sector)
					if err != nil || f.Ext.Len != k.padding.Size(f.Used(a.suite.TagSize()), 512) {
						t.Errorf("%s: a frame of %d bytes in an extent of %d: %v", when, f.Used(a.suite.TagSize()), f.Ext.Len, err)
					}
				}
			}
			files := map[string][]byte{"d": nil, "raw": randomBytes(r, 300<<10), "text": textBytes(r, 700<<10)}
			for n := range 60 {
				files[fmt.Sprintf("d/%02d", n)] = randomBytes(r, 200+100*n)
			}
			w.change(func(tx *Tx) { w.add(tx, files) })
			w.check()
			padded("added")
			w.change(func(tx *Tx) {
				for n := range 50 {
					w.remove(tx, fmt.Sprintf("d/%02d", n))
				}
				w.remove(tx, "text")
				w.move(tx, "raw", "d/raw")
			})
			w.check()
			padded("removed")
			before := len(w.mem.Bytes(name))
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
			w.check()
			padded("compacted")
			a, err = OpenWrite(ctx, name, w.opt)
			if err != nil {
				t.Fatal(err)
			}
			if sum, err := a.Compact(ctx, CompactOptions{}); err != nil || sum.Commits > 0 {
				t.Errorf("compacted again: %+v, %v", sum, err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if after := len(w.mem.Bytes(name)); after > before || k.level == 0 && after >= before {
				t.Errorf("compacted from %d to %d bytes", before, after)
			}
			a, err = Open(ctx, name, w.opt)
			if err != nil {
				t.Fatal(err)
			}
			in, err := a.Info()
			if err != nil || in.Suite != k.suite || in.Padding != k.padding || in.Level != k.level || in.Signer.IsZero() == k.suite.Signed() {
				t.Errorf("%+v, %v", in, err)
			}
			if err := a.CopyTo(ctx, "copy.lbx", CopyOptions{}); err != nil {
				t.Fatal(err)
			}
			a.Close()
			w.mem.Put(name, w.mem.Bytes("copy.lbx"))
			w.check()
			padded("copied")
			w.change(func(tx *Tx) { w.add(tx, map[string][]byte{"new": []byte("new"), "d/55": {}}) })
			w.check()
			padded("changed after all")
			if k.suite.Encrypted() {
				b := w.mem.Bytes(name)
				for p, data := range w.model {
					if len(p) > 3 && bytes.Contains(b, []byte(p)) || len(data) > 20 && bytes.Contains(b, data[:20]) {
						t.Errorf("%s shows", p)
					}
				}
			}
		})
	}
}
