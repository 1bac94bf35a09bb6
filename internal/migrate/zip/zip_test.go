package zip

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	kzip "github.com/klauspost/compress/zip"
	"github.com/klauspost/compress/zstd"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
)

// item is an entry as a test looks at it.
type item struct {
	e    *source.Entry
	data string
	err  error
}

// readEverything opens an archive and reads it, every content to its end.
func readEverything(b []byte, o source.Options) (map[string]item, source.Info, error) {
	a, err := Open(context.Background(), sourcetest.Input(b), o)
	if err != nil {
		return nil, source.Info{}, err
	}
	defer a.Close()
	got := map[string]item{}
	for e, err := range a.Entries(context.Background()) {
		if err != nil {
			return nil, source.Info{}, err
		}
		it := item{e: e, err: e.Err}
		if e.Err == nil && e.Open != nil {
			it.data, it.err = sourcetest.Content(e)
		}
		got[e.Name] = it
	}
	return got, a.Info(), nil
}

// Samples that other programs wrote: two files of known contents.
func TestSamples(t *testing.T) {
	list, err := filepath.Glob("testdata/*.zip")
	if err != nil || len(list) < 12 {
		t.Fatalf("%d samples: %v", len(list), err)
	}
	for _, name := range list {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if v := Probe(sourcetest.Input(b)); v.Format != "zip" || !v.Supported {
				t.Fatalf("probe: %+v", v)
			}
			got, _, err := readEverything(b, sourcetest.Pass("secret"))
			if err != nil {
				t.Fatal(err)
			}
			sums := map[string]uint32{"text": 0x4d30ee71, "far": 0x9d24ae80, "-": 0x4d30ee71, "zhard": 0x4d30ee71, "empty": 0}
			for n, it := range got {
				if it.err != nil {
					t.Errorf("%s: %v", n, it.err)
				}
				if it.e.Entry.Kind != index.File {
					continue
				}
				if sum := crc32.ChecksumIEEE([]byte(it.data)); sum != sums[n] {
					t.Errorf("%s has the sum %08x, want %08x", n, sum, sums[n])
				}
			}
			if strings.Contains(name, "crypt") || strings.Contains(name, "aes") {
				if _, _, err := readEverything(b, sourcetest.Pass("wrong")); !errors.Is(err, format.ErrAuth) {
					t.Errorf("a wrong passphrase: %v", err)
				}
				if _, _, err := readEverything(b, source.Options{}); !errors.Is(err, format.ErrAuth) {
					t.Errorf("no passphrase: %v", err)
				}
			}
		})
	}
}

func TestInfoZipMetadata(t *testing.T) {
	b, err := os.ReadFile("testdata/infozip.zip")
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := readEverything(b, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := got["text"].e.Entry
	if want := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC).Unix(); text.MtimeSec != want || text.Mode != 0o4711 || !text.HasOwner {
		t.Errorf("text: %+v", text)
	}
	if l := got["link"].e.Entry; l.Kind != index.Symlink || l.Target != "text" || l.Size != 0 {
		t.Errorf("link: %+v", l)
	}
	if d := got["dir/"].e.Entry; d.Kind != index.Dir || d.Path.String() != "dir" {
		t.Errorf("dir: %+v", d)
	}
}

// one makes an archive of one entry; edit changes its header.
func one(t testing.TB, name, data string, edit func(*kzip.FileHeader)) []byte {
	t.Helper()
	var b bytes.Buffer
	w := kzip.NewWriter(&b)
	w.RegisterCompressor(zstd.ZipMethodWinZip, zstd.ZipCompressor())
	h := &kzip.FileHeader{Name: name, Method: kzip.Deflate, Modified: time.Unix(1e9, 0)}
	h.SetMode(0o644)
	if edit != nil {
		edit(h)
	}
	f, err := w.CreateHeader(h)
	if err == nil {
		_, err = f.Write([]byte(data))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// raw makes an archive of one stored entry whose headers have everything.
func raw(t testing.TB, name, data string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := kzip.NewWriter(&b)
	h := &kzip.FileHeader{Name: name, Method: kzip.Store, CRC32: crc32.ChecksumIEEE([]byte(data)),
		CompressedSize64: uint64(len(data)), UncompressedSize64: uint64(len(data))}
	h.SetMode(0o600)
	f, err := w.CreateRaw(h)
	if err == nil {
		_, err = f.Write([]byte(data))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestMethods(t *testing.T) {
	text := strings.Repeat("all the same, all the same; ", 3000)
	for _, m := range []uint16{kzip.Store, kzip.Deflate, zstd.ZipMethodWinZip} {
		got, _, err := readEverything(one(t, "f", text, func(h *kzip.FileHeader) { h.Method = m }), source.Options{})
		if err != nil || got["f"].err != nil || got["f"].data != text {
			t.Errorf("method %d: %v, %v", m, err, got["f"].err)
		}
	}
}

// bothHeaders finds a field of the local and the central header.
func bothHeaders(b []byte) (local, central []byte) {
	i := bytes.Index(b, []byte("PK\x01\x02"))
	return b[bytes.Index(b, []byte("PK\x03\x04")):], b[i:]
}

// What an entry is refused for, and what the whole archive.
func TestRefused(t *testing.T) {
	le := binary.LittleEndian
	cases := []struct {
		name  string
		b     func() []byte
		entry string // a part of the entry's error
		whole string // or of the archive's
		kind  error
	}{
		{"local name", func() []byte { b := raw(t, "name", "data"); l, _ := bothHeaders(b); l[30] = 'N'; return b }, "different names", "", format.ErrCorrupt},
		{"local method", func() []byte { b := raw(t, "name", "data"); l, _ := bothHeaders(b); l[8] = 8; return b }, "different methods", "", format.ErrCorrupt},
		{"local size", func() []byte { b := raw(t, "name", "data"); l, _ := bothHeaders(b); l[22] = 3; return b }, "different lengths", "", format.ErrCorrupt},
		{"local sum", func() []byte { b := raw(t, "name", "data"); l, _ := bothHeaders(b); l[14] ^= 1; return b }, "different lengths or check sums", "", format.ErrCorrupt},
		{"no local header", func() []byte { b := raw(t, "name", "data"); l, _ := bothHeaders(b); l[3] = 9; return b }, "no local header", "", format.ErrCorrupt},
		{"data", func() []byte { b := raw(t, "name", "data"); b[35] ^= 1; return b }, "check sum", "", format.ErrCorrupt},
		{"long name field", func() []byte {
			b := raw(t, "name", "data")
			l, _ := bothHeaders(b)
			le.PutUint16(l[28:], 300)
			return b
		}, "the file ends inside it", "", format.ErrCorrupt},
		{"method", func() []byte {
			b := raw(t, "name", "data")
			l, c := bothHeaders(b)
			l[8], c[10] = 98, 98
			return b
		}, "PPMd (method 98)", "", nil},
		{"strong encryption", func() []byte { b := raw(t, "name", "data"); _, c := bothHeaders(b); c[8] |= 1 << 6; return b }, "PKWARE's own", "", nil},
		{"dots", func() []byte { return raw(t, "a/../../b", "x") }, `".."`, "", nil},
		{"absolute", func() []byte { return raw(t, "/etc/x", "x") }, "absolute", "", nil},
		{"drive", func() []byte { return raw(t, `C:\x`, "x") }, "drive", "", nil},
		{"backslash, of an unknown character perhaps", func() []byte { b := raw(t, "\x95\\b", "x"); _, c := bothHeaders(b); c[5] = 0; return b }, "backslash", "", nil},
		{"backslash, leading out", func() []byte { b := raw(t, `a\..\..\b`, "x"); _, c := bothHeaders(b); c[5] = 0; return b }, `".."`, "", nil},
		{"no end", func() []byte { return raw(t, "name", "data")[:60] }, "", "its end is missing", format.ErrCorrupt},
		{"parts", func() []byte { b := raw(t, "name", "data"); b[len(b)-18] = 1; return b }, "", "one of several parts", nil},
		{"encrypted directory", func() []byte {
			b, _ := os.ReadFile("../testdata/libarchive/test_read_format_zip_encryption_header.zip")
			return b
		}, "", "directory is encrypted", nil},
		{"count", func() []byte { b := raw(t, "name", "data"); b[len(b)-14], b[len(b)-12] = 9, 9; return b }, "", "do not fit", format.ErrCorrupt},
		{"one too few", func() []byte { b := raw(t, "name", "data"); b[len(b)-14], b[len(b)-12] = 0, 0; return b }, "", "goes on after its last entry", format.ErrCorrupt},
		{"extra bytes", func() []byte {
			b := one(t, "name", "data", nil)
			_, c := bothHeaders(b)
			c[20]++ // one byte more than deflate needs
			return b
		}, "more bytes follow", "", format.ErrCorrupt},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := readEverything(c.b(), source.Options{})
			if c.whole != "" {
				if err == nil || !strings.Contains(err.Error(), c.whole) || c.kind != nil && !errors.Is(err, c.kind) {
					t.Fatalf("error %v, want %q", err, c.whole)
				}
				return
			}
			if err != nil || len(got) != 1 {
				t.Fatalf("%d entries, %v", len(got), err)
			}
			for _, it := range got {
				if it.err == nil || !strings.Contains(it.err.Error(), c.entry) || c.kind != nil && !errors.Is(it.err, c.kind) {
					t.Errorf("error %v, want %q", it.err, c.entry)
				}
			}
		})
	}
}

// Two entries whose data are the same bytes, as in a bomb.
func TestSharedBytes(t *testing.T) {
	var b bytes.Buffer
	w := kzip.NewWriter(&b)
	for _, n := range []string{"a", "b"} {
		f, err := w.CreateRaw(&kzip.FileHeader{Name: n, Method: kzip.Store, CRC32: crc32.ChecksumIEEE([]byte("data")), CompressedSize64: 4, UncompressedSize64: 4})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("data")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z := b.Bytes()
	second := bytes.LastIndex(z, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(z[second+42:], 0) // where the first one begins
	got, _, err := readEverything(z, source.Options{})
	if err != nil || len(got) != 2 {
		t.Fatal(len(got), err)
	}
	for n, it := range got {
		if it.err == nil || !strings.Contains(it.err.Error(), "shares bytes") {
			t.Errorf("%s: %v", n, it.err)
		}
	}
}

func TestBeforeAndAfter(t *testing.T) {
	z := one(t, "name", "data", nil)
	before := append([]byte("#!/bin/sh\nexec unzip $0\n"), z...)
	if v := Probe(sourcetest.Input(before)); !v.Supported {
		t.Errorf("probe: %+v", v)
	}
	got, info, err := readEverything(before, source.Options{})
	if err != nil || got["name"].data != "data" || len(info.Notes) != 1 || len(info.Lost) != 0 {
		t.Errorf("before: %v, %+v, %+v", err, got["name"], info)
	}
	got, info, err = readEverything(append(bytes.Clone(z), "trailing"...), source.Options{})
	if err != nil || got["name"].data != "data" || len(info.Lost) != 1 {
		t.Errorf("after: %v, %+v, %+v", err, got["name"], info)
	}
	got, info, err = readEverything(append(bytes.Clone(z), one(t, "second", "2", nil)...), source.Options{})
	if err != nil || got["second"].data != "2" || len(info.Lost) != 1 || !strings.Contains(info.Lost[0], "another ZIP archive") {
		t.Errorf("an archive before: %v, %+v, %+v", err, got["second"], info)
	}
	both := slices.Concat([]byte("#!/bin/sh\n"), z, []byte("trailing"))
	got, info, err = readEverything(both, source.Options{})
	if v := Probe(sourcetest.Input(both)); !v.Supported || err != nil || got["name"].data != "data" || len(info.Lost) != 1 || len(info.Notes) != 1 {
		t.Errorf("before and after: %+v, %v, %+v, %+v", v, err, got["name"], info)
	}
	if v := Probe(sourcetest.Input([]byte("nothing of the kind, but long enough to hold an end record"))); v.Format != "" {
		t.Errorf("text: %+v", v)
	}
}

// What a field says that is not read is lost, once for the two headers; fields that are read, and filling, are not.
func TestUnreadFields(t *testing.T) {
	for _, c := range []struct {
		extra string
		want  []string
	}{
		{"", nil},
		{"UT\x05\x00\x01\x00\x00\x00\x40", nil},
		{"\x35\xd9\x06\x00\x04\x00\x00\x00\x00\x00", nil},
		{"\x00\x00\x00", nil},
		{"xl\x05\x00\x04\x10\x00\x00\x00", nil},
		{"SD\x04\x00\x01\x02\x03\x04", []string{"its access rights of Windows"}},
		{"\x34\x12\x01\x00xUT\x05\x00\x01\x00\x00\x00\x40", []string{"what its extra field 0x1234 says"}},
	} {
		got, _, err := readEverything(one(t, "name", "data", func(h *kzip.FileHeader) { h.Extra = []byte(c.extra) }), source.Options{})
		if err != nil || got["name"].err != nil || !slices.Equal(got["name"].e.Lost, c.want) {
			t.Errorf("%q: %q, %v, %v", c.extra, got["name"].e.Lost, got["name"].err, err)
		}
	}
}

// Programs that write large entries, or a stream that may become one, add the end record of Zip64 where the old one has
// room for everything. The two have to agree.
func TestZip64EndBesideTheOldOne(t *testing.T) {
	z := one(t, "name", "data", nil)
	at := len(z) - lenEnd
	end := z[at:]
	with := func(count, size, off uint64) []byte {
		b := bytes.Clone(z[:at])
		r := make([]byte, lenEnd64+lenLocate64)
		le.PutUint32(r, sigEnd64)
		le.PutUint64(r[4:], lenEnd64-12)
		le.PutUint64(r[24:], count)
		le.PutUint64(r[32:], count)
		le.PutUint64(r[40:], size)
		le.PutUint64(r[48:], off)
		le.PutUint32(r[lenEnd64:], sigLocate64)
		le.PutUint64(r[lenEnd64+8:], uint64(at))
		le.PutUint32(r[lenEnd64+16:], 1)
		return append(append(b, r...), end...)
	}
	size, off := uint64(le.Uint32(end[12:])), uint64(le.Uint32(end[16:]))
	for _, before := range []string{"", "#!/bin/sh\n"} {
		got, info, err := readEverything(append([]byte(before), with(1, size, off)...), source.Options{})
		if err != nil || got["name"].data != "data" || len(info.Lost) != 0 || len(info.Notes) != min(1, len(before)) {
			t.Errorf("%q before: %v, %+v, %+v", before, err, got, info)
		}
	}
	for _, b := range [][]byte{with(2, size, off), with(1, size-1, off), with(1, size, off+1), with(1, 1<<40, off), with(1, size, 1<<40)} {
		if got, _, err := readEverything(b, source.Options{}); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%v, %+v", err, got)
		}
	}
}

func TestNames(t *testing.T) {
	unicodePath := func(raw, name string) []byte {
		b := binary.LittleEndian.AppendUint16(nil, 0x7075)
		b = binary.LittleEndian.AppendUint16(b, uint16(5+len(name)))
		b = binary.LittleEndian.AppendUint32(append(b, 1), crc32.ChecksumIEEE([]byte(raw)))
		return append(b, name...)
	}
	for _, c := range []struct {
		what, raw, encoding, want string
		dos                       bool
		extra                     []byte
	}{
		{"flagged", "grün", "", "grün", false, nil},
		{"code page 437", "gr\x81n", "", "grün", true, nil},
		{"given", "\x93\xfa\x96\x7b", "shift_jis", "日本", true, nil},
		{"given, Unix", "\xec\xe8\xf0", "windows-1251", "мир", false, nil},
		{"field", "gr\x81n", "", "grüner", true, unicodePath("gr\x81n", "grüner")},
		{"stale field", "gr\x81n", "", "grün", true, unicodePath("other", "grüner")},
	} {
		b := one(t, c.raw, "x", func(h *kzip.FileHeader) { h.Extra = c.extra })
		if _, central := bothHeaders(b); c.dos {
			central[5] = 0
		}
		got, _, err := readEverything(b, source.Options{Encoding: c.encoding})
		if err != nil || got[c.want].e == nil || got[c.want].err != nil {
			t.Errorf("%s: %v, %v", c.what, err, got)
		}
	}
	if _, _, err := readEverything(one(t, "x", "x", nil), source.Options{Encoding: "klingon"}); err == nil {
		t.Error("an unknown encoding was taken")
	}
}

// Backslashes of systems where no name can have one are read as slashes, and it is said; those of Unix are characters.
func TestBackslashes(t *testing.T) {
	for _, c := range []struct {
		raw, encoding string
		host          byte
		path          string
		kind          index.Kind
		notes         int
	}{
		{`dir\file`, "", hostFAT, "dir/file", index.File, 1},
		{`dir\sub\`, "", hostNTFS, "dir/sub", index.Dir, 1},
		{`grün\x`, "", hostFAT, "grün/x", index.File, 1},
		{`dir\file`, "", hostUnix, `dir\file`, index.File, 0},
		{"\x95\\.txt", "shift_jis", hostFAT, "表.txt", index.File, 0},
	} {
		b := one(t, c.raw, "", func(h *kzip.FileHeader) { h.Method = kzip.Store })
		_, central := bothHeaders(b)
		central[5] = c.host
		a, err := Open(context.Background(), sourcetest.Input(b), source.Options{Encoding: c.encoding})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range a.Entries(context.Background()) {
			if err != nil || e.Err != nil || e.Entry.Path.String() != c.path || e.Entry.Kind != c.kind || len(a.Info().Notes) != c.notes {
				t.Errorf("%q: %v, %+v, %q", c.raw, err, e, a.Info().Notes)
			}
		}
	}
}

func TestNTFSTimes(t *testing.T) {
	f := make([]byte, 36)
	binary.LittleEndian.PutUint16(f, 0x000a)
	binary.LittleEndian.PutUint16(f[2:], 32)
	binary.LittleEndian.PutUint16(f[8:], 1)
	binary.LittleEndian.PutUint16(f[10:], 24)
	binary.LittleEndian.PutUint64(f[12:], 11644473600*1e7+12345678) // 1.2345678 s after 1970
	binary.LittleEndian.PutUint64(f[28:], 11644473600*1e7)
	got, _, err := readEverything(one(t, "x", "x", func(h *kzip.FileHeader) { h.Extra = f }), source.Options{})
	e := got["x"].e.Entry
	if err != nil || e.MtimeSec != 1 || e.MtimeNsec != 234567800 || !e.HasBirth || e.BirthSec != 0 {
		t.Errorf("%v, %+v", err, e)
	}
}

// The 32 bits of Unix times are read with a sign, unless the header's own time says that they only overflowed.
func TestUnixTimes(t *testing.T) {
	const after2038, before1970 = 4115534400, -1000000000
	for _, c := range []struct {
		what      string
		written   int64
		date      uint16 // of DOS
		want      int64
		extraless bool
		has       bool
	}{
		{"usual", 1577934245, 40<<9 | 1<<5 | 2, 1577934245, false, true},
		{"after 2038", after2038, 120<<9 | 6<<5 | 1, after2038, false, true},
		{"before 1970", before1970, 1<<5 | 1, before1970, false, true},
		{"no date", 1577934245, 0, 1577934245, false, true},
		{"no time at all", 0, 0, 0, true, false},
	} {
		b := one(t, "x", "x", func(h *kzip.FileHeader) {
			if h.Modified = (time.Time{}); !c.extraless {
				h.Extra = binary.LittleEndian.AppendUint32([]byte{0x55, 0x54, 5, 0, 1}, uint32(c.written))
			}
		})
		local, central := bothHeaders(b)
		for _, h := range [][]byte{local[10:], central[12:]} {
			binary.LittleEndian.PutUint16(h, 0)
			binary.LittleEndian.PutUint16(h[2:], c.date)
		}
		got, _, err := readEverything(b, source.Options{})
		if e := got["x"].e.Entry; err != nil || e.HasMtime != c.has || e.MtimeSec != c.want {
			t.Errorf("%s: %v, %+v", c.what, err, e)
		}
	}
}

// patched is an input in which a stretch of zeros stands for data that nobody keeps.
type patched struct {
	front []byte
	zeros int64
	back  []byte
}

func (p *patched) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		at := off + int64(n)
		switch f, z := int64(len(p.front)), int64(len(p.front))+p.zeros; {
		case at < f:
			n += copy(b[n:], p.front[at:])
		case at < z:
			k := int(min(int64(len(b)-n), z-at))
			clear(b[n : n+k])
			n += k
		case at < z+int64(len(p.back)):
			n += copy(b[n:], p.back[at-z:])
		default:
			return n, io.EOF
		}
	}
	return n, nil
}

// More entries than the old fields can count, and an entry behind the first four gigabytes.
func TestManyAndLarge(t *testing.T) {
	var b bytes.Buffer
	w := kzip.NewWriter(&b)
	const many = 70_000
	for i := range many {
		if _, err := w.CreateRaw(&kzip.FileHeader{Name: fmt.Sprintf("d/%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := Open(context.Background(), sourcetest.Input(b.Bytes()), source.Options{})
	if err != nil || a.Info().Entries != many {
		t.Fatal(a, err)
	}
	n := 0
	for e, err := range a.Entries(context.Background()) {
		if err != nil || e.Err != nil {
			t.Fatal(err, e.Err)
		}
		n++
	}
	if n != many {
		t.Errorf("%d entries of %d", n, many)
	}
	if _, err := Open(context.Background(), sourcetest.Input(b.Bytes()), source.Options{MaxEntries: many - 1}); !errors.Is(err, source.ErrLimit) {
		t.Errorf("too many: %v", err)
	}

	// The first entry's bytes are left out of the buffer and put in as a stretch of zeros.
	b.Reset()
	const large = 5 << 30
	w = kzip.NewWriter(&b)
	w.SetOffset(0)
	if _, err := w.CreateRaw(&kzip.FileHeader{Name: "large", CompressedSize64: large, UncompressedSize64: large}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	front := bytes.Clone(b.Bytes())
	b.Reset()
	rest := kzip.NewWriter(&b)
	rest.SetOffset(int64(len(front)) + large)
	f, err := rest.CreateRaw(&kzip.FileHeader{Name: "behind", CRC32: crc32.ChecksumIEEE([]byte("data")), CompressedSize64: 4, UncompressedSize64: 4})
	if err == nil {
		_, err = f.Write([]byte("data"))
	}
	if err := errors.Join(err, rest.Close()); err != nil {
		t.Fatal(err)
	}
	// The directory of the second writer lacks the first entry: it stands before the archive, as a program would.
	p := &patched{front, large, b.Bytes()}
	a, err = Open(context.Background(), source.Input{ReaderAt: p, Size: int64(len(front)) + large + int64(len(p.back))}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range a.Entries(context.Background()) {
		if err != nil || e.Err != nil || e.Name != "behind" {
			t.Fatalf("%+v, %v", e, err)
		}
		if s, err := sourcetest.Content(e); err != nil || s != "data" {
			t.Errorf("%q, %v", s, err)
		}
	}
}

// Whatever single byte is changed: an error, or the same content.
func TestFlips(t *testing.T) {
	for _, name := range []string{"7z-aes256.zip", "7z-deflate64.zip", "7z-lzma.zip", "infozip.zip"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		o := sourcetest.Pass("secret")
		want, _, err := readEverything(b, o)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			i := r.IntN(len(b))
			z := bytes.Clone(b)
			z[i] ^= 1 << r.IntN(8)
			got, _, err := readEverything(z, o)
			if err != nil {
				continue
			}
			for n, it := range got {
				if w, ok := want[n]; ok && it.err == nil && it.e.Entry.Kind == w.e.Entry.Kind && it.data != w.data && it.e.Entry.Size > 0 {
					t.Fatalf("%s, byte %d: %s has other content", name, i, n)
				}
			}
		}
		for n := 0; n < len(b); n += 97 {
			if _, _, err := readEverything(b[:n], o); err == nil {
				t.Fatalf("%s, cut to %d bytes, was read", name, n)
			}
		}
	}
}

// The real program, with what only a tree of files has.
func TestRealZip(t *testing.T) {
	zip, err := exec.LookPath("zip")
	if err != nil {
		t.Skip("zip is not installed")
	}
	dir := t.TempDir()
	want := map[string]string{}
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []string{"a", "deep/er/b", "grün", "with space"} {
		data := strings.Repeat(n, r.IntN(20000))
		want[n] = data
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, n)), 0o777), os.WriteFile(filepath.Join(dir, n), []byte(data), fs.FileMode(0o600+r.IntN(0o77)))); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "x.zip")
	cmd := exec.Command(zip, "-qr", out, ".")
	cmd.Dir = dir
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := readEverything(b, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n, data := range want {
		fi, err := os.Stat(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		it := got[n]
		if it.e == nil || it.err != nil || it.data != data || it.e.Entry.Mode != uint32(fi.Mode().Perm()) || it.e.Entry.MtimeSec != fi.ModTime().Unix() {
			t.Errorf("%s: %+v", n, it)
		}
	}
}

func FuzzZip(f *testing.F) {
	sourcetest.Seed(f, "../testdata/libarchive", ".zip", ".zipx")
	list, _ := filepath.Glob("testdata/*.zip")
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil {
			f.Add(b)
		}
	}
	f.Add(raw(f, "name", "data"))
	f.Fuzz(func(t *testing.T, b []byte) {
		Probe(sourcetest.Input(b))
		o := sourcetest.Pass("secret")
		o.MaxEntries = 1000
		a, err := Open(context.Background(), sourcetest.Input(b), o)
		if err != nil {
			return
		}
		for e, err := range a.Entries(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Err != nil || e.Open == nil {
				continue
			}
			r, err := e.Open()
			if err != nil {
				continue
			}
			n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			if err == nil && n < 1<<20 && n != e.Entry.Size {
				t.Errorf("%q: %d bytes of %d without an error", e.Name, n, e.Entry.Size)
			}
			_ = r.Close()
		}
	})
}

// What is kept of an archive in memory is little for each entry, however long its names are.
func TestMemory(t *testing.T) {
	const n = 20_000
	var b bytes.Buffer
	w := kzip.NewWriter(&b)
	for i := range n {
		if _, err := w.CreateHeader(&kzip.FileHeader{Name: fmt.Sprintf("%s/%d", strings.Repeat("long", 50), i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in := sourcetest.Input(b.Bytes())
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // what pools held, too
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	a, err := Open(context.Background(), in, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if grown := int64(heap()) - int64(before); grown > n*64 {
		t.Errorf("%d entries take %d bytes", n, grown)
	}
	if err := a.Close(); err != nil { // it was in use until here
		t.Fatal(err)
	}
	runtime.KeepAlive(a)
}
