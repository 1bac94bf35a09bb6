package cpio

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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

// file is what made writes.
type file struct {
	name, data string
	mode       uint64
	ino, nlink uint64
	sum        uint32 // added to the right one
	dev        uint64
}

// made writes an archive of a layout.
func made(l layout, files ...file) []byte {
	var b []byte
	for _, f := range append(files, file{name: trailer, nlink: 1}) {
		name := f.name + "\x00"
		at := len(b)
		var sum uint32
		for i := range len(f.data) {
			sum += uint32(f.data[i])
		}
		switch l {
		case newc, crc:
			if l == newc {
				sum = 0
			}
			b = append(b, map[layout]string{newc: "070701", crc: "070702"}[l]...)
			for _, v := range []uint64{f.ino, f.mode, 1000, 50, f.nlink, 1_600_000_000, uint64(len(f.data)), 0, 1, f.dev >> 8, f.dev & 0xff, uint64(len(name)), uint64(sum + f.sum)} {
				b = fmt.Appendf(b, "%08X", v)
			}
		case odc:
			b = fmt.Appendf(b, "070707%06o%06o%06o%06o%06o%06o%06o%011o%06o%011o", 1, f.ino, f.mode, 1000, 50, f.nlink, f.dev, 1_600_000_000, len(name), len(f.data))
		default:
			var o binary.AppendByteOrder = binary.LittleEndian
			if l == binBE {
				o = binary.BigEndian
			}
			for _, v := range []uint64{0o70707, 1, f.ino, f.mode, 1000, 50, f.nlink, f.dev, 1_600_000_000 >> 16, 1_600_000_000 & 0xffff, uint64(len(name)), uint64(len(f.data) >> 16), uint64(len(f.data))} {
				b = o.AppendUint16(b, uint16(v))
			}
		}
		b = append(b, name...)
		b = append(b, make([]byte, l.pad(int64(len(b)-at)))...)
		b = append(b, f.data...)
		b = append(b, make([]byte, l.pad(int64(len(f.data))))...)
	}
	return b
}

type got struct {
	e    *source.Entry
	data string
	err  error
}

func readAll(t testing.TB, b []byte) (source.Info, []got, error) {
	t.Helper()
	a, err := Open(context.Background(), sourcetest.Input(b), source.Options{})
	if err != nil {
		return source.Info{}, nil, err
	}
	defer a.Close()
	var list []got
	for round := range 2 {
		n := len(list)
		list = nil
		for e, err := range a.Entries(context.Background()) {
			if err != nil {
				return a.Info(), list, err
			}
			g := got{e: e}
			if e.Err == nil && e.Open != nil {
				g.data, g.err = sourcetest.Content(e)
			}
			list = append(list, g)
		}
		if round == 1 && n != len(list) {
			t.Errorf("a second reading has %d entries, the first had %d", len(list), n)
		}
	}
	return a.Info(), list, nil
}

func byName(t testing.TB, list []got, name string) got {
	t.Helper()
	for _, g := range list {
		if g.e.Name == name {
			return g
		}
	}
	t.Fatalf("no entry %q", name)
	return got{}
}

var layouts = []layout{newc, crc, odc, binLE, binBE}

func TestLayouts(t *testing.T) {
	for _, l := range layouts {
		b := made(l, file{name: ".", mode: 0o040755, nlink: 2}, file{name: "./d", mode: 0o040711, nlink: 2}, file{name: "d/f", data: "hello", mode: 0o104755, nlink: 1},
			file{name: "d/empty", mode: 0o100600, nlink: 1}, file{name: "l", data: "d/f", mode: 0o120777, nlink: 1},
			file{name: "p", mode: 0o010640, nlink: 1}, file{name: "c", mode: 0o020640, nlink: 1, dev: 0x0103}, file{name: "b", mode: 0o060640, nlink: 1, dev: 0x0801})
		for _, tail := range []int{0, 1, 511} {
			b := append(slices.Clone(b), make([]byte, tail)...)
			if v := Probe(sourcetest.Input(b)); v.Format != Format || !v.Supported {
				t.Fatalf("%v: %+v", l, v)
			}
			info, list, err := readAll(t, b)
			if err != nil || len(list) != 7 || info.Bytes != 8 || info.Random {
				t.Fatalf("%v: %d entries, %+v, %v", l, len(list), info, err)
			}
			for i, want := range []struct {
				path, data, target string
				kind               index.Kind
				mode               uint32
				major, minor       uint64
			}{
				{"d", "", "", index.Dir, 0o711, 0, 0}, {"d/f", "hello", "", index.File, 0o4755, 0, 0}, {"d/empty", "", "", index.File, 0o600, 0, 0},
				{"l", "", "d/f", index.Symlink, 0o777, 0, 0}, {"p", "", "", index.FIFO, 0o640, 0, 0},
				{"c", "", "", index.CharDevice, 0o640, 1, 3}, {"b", "", "", index.BlockDevice, 0o640, 8, 1},
			} {
				g, x := list[i], list[i].e.Entry
				if g.e.Err != nil || g.err != nil || x.Path.String() != want.path || g.data != want.data || x.Target != want.target || x.Kind != want.kind ||
					x.Mode != want.mode || x.Major != want.major || x.Minor != want.minor || x.UID != 1000 || x.GID != 50 || !x.HasOwner || x.MtimeSec != 1_600_000_000 {
					t.Errorf("%v: %+v, want %+v", l, g, want)
				}
			}
		}
	}
}

func TestHardLinks(t *testing.T) {
	for _, l := range layouts {
		b := made(l,
			file{name: "a", mode: 0o100644, ino: 7, nlink: 3}, file{name: "b", mode: 0o100644, ino: 7, nlink: 3},
			file{name: "other", data: "x", mode: 0o100644, ino: 7, nlink: 1},
			file{name: "c", data: "data", mode: 0o100644, ino: 7, nlink: 3},
			file{name: "again", data: "data", mode: 0o100644, ino: 7, nlink: 3}, file{name: "liar", data: "DATA", mode: 0o100644, ino: 7, nlink: 3},
			file{name: "e1", mode: 0o100644, ino: 8, nlink: 2}, file{name: "e2", mode: 0o100644, ino: 8, nlink: 2},
			file{name: "alone", mode: 0o100644, ino: 9, nlink: 2})
		_, list, err := readAll(t, b)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, g := range list {
			if g.err != nil {
				t.Errorf("%v: %s: %v", l, g.e.Name, g.err)
			}
			s = append(s, fmt.Sprintf("%s>%s=%s:%v", g.e.Name, g.e.LinkTo, g.data, g.e.Err != nil))
		}
		want := "other>=x:false c>=data:false a>c=:false b>c=:false again>c=:false liar>=:true e1>=:false e2>e1=:false alone>=:false"
		if strings.Join(s, " ") != want {
			t.Errorf("%v:\n%s\n%s", l, strings.Join(s, " "), want)
		}
	}
}

func zipped(t testing.TB, b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

func TestArchivesBehindOneAnother(t *testing.T) {
	early := append(made(newc, file{name: "early", data: "1", mode: 0o100644, ino: 5, nlink: 2}), make([]byte, 700)...)
	main := made(newc, file{name: "main", mode: 0o100644, ino: 5, nlink: 2}, file{name: "more", data: "2", mode: 0o100644, ino: 5, nlink: 2})
	for name, b := range map[string][]byte{
		"plain": slices.Concat(early, main), "packed": slices.Concat(early, zipped(t, main)), "both packed": zipped(t, slices.Concat(early, main)),
		"packed apart": slices.Concat(zipped(t, early), zipped(t, main)),
	} {
		_, list, err := readAll(t, b)
		if err != nil || len(list) != 3 || byName(t, list, "early").data != "1" || byName(t, list, "more").data != "2" || byName(t, list, "main").e.LinkTo.String() != "more" {
			t.Errorf("%s: %d entries, %v", name, len(list), err)
		}
		if _, _, err := readAll(t, append(slices.Clone(b), "junk"...)); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s, junk behind it: %v", name, err)
		}
	}
	if v := Probe(sourcetest.Input(zipped(t, main))); v.Format != "cpio.gzip" || !v.Supported {
		t.Errorf("%+v", v)
	}
}

func TestRefused(t *testing.T) {
	for _, f := range []file{
		{name: "../up", mode: 0o100644, data: "x"}, {name: "/abs", mode: 0o100644, data: "x"}, {name: "", mode: 0o100644, data: "x"},
		{name: "s", mode: 0o140644}, {name: "n", mode: 0o110644}, {name: "d", mode: 0o040755, data: "x"}, {name: ".", mode: 0o100644},
		{name: "l", mode: 0o120777}, {name: "l", mode: 0o120777, data: "a\x00b"}, {name: "l", mode: 0o120777, data: strings.Repeat("x", format.MaxTarget+1)},
	} {
		_, list, err := readAll(t, made(newc, f, file{name: "good", data: "g", mode: 0o100644}))
		if err != nil || len(list) != 2 || list[0].e.Err == nil || list[1].data != "g" {
			t.Errorf("%q: %v, %+v", f.name, err, list)
		}
	}
	_, list, err := readAll(t, made(crc, file{name: "a", data: "x", mode: 0o100644, sum: 1}, file{name: "b", data: "y", mode: 0o100644}))
	if err != nil || !errors.Is(list[0].err, format.ErrCorrupt) || list[1].err != nil || list[1].data != "y" {
		t.Errorf("a wrong sum: %v, %+v", err, list)
	}
	if v := Probe(sourcetest.Input([]byte(rpmMagic + "\x03\x00"))); v.Format != "rpm" || v.Supported || v.Detail == "" {
		t.Errorf("rpm: %+v", v)
	}
	if _, _, err := readAll(t, []byte(rpmMagic+"\x03\x00")); !errors.Is(err, unpack.ErrUnsupported) {
		t.Errorf("rpm: %v", err)
	}
	two := made(odc, file{name: "a", mode: 0o100644}, file{name: "b", mode: 0o100644})
	if _, err := Open(context.Background(), sourcetest.Input(two), source.Options{MaxEntries: 1}); !errors.Is(err, source.ErrLimit) {
		t.Errorf("more entries than allowed: %v", err)
	}
}

func TestDamage(t *testing.T) {
	for _, l := range layouts {
		good := made(l, file{name: "a", data: "content", mode: 0o100644}, file{name: "b", data: "more", mode: 0o100644})
		for n := range good {
			if l != odc && n > len(good)-4 {
				continue // fill bytes
			}
			if _, _, err := readAll(t, good[:n]); !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("%v cut to %d of %d bytes: %v", l, n, len(good), err)
			}
			if _, _, err := readAll(t, zipped(t, good)[:min(n, len(zipped(t, good))-1)]); !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("%v packed and cut to %d bytes: %v", l, n, err)
			}
		}
	}
	for name, b := range map[string][]byte{
		"length of a name": bytes.Replace(made(newc, file{name: "a"}), []byte("00000002"), []byte("7FFFFFFF"), 1),
		"digits":           bytes.Replace(made(newc, file{name: "a"}), []byte("000003E8"), []byte("0000x3E8"), 1),
		"sign":             bytes.Replace(made(newc, file{name: "a"}), []byte("000003E8"), []byte("+00003E8"), 1),
		"zero in a name":   made(newc, file{name: "a\x00b"}),
	} {
		if _, _, err := readAll(t, b); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProbeIsNotFooled(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("0707"), []byte("\xc7\x71"), append([]byte("\xc7\x71"), make([]byte, 200)...),
		append([]byte("\xc7\x71"), bytes.Repeat([]byte{0x41}, 200)...), zipped(t, []byte("no archive")), zipped(t, nil), []byte("\x1f\x8b\x08cut")} {
		if v := Probe(sourcetest.Input(b)); v.Format != "" || v.Supported {
			t.Errorf("%q: %+v", b, v)
		}
	}
}

func TestRealTools(t *testing.T) {
	dir := t.TempDir()
	in := func(n string) string { return filepath.Join(dir, n) }
	long := strings.Repeat("long/", 40) + "name"
	err := errors.Join(os.MkdirAll(filepath.Dir(in(long)), 0o755), os.WriteFile(in(long), []byte("deep"), 0o644),
		os.WriteFile(in("a"), []byte(strings.Repeat("linked", 3000)), 0o640), os.Link(in("a"), in("b")), os.Link(in("a"), in("c")),
		os.Symlink("a", in("l")), os.WriteFile(in("e"), nil, 0o600), os.Chtimes(in("a"), time.Time{}, time.Unix(1_600_000_000, 0)))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"cpio", "-H", "newc"}, {"cpio", "-H", "crc"}, {"cpio", "-H", "odc"}, {"cpio", "-H", "bin"},
		{"bsdcpio", "-H", "newc"}, {"bsdcpio", "-H", "odc"},
		{"bsdtar", "--format=newc"}, {"bsdtar", "--format=odc"}, {"bsdtar", "--format=newc", "-z"}, {"bsdtar", "--format=bin"},
	} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("skipped: no %s here", args[0])
			continue
		}
		var cmd *exec.Cmd
		names := []string{"a", "b", "c", "e", "l", "long", long}
		if args[0] == "bsdtar" {
			cmd = exec.Command("bsdtar", slices.Concat(args[1:], []string{"-n", "-cf", "-"}, names)...)
		} else {
			cmd = exec.Command(args[0], slices.Concat(args[1:], []string{"-o", "--quiet"})...)
			cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
		}
		cmd.Dir = dir
		var errs strings.Builder
		cmd.Stderr = &errs
		b, err := cmd.Output()
		if err != nil {
			t.Logf("skipped: %v: %v %s", args, err, errs.String())
			continue
		}
		_, list, err := readAll(t, b)
		if err != nil || len(list) != len(names) {
			t.Errorf("%v: %d entries, %v", args, len(list), err)
			continue
		}
		var main string
		links := 0
		for _, n := range []string{"a", "b", "c"} {
			g := byName(t, list, n)
			if x := g.e.Entry; g.e.Err != nil || g.err != nil || x.Mode != 0o640 || x.MtimeSec != 1_600_000_000 {
				t.Errorf("%v: %+v", args, g)
			}
			if !g.e.LinkTo.IsZero() {
				links++
				if main != "" && main != g.e.LinkTo.String() {
					t.Errorf("%v: links to %s and %s", args, main, g.e.LinkTo)
				}
				main = g.e.LinkTo.String()
			} else if g.data != strings.Repeat("linked", 3000) {
				t.Errorf("%v: %s has %d bytes", args, n, len(g.data))
			}
		}
		if links != 2 || byName(t, list, main).e.Open == nil {
			t.Errorf("%v: %d links to %q", args, links, main)
		}
		if g := byName(t, list, "l"); g.e.Entry.Target != "a" || byName(t, list, long).data != "deep" || byName(t, list, "long").e.Entry.Kind != index.Dir || byName(t, list, "e").e.Entry.Mode != 0o600 {
			t.Errorf("%v: %+v", args, g)
		}
	}
}

func FuzzOpen(f *testing.F) {
	sourcetest.Seed(f, "../testdata/libarchive", ".cpio", ".bin")
	for _, l := range layouts {
		f.Add(made(l, file{name: "a", mode: 0o100644, ino: 1, nlink: 2}, file{name: "b", data: "x", mode: 0o100644, ino: 1, nlink: 2}, file{name: "l", data: "a", mode: 0o120777}))
	}
	f.Add(append(made(newc), zipped(f, made(newc, file{name: "a", data: "x"}))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, list, err := readAll(t, b)
		if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, unpack.ErrUnsupported) && !errors.Is(err, unpack.ErrWindow) {
			t.Fatalf("an error of no kind: %v", err)
		}
		for _, g := range list {
			if g.err != nil && !errors.Is(g.err, format.ErrCorrupt) {
				t.Fatalf("content: %v", g.err)
			}
		}
	})
}

// What stands before damage is given out, and the damage is the last thing; names whose data were still to come are named.
func TestCutShort(t *testing.T) {
	b := made(newc, file{name: "a", data: "whole", mode: 0o100644}, file{name: "l", mode: 0o100644, ino: 7, nlink: 2},
		file{name: "m", data: "never reached", mode: 0o100644, ino: 7, nlink: 2})
	b = b[:bytes.Index(b, []byte("m\x00"))]
	info, list, err := readAll(t, b)
	if !errors.Is(err, format.ErrCorrupt) || len(list) != 2 || list[0].data != "whole" || list[1].e.Name != "l" || !errors.Is(list[1].e.Err, format.ErrCorrupt) {
		t.Errorf("%v, %+v", err, list)
	}
	if info.Entries != -1 || info.Bytes != -1 {
		t.Errorf("it says how much there is: %+v", info)
	}
}

// A small file that is decompressed to a large one is refused, be it a content or the filling behind an archive.
func TestBomb(t *testing.T) {
	for what, b := range map[string][]byte{
		"content": made(newc, file{name: "a", data: strings.Repeat("\x00", 1<<20), mode: 0o100644}),
		"filling": append(made(newc, file{name: "a", mode: 0o100644}), make([]byte, 1<<20)...),
	} {
		in := sourcetest.Input(zipped(t, b))
		if _, err := Open(context.Background(), in, source.Options{MaxBytes: 512 << 10}); !errors.Is(err, source.ErrLimit) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := Open(context.Background(), in, source.Options{MaxBytes: 2 << 20}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
