package revault

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
	"lockbox/internal/pathsafe"
)

// manifest is what a file beside a sample says that the sample holds.
type manifest struct {
	Format     int
	RawKeyHex  string
	Password   string
	FileSha256 string
	Expect     string
	Entries    []struct {
		Path, Kind, Sha256, Target, Mode string
		Size                             int64
		Unreadable                       any
	}
	Variables []struct {
		Name, Value string
		Secret      bool
	}
}

func (m *manifest) options(t testing.TB) source.Options {
	t.Helper()
	o := source.Options{Mtime: time.Unix(1_700_000_000, 5)}
	var err error
	if o.RawKey, err = hex.DecodeString(m.RawKeyHex); err != nil {
		t.Fatal(err)
	}
	if m.Password != "" {
		o.Passphrase = func() ([]byte, error) { return []byte(m.Password), nil }
	}
	return o
}

func readCase(t testing.TB, name string) ([]byte, *manifest) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".lbox"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{}
	if err := json.Unmarshal(j, m); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != m.FileSha256 {
		t.Fatal("the sample is not the one that its manifest describes")
	}
	return b, m
}

// got is what reading gave for one path.
type got struct {
	entry  index.Entry
	sum    string // of a file's bytes, holes included
	err    error
	name   string
	secret bool
}

func readAll(a source.Archive) (map[string]got, []string, error) {
	all := map[string]got{}
	var order []string
	for e, err := range a.Entries(context.Background()) {
		if err != nil {
			return all, order, err
		}
		g := got{entry: e.Entry, err: e.Err, name: e.Name, secret: e.Secret}
		key := e.Entry.Path.String()
		if e.Err != nil {
			key = strings.TrimPrefix(e.Name, "/")
		} else if e.Entry.Kind == index.File {
			g.sum, g.err = digest(e)
		}
		if _, twice := all[key]; twice {
			return all, order, fmt.Errorf("%q came twice", key)
		}
		all[key], order = g, append(order, key)
	}
	return all, order, nil
}

func digest(e *source.Entry) (string, error) {
	r, err := e.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	h := sha256.New()
	runs := e.Entry.Sparse
	if runs == nil {
		runs = []index.SparseRun{{Data: e.Entry.Size}}
	}
	for _, run := range runs {
		if _, err := io.CopyN(h, r, run.Data); err != nil {
			return "", err
		}
		if run.Hole > 4<<20 {
			return "", errors.New("a hole too large for a test")
		}
		if _, err := io.CopyN(h, zeros{}, run.Hole); err != nil {
			return "", err
		}
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return "", fmt.Errorf("after the content: %d bytes, %v", n, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func samples(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.lbox")
	if err != nil || len(names) < 11 {
		t.Fatalf("samples: %v, %v", names, err)
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(filepath.Base(n), ".lbox")
	}
	return names
}

func TestSamples(t *testing.T) {
	for _, name := range samples(t) {
		t.Run(name, func(t *testing.T) {
			b, m := readCase(t, name)
			v := Probe(sourcetest.Input(b))
			a, err := Open(t.Context(), sourcetest.Input(b), m.options(t))
			switch m.Expect {
			case "error":
				if !errors.Is(err, format.ErrCorrupt) || !v.Supported {
					t.Fatalf("%v, %v", err, v)
				}
				return
			case "unsupported":
				if !errors.Is(err, format.ErrVersion) || v.Supported || !strings.Contains(v.Detail, "version 3") {
					t.Fatalf("%v, %v", err, v)
				}
				return
			case "ok", "partial":
			default:
				t.Fatalf("the manifest expects %q", m.Expect)
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("revault-%d", m.Format); v.Format != want || !v.Supported || a.Info().Format != want {
				t.Errorf("%v, %+v", v, a.Info())
			}
			checkEntries(t, a, m)
			checkVariables(t, b, m)
		})
	}
}

func checkEntries(t *testing.T, a source.Archive, m *manifest) {
	t.Helper()
	all, order, err := readAll(a)
	if err != nil {
		t.Fatal(err)
	}
	again, orderAgain, err := readAll(a)
	if err != nil || !slices.Equal(order, orderAgain) || len(again) != len(all) {
		t.Errorf("a second reading differs: %v", err)
	}
	if a.Info().Entries != int64(len(all)) {
		t.Errorf("%d entries announced, %d given", a.Info().Entries, len(all))
	}
	for _, w := range m.Entries {
		path := w.Path[1:]
		g, ok := all[path]
		delete(all, path)
		if !ok || g.name != w.Path {
			t.Errorf("%s: not given under its name: %q", w.Path, g.name)
			continue
		}
		if w.Unreadable == true {
			if !errors.Is(g.err, format.ErrCorrupt) || !strings.Contains(g.err.Error(), path) {
				t.Errorf("%s: %v", w.Path, g.err)
			}
			continue
		}
		if w.Unreadable == "either" && g.err != nil {
			continue
		}
		if g.err != nil {
			t.Errorf("%s: %v", w.Path, g.err)
			continue
		}
		if g.entry.Kind.String() != w.Kind || fmt.Sprintf("%04o", g.entry.Mode) != w.Mode || g.sum != w.Sha256 || g.entry.Size != w.Size ||
			!g.entry.HasMtime || g.entry.MtimeSec != 1_700_000_000 || g.entry.MtimeNsec != 5 {
			t.Errorf("%s: %+v %s, want %+v", w.Path, g.entry, g.sum, w)
		}
		if w.Target != "" {
			if to := filepath.ToSlash(filepath.Join("/", filepath.Dir(path), g.entry.Target)); to != w.Target || filepath.IsAbs(g.entry.Target) {
				t.Errorf("%s: leads to %q, want %q", w.Path, g.entry.Target, w.Target)
			}
		}
	}
	for path, g := range all { // only what the format implies may be left
		under := slices.ContainsFunc(m.Entries, func(w struct {
			Path, Kind, Sha256, Target, Mode string
			Size                             int64
			Unreadable                       any
		}) bool {
			return strings.HasPrefix(w.Path, "/"+path+"/")
		})
		if g.entry.Kind != index.Dir || g.entry.Mode != defaultDirMode || !under {
			t.Errorf("%s: given, and not in the manifest", path)
		}
	}
}

// checkVariables reads a sample again, with its variables as files.
func checkVariables(t *testing.T, b []byte, m *manifest) {
	t.Helper()
	o := m.options(t)
	a, err := Open(t.Context(), sourcetest.Input(b), o)
	if err != nil {
		t.Fatal(err)
	}
	lost := strings.Join(a.Info().Lost, "\n")
	if n := len(m.Variables); n > 0 != strings.Contains(lost, fmt.Sprintf("%d variables", n)) {
		t.Errorf("lost: %q", lost)
	}
	before, _, err := readAll(a)
	if err != nil {
		t.Fatal(err)
	}
	if o.VariablesTo, err = pathsafe.Parse("of the old/variables"); err != nil {
		t.Fatal(err)
	}
	if a, err = Open(t.Context(), sourcetest.Input(b), o); err != nil {
		t.Fatal(err)
	}
	all, _, err := readAll(a)
	if err != nil || a.Info().Entries != int64(len(all)) || len(a.Info().Lost) != 0 {
		t.Fatalf("%v, %+v for %d", err, a.Info(), len(all))
	}
	for _, v := range m.Variables {
		path := o.VariablesTo.String() + v.Name
		sum := sha256.Sum256([]byte(v.Value))
		if g, ok := all[path]; !ok || g.err != nil || g.sum != hex.EncodeToString(sum[:]) || g.secret != v.Secret || g.entry.Size != int64(len(v.Value)) {
			t.Errorf("%s: %+v", path, g)
		}
		delete(all, path)
	}
	for path, g := range all {
		if _, ok := before[path]; !ok && g.entry.Kind != index.Dir {
			t.Errorf("%s: neither an entry nor a variable", path)
		}
	}
}
