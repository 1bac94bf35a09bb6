package unpack

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"

	"lockbox/internal/format"
)

// pack compresses in the process, with the writers of the libraries. bzip2 has none.
var pack = map[string]func(t testing.TB, plain []byte) []byte{
	"gzip": func(t testing.TB, plain []byte) []byte {
		return written(t, plain, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
	},
	"zstd": func(t testing.TB, plain []byte) []byte {
		return written(t, plain, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderCRC(true)) })
	},
	"xz": func(t testing.TB, plain []byte) []byte {
		return written(t, plain, func(w io.Writer) (io.WriteCloser, error) { return xz.WriterConfig{DictCap: 64 << 10}.NewWriter(w) })
	},
	"lz4": func(t testing.TB, plain []byte) []byte {
		return written(t, plain, func(w io.Writer) (io.WriteCloser, error) {
			z := lz4.NewWriter(w)
			return z, z.Apply(lz4.BlockSizeOption(lz4.Block64Kb))
		})
	},
	"lzma": func(t testing.TB, plain []byte) []byte {
		return written(t, plain, func(w io.Writer) (io.WriteCloser, error) { return lzma.WriterConfig{DictCap: 64 << 10}.NewWriter(w) })
	},
	"lzip": packLzip,
}

func written(t testing.TB, plain []byte, open func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packLzip(t testing.TB, plain []byte) []byte {
	body := written(t, plain, func(w io.Writer) (io.WriteCloser, error) {
		return lzma.WriterConfig{DictCap: 64 << 10, EOSMarker: true}.NewWriter(w)
	})[lzma.HeaderLen:]
	out := append([]byte("LZIP\x01\x10"), body...)
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(plain))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(plain)))
	return binary.LittleEndian.AppendUint64(out, uint64(len(out)+8))
}

func sample(n int) []byte {
	r, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = "etaoin shr\n"[r.IntN(11)]
	}
	return b
}

func unpacked(kind string, r io.Reader, window int64) ([]byte, error) {
	z, err := NewReader(kind, r, window)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(z)
	return b, errors.Join(err, z.Close())
}

func TestReads(t *testing.T) {
	for kind, f := range pack {
		for _, n := range []int{0, 1, 1000, 100_000} {
			plain := sample(n)
			packed := f(t, plain)
			if got := Probe(packed[:min(HeadLen, len(packed))]); got != kind {
				t.Errorf("%s, %d bytes: probed as %q", kind, n, got)
			}
			got, err := unpacked(kind, iotest.HalfReader(bytes.NewReader(packed)), 0)
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s, %d bytes: %d came out, %v", kind, n, len(got), err)
			}
			if kind == "lzma" {
				continue // of these only one stands in a file
			}
			got, err = unpacked(kind, iotest.DataErrReader(bytes.NewReader(slices.Concat(packed, packed))), 0)
			if err != nil || !bytes.Equal(got, slices.Concat(plain, plain)) {
				t.Errorf("%s, two members of %d bytes: %d came out, %v", kind, n, len(got), err)
			}
		}
	}
}

func TestSkippableFrames(t *testing.T) {
	skip := []byte("\x53\x2a\x4d\x18\x05\x00\x00\x00hello")
	for _, kind := range []string{"zstd", "lz4"} {
		packed := pack[kind](t, []byte("plain"))
		got, err := unpacked(kind, bytes.NewReader(slices.Concat(skip, packed, skip, packed, skip)), 0)
		if err != nil || string(got) != "plainplain" {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
		if _, err := unpacked(kind, bytes.NewReader(slices.Concat(packed, skip[:9])), 0); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: a skippable frame cut off: %v", kind, err)
		}
	}
}

// positions are places in n bytes: all of them near the ends, where a format has its headers, and every eleventh between.
func positions(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if (i < 64 || i >= n-64 || i%11 == 0) && !yield(i) {
				return
			}
		}
	}
}

func TestDamage(t *testing.T) {
	plain := sample(3000)
	for kind, f := range pack {
		packed := f(t, plain)
		for n := range positions(len(packed)) {
			if _, err := unpacked(kind, bytes.NewReader(packed[:n]), 0); !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("%s cut to %d of %d bytes: %v", kind, n, len(packed), err)
			}
		}
		for _, junk := range []string{"junk", "\x00\x00\x00\x00junkjunkjunk", "\x1f\x8b\x08junkjunk"} {
			if _, err := unpacked(kind, bytes.NewReader(append(slices.Clone(packed), junk...)), 0); !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%s with %q behind it: %v", kind, junk, err)
			}
		}
		if kind == "lzma" {
			continue // has no checksum
		}
		for i := range positions(len(packed)) {
			bad := slices.Clone(packed)
			bad[i] ^= 0x10
			if got, err := unpacked(kind, bytes.NewReader(bad), 0); err == nil && !bytes.Equal(got, plain) {
				t.Fatalf("%s with byte %d changed: other bytes came out, and no error", kind, i)
			}
		}
	}
}

func TestFilling(t *testing.T) {
	for kind, f := range pack {
		for n, ok := range map[int]bool{1: kind == "gzip" || kind == "lzip", 8: kind == "gzip" || kind == "lzip" || kind == "xz"} {
			packed := append(f(t, sample(1000)), make([]byte, n)...)
			if got, err := unpacked(kind, bytes.NewReader(packed), 0); ok != (err == nil) || len(got) != 1000 && ok || !ok && !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%s, %d zero bytes behind it: %v", kind, n, err)
			}
		}
	}
}

func TestWindowIsBounded(t *testing.T) {
	plain := sample(2 << 20)
	big := map[string][]byte{
		"xz": written(t, plain, func(w io.Writer) (io.WriteCloser, error) {
			return xz.WriterConfig{DictCap: 16 << 20}.NewWriter(w)
		}),
		"lzma": written(t, plain, func(w io.Writer) (io.WriteCloser, error) {
			return lzma.WriterConfig{DictCap: 16 << 20}.NewWriter(w)
		}),
		"zstd": written(t, plain, func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithWindowSize(16<<20))
		}),
		"lzip": append([]byte("LZIP\x01\x18"), packLzip(t, plain)[6:]...),
	}
	for kind, packed := range big {
		if _, err := unpacked(kind, bytes.NewReader(packed), 1<<20); !errors.Is(err, ErrWindow) {
			t.Errorf("%s: window above the limit: %v", kind, err)
		}
		if got, err := unpacked(kind, bytes.NewReader(packed), 16<<20); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: window at the limit: %v", kind, err)
		}
	}
}

func TestErrorsOfTheSourceAreItsOwn(t *testing.T) {
	for kind, f := range pack {
		packed := f(t, sample(100_000))
		r := io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), iotest.ErrReader(iotest.ErrTimeout))
		if _, err := unpacked(kind, r, 0); !errors.Is(err, iotest.ErrTimeout) || errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestRefused(t *testing.T) {
	if _, err := NewReader("rot13", bytes.NewReader([]byte("x")), 0); !errors.Is(err, ErrUnsupported) {
		t.Errorf("rot13: %v", err)
	}
	z, err := NewReader("gzip", bytes.NewReader(pack["gzip"](t, []byte("x"))), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := z.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("read after close: %v", err)
	}
}

func TestGuardCatchesPanics(t *testing.T) {
	z := &reader{kind: "gzip", src: &source{}, dec: panicking{}}
	if _, err := z.Read(make([]byte, 1)); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("library") }

func TestProbe(t *testing.T) {
	for head, want := range map[string]string{
		"": "", "B": "", "\x1f\x8b": "", "BZh9": "", "BZh91AY&SY": "bzip2", "BZh9\x17\x72\x45\x38\x50\x90": "bzip2", "BZh91AY&SX": "",
		"\x1f\x9d\x90": "compress", "\x1f\x9d\x10": "compress", "\x1f\x9d\x88": "", "\x1f\x9d\xf0": "", "\x1f\x9d": "", "\x02\x21\x4c\x18": "lz4", "\x5f\x2a\x4d\x18": "zstd", "PK\x03\x04": "",
		"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00": "lzma",
		"\x5e\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00": "lzma",
		"\x0d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00": "",
		"\xe1\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00": "",
		"\x5d\x00\x00\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\x00": "lzma",
		"\x5d\x00\x00\x80\x02\xff\xff\xff\xff\xff\xff\xff\xff\x00": "",
		"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\x0f\x00": "",
		"]0000000000000": "",
	} {
		if got := Probe([]byte(head)); got != want {
			t.Errorf("%q: %q, want %q", head, got, want)
		}
	}
}

func TestRealTools(t *testing.T) {
	plain := sample(100_000)
	for _, c := range []struct {
		kind string
		args []string
	}{
		{"gzip", []string{"gzip", "-c"}},
		{"bzip2", []string{"bzip2", "-c"}},
		{"xz", []string{"xz", "-c", "--check=crc32"}},
		{"xz", []string{"xz", "-c", "--check=crc64", "-T2", "--block-size=32768"}},
		{"xz", []string{"xz", "-c", "--check=sha256"}},
		{"xz", []string{"xz", "-c", "--check=none", "--x86", "--lzma2"}},
		{"xz", []string{"xz", "-c", "--delta=dist=2", "--lzma2"}},
		{"lzma", []string{"xz", "-c", "--format=lzma", "-9"}},
		{"zstd", []string{"zstd", "-c", "-q", "-19", "--long=27"}},
		{"lz4", []string{"lz4", "-c", "-q"}},
		{"lz4", []string{"lz4", "-c", "-q", "-B4", "-BD", "-BX"}},
		{"lz4", []string{"lz4", "-c", "-q", "-l"}},
		{"lzip", []string{"lzip", "-c"}},
		{"lzip", []string{"lzip", "-c", "-9", "-b100000"}},
	} {
		if _, err := exec.LookPath(c.args[0]); err != nil {
			t.Logf("skipped: no %s here", c.args[0])
			continue
		}
		cmd := exec.Command(c.args[0], c.args[1:]...)
		cmd.Stdin = bytes.NewReader(plain)
		packed, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", c.args, err)
		}
		if got := Probe(packed[:HeadLen]); got != c.kind {
			t.Errorf("%v: probed as %q", c.args, got)
		}
		twice, want := packed, plain
		if c.kind != "lzma" {
			twice, want = slices.Concat(packed, packed), slices.Concat(plain, plain)
		}
		got, err := unpacked(c.kind, bytes.NewReader(twice), 0)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes came out, %v", c.args, len(got), err)
		}
		if _, err := unpacked(c.kind, bytes.NewReader(append(slices.Clone(packed), "junk"...)), 0); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%v, junk behind it: %v", c.args, err)
		}
		for _, cut := range []int{1, 5, len(packed) / 2} {
			if _, err := unpacked(c.kind, bytes.NewReader(packed[:len(packed)-cut]), 0); !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%v, cut by %d: %v", c.args, cut, err)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	kinds := []string{"gzip", "bzip2", "xz", "zstd", "lz4", "lzip", "lzma", "compress"}
	for i, kind := range kinds {
		if pack[kind] != nil {
			f.Add(uint8(i), pack[kind](f, sample(500)))
		}
	}
	f.Add(uint8(7), packCompress(sample(5000), 12, true))
	f.Add(uint8(1), []byte("BZh9\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		kind := kinds[int(i)%len(kinds)]
		z, err := NewReader(kind, bytes.NewReader(b), 1<<20)
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(z, 8<<20))
			err = errors.Join(err, z.Close())
		}
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, ErrWindow) && !errors.Is(err, ErrUnsupported) {
			t.Fatalf("%s: an error of no kind: %v", kind, err)
		}
	})
}
