package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var files = []file{{"bin", []byte("binary"), 0o755}, {"man/man1/x.1", []byte("page"), 0o644}}

func TestPack(t *testing.T) {
	when := time.Unix(1_700_000_000, 0).UTC()
	packed, err := packTar("d", files, when)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	for _, f := range files {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if h.Name != "d/"+f.name || h.FileInfo().Mode().Perm() != f.mode || !h.ModTime.Equal(when) || h.Uid != 0 || h.Uname != "" || !bytes.Equal(data, f.data) || err != nil {
			t.Errorf("%+v, %q, %v", h, data, err)
		}
	}
	if packed, err = packZip("d", files, when); err != nil {
		t.Fatal(err)
	}
	zr, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		h := zr.File[i]
		if h.Name != "d/"+f.name || h.Mode().Perm() != f.mode || !h.Modified.Equal(when) {
			t.Errorf("%+v", h.FileHeader)
		}
	}
}

// Only what a run has made is removed by the next.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("lockbox-1-linux-amd64", "old")
	put("precious", "mine")
	put(sums, "00  lockbox-1-linux-amd64\n")
	if err := clean(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lockbox-1-linux-amd64")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
		t.Error(err)
	}
	for _, list := range []string{"00  precious\n", "00  ../lockbox-x\n", "nonsense\n"} {
		put(sums, list)
		if err := clean(dir); err == nil {
			t.Errorf("%q was taken for its own", list)
		}
	}
}

// The manual has every command and topic, every flag, and nothing that roff would take for a request.
func TestManual(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "lockbox")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/lockbox").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	help := func(args ...string) (string, error) {
		out, err := exec.Command(bin, append([]string{"help"}, args...)...).Output()
		return string(out), err
	}
	pages, err := manual(help)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]page{}
	for _, p := range pages {
		byName[p.name] = p
		for line := range strings.Lines(p.body) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") && !strings.Contains(" .SH .PP .TP .nf .fi ", " "+word+" ") || strings.HasPrefix(line, "'") {
				t.Errorf("%s: a request %q", p.name, line)
			}
		}
	}
	for _, want := range []string{"lockbox", "lockbox-add", "lockbox-key", "lockbox-key-rotate", "lockbox-debug-dump", "lockbox-exit-codes", "lockbox-security"} {
		if byName[want].body == "" {
			t.Errorf("there is no page %s", want)
		}
	}
	text, err := help("add")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.ReplaceAll(byName["lockbox-add"].body, `\-`, "-")
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "--") && len(word) > 2 && !strings.Contains(body, strings.TrimRight(word, ",.:;)")) {
			t.Errorf("lockbox-add lacks %s", word)
		}
	}
	if strings.Count(body, "\n.TP\n") < 30 {
		t.Errorf("the flags of add are not set apart:\n%s", body)
	}
}

func TestRoff(t *testing.T) {
	for in, want := range map[string]string{
		"a-b":      `a\-b`,
		`\n 'x' ~`: `\en \(aqx\(aq \(ti`,
		".hidden":  `\&.hidden`,
	} {
		if got := start(roff(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
