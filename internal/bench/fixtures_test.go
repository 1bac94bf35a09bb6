package bench

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func sum(r io.Reader) string {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		panic(err)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// TestFixtures holds the fixtures to the bytes they always had: figures of different versions can be compared.
func TestFixtures(t *testing.T) {
	text := &Text{base: generateText(1 << 20)}
	whole := func(files []File) io.Reader {
		var rs []io.Reader
		for i := range files {
			rs = append(rs, strings.NewReader(files[i].Name+"\n"), files[i].Reader())
		}
		return io.MultiReader(rs...)
	}
	for _, c := range []struct {
		name, want string
		files      []File
	}{
		{"raw", "76c4802f616ba6c4", each(5, 10_001, nil)},
		{"text", "65d6e69d96fbe2aa", each(5, 300_000, text)},
		{"mixed", "c295b1530d62949f", mixed(text)},
		{"repetitive", "d6921637ef12a35e", repetitive()},
		{"tiny", "66c9e612b555c961", slices.Collect(tiny(1000))},
		{"repeated-small", "4f589957ef96c4c6", slices.Collect(repeatedSmall())},
		{"text-tree", "0c6ed6dc890c306a", slices.Collect(textTree(40, 160))},
		{"mixed-tree", "bcb0ff44416ff092", slices.Collect(mixedTree)},
	} {
		if got := sum(whole(c.files)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestTextCompresses keeps generated text near what source does: 3.5 with this encoder.
func TestTextCompresses(t *testing.T) {
	text := generateText(4 << 20)
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, 6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if r := float64(len(text)) / float64(b.Len()); r < 3.3 || r > 4.2 {
		t.Errorf("it compresses %.2f times", r)
	}
	if !isText(text) {
		t.Error("it is no text")
	}
}

func TestFileReadAt(t *testing.T) {
	text := &Text{base: generateText(10_007)}
	for _, f := range []File{Raw("r", 100_003, 5), text.File("t", 100_003, 9_999), Bytes("b", bytes.Repeat([]byte("abc"), 33_000))} {
		all := make([]byte, f.Size)
		if n, err := f.ReadAt(all, 0); n != len(all) || err != nil {
			t.Fatal(n, err)
		}
		r := rng(3)
		for range 500 {
			off, p := r.n(int(f.Size)), make([]byte, 1+r.n(300))
			n, err := f.ReadAt(p, int64(off))
			want := all[off:min(off+len(p), len(all))]
			if !bytes.Equal(p[:n], want) || (n < len(p)) != (err == io.EOF) {
				t.Fatalf("%s: %d bytes at %d: %d, %v", f.Name, len(p), off, n, err)
			}
		}
		if _, err := f.ReadAt(make([]byte, 1), f.Size); err != io.EOF {
			t.Error(err)
		}
		loaded := f.Load()
		if !bytes.Equal(loaded.base, all) {
			t.Error("loaded: other bytes")
		}
	}
}

// TestChecker shows that other bytes, missing ones and unknown names are found.
func TestChecker(t *testing.T) {
	files := []File{Bytes("a", []byte("0123456789"))}
	for _, c := range []struct {
		name, bytes string
		ok          bool
	}{{"a", "0123456789", true}, {"a", "0123456780", false}, {"a", "012345678", false}, {"a", "01234567890", false}, {"b", "0123456789", false}} {
		k := newChecker(files)
		err := k.begin(c.name)
		if err == nil {
			_, err = io.WriteString(k, c.bytes)
		}
		if err == nil {
			err = k.end()
		}
		if (err == nil) != c.ok {
			t.Errorf("%s %q: %v", c.name, c.bytes, err)
		}
	}
}

func TestLoadText(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "small"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadText(dir); err == nil || !strings.Contains(err.Error(), "only 4 bytes of text") {
		t.Errorf("%v", err)
	}
	large := generateText(leastText)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "large"), large, 0o600), os.WriteFile(filepath.Join(dir, "binary"), []byte{0, 1, 2}, 0o600)); err != nil {
		t.Fatal(err)
	}
	text, err := LoadText(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := append(large, "text"...); !bytes.Equal(text.base, want) {
		t.Errorf("%d bytes", len(text.base))
	}
}
