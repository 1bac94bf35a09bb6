package sourcetest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
)

// fact is what another program says of an entry; a line of facts.txt, whose first lines explain it.
type fact struct{ path, kind, size, time, what, lost string }

// Facts opens every archive in a directory and holds it against the directory's facts.txt. Times without a zone are taken
// for UTC while it runs.
func Facts(t *testing.T, dir string, open func(name string, b []byte) (source.Archive, error)) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	facts := readFacts(t, filepath.Join(dir, "facts.txt"))
	for _, path := range Archives(t, dir) {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := facts[name]
			if len(want) == 0 {
				t.Fatal("there are no facts of it")
			}
			a, err := open(name, b)
			if whole := want[0]; whole.path == "-" {
				if err == nil || !strings.Contains(err.Error(), whole.what) {
					t.Errorf("error %v, want %q", err, whole.what)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			for range 2 {
				check(t, a, want)
			}
		})
	}
}

// Archives lists the archives of a directory that has facts.
func Archives(t testing.TB, dir string) (list []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "test_*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no archives in %s: %v", dir, err)
	}
	return names
}

func readFacts(t *testing.T, name string) map[string][]fact {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	facts := make(map[string][]fact)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		c := append(strings.Split(lines.Text(), "\t"), "")
		if len(c) < 7 {
			t.Fatalf("%s: a line of %d columns: %q", name, len(c)-1, lines.Text())
		}
		facts[c[0]] = append(facts[c[0]], fact{c[1], c[2], c[3], c[4], c[5], c[6]})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return facts
}

func check(t *testing.T, a source.Archive, want []fact) {
	t.Helper()
	left := make(map[string]fact)
	for _, f := range want {
		left[f.path] = f
	}
	for e, err := range a.Entries(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		path := e.Entry.Path.String()
		if e.Err != nil {
			path = e.Name
		}
		f, ok := left[path]
		if !ok {
			t.Errorf("%q is one too many: %v", path, e.Err)
			continue
		}
		delete(left, path)
		got := describe(e)
		if f.kind == "refused" && strings.Contains(got.what, f.what) {
			got.what = f.what
		}
		for _, c := range []struct{ got, want *string }{{&got.size, &f.size}, {&got.time, &f.time}, {&got.what, &f.what}} {
			if *c.want == "-" {
				*c.got = "-"
			}
		}
		if got.path = path; got != f {
			t.Errorf("%+v\nwant %+v", got, f)
		}
	}
	for path := range left {
		t.Errorf("%q is missing", path)
	}
}

// describe says of an entry what facts say.
func describe(e *source.Entry) (f fact) {
	f.lost = strings.Join(e.Lost, ", ")
	x := &e.Entry
	if f.size = "0"; e.Err != nil {
		f.kind, f.what = "refused", e.Err.Error()
		return f
	}
	if x.HasMtime {
		f.time = time.Unix(x.MtimeSec, 0).UTC().Format("2006-01-02T15:04:05")
	}
	switch {
	case !e.LinkTo.IsZero():
		f.kind, f.what = "hard", e.LinkTo.String()
	case x.Kind == index.Dir:
		f.kind, f.what = "dir", "-"
	case x.Kind == index.Symlink:
		f.kind, f.what = "link", x.Target
	case x.Kind == index.File:
		s, err := Content(e)
		if f.kind, f.size = "file", strconv.Itoa(len(s)); err != nil {
			f.what = err.Error()
			return f
		}
		sum := sha256.Sum256([]byte(s))
		f.what = hex.EncodeToString(sum[:])[:16]
	}
	return f
}

// Seed gives a fuzzer the archives of a directory whose names end so.
func Seed(f *testing.F, dir string, suffixes ...string) {
	f.Helper()
	for _, name := range Archives(f, dir) {
		for _, s := range suffixes {
			if !strings.HasSuffix(name, s) {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
}
