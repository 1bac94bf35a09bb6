package hostfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"lockbox/internal/pathsafe"
)

// hostile is one extraction of entries that an attacker chose, over a tree in which another planted links, before and
// while it runs. It is drawn from bytes.
type hostile struct {
	data []byte
}

func (h *hostile) next() int {
	if len(h.data) == 0 {
		return 0
	}
	b := h.data[0]
	h.data = h.data[1:]
	return int(b)
}

func pick[T any](h *hostile, list []T) T { return list[h.next()%len(list)] }

var (
	hostileNames = []string{"a", "b", "A", "...", "a\\..\\x", "\xff", "secret"}
	// The canary stands beside the destination.
	hostileTargets = []string{"../canary", "../canary/secret", "..", "../..", "a", "b", "a/../..", ".", "/", "nowhere", "secret", "./a/b"}
)

func (h *hostile) path() string {
	var parts []string
	for range 1 + h.next()%3 {
		parts = append(parts, pick(h, hostileNames))
	}
	return strings.Join(parts, "/")
}

func (h *hostile) target(canary string) string {
	if h.next()%4 == 0 {
		return canary
	}
	return pick(h, hostileTargets)
}

// plant makes something in the destination, and never through one of its links: os.Root does not leave it.
func (h *hostile) plant(dest, canary string) {
	root, err := os.OpenRoot(dest)
	if err != nil {
		return
	}
	defer root.Close()
	p := h.path()
	switch h.next() % 5 {
	case 0, 1:
		_ = root.RemoveAll(p)
		_ = root.Symlink(h.target(canary), p)
	case 2:
		_ = root.MkdirAll(p, 0o755)
	case 3:
		_ = root.WriteFile(p, []byte("planted"), 0o600)
	case 4:
		// A second name of a file outside. The link itself changes no byte and no mode of it.
		if !strings.Contains(p, "/") {
			_ = os.Remove(filepath.Join(dest, p))
			_ = os.Link(filepath.Join(canary, "secret"), filepath.Join(dest, p))
		}
	}
}

// swap puts a link in the place of a directory and takes it away again, until it is told to stop.
func swap(dest, canary string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		name := filepath.Join(dest, hostileNames[i%2])
		if os.Rename(name, name+".moved") == nil {
			_ = os.Symlink(canary, name)
			runtime.Gosched()
			_ = os.Remove(name)
			_ = os.Rename(name+".moved", name)
		}
	}
}

// run extracts, and returns what changed outside.
func (h *hostile) run(t testing.TB, during bool) string {
	base, err := os.MkdirTemp("", "hostile")
	check(t, err)
	defer func() {
		check(t, filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(p, 0o700)
			}
			return nil
		}))
		check(t, os.RemoveAll(base))
	}()
	dest, canary := filepath.Join(base, "dest"), filepath.Join(base, "canary")
	write(t, filepath.Join(canary, "secret"), "secret")
	write(t, filepath.Join(canary, "a", "b"), "inner")
	check(t, os.Symlink("secret", filepath.Join(canary, "b")))
	check(t, os.Mkdir(dest, 0o755))
	for range h.next() % 6 {
		h.plant(dest, canary)
	}
	before := outside(t, canary)

	flags := h.next()
	opt := ExtractOptions{Overwrite: flags&1 != 0, NoTimes: flags&4 != 0, NoPermissions: flags&8 != 0, KeepSetid: flags&16 != 0}
	switch flags >> 5 & 3 {
	case 1:
		opt.Resume = true
	case 2:
		opt.SkipExisting = !opt.Overwrite
	}
	type entry struct {
		path pathsafe.Path
		m    Meta
	}
	var entries []entry
	for range 1 + h.next()%10 {
		p := path(t, h.path())
		m := Meta{Kind: pick(h, []Kind{KindFile, KindDir, KindSymlink}), Mode: uint32(h.next()) << 4 & modeAll, MtimeSec: int64(h.next()), Size: 6}
		if m.Kind == KindSymlink {
			m.Target = h.target(canary)
		}
		entries = append(entries, entry{p, m})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.path.Compare(b.path) })
	rename, abort := h.next()%2 == 0, h.next()%4 == 0

	var wg sync.WaitGroup
	stop := make(chan struct{})
	if during {
		wg.Go(func() { swap(dest, canary, stop) })
	}
	func() {
		defer wg.Wait()
		defer close(stop)
		x, err := NewExtractor(dest, opt)
		if err != nil {
			return
		}
		defer x.Abort()
		names, err := x.CheckNames(func(yield func(pathsafe.Path, error) bool) {
			for _, e := range entries {
				if !yield(e.path, nil) {
					return
				}
			}
		}, true, rename)
		if err != nil {
			return
		}
		for i := range entries {
			entries[i].path, err = names.Path(entries[i].path)
			check(t, err)
		}
		err = x.Preflight(func(yield func(PreflightItem) bool) {
			for _, e := range entries {
				if !yield(PreflightItem{e.path, e.m.Kind}) {
					return
				}
			}
		})
		if err != nil && !during && flags&128 == 0 {
			return // as a command does; else go on, as if everything had been planted a moment later
		}
		for _, e := range entries {
			if x.Exists(e.path) && e.m.Kind == KindFile {
				if src, err := x.OpenExisting(e.path); err == nil {
					x.Keep(e.path, src.Meta)
					_ = src.Close()
				}
			}
		}
		for _, kind := range []Kind{KindDir, KindFile, KindSymlink} {
			for _, e := range entries {
				switch {
				case e.m.Kind != kind:
				case x.Skipped(e.path):
					_ = x.Restore(e.path, e.m)
				case kind == KindDir:
					_ = x.Mkdir(e.path, e.m, nil)
				case kind == KindFile:
					_ = x.WriteFile(e.path, e.m, []byte("pwned!"))
				default:
					_ = x.Symlink(e.path, e.m)
				}
			}
		}
		if !abort {
			_ = x.Finish()
		}
	}()
	after := outside(t, canary)
	var changed []string
	for p, w := range before {
		if after[p] != w {
			changed = append(changed, fmt.Sprintf("%q was %s and is %s", p, w, after[p]))
		}
	}
	for p, g := range after {
		if _, ok := before[p]; !ok {
			changed = append(changed, fmt.Sprintf("%q is new: %s", p, g))
		}
	}
	return strings.Join(changed, "\n")
}

// outside describes the canary, and whether anything stands beside it.
func outside(t testing.TB, canary string) map[string]string {
	all := tree(t, canary)
	fi, err := os.Lstat(canary)
	check(t, err)
	beside, err := os.ReadDir(filepath.Dir(canary))
	check(t, err)
	all[""] = fmt.Sprint(fi.Mode(), fi.ModTime().UnixNano(), len(beside))
	return all
}

// Nothing outside of the destination ever changes.
func FuzzHostileExtraction(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00"), false)
	f.Add([]byte("\x03\x02\x00\x01\x02\x00\x05\x01\x01\x00\x01\x00\x00\x21\x04\x02\x00\x01\x00\xff"), true)
	f.Fuzz(func(t *testing.T, data []byte, during bool) {
		if changed := (&hostile{data}).run(t, during); changed != "" {
			t.Fatal(changed)
		}
	})
}

func TestHostileExtraction(t *testing.T) {
	for _, during := range []bool{false, true} {
		rapid.Check(t, func(rt *rapid.T) {
			data := rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(rt, "data")
			if changed := (&hostile{data}).run(t, during); changed != "" {
				rt.Fatal(changed)
			}
		})
	}
}
