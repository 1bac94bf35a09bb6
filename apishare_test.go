package lockbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"lockbox"
)

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestCheapReads asserts the work that the easy calls cost.
func TestCheapReads(t *testing.T) {
	const files = 500
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("line %d\n", i), 100) }
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		for i := range files {
			put(t, tx, fmt.Sprintf("d%02d/%03d", i%20, i), text(i))
		}
	})
	whole := open(t, name, lockbox.Options{})
	must(t, whole.Bulk(t.Context(), whole.Entries(""), func(lockbox.Piece) error { return nil }))
	frames := whole.Counters().FramesDecoded

	// One file of all costs its own frame and a path through each tree.
	one := open(t, name, lockbox.Options{})
	if c := one.Counters(); c.NodesDecoded != 0 || c.FramesDecoded != 0 {
		t.Errorf("opening decodes: %+v", c)
	}
	b, err := one.ReadFile("d07/007")
	if err != nil || string(b) != text(7) {
		t.Fatal(err)
	}
	if c := one.Counters(); c.FramesDecoded != 1 || c.NodesDecoded > 6 || c.Reads > 10 {
		t.Errorf("one file costs %+v", c)
	}
	// Each file by itself, in the order of the directories, from many goroutines: every frame once.
	all := open(t, name, lockbox.Options{})
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := g; i < files; i += 64 {
				b, err := all.ReadFile(fmt.Sprintf("d%02d/%03d", i%20, i))
				if err != nil || string(b) != text(i) {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if c := all.Counters(); c.FramesDecoded != frames || frames == 0 || frames > files/10 {
		t.Errorf("%d frames were decoded, there are %d", c.FramesDecoded, frames)
	}
	// A directory's listing passes over what lies deeper.
	dirs := open(t, name, lockbox.Options{})
	list, err := dirs.ReadDir(".")
	if err != nil || len(list) != 20 {
		t.Fatal(len(list), err)
	}
	if c := dirs.Counters(); c.FramesDecoded != 0 {
		t.Errorf("listing decodes contents: %+v", c)
	}
}

func TestBulk(t *testing.T) {
	want := map[string][]byte{"big": noise(5 << 20), "empty": {}}
	for i := range 300 {
		want[fmt.Sprintf("small/%03d", i)] = noise(i * 7)
	}
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		for n, b := range want {
			must(t, tx.PutBytes(t.Context(), file(n), b))
		}
		must(t, tx.Put(t.Context(), lockbox.Entry{Path: "small", Mode: fs.ModeDir | 0o755}, nil))
	})
	for _, jobs := range []int{1, 3} {
		a := open(t, name, lockbox.Options{Jobs: jobs})
		var mu sync.Mutex
		got := map[string][]byte{}
		must(t, a.Bulk(t.Context(), a.Entries(""), func(p lockbox.Piece) error {
			mu.Lock()
			defer mu.Unlock()
			if got[p.Entry.Path] == nil {
				got[p.Entry.Path] = make([]byte, p.Entry.Size)
			}
			copy(got[p.Entry.Path][p.Off:], p.Data)
			return p.Err
		}))
		if len(got) != len(want) {
			t.Fatalf("%d of %d files", len(got), len(want))
		}
		for n := range want {
			if !bytes.Equal(got[n], want[n]) {
				t.Errorf("%s differs", n)
			}
		}
		stop := errors.New("enough")
		if err := a.Bulk(t.Context(), a.Entries(""), func(lockbox.Piece) error { return stop }); err != stop {
			t.Errorf("the callback's error came back as %v", err)
		}
		err := a.Bulk(t.Context(), func(yield func(lockbox.Entry, error) bool) { yield(file("big"), nil) }, func(lockbox.Piece) error { return nil })
		is(t, err, fs.ErrInvalid)
	}
}

// TestConcurrentUse has readers, listings and Close meet; the race detector looks at it.
func TestConcurrentUse(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) {
		for i := range 40 {
			put(t, tx, fmt.Sprintf("f%02d", i), strings.Repeat("x", i*1000))
		}
	})
	a, err := lockbox.Open(t.Context(), name, lockbox.Options{CacheBytes: 64 << 10, Trust: lockbox.Earned})
	must(t, err)
	begun := make(chan struct{}, 100)
	scrubbed := make(chan error, 1)
	go func() {
		scrubbed <- a.Scrub(t.Context(), lockbox.ScrubOptions{MaxAge: time.Hour, Damage: func(f lockbox.Finding) { t.Error(f) }})
	}()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				b, err := a.ReadFile(fmt.Sprintf("f%02d", i%40))
				if err == nil && len(b) != i%40*1000 {
					t.Errorf("%d bytes", len(b))
				}
				for e, lerr := range a.Entries("") {
					if lerr != nil {
						err = lerr
						break
					}
					if e.Path == "f20" {
						break
					}
				}
				if err != nil {
					if !errors.Is(err, fs.ErrClosed) {
						t.Error(err)
					}
					return
				}
				if i == 3 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	must(t, a.Close())
	wg.Wait()
	is(t, <-scrubbed, fs.ErrClosed)
	must(t, a.Close())
	_, err = a.Info()
	is(t, err, fs.ErrClosed)
	_, err = a.Open("f01")
	is(t, err, fs.ErrClosed)
	_, err = a.Begin(t.Context())
	is(t, err, fs.ErrClosed)
}

// TestCloseInside shows that a listing does not keep Close waiting.
func TestCloseInside(t *testing.T) {
	name := create(t, lockbox.Options{}, lockbox.CreateOptions{}, func(tx *lockbox.Tx) { put(t, tx, "a", "1"); put(t, tx, "b", "2") })
	a, err := lockbox.Open(t.Context(), name, lockbox.Options{})
	must(t, err)
	var last error
	for _, err := range a.Entries("") {
		last = err
		must(t, a.Close())
	}
	is(t, last, fs.ErrClosed)
}
