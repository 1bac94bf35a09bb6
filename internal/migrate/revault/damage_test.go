package revault

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
)

// allBytes makes the tests try every byte of the samples, and every length; else they try some.
var allBytes = os.Getenv("LOCKBOX_ALL_BYTES") != ""

// whole is what an undamaged sample gives.
func whole(t testing.TB, b []byte, o source.Options) map[string]got {
	t.Helper()
	a, err := Open(context.Background(), sourcetest.Input(b), o)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := readAll(a)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// outcome is what reading a damaged copy came to.
type outcome int

const (
	same    outcome = iota // all of the content, and no word of damage
	refused                // an error, of the archive or of some entry
	less                   // allowed, and said
)

// checkDamaged demands of a damaged copy an error that says so, or the same content. With AllowLoss less may come, and
// then the archive says so.
func checkDamaged(t testing.TB, where int, in source.Input, o source.Options, want map[string]got) outcome {
	t.Helper()
	a, err := Open(context.Background(), in, o)
	if err != nil {
		if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) && !errors.Is(err, format.ErrVersion) {
			t.Errorf("at %d: %v", where, err)
		}
		return refused
	}
	all, _, err := readAll(a)
	if err != nil {
		t.Errorf("at %d: opened, and then: %v", where, err)
		return refused
	}
	is := same
	if o.AllowLoss && len(a.Info().Lost) > 0 {
		is = less
	} else if len(all) != len(want) {
		t.Errorf("at %d: %d entries, %d are in the archive", where, len(all), len(want))
	}
	for path, g := range all {
		w, ok := want[path]
		switch {
		case errors.Is(g.err, format.ErrCorrupt):
			is = refused
		case !ok || g.err != nil || g.sum != w.sum || g.entry.Kind != w.entry.Kind || g.entry.Mode != w.entry.Mode || g.entry.Target != w.entry.Target:
			t.Errorf("at %d: %s is %+v, was %+v", where, path, g, w)
		}
	}
	return is
}

// sweep calls try for places in n bytes: all when some is 0, else about some of them, spread evenly. The step is odd, so
// that they stand differently in the fields that they hit.
func sweep(n, some int, try func(at int)) {
	step := 1
	if some != 0 {
		step = max(1, n/some|1)
	}
	var wg sync.WaitGroup
	for from := range 2 {
		wg.Go(func() {
			for at := from * step; at < n; at += 2 * step {
				try(at)
			}
		})
	}
	wg.Wait()
}

// damaged are the samples that are swept, and how many places are tried when not all are.
func damaged() map[string]int {
	m := map[string]int{"a-rawkey-basic": 1000, "d2-entry-lost-by-writer": 500, "v1-synth-basic": 200, "e-variables": 100, "i-bulk-frames": 30, "c-many-small": 10}
	if testing.Short() {
		for name := range m {
			m[name] /= 10
		}
	}
	return m
}

func TestEveryByteChanged(t *testing.T) {
	for name, some := range damaged() {
		t.Run(name, func(t *testing.T) {
			b, m := readCase(t, name)
			want := whole(t, b, m.options(t))
			try := func(at int) {
				o := m.options(t)
				checkDamaged(t, at, flippedAt(b, at).input(), o, want)
				o.AllowLoss = true
				checkDamaged(t, at, flippedAt(b, at).input(), o, want)
			}
			sweep(len(b), some, try)
			switch name {
			case "a-rawkey-basic":
				sweep(frontV2, 0, try)
			case "v1-synth-basic":
				sweep(headerV1, 0, try)
			}
		})
	}
}

func TestEveryLengthCut(t *testing.T) {
	for name, some := range damaged() {
		t.Run(name, func(t *testing.T) {
			b, m := readCase(t, name)
			want := whole(t, b, m.options(t))
			if allBytes {
				some = 0
			}
			var errs atomic.Int64
			sweep(len(b), some, func(at int) {
				if checkDamaged(t, at, sourcetest.Input(b[:at]), m.options(t), want) == refused {
					errs.Add(1)
				}
			})
			if allBytes {
				t.Logf("%d lengths: %d times an error", len(b), errs.Load())
			}
		})
	}
}

// TestAtOnce opens the contents in many goroutines, each from its end.
func TestAtOnce(t *testing.T) {
	b, m := readCase(t, "i-bulk-frames")
	want := whole(t, b, m.options(t))
	a, err := Open(t.Context(), sourcetest.Input(b), m.options(t))
	if err != nil {
		t.Fatal(err)
	}
	a.(*Archive).pages.cache.most, a.(*Archive).frames.most = 1, 1 // nothing is kept
	var files []*source.Entry
	for e, err := range a.Entries(t.Context()) {
		if err != nil || e.Err != nil {
			t.Fatal(err, e)
		}
		if e.Entry.Kind == index.File {
			files = append(files, e)
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range files {
				e := files[(k*(2*i+1)+i*100)%len(files)]
				if sum, err := digest(e); err != nil || sum != want[e.Entry.Path.String()].sum {
					t.Errorf("%s: %v", e.Entry.Path, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzOpen(f *testing.F) {
	for _, name := range samples(f) {
		b, m := readCase(f, name)
		if len(b) > 100<<10 {
			b = b[:100<<10] // the fuzzer gets slow with larger ones, and their beginnings are enough for it
		}
		o := m.options(f)
		f.Add(b, o.RawKey, false)
		f.Add(b, o.RawKey, true)
	}
	f.Fuzz(func(t *testing.T, b, key []byte, loss bool) {
		o := source.Options{RawKey: key, AllowLoss: loss}
		Probe(sourcetest.Input(b))
		if a, err := Open(t.Context(), sourcetest.Input(b), o); err == nil {
			_, _, _ = readAll(a)
		}
	})
}

// FuzzPages puts anything into pages that authenticate: what somebody who has the key could write.
func FuzzPages(f *testing.F) {
	w := newWriter(f, 2)
	frame, entry := w.file("/f", []byte("content"))
	f.Add(leaf([][]byte{frame}, entry), variableLeaf(variableEntry("/A", "1", 0)), join(u8(1), u8(1), u32(0)), []byte("LBCS\x01"), uint8(0))
	f.Add(leaf(nil, dirEntry("/d")), []byte{}, []byte{}, join(text("/d"), text("/x")), uint8(1))
	f.Add(node([]string{"/a"}, []int64{320}), node([]string{"/a"}, []int64{320}), node([]string{"d/"}, []int64{320}), []byte{}, uint8(2))
	f.Fuzz(func(t *testing.T, toc, variables, forms, data []byte, how uint8) {
		if len(toc)+len(variables)+len(forms)+len(data) > 100<<10 {
			return
		}
		w := newWriter(t, 1+int(how&1))
		pick := func(bit uint8, a, b uint8) uint8 {
			if how&bit != 0 {
				return b
			}
			return a
		}
		w.page(pick(2, kindSegment, kindSymlink), data)
		root, _ := w.root(w.page(pick(4, kindTOCLeaf, kindTOCNode), toc), w.page(pick(8, kindVarLeaf, kindVarNode), variables),
			w.page(pick(16, kindFormLeaf, kindFormNode), forms), false)
		w.header(1, root, 0, w.seq)
		w.header(2, root, 0, w.seq)
		o := w.options()
		o.AllowLoss = how&32 != 0
		a, err := w.open(o)
		if err != nil {
			return
		}
		n := int64(0)
		for e, err := range a.Entries(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; e.Err != nil {
				continue
			}
			if e.Entry.Kind == index.File {
				_, _ = digest(e)
			} else if err := e.Entry.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if n != a.Info().Entries {
			t.Fatalf("%d entries announced, %d given", a.Info().Entries, n)
		}
	})
}
