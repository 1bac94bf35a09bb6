package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

const simName0 = "d/a"

// simWith returns a disk with one durable file.
func simWith(t *testing.T, sector int, content []byte) (*Sim, File) {
	t.Helper()
	s := NewSim(sector)
	f, err := s.CreateTemp(simName0, 0o644)
	ok(t, err)
	_, err = f.WriteAt(content, 0)
	ok(t, err)
	ok(t, f.Sync())
	ok(t, f.Publish())
	return s, f
}

// contents returns what the file can be after a power cut, each once, sorted; "-" when it has no name.
func contents(s *Sim, w Spread) (all []string) {
	s.Pending().Each(w, rand.New(rand.NewPCG(1, 1)), func(x *Sim, _ Rule) bool {
		c := "-"
		if b := x.Bytes(simName0); b != nil {
			c = shorten(b, x.sector)
		}
		all = append(all, c)
		return true
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// shorten writes a file as the first byte of each of its sectors.
func shorten(b []byte, sector int) string {
	var out []byte
	for k := 0; k < len(b); k += sector {
		c := b[k]
		if c == 0 {
			c = '0'
		}
		out = append(out, c)
	}
	return string(out)
}

func fill(c byte, sectors int) []byte { return bytes.Repeat([]byte{c}, sectors*512) }

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

var everyState = Spread{Exhaustive: 1 << 12}

func TestSimSectorsAreIndependent(t *testing.T) {
	s, f := simWith(t, 512, fill('a', 2))
	write(t, f, string(fill('b', 2)), 0)
	equal(t, "before the sync", contents(s, everyState), []string{"aa", "ab", "ba", "bb"})
	write(t, f, string(fill('c', 1)), 0)
	equal(t, "with two versions", contents(s, everyState), []string{"aa", "ab", "ba", "bb", "ca", "cb"})
	ok(t, f.Sync())
	equal(t, "after the sync", contents(s, everyState), []string{"cb"})
}

func TestSimSizeAndTruncation(t *testing.T) {
	s, f := simWith(t, 512, fill('a', 2))
	write(t, f, string(fill('b', 1)), 1024)
	equal(t, "grown", contents(s, everyState), []string{"aa", "aa0", "aab"})
	ok(t, f.Sync())
	ok(t, f.Truncate(512))
	equal(t, "cut", contents(s, everyState), []string{"a", "a00", "a0b", "aa0", "aab"})
	ok(t, f.Sync())
	ok(t, f.Truncate(1536))
	equal(t, "grown again", contents(s, everyState), []string{"a", "a00"})
}

func TestSimFailedSync(t *testing.T) {
	s, f := simWith(t, 512, fill('a', 2))
	write(t, f, string(fill('b', 2)), 0)
	s.Hook = func(op SimOp) *Fault {
		if op.Kind == OpSync {
			return &Fault{Err: syscall.EIO}
		}
		return nil
	}
	is(t, f.Sync(), syscall.EIO)
	s.Hook = nil
	all := []string{"aa", "ab", "ba", "bb"}
	equal(t, "after the failure", contents(s, everyState), all)
	ok(t, f.Sync())
	equal(t, "a second sync changes nothing", contents(s, everyState), all)
	if got := shorten(s.Bytes(simName0), 512); got != "bb" {
		t.Fatalf("the cache shows %q", got)
	}
	write(t, f, string(fill('b', 1)), 0)
	ok(t, f.Sync())
	equal(t, "what is written again is safe", contents(s, everyState), []string{"ba", "bb"})
}

func TestSimNames(t *testing.T) {
	for _, named := range []bool{false, true} {
		s := NewSim(512)
		s.NamedTemps = named
		f, err := s.CreateTemp(simName0, 0o600)
		ok(t, err)
		write(t, f, string(fill('a', 1)), 0)
		ok(t, f.Sync())
		s.NoDirSync = true
		ok(t, f.Publish())
		equal(t, "published, directory not synced", contents(s, everyState), []string{"-", "a"})
		ok(t, s.SyncDir("d"))
		equal(t, "directory synced", contents(s, everyState), []string{"a"})
		ok(t, s.Remove(simName0))
		equal(t, "removed", contents(s, everyState), []string{"-", "a"})
		s.Hook = func(op SimOp) *Fault { return &Fault{Err: syscall.EIO} }
		is(t, s.SyncDir("d"), syscall.EIO)
		s.Hook = nil
		ok(t, s.SyncDir("d"))
		equal(t, "the sync of the directory failed", contents(s, everyState), []string{"-", "a"})
	}
}

func TestSimLeftoverTempIsRemoved(t *testing.T) {
	s := NewSim(512)
	s.NamedTemps = true
	if _, err := s.CreateTemp(simName0, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := s.Names(); len(n) != 1 {
		t.Fatalf("names %q", n)
	}
	s.Kill()
	f, err := s.CreateTemp(simName0, 0o600)
	ok(t, err)
	if n := s.Names(); len(n) != 1 {
		t.Fatalf("the leftover stays: %q", n)
	}
	ok(t, f.Close())
	if n := s.Names(); len(n) != 0 {
		t.Fatalf("names %q", n)
	}
}

func TestSimFaults(t *testing.T) {
	s, f := simWith(t, 512, fill('a', 4))
	var fault *Fault
	s.Hook = func(op SimOp) *Fault { return fault }
	for _, c := range []struct {
		fault Fault
		want  string
	}{
		{Fault{Err: syscall.ENOSPC}, "aaaa"},
		{Fault{Err: syscall.EIO, Kept: 512}, "baaa"},
		{Fault{Err: syscall.EIO, Kept: 1 << 20}, "bbaa"},
		{Fault{Misdirect: true, To: 1024}, "bbbb"},
	} {
		fault = &c.fault
		n, err := f.WriteAt(fill('b', 2), 0)
		if !errors.Is(err, c.fault.Err) || (n == 1024) != (err == nil) {
			t.Fatalf("%+v: %d, %v", c.fault, n, err)
		}
		if got := shorten(s.Bytes(simName0), 512); got != c.want {
			t.Fatalf("%+v: %q, want %q", c.fault, got, c.want)
		}
	}
	fault = &Fault{Err: syscall.EIO}
	is(t, f.Truncate(512), syscall.EIO)
	if size, err := f.Size(); size != 2048 || err != nil {
		t.Fatal(size, err)
	}
	fault.Kept = 1
	is(t, f.Truncate(512), syscall.EIO)
	if size, err := f.Size(); size != 512 || err != nil {
		t.Fatal(size, err)
	}
	_, err := f.TryLock(1, 1, true)
	is(t, err, syscall.EIO)
}

func TestSimKillAndLostLocks(t *testing.T) {
	s, f := simWith(t, 512, fill('a', 1))
	g, err := s.Open(simName0, true)
	ok(t, err)
	lock := func(f File, off int64, want bool) {
		t.Helper()
		if got, err := f.TryLock(off, 1, true); got != want || err != nil {
			t.Fatal(got, err)
		}
	}
	lock(f, 7, true)
	lock(g, 7, false)
	s.LoseLocks(simName0)
	lock(g, 7, true)
	ok(t, f.Unlock(7, 1)) // it does not know, and takes nothing from the other
	h, err := s.Open(simName0, true)
	ok(t, err)
	lock(h, 7, false)
	write(t, f, string(fill('b', 1)), 0)
	s.Kill()
	if _, err := g.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("a killed process writes")
	}
	next, err := s.Open(simName0, true)
	ok(t, err)
	lock(next, 7, true)
	equal(t, "the cache survives, unsynced", contents(s, everyState), []string{"a", "b"})
}

func TestSimEditAndRemains(t *testing.T) {
	s, f := simWith(t, 512, fill('a', 3))
	s.Edit(simName0, 510, []byte("XYZ"))
	b := s.Bytes(simName0)
	if string(b[509:514]) != "aXYZa" {
		t.Fatalf("%q", b[509:514])
	}
	equal(t, "an edit is on the disk", contents(s, everyState), []string{"aZa"})
	write(t, f, string(fill(0, 1)), 0)
	var seen []string
	for off, b := range s.Remains(simName0) {
		seen = append(seen, fmt.Sprintf("%d:%c", off, b[0]))
	}
	slices.Sort(seen)
	equal(t, "what may be on the disk", seen, []string{"0:a", "1024:a", "512:Z"})
	ok(t, f.Sync())
	for off := range s.Remains(simName0) {
		if off == 0 {
			t.Fatal("a durable wipe leaves something")
		}
	}
	ok(t, f.Truncate(1024)) // one sector was not wiped before it was cut off
	ok(t, f.Sync())
	seen = nil
	for off, b := range s.Remains(simName0) {
		seen = append(seen, fmt.Sprintf("%d:%c", off, b[0]))
	}
	slices.Sort(seen)
	equal(t, "after the truncation", seen, []string{"-1:a", "512:Z"})
}

func TestSimSelection(t *testing.T) {
	s, f := simWith(t, 512, fill('a', 40))
	write(t, f, string(fill('b', 40)), 0)
	count := map[string]int{}
	s.Pending().Each(Spread{Exhaustive: 1 << 10, Steps: 5, Random: 7, Garbage: 3}, rand.New(rand.NewPCG(1, 2)), func(x *Sim, r Rule) bool {
		count[r.Name]++
		got := shorten(x.Bytes(simName0), 512)
		switch r.Name {
		case "none":
			if got != string(bytes.Repeat([]byte{'a'}, 40)) {
				t.Errorf("none: %s", got)
			}
		case "all":
			if got != string(bytes.Repeat([]byte{'b'}, 40)) {
				t.Errorf("all: %s", got)
			}
		case "prefix":
			if i := bytes.IndexByte([]byte(got), 'a'); i >= 0 && bytes.IndexByte([]byte(got[i:]), 'b') >= 0 {
				t.Errorf("prefix: %s", got)
			}
		case "all but":
			if bytes.Count([]byte(got), []byte("a")) != 1 {
				t.Errorf("all but: %s", got)
			}
		case "only":
			if bytes.Count([]byte(got), []byte("b")) != 1 {
				t.Errorf("only: %s", got)
			}
		}
		return true
	})
	if count["none"] != 1 || count["all"] != 1 || count["prefix"] == 0 || count["all but"] < 4 || count["only"] < 4 ||
		count["random"] != 7 || count["all garbage"] != 1 || count["garbage"] == 0 {
		t.Fatalf("%v", count)
	}
	if got := contents(s, Spread{Exhaustive: 1 << 10, Steps: 40}); len(got) != 2+39+40+40-2 {
		t.Fatalf("%d states without a limit of steps", len(got))
	}
}

// TestSimModel runs random operations beside a list of whole-file snapshots: the newest image is what the
// cache shows, after a sync it is the only one, every image consists of sectors that stood there once,
// and images and clones share nothing with the disk they come from.
func TestSimModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, f := simWith(t, 512, fill('a', 3))
		cache := fill('a', 3)
		past := [][]byte{slices.Clone(cache)} // since the last sync
		for range rapid.IntRange(1, 8).Draw(rt, "ops") {
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0, 1:
				off := rapid.IntRange(0, 2500).Draw(rt, "off")
				b := rapid.SliceOfN(rapid.Byte(), 1, 1200).Draw(rt, "data")
				write(t, f, string(b), int64(off))
				if off+len(b) > len(cache) {
					cache = append(cache, make([]byte, off+len(b)-len(cache))...)
				}
				copy(cache[off:], b)
			case 2:
				n := rapid.IntRange(0, 3000).Draw(rt, "size")
				ok(t, f.Truncate(int64(n)))
				cache = append(cache, make([]byte, max(0, n-len(cache)))...)[:n]
				// What was cut off must not come back when the file grows again.
				clear(cache[n:cap(cache)])
			case 3:
				ok(t, f.Sync())
				past = nil
			}
			past = append(past, slices.Clone(cache))
		}
		if got := s.Bytes(simName0); !bytes.Equal(got, cache) {
			rt.Fatalf("the cache shows %d bytes, want %d", len(got), len(cache))
		}
		clone := s.Clone()
		var newest []byte
		images := 0
		s.Pending().Each(Spread{Exhaustive: 64, Steps: 6, Random: 6}, rand.New(rand.NewPCG(3, 4)), func(x *Sim, r Rule) bool {
			images++
			got := x.Bytes(simName0)
			if r.Name == "all" || r.Name == "state" {
				newest = got // of all states the last one has the newest of everything
			}
			checkImage(rt, got, past)
			// Writing to an image changes neither the disk nor other images.
			g, err := x.Open(simName0, true)
			ok(t, err)
			write(t, g, string(fill('!', 3)), 0)
			ok(t, g.Sync())
			return true
		})
		if !bytes.Equal(newest, cache) {
			rt.Fatal("the newest image is not what the cache shows")
		}
		if len(past) == 1 && images != 1 {
			rt.Fatalf("%d images right after a sync", images)
		}
		ok(t, f.Sync())
		if got := s.Bytes(simName0); !bytes.Equal(got, cache) || !bytes.Equal(clone.Bytes(simName0), cache) {
			rt.Fatal("an image shares bytes with its disk")
		}
	})
}

// checkImage demands that an image's size and each of its sectors stood there at some time.
func checkImage(rt *rapid.T, got []byte, past [][]byte) {
	at := func(b []byte, k int) []byte {
		s := make([]byte, 512)
		if k*512 < len(b) {
			copy(s, b[k*512:])
		}
		return s
	}
	size := false
	for _, p := range past {
		size = size || len(p) == len(got)
	}
	if !size {
		rt.Fatalf("an image has %d bytes", len(got))
	}
	for k := range (len(got) + 511) / 512 {
		there := false
		for _, p := range past {
			// A sector that the image's size cuts is zero behind its end.
			want := at(p, k)
			clear(want[min(512, len(got)-k*512):])
			there = there || bytes.Equal(at(got, k), want)
		}
		if !there {
			rt.Fatalf("sector %d was never like this", k)
		}
	}
}
