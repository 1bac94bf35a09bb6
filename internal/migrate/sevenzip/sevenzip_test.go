package sevenzip

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
	"lockbox/internal/migrate/unpack"
)

// got is an entry as it was read.
type got struct {
	e    *source.Entry
	data string
	err  error // of the content
}

func readAll(t testing.TB, b []byte, o source.Options) (source.Info, []got, error) {
	t.Helper()
	a, err := Open(context.Background(), sourcetest.Input(b), o)
	if err != nil {
		return source.Info{}, nil, err
	}
	defer a.Close()
	var first []got
	for round := range 2 {
		var list []got
		for e, err := range a.Entries(context.Background()) {
			if err != nil {
				return a.Info(), list, err
			}
			g := got{e: e}
			if e.Err == nil && e.Entry.Kind == index.File {
				g.data, g.err = sourcetest.Content(e)
			}
			list = append(list, g)
		}
		if round == 0 {
			first = list
		} else if fmt.Sprint(names(list)) != fmt.Sprint(names(first)) {
			t.Errorf("a second reading differs: %v and %v", names(first), names(list))
		}
	}
	return a.Info(), first, nil
}

func names(list []got) (s []string) {
	for _, g := range list {
		s = append(s, fmt.Sprintf("%s=%d/%v/%v", g.e.Name, len(g.data), g.e.Err, g.err))
	}
	return s
}

func entry(t testing.TB, list []got, name string) got {
	t.Helper()
	for _, g := range list {
		if g.e.Name == name {
			return g
		}
	}
	t.Fatalf("no entry %q in %v", name, names(list))
	return got{}
}

// record is a file for make7z.
type record struct {
	name  string
	data  string
	attr  uint32
	dir   bool
	anti  bool
	mtime uint64
}

// make7z makes an archive whose contents stand in it as they are, all in one block.
func make7z(rs ...record) []byte {
	var packed []byte
	var empty, emptyFile, anti []bool
	var sizes, crcs, names, attrs, times []byte
	streams, last := 0, -1
	for i, r := range rs {
		empty = append(empty, r.data == "")
		if r.data == "" {
			emptyFile, anti = append(emptyFile, !r.dir), append(anti, r.anti)
		} else {
			streams++
			last = i
		}
		packed = append(packed, r.data...)
		for _, u := range utf16.Encode([]rune(r.name)) {
			names = binary.LittleEndian.AppendUint16(names, u)
		}
		names = append(names, 0, 0)
		attrs = binary.LittleEndian.AppendUint32(attrs, r.attr)
		times = binary.LittleEndian.AppendUint64(times, r.mtime)
	}
	for i, r := range rs {
		if r.data == "" {
			continue
		}
		if i != last {
			sizes = putNumber(sizes, uint64(len(r.data)))
		}
		crcs = binary.LittleEndian.AppendUint32(crcs, crc32.ChecksumIEEE([]byte(r.data)))
	}
	h := []byte{idHeader}
	if streams > 0 {
		h = append(h, idMainStreams, idPack)
		h = append(putNumber(putNumber(h, 0), 1), idSize)
		h = append(putNumber(h, uint64(len(packed))), idEnd, idUnpack, idFolder, 1, 0, 1, 1, 0, idUnpackSizes)
		h = append(putNumber(h, uint64(len(packed))), idEnd, idSubStreams, idNumStreams)
		h = putNumber(h, uint64(streams))
		if streams > 1 {
			h = append(append(h, idSize), sizes...)
		}
		h = append(append(h, idCRC, 1), crcs...)
		h = append(h, idEnd, idEnd)
	}
	h = putNumber(append(h, idFiles), uint64(len(rs)))
	property := func(id byte, b []byte) { h = append(putNumber(append(h, id), uint64(len(b))), b...) }
	property(idEmptyStream, bitsOf(empty))
	property(idEmptyFile, bitsOf(emptyFile))
	property(idAnti, bitsOf(anti))
	property(idDummy, make([]byte, 3))
	property(idNames, append([]byte{0}, names...))
	property(idModified, append([]byte{1, 0}, times...))
	property(idAttributes, append([]byte{1, 0}, attrs...))
	h = append(h, idEnd, idEnd)
	return wrap(packed, h)
}

func bitsOf(v []bool) []byte {
	b := make([]byte, (len(v)+7)/8)
	for i, set := range v {
		if set {
			b[i/8] |= 0x80 >> (i % 8)
		}
	}
	return b
}

func wrap(packed, h []byte) []byte {
	s := make([]byte, startSize)
	copy(s, magic+"\x00\x04")
	binary.LittleEndian.PutUint64(s[12:], uint64(len(packed)))
	binary.LittleEndian.PutUint64(s[20:], uint64(len(h)))
	binary.LittleEndian.PutUint32(s[28:], crc32.ChecksumIEEE(h))
	binary.LittleEndian.PutUint32(s[8:], crc32.ChecksumIEEE(s[12:]))
	return slices.Concat(s, packed, h)
}

func unix(mode uint32) uint32 { return attrUnix | mode<<16 }

func TestReadsWhatTheDirectorySays(t *testing.T) {
	at := uint64(11_644_473_600+1_700_000_000)*10_000_000 + 1_234_567
	b := make7z(
		record{name: "d", dir: true, attr: unix(0o040750), mtime: at},
		record{name: "d/ä😀", data: "one", attr: unix(0o104755), mtime: at},
		record{name: "d/link", data: "../x", attr: unix(0o120777), mtime: at},
		record{name: "empty", attr: 0x21, mtime: at},
		record{name: "win", data: "two", attr: 0x22, mtime: 0},
		record{name: "w", dir: true, attr: attrDir},
	)
	if v := Probe(sourcetest.Input(b)); v.Format != Format || !v.Supported {
		t.Fatalf("%+v", v)
	}
	info, list, err := readAll(t, b, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Entries != 6 || info.Bytes != 10 || info.Encrypted || info.Random || len(info.Notes) != 0 {
		t.Errorf("%+v", info)
	}
	for _, want := range []struct {
		name, data, target string
		kind               index.Kind
		mode               uint32
		attrs              uint64
		unix               bool
	}{
		{"d", "", "", index.Dir, 0o750, 0, true},
		{"d/ä😀", "one", "", index.File, 0o4755, 0, true},
		{"d/link", "", "../x", index.Symlink, 0o777, 0, true},
		{"empty", "", "", index.File, 0o444, 0x21, false},
		{"win", "two", "", index.File, 0o644, 0x22, false},
		{"w", "", "", index.Dir, 0o755, 0, false},
	} {
		g := entry(t, list, want.name)
		x := g.e.Entry
		if g.e.Err != nil || g.err != nil || g.data != want.data || x.Kind != want.kind || x.Mode != want.mode || x.Target != want.target ||
			x.Path.String() != want.name || x.HasWinAttrs == want.unix || x.WinAttrs != want.attrs || x.Size != int64(len(want.data)) {
			t.Errorf("%s: %+v", want.name, g)
		}
		if want.unix && (!x.HasMtime || x.MtimeSec != 1_700_000_000 || x.MtimeNsec != 123_456_700) {
			t.Errorf("%s: time %d.%d", want.name, x.MtimeSec, x.MtimeNsec)
		}
	}
	if x := entry(t, list, "win").e.Entry; x.MtimeSec != -11_644_473_600 {
		t.Errorf("time 0 is %d", x.MtimeSec)
	}
}

func TestEntriesThatAreRefused(t *testing.T) {
	for _, r := range []record{
		{name: "../up", data: "x", attr: 0x20},
		{name: "/abs", data: "x", attr: 0x20},
		{name: `C:\x`, data: "x", attr: 0x20},
		{name: `a\b`, data: "x", attr: 0x20},
		{name: "", data: "x", attr: 0x20},
		{name: "a/../../b", dir: true, attr: attrDir},
		{name: ".", data: "x", attr: 0x20},
		{name: "gone", anti: true},
		{name: "junction", data: "x", attr: attrReparse},
		{name: "device", attr: unix(0o060644)},
		{name: "socket", attr: unix(0o140644)},
		{name: "link without target", attr: unix(0o120777)},
		{name: "zero", data: "a\x00b", attr: unix(0o120777)},
		{name: "both", data: "x", attr: unix(0o040755)},
	} {
		_, list, err := readAll(t, make7z(record{name: "before", data: "b"}, r, record{name: "after", data: "a"}), source.Options{})
		if err != nil {
			t.Fatalf("%q: %v", r.name, err)
		}
		if g := entry(t, list, r.name); g.e.Err == nil {
			t.Errorf("%q was taken: %+v", r.name, g.e)
		}
		for _, n := range []string{"before", "after"} {
			if g := entry(t, list, n); g.data != n[:1] || g.e.Err != nil || g.err != nil {
				t.Errorf("%q spoils %s: %+v", r.name, n, g)
			}
		}
	}
}

func TestHalfSurrogatesStayDifferent(t *testing.T) {
	a := file{name: []byte{0x00, 0xd8, 'x', 0}}
	b := file{name: []byte{0x01, 0xd8, 'x', 0}}
	if a.text() == b.text() || a.text() != "\xed\xa0\x80x" {
		t.Errorf("%q, %q", a.text(), b.text())
	}
}

func TestLimitsOfTheDirectory(t *testing.T) {
	b := make7z(record{name: "a", data: "x"}, record{name: "b", data: "y"})
	if _, err := Open(context.Background(), sourcetest.Input(b), source.Options{MaxEntries: 1}); !errors.Is(err, source.ErrLimit) {
		t.Errorf("more entries than allowed: %v", err)
	}
	// Headers whose few bytes claim much. The counts stand where no bytes follow.
	huge := putNumber(nil, 1<<40)
	for name, h := range map[string][]byte{
		"files":       append([]byte{idHeader, idFiles}, huge...),
		"folders":     append(append([]byte{idHeader, idMainStreams, idUnpack, idFolder}, huge...), 0),
		"packed":      append([]byte{idHeader, idMainStreams, idPack, 0}, huge...),
		"coders":      append([]byte{idHeader, idMainStreams, idUnpack, idFolder, 1, 0}, huge...),
		"properties":  append([]byte{idHeader, idMainStreams, idUnpack, idFolder, 1, 0, 1, 0x21, 0}, huge...),
		"property":    append([]byte{idHeader, idFiles, 1, idDummy}, huge...),
		"circle":      {idHeader, idMainStreams, idUnpack, idFolder, 1, 0, 2, 0x11, 0, 1, 1, 0x11, 0, 2, 1, 0, 0, 0, idUnpackSizes, 1, 1, idEnd, idEnd},
		"no end":      {idHeader},
		"empty twice": {idHeader, idFiles, 1, idEmptyStream, 1, 0x80, idEmptyStream, 1, 0x80, idNames, 5, 0, 'a', 0, 0, 0, idEnd, idEnd},
		"blocks twice": slices.Concat([]byte{idHeader, idMainStreams, idPack, 0, 2, idSize, 0, 0, idEnd}, []byte{idUnpack, idFolder, 2, 0, 1, 1, 0, 1, 1, 0, idUnpackSizes, 0, 0, idEnd, idSubStreams, idEnd},
			[]byte{idUnpack, idFolder, 1, 0, 1, 1, 0, idUnpackSizes, 0, idEnd, idEnd, idFiles, 2, idNames, 9, 0, 'a', 0, 0, 0, 'b', 0, 0, 0, idEnd, idEnd}),
		"unknown":     {idHeader, 77},
		"packed deep": {idEncodedHeader},
	} {
		_, _, err := readAll(t, wrap(nil, h), source.Options{})
		if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, source.ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, list, err := readAll(t, wrap(nil, nil), source.Options{}); err != nil || len(list) != 0 || info.Entries != 0 {
		t.Errorf("an archive without files: %v, %v", names(list), err)
	}
}

func TestDamage(t *testing.T) {
	good := make7z(record{name: "a", data: "first content"}, record{name: "b", data: "second content"})
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 1
		_, list, err := readAll(t, bad, source.Options{})
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("byte %d: %v", i, err)
			}
			continue
		}
		for _, g := range list {
			if g.err == nil && g.data != "first content" && g.data != "second content" {
				t.Errorf("byte %d: %q came out", i, g.data)
			}
		}
		if i >= startSize && i < startSize+13 {
			if entry(t, list, "a").err == nil || entry(t, list, "b").err != nil {
				t.Errorf("byte %d: %v", i, names(list))
			}
		}
	}
	for n := 2; n < len(good); n++ { // a single byte may be the beginning of anything
		if _, err := Open(context.Background(), sourcetest.Input(good[:n]), source.Options{}); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestProgramInFront(t *testing.T) {
	b := slices.Concat([]byte("MZ program 7z\xbc\xaf\x27\x1c no"), make([]byte, 5000), make7z(record{name: "a", data: "x"}), []byte("behind"))
	if v := Probe(sourcetest.Input(b)); !v.Supported {
		t.Fatalf("%+v", v)
	}
	info, list, err := readAll(t, b, source.Options{})
	if err != nil || len(list) != 1 || list[0].data != "x" || len(info.Notes) != 1 || len(info.Lost) != 1 {
		t.Errorf("%v, %v, %v", info, names(list), err)
	}
	if v := Probe(sourcetest.Input([]byte("MZ nothing"))); v.Format != "" {
		t.Errorf("%+v", v)
	}
}

// tree makes files, directories and links below a new directory.
func tree(t testing.TB) (string, map[string]string) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "the quick fox\n"[r.IntN(14)]
		}
		return string(b)
	}
	files := map[string]string{"a.txt": text(50_000), "sub/b.txt": text(3), "sub/empty": "", "sub/ünï": text(70_000), "z": text(1000)}
	code, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	files["code"] = string(code[:min(len(code), 100_000)])
	for n, data := range files {
		p := filepath.Join(dir, n)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(data), 0o640),
			os.Chtimes(p, time.Time{}, time.Unix(1_600_000_000, 123_456_700))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("../a.txt", filepath.Join(dir, "sub/link")), os.Mkdir(filepath.Join(dir, "void"), 0o700)); err != nil {
		t.Fatal(err)
	}
	return dir, files
}

func run(t testing.TB, dir, out string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skipf("no %s here", args[0])
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRealTools(t *testing.T) {
	dir, files := tree(t)
	for _, args := range [][]string{
		{"-m0=LZMA"}, {"-m0=LZMA2", "-ms=off"}, {"-m0=PPMd"}, {"-m0=BZip2"}, {"-m0=Deflate"}, {"-m0=Copy"},
		{"-m0=BCJ", "-m1=LZMA2"}, {"-m0=BCJ2", "-m1=LZMA:d=20", "-m2=LZMA:d=16", "-m3=LZMA:d=16", "-mb0:1", "-mb0s1:2", "-mb0s2:3"},
		{"-m0=Delta:4", "-m1=LZMA"}, {"-m0=ARM", "-m1=LZMA"}, {"-m0=PPC", "-m1=LZMA"}, {"-mhc=off"}, {"-mtc=on", "-mta=on"},
		{"-psecret"}, {"-psecret", "-mhe=on"}, {"-psecret", "-m0=Copy"}, {"bsdtar"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "x.7z")
			var b []byte
			if args[0] == "bsdtar" {
				b = run(t, dir, out, "bsdtar", "-cf", out, "--format=7zip", "a.txt", "code", "sub", "void", "z")
			} else {
				b = run(t, dir, out, slices.Concat([]string{"7z", "a", "-snl", "-bd"}, args, []string{out, "."})...)
			}
			o := source.Options{}
			protected := strings.HasPrefix(args[0], "-p")
			if protected {
				if _, _, err := readAll(t, b, o); !errors.Is(err, format.ErrAuth) {
					t.Errorf("without a passphrase: %v", err)
				}
				o = sourcetest.Pass("secret")
			}
			info, list, err := readAll(t, b, o)
			if err != nil {
				t.Fatal(err)
			}
			if info.Encrypted != protected || info.Entries != int64(len(list)) || len(info.Lost) != 0 || len(info.Notes) != 0 {
				t.Errorf("%+v", info)
			}
			for n, data := range files {
				g := entry(t, list, n)
				x := g.e.Entry
				if g.e.Err != nil || g.err != nil || g.data != data || x.Kind != index.File || x.Mode != 0o640 || x.Size != int64(len(data)) ||
					x.MtimeSec != 1_600_000_000 || x.MtimeNsec != 123_456_700 {
					t.Errorf("%s: %d bytes, %+v, %v, %v", n, len(g.data), x, g.e.Err, g.err)
				}
			}
			if g := entry(t, list, "sub/link"); g.e.Err != nil || g.e.Entry.Kind != index.Symlink || g.e.Entry.Target != "../a.txt" {
				t.Errorf("link: %+v", g.e)
			}
			if g := entry(t, list, "void"); g.e.Err != nil || g.e.Entry.Kind != index.Dir || g.e.Entry.Mode != 0o700 {
				t.Errorf("directory: %+v", g.e)
			}
			if protected {
				wrongPassphrase(t, b)
			}
			for i := range 2 {
				withDamage(t, b, startSize+(len(b)-startSize)*(i+1)/3, files, o)
			}
		})
	}
}

// withDamage changes a byte of the archive: what comes out without an error must still be right.
func withDamage(t *testing.T, b []byte, at int, files map[string]string, o source.Options) {
	t.Helper()
	b = slices.Clone(b)
	b[at] ^= 0x55
	_, list, err := readAll(t, b, o)
	if err != nil {
		return
	}
	wrong := 0
	for _, g := range list {
		switch data, ok := files[g.e.Name]; {
		case errors.Join(g.e.Err, g.err) != nil:
			wrong++
		case ok && data != g.data:
			t.Errorf("byte %d changed: %s has other bytes, and no error", at, g.e.Name)
		}
	}
	if wrong == 0 {
		t.Errorf("byte %d changed: nothing was noticed", at)
	}
}

func wrongPassphrase(t *testing.T, b []byte) {
	t.Helper()
	_, list, err := readAll(t, b, sourcetest.Pass("wrong"))
	if errors.Is(err, format.ErrAuth) {
		return
	}
	if err != nil {
		t.Errorf("with a wrong passphrase: %v", err)
	}
	for _, g := range list {
		failed := errors.Join(g.e.Err, g.err)
		if g.e.Entry.Size > 0 && !errors.Is(failed, format.ErrAuth) || failed == nil && g.data != "" {
			t.Errorf("with a wrong passphrase, %s: %v", g.e.Name, failed)
		}
	}
}

func TestVolumes(t *testing.T) {
	dir, _ := tree(t)
	out := filepath.Join(t.TempDir(), "x.7z")
	b := run(t, dir, out+".001", "7z", "a", "-bd", "-v2k", out, ".")
	if _, err := Open(context.Background(), sourcetest.Input(b), source.Options{}); !errors.Is(err, format.ErrCorrupt) || !strings.Contains(err.Error(), "volumes") {
		t.Errorf("%v", err)
	}
}

// The library's own samples have coders that the usual tool does not write.
func TestSamplesOfTheLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bodgit/sevenzip").Output()
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		t.Skip("the library's source is not here")
	}
	list, err := filepath.Glob(filepath.Join(string(bytes.TrimSpace(out)), "testdata", "*.7z"))
	if err != nil || len(list) == 0 {
		t.Skip("the library has no samples")
	}
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 1<<20 {
			continue
		}
		base := filepath.Base(name)
		o := sourcetest.Pass("password")
		if base == "7zcracker.7z" {
			o = sourcetest.Pass("876")
		}
		_, got, err := readAll(t, b, o)
		if base == "COMPRESS-492.7z" { // not whole
			if !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%s: %v", base, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", base, err)
		}
		for _, g := range got {
			if g.e.Err != nil || g.err != nil {
				t.Errorf("%s: %s: %v, %v", base, g.e.Name, g.e.Err, g.err)
			}
		}
	}
}

func TestCodersAreHeldInCheck(t *testing.T) {
	block := func(id, props string, size uint64) *folder {
		return &folder{coders: []coder{{id: id, in: 1, props: []byte(props), size: size}}, packed: []int{0}, sizes: []int64{1}}
	}
	for name, c := range map[string]struct {
		f    *folder
		want error
	}{
		"LZMA, large window":         {block(coderLZMA, "\x5d\x00\x00\x00\xff", 1<<40), unpack.ErrWindow},
		"LZMA, short content":        {block(coderLZMA, "\x5d\x00\x00\x00\xff", 1000), nil},
		"LZMA, no properties":        {block(coderLZMA, "", 1000), format.ErrCorrupt},
		"LZMA2, large window":        {block(coderLZMA2, "\x28", 1<<40), unpack.ErrWindow},
		"LZMA2, short content":       {block(coderLZMA2, "\x28", 1000), nil},
		"LZMA2, window out of range": {block(coderLZMA2, "\x29", 1000), format.ErrCorrupt},
		"PPMd, much memory":          {block(coderPPMd, "\x06\x00\x00\x00\xff", 1000), unpack.ErrWindow},
		"AES, much work":             {block(coderAES, "\x59\x00\x00", 1000), format.ErrCorrupt},
		"AES, salt cut short":        {block(coderAES, "\xd3\xff\x00", 1000), format.ErrCorrupt},
		"unknown":                    {block("\x04\x01\x09", "", 1000), unpack.ErrUnsupported},
	} {
		if err := c.f.check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := &archive{in: sourcetest.Input(make([]byte, 1)), head: &header{}}
	for range 1 << 8 {
		f := block(coderAES, "\x93\x10"+string(binary.LittleEndian.AppendUint16(nil, uint16(len(a.head.folders)))), 1000)
		a.head.folders = append(a.head.folders, *f)
	}
	if err := a.survey(0, 1); !errors.Is(err, source.ErrLimit) {
		t.Errorf("a key to derive for each of many blocks: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	sourcetest.Seed(f, "../testdata/libarchive", ".7z")
	f.Add(make7z(record{name: "a", data: "x"}, record{name: "l", data: "a", attr: unix(0o120777)}, record{name: "d", dir: true}))
	f.Add(wrap(nil, nil))
	b := make7z(record{name: "a", data: "xyz"}, record{name: "b", data: "z"})
	f.Add(slices.Concat(make([]byte, startSize), []byte{4}, b[startSize:]))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksums are put right, so that the fuzzer gets behind them.
		for _, fix := range []bool{false, true} {
			if fix && len(b) > startSize {
				h := b[startSize:]
				n := min(int(h[0]), len(h)-1)
				b = wrap(h[1:1+n], h[1+n:])
			}
			Probe(sourcetest.Input(b))
			a, err := Open(context.Background(), sourcetest.Input(b), sourcetest.Pass("p"))
			if err != nil {
				continue
			}
			for e, err := range a.Entries(context.Background()) {
				if err != nil {
					t.Fatalf("the archive itself: %v", err)
				}
				if e.Err != nil || e.Open == nil {
					continue
				}
				r, err := e.Open()
				if err == nil {
					_, err = io.Copy(io.Discard, io.LimitReader(r, 4<<20))
				}
				if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) && !errors.Is(err, unpack.ErrUnsupported) && !errors.Is(err, unpack.ErrWindow) {
					t.Fatalf("an error of no kind: %v", err)
				}
			}
		}
	})
}
