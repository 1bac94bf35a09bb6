package revault

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
)

// patched is an archive one byte of which reads as another than it is.
type patched struct {
	b   []byte
	at  int          // -1: none does
	log map[run]bool // what was read; nil: nobody wants to know
}

type run struct{ off, n int }

func flippedAt(b []byte, at int) *patched { return &patched{b: b, at: at} }

func (p *patched) input() source.Input { return source.Input{ReaderAt: p, Size: int64(len(p.b))} }

func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n := copy(b, p.b[min(off, int64(len(p.b))):])
	if i := p.at - int(off); p.at >= 0 && i >= 0 && i < n {
		b[i] ^= 1 << (p.at % 8)
	}
	if p.log != nil {
		p.log[run{int(off), n}] = true
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// reading is an open archive of which single contents can be read again and again, each time from the file.
type reading struct {
	in    *patched
	a     *Archive
	files []*source.Entry
}

func newReading(t testing.TB, in *patched, o source.Options) *reading {
	t.Helper()
	a, err := Open(t.Context(), in.input(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := &reading{in: in, a: a.(*Archive)}
	for e, err := range a.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Err == nil && e.Entry.Kind == index.File {
			r.files = append(r.files, e)
		}
	}
	return r
}

// forget empties the caches.
func (r *reading) forget() {
	r.a.pages.cache = cache[pageKey, *page]{most: pageBudget}
	r.a.frames = cache[*descriptor, []byte]{most: frameBudget}
}

// touched says what reading an undamaged sample reads. A byte that nothing reads cannot change anything, and one that only
// some contents are made of changes nothing but those, for what is done next depends on nothing but what was read.
type touched struct {
	opening []bool        // bytes that are read to open the sample and to list its entries, whatever is allowed
	by      map[run][]int // the numbers of the files whose contents need the bytes, two for all that need the very same ones
}

func touch(t *testing.T, b []byte, o source.Options) touched {
	t.Helper()
	x := touched{opening: make([]bool, len(b)), by: map[run][]int{}}
	p := &patched{b: b, at: -1, log: map[run]bool{}}
	o.AllowLoss = true
	newReading(t, p, o)
	o.AllowLoss = false
	r := newReading(t, p, o)
	for k := range p.log {
		for i := range k.n {
			x.opening[k.off+i] = true
		}
	}
	alike := map[string]int{}
	for i, e := range r.files {
		r.forget()
		p.log = map[run]bool{}
		if _, err := digest(e); err != nil && !errors.Is(err, format.ErrCorrupt) { // some samples are damaged as they are
			t.Fatal(err)
		}
		runs := slices.SortedFunc(maps.Keys(p.log), func(a, b run) int { return cmp.Or(a.off-b.off, a.n-b.n) })
		key := fmt.Sprint(runs)
		if alike[key]++; alike[key] > 2 {
			continue
		}
		for _, k := range runs {
			x.by[k] = append(x.by[k], i)
		}
	}
	return x
}

// files lists those whose contents need a byte.
func (x *touched) files(at int) (list []int) {
	for k, files := range x.by {
		if at >= k.off && at < k.off+k.n {
			list = append(list, files...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestEveryByteOfAll changes every byte of the samples, one after the other. Where only contents need it, only these are
// read again; TestEveryByteChanged reads all of the archive for some bytes.
func TestEveryByteOfAll(t *testing.T) {
	if !allBytes {
		t.Skip("takes minutes: LOCKBOX_ALL_BYTES=1 and -timeout 30m run it")
	}
	for name := range damaged() {
		t.Run(name, func(t *testing.T) {
			b, m := readCase(t, name)
			want, x := whole(t, b, m.options(t)), touch(t, b, m.options(t))
			var mu sync.Mutex
			count := map[outcome]int{}
			lossy, unread := map[outcome]int{}, 0
			const workers = 2
			var wg sync.WaitGroup
			for w := range workers {
				r := newReading(t, flippedAt(b, -1), m.options(t))
				wg.Go(func() {
					for at := w; at < len(b); at += workers {
						var strict, loss outcome
						files := x.files(at)
						if x.opening[at] {
							o := m.options(t)
							strict = checkDamaged(t, at, flippedAt(b, at).input(), o, want)
							o.AllowLoss = true
							loss = checkDamaged(t, at, flippedAt(b, at).input(), o, want)
						} else {
							strict = r.again(t, at, files, want)
							loss = strict
						}
						mu.Lock()
						count[strict]++
						lossy[loss]++
						if !x.opening[at] && len(files) == 0 {
							unread++
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			t.Logf("%d bytes changed: %d times an error, %d times all of the content, %d of these never read; with loss allowed: %d errors, %d times less, %d times all",
				len(b), count[refused], count[same], unread, lossy[refused], lossy[less], lossy[same])
		})
	}
}

// again reads some contents with a byte changed.
func (r *reading) again(t *testing.T, at int, files []int, want map[string]got) outcome {
	is := same
	r.in.at = at
	r.forget()
	for _, i := range files {
		e := r.files[i]
		switch sum, err := digest(e); {
		case errors.Is(err, format.ErrCorrupt):
			is = refused
		case err != nil || sum != want[e.Entry.Path.String()].sum:
			t.Errorf("at %d: %s is %s, %v", at, e.Name, sum, err)
		}
	}
	return is
}
