package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// hostileSource is a stored file that reads as a few bytes.
type hostileSource struct{ io.Reader }

func (hostileSource) Check() error { return nil }
func (hostileSource) Close() error { return nil }

// storeEntries makes an archive of entries that no walk of a tree would give. It returns false when the store refuses
// them.
func storeEntries(name string, entries []index.Entry) bool {
	ctx := context.Background()
	ar, err := store.Create(ctx, name, store.Options{}, store.CreateOptions{})
	if err != nil {
		return false
	}
	defer ar.Close()
	tx, err := ar.Begin(ctx)
	if err != nil {
		return false
	}
	err = tx.Add(ctx, func(yield func(store.Source) bool) {
		for _, e := range entries {
			src := store.Source{Entry: e}
			if e.Kind == index.File {
				src.Open = func() (store.Reader, index.Entry, error) {
					return hostileSource{strings.NewReader("pwned!")}, e, nil
				}
			}
			if !yield(src) {
				return
			}
		}
	}, nil)
	if err == nil {
		_, err = tx.Commit(ctx)
	}
	return err == nil
}

// Archives that nobody made of a tree, extracted by the command itself over a tree with planted links, whatever the
// flags: nothing outside of the destination changes, and what --symlinks inside has made leads nowhere else.
func TestHostileArchives(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "A", "link", `c:\x`, "\xff", "CON", "d."})
	targets := rapid.SampledFrom([]string{"../canary", "../../canary/f", "a", "A/..", "link/..", ".", "..", "/", "/nowhere", "b/../..", "./link"})
	stored, tried := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		tried++
		base := t.TempDir()
		dest, canary := filepath.Join(base, "dest"), filepath.Join(base, "canary")
		write(t, filepath.Join(canary, "f"), []byte("canary"))
		write(t, filepath.Join(canary, "a", "b"), []byte("inner"))
		if err := os.Mkdir(dest, 0o755); err != nil {
			t.Fatal(err)
		}
		path := func() string {
			return strings.Join(rapid.SliceOfN(names, 1, 3).Draw(rt, "path"), "/")
		}
		target := func() string {
			if rapid.Bool().Draw(rt, "absolute") {
				return canary
			}
			return targets.Draw(rt, "target")
		}
		byPath := make(map[pathsafe.Path]index.Entry)
		for range rapid.IntRange(1, 8).Draw(rt, "entries") {
			p, err := pathsafe.Parse(path())
			if err != nil {
				t.Fatal(err)
			}
			e := index.Entry{Path: p, Kind: rapid.SampledFrom([]index.Kind{index.File, index.Dir, index.Symlink}).Draw(rt, "kind"), Mode: 0o4777, HasMtime: true, MtimeSec: 5}
			switch e.Kind {
			case index.File:
				e.Size = 6
			case index.Symlink:
				e.Target = target()
			}
			byPath[p] = e
		}
		var entries []index.Entry
		for _, p := range slices.SortedFunc(maps.Keys(byPath), pathsafe.Path.Compare) {
			entries = append(entries, byPath[p])
		}
		archive := filepath.Join(base, "x.lbx")
		if !storeEntries(archive, entries) {
			return
		}
		stored++
		for range rapid.IntRange(0, 3).Draw(rt, "planted") {
			// Through a link of its own the planter would be the one to change what is outside.
			name := filepath.Join(dest, names.Draw(rt, "planted name"))
			_ = os.Remove(name)
			_ = os.Symlink(target(), name)
		}
		before, err := readTree(canary)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"extract", archive, "-d", dest, "-q"}
		for _, flag := range []string{"--overwrite", "--resume", "--rename-invalid", "--strip=1", "--no-times", "--no-permissions"} {
			if rapid.Bool().Draw(rt, flag) {
				args = append(args, flag)
			}
		}
		inside := rapid.Bool().Draw(rt, "inside")
		if inside {
			args = append(args, "--symlinks=inside")
		}
		defer func(old *hostfs.NameRules) { extractNames = old }(extractNames)
		if rapid.Bool().Draw(rt, "windows") {
			extractNames = &hostfs.NameRules{FoldCase: true, UTF8: true, Refused: `<>:"|?*\`, Control: true, Trailing: true, Devices: true, Longest: 255, Units: true}
		}
		planted, err := readTree(dest)
		if err != nil {
			t.Fatal(err)
		}
		code, _, errs := inProcess(context.Background(), args...)
		if strings.Contains(errs, "internal error") {
			rt.Fatalf("%v: %s", args, errs)
		}
		after, err := readTree(canary)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(before) != fmt.Sprint(after) {
			rt.Fatalf("%v: exit %d: outside was %v and is %v", args, code, before, after)
		}
		if beside, _ := os.ReadDir(base); len(beside) != 3 {
			rt.Fatalf("%v: something was made beside the destination", args)
		}
		if !inside || len(planted) > 0 {
			return
		}
		made, err := readTree(dest)
		if err != nil {
			t.Fatal(err)
		}
		for name := range made {
			to, err := filepath.EvalSymlinks(filepath.Join(dest, name))
			if err == nil && to != dest && !strings.HasPrefix(to, dest+"/") {
				rt.Fatalf("%v: %q leads to %q", args, name, to)
			}
		}
	})
	if stored < tried/4 {
		t.Errorf("only %d archives of %d could be made", stored, tried)
	}
}
