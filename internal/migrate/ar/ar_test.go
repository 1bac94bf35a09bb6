package ar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
	"lockbox/internal/migrate/unpack"
)

func made(name, mode, data string) string {
	s := fmt.Sprintf("%-16s%-12s%-6s%-6s%-8s%-10d`\n%s", name, "1700000000", "1000", "50", mode, len(data), data)
	if len(data)%2 == 1 {
		s += "\n"
	}
	return s
}

type got struct {
	e    *source.Entry
	data string
	err  error
}

func readAll(t testing.TB, b string) (source.Info, []got, error) {
	t.Helper()
	a, err := Open(context.Background(), sourcetest.Input([]byte(b)), source.Options{})
	if err != nil {
		return source.Info{}, nil, err
	}
	defer a.Close()
	var list []got
	for e, err := range a.Entries(context.Background()) {
		if err != nil {
			return a.Info(), list, err
		}
		list = append(list, got{e: e})
	}
	for i := range list { // in any order, and behind the iteration
		g := &list[len(list)-1-i]
		if g.e.Err != nil {
			continue
		}
		r, err := g.e.Open()
		if err != nil {
			t.Fatal(err)
		}
		p, err := io.ReadAll(r)
		g.data, g.err = string(p), errors.Join(err, r.Close())
	}
	return a.Info(), list, nil
}

func TestNames(t *testing.T) {
	b := magic + made("/", "0", "symbols") + made("//", "", "a long name of GNU.o/\nanother one/\n") +
		made("short.o/", "100640", "one") + made("/0", "100755", "two") + made("/22", "644", "three") +
		made("#1/20", "100600", "bsd name with spacesdata") + made("plain", "100644", "")
	info, list, err := readAll(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if info.Entries != 5 || info.Bytes != 15 || len(info.Notes) != 1 || !info.Random {
		t.Errorf("%+v", info)
	}
	for i, want := range []struct {
		name, data string
		mode       uint32
	}{
		{"short.o", "one", 0o640}, {"a long name of GNU.o", "two", 0o755}, {"another one", "three", 0o644},
		{"bsd name with spaces", "data", 0o600}, {"plain", "", 0o644},
	} {
		x := list[i].e.Entry
		if list[i].e.Err != nil || list[i].err != nil || x.Path.String() != want.name || list[i].data != want.data || x.Mode != want.mode ||
			x.Kind != index.File || x.Size != int64(len(want.data)) || x.MtimeSec != 1_700_000_000 || !x.HasOwner || x.UID != 1000 || x.GID != 50 {
			t.Errorf("%+v, want %+v", list[i], want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, m := range []string{
		made("../up/", "644", "x"), made("#1/4", "644", "/abs"), made("/9", "644", "x"), made("/x", "644", "x"),
		made("./", "644", "x"), made("dir/", "40755", "x"), made("", "644", "x"),
	} {
		_, list, err := readAll(t, magic+m+made("good/", "644", "g"))
		if err != nil || len(list) != 2 || list[0].e.Err == nil || list[1].data != "g" {
			t.Errorf("%q: %v, %+v", m, err, list)
		}
	}
	for _, b := range []string{
		magic + "x", magic + strings.Replace(made("a/", "644", "x"), "`", "'", 1), magic + made("a/", "9", "x"),
		magic + made("a/", "644", "xxxxxx")[:63], magic + made("#1/9", "644", "x"), magic + made("#1/-1", "644", "x"),
		magic + made("//", "", "x") + made("//", "", "x"), "!<arch>", "",
	} {
		if _, _, err := readAll(t, b); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
	}
	if v := Probe(sourcetest.Input([]byte(magicThin))); v.Format != Format || v.Supported || v.Detail == "" {
		t.Errorf("thin: %+v", v)
	}
	if _, _, err := readAll(t, magicThin); !errors.Is(err, unpack.ErrUnsupported) {
		t.Errorf("thin: %v", err)
	}
	two := magic + made("a/", "644", "x") + made("b/", "644", "x")
	if _, err := Open(context.Background(), sourcetest.Input([]byte(two)), source.Options{MaxEntries: 1}); !errors.Is(err, source.ErrLimit) {
		t.Errorf("more entries than allowed: %v", err)
	}
}

func TestRealTools(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"a": "one", "a-name-that-is-longer-than-sixteen.o": strings.Repeat("two", 5000), "empty": "", "with space": "4"}
	var names []string
	for n, data := range files {
		p := filepath.Join(dir, n)
		if err := errors.Join(os.WriteFile(p, []byte(data), 0o640), os.Chtimes(p, time.Time{}, time.Unix(1_600_000_000, 0))); err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}
	for _, args := range [][]string{{"ar", "rcU"}, {"bsdtar", "--format=arbsd", "-cf"}, {"bsdtar", "--format=argnu", "-cf"}} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("skipped: no %s here", args[0])
			continue
		}
		out := filepath.Join(t.TempDir(), "x.a")
		packed := slices.Clone(names)
		if args[1] == "--format=argnu" { // bsdtar has no table of long names to write
			packed = slices.DeleteFunc(packed, func(n string) bool { return len(n) > 15 })
		}
		cmd := exec.Command(args[0], slices.Concat(args[1:], []string{out}, packed)...)
		cmd.Dir = dir
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, msg)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		_, list, err := readAll(t, string(b))
		if err != nil || len(list) != len(packed) {
			t.Errorf("%v: %d entries, %v", args, len(list), err)
		}
		for _, g := range list {
			data, ok := files[g.e.Name]
			if x := g.e.Entry; !ok || g.data != data || g.err != nil || g.e.Err != nil || x.Mode != 0o640 || x.MtimeSec != 1_600_000_000 {
				t.Errorf("%v: %+v", args, g)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	sourcetest.Seed(f, "../testdata/libarchive", ".ar")
	f.Add([]byte(magic + made("//", "", "long name/\n") + made("/0", "644", "x") + made("#1/4", "644", "namedata")))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, list, err := readAll(t, string(b))
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, unpack.ErrUnsupported) {
			t.Fatalf("an error of no kind: %v", err)
		}
		var total int
		for _, g := range list {
			if g.err != nil {
				t.Fatalf("content: %v", g.err)
			}
			total += len(g.data)
			if g.e.Err == nil && !bytes.Contains(b, []byte(g.data)) {
				t.Fatal("a content that the input does not have")
			}
		}
		if total > len(b) {
			t.Fatal("more content than input")
		}
	})
}

// What stands before damage is given out, and the damage is the last thing.
func TestCutShort(t *testing.T) {
	b := magic + made("a/", "644", "whole!") + made("b/", "644", "cut")
	info, list, err := readAll(t, b[:len(b)-10])
	if !errors.Is(err, format.ErrCorrupt) || len(list) != 1 || list[0].e.Err != nil || list[0].e.Entry.Size != 6 || info.Entries != -1 || info.Bytes != -1 {
		t.Errorf("%v, %+v, %+v", err, list, info)
	}
}
