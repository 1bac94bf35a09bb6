package rar

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
	"lockbox/internal/migrate/unpack"
)

// Nothing free packs for RAR: the tests write archives whose contents stand in them as they are, and read a few real ones.

// block4 makes a block of the older layout; fields begin behind the header's length.
func block4(kind byte, flags uint16, fields, data []byte) []byte {
	b := []byte{0, 0, kind}
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(7+len(fields)))
	b = append(b, fields...)
	binary.LittleEndian.PutUint16(b, uint16(crc32.ChecksumIEEE(b[2:])))
	return append(b, data...)
}

// file4 makes a file's block. host is 2 for Windows, 3 for Unix.
func file4(kind byte, flags uint16, name, data string, host byte, attr uint32) []byte {
	f := binary.LittleEndian.AppendUint32(nil, uint32(len(data)))
	f = binary.LittleEndian.AppendUint32(f, uint32(len(data)))
	f = append(f, host)
	f = binary.LittleEndian.AppendUint32(f, crc32.ChecksumIEEE([]byte(data)))
	f = binary.LittleEndian.AppendUint32(f, (2020-1980)<<25|3<<21|14<<16|15<<11|9<<5|26)
	f = append(f, 29, 0x30)
	f = binary.LittleEndian.AppendUint16(f, uint16(len(name)))
	f = binary.LittleEndian.AppendUint32(f, attr)
	return block4(kind, flags|0x8000, append(f, name...), []byte(data))
}

func rar4(flags uint16, blocks ...[]byte) []byte {
	return slices.Concat([]byte(magic4), block4(kind4Archive, flags, make([]byte, 6), nil), bytes.Join(blocks, nil), block4(kind4End, 0x4000, nil, nil))
}

func vint(ns ...uint64) (b []byte) {
	for _, n := range ns {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// block5 makes a block of the newer layout.
func block5(kind, flags uint64, fields, extra, data []byte) []byte {
	h := vint(kind, flags)
	if extra != nil {
		h = vint(kind, flags|1, uint64(len(extra)))
		if flags&2 != 0 || data != nil {
			h = vint(kind, flags|3, uint64(len(extra)), uint64(len(data)))
		}
	} else if data != nil {
		h = vint(kind, flags|2, uint64(len(data)))
	}
	h = slices.Concat(h, fields, extra)
	b := append(vint(uint64(len(h))), h...)
	return slices.Concat(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)), b, data)
}

func extra5(kind uint64, fields ...[]byte) []byte {
	b := append(vint(kind), bytes.Join(fields, nil)...)
	return append(vint(uint64(len(b))), b...)
}

type file5 struct {
	name, data string
	flags      uint64 // 1 is a directory, 4 has a CRC
	attr       uint64
	unix       bool
	extra      []byte
	crc        uint32
}

func (f file5) block() []byte {
	h := vint(f.flags, uint64(len(f.data)), f.attr)
	if f.flags&4 != 0 {
		h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE([]byte(f.data))^f.crc)
	}
	host := uint64(0)
	if f.unix {
		host = 1
	}
	h = append(h, vint(0, host, uint64(len(f.name)))...)
	return block5(kind5File, 2, append(h, f.name...), f.extra, []byte(f.data))
}

func rar5(flags uint64, blocks ...[]byte) []byte {
	return slices.Concat([]byte(magic5), block5(kind5Archive, 0, vint(flags), nil, nil), bytes.Join(blocks, nil), block5(kind5End, 0, vint(0), nil, nil))
}

type got struct {
	e    *source.Entry
	data string
	err  error
}

func readAll(t testing.TB, b []byte, o source.Options) (source.Info, map[string]got, error) {
	t.Helper()
	a, err := Open(context.Background(), sourcetest.Input(b), o)
	if err != nil {
		return source.Info{}, nil, err
	}
	defer a.Close()
	list := map[string]got{}
	for range 2 {
		clear(list)
		for e, err := range a.Entries(context.Background()) {
			if err != nil {
				return a.Info(), list, err
			}
			g := got{e: e}
			if e.Err == nil && e.Open != nil {
				g.data, g.err = sourcetest.Content(e)
			}
			list[e.Name] = g
		}
	}
	return a.Info(), list, nil
}

func TestOlderLayout(t *testing.T) {
	b := rar4(0,
		file4(kind4File, 0xe0, "dir", "", 3, 0o040750),
		file4(kind4File, 0, `dir\file`, "one", 3, 0o104755),
		file4(kind4File, 0, "link", "dir/file", 3, 0o120777),
		file4(kind4File, 0, `dir\win`, "two", 2, 0x21),
		file4(kind4Service, 0, "CMT", "a comment", 3, 0),
	)
	if v := Probe(sourcetest.Input(b)); v.Format != Format || !v.Supported {
		t.Fatalf("%+v", v)
	}
	info, list, err := readAll(t, b, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Entries != 4 || info.Bytes != 14 || info.Encrypted || len(info.Lost) != 1 || len(info.Notes) != 0 {
		t.Errorf("%+v", info)
	}
	mtime := time.Date(2020, 3, 14, 15, 9, 52, 0, time.Local).Unix()
	for name, want := range map[string]struct {
		kind         index.Kind
		mode         uint32
		data, target string
		attrs        uint64
	}{
		"dir":      {index.Dir, 0o750, "", "", 0},
		"dir/file": {index.File, 0o4755, "one", "", 0},
		"link":     {index.Symlink, 0o777, "", "dir/file", 0},
		"dir/win":  {index.File, 0o444, "two", "", 0x21},
	} {
		g := list[name]
		if g.e == nil || g.e.Err != nil || g.err != nil {
			t.Errorf("%s: %+v", name, g)
			continue
		}
		x := g.e.Entry
		if x.Kind != want.kind || x.Mode != want.mode || g.data != want.data || x.Target != want.target || x.WinAttrs != want.attrs ||
			x.MtimeSec != mtime || x.Path.String() != name || x.Size != int64(len(want.data)) {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func TestNewerLayout(t *testing.T) {
	nano := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 1_700_000_000), 123_456_789)
	text := func(s string) []byte { return append(vint(uint64(len(s))), s...) }
	b := rar5(0,
		file5{name: "dir", flags: 1, attr: 0o040711, unix: true}.block(),
		file5{name: "dir/f\\g", flags: 4, attr: 0o100640, unix: true, data: "one", extra: slices.Concat(
			extra5(3, vint(1|2|16), nano), extra5(6, vint(15), text("anna"), text("staff"), vint(1000, 50)))}.block(),
		file5{name: "soft", attr: 0o120777, unix: true, extra: extra5(5, vint(1, 0), text("dir/x"))}.block(),
		file5{name: "hard", attr: 0o100640, unix: true, extra: extra5(5, vint(4, 0), text("dir/f\\g"))}.block(),
		file5{name: "win", flags: 4, attr: 0x22, data: "two"}.block(),
		file5{name: "wsoft", attr: 0x420, extra: extra5(5, vint(2, 0), text(`a\b`))}.block(),
		file5{name: "junction", attr: 0x420, extra: extra5(5, vint(3, 1), text(`c:\b`))}.block(),
		file5{name: "dangling", attr: 0x20, extra: extra5(5, vint(4, 0), text(`nowhere`))}.block(),
		file5{name: "copy", attr: 0x20, extra: extra5(5, vint(5, 0), text(`win`))}.block(),
		file5{name: "old", flags: 4, attr: 0x20, data: "x", extra: extra5(4, vint(0, 7))}.block(),
		file5{name: "sum", attr: 0x20, data: "unsure", extra: extra5(2, vint(1), make([]byte, 32))}.block(),
		file5{name: "blake", attr: 0x20, data: "abc", extra: extra5(2, vint(0), unhex(t, blakeABC))}.block(),
		file5{name: "not blake", attr: 0x20, data: "abd", extra: extra5(2, vint(0), unhex(t, blakeABC))}.block(),
		file5{name: "../up", flags: 4, attr: 0x20, data: "x"}.block(),
		file5{name: "dam", flags: 4, attr: 0x20, data: "x", crc: 1}.block(),
		file5{name: "last", flags: 4, attr: 0x20, data: "end"}.block(),
		block5(kind5Service, 2, append(vint(0, 3, 0, 0, 0, 3), "STM"...), nil, []byte("abc")),
	)
	if v := Probe(sourcetest.Input(b)); v.Format != Format || !v.Supported {
		t.Fatalf("%+v", v)
	}
	info, list, err := readAll(t, b, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Entries != 16 || len(info.Lost) != 1 || len(info.Notes) != 0 {
		t.Errorf("%+v", info)
	}
	for _, n := range []string{"junction", "dangling", "copy", "old", "../up"} {
		if g := list[n]; g.e == nil || g.e.Err == nil {
			t.Errorf("%s was taken: %+v", n, g)
		}
	}
	if g := list["dam"]; !errors.Is(g.err, format.ErrCorrupt) {
		t.Errorf("damage: %+v", g)
	}
	if g := list["sum"]; g.data != "unsure" || len(g.e.Lost) != 1 {
		t.Errorf("sum: %+v", g)
	}
	if g := list["blake"]; g.err != nil || g.data != "abc" || len(g.e.Lost) != 0 {
		t.Errorf("blake: %+v", g)
	}
	if g := list["not blake"]; !errors.Is(g.err, format.ErrCorrupt) {
		t.Errorf("not blake: %+v", g)
	}
	if g := list["last"]; g.data != "end" || g.err != nil || len(g.e.Lost) != 0 {
		t.Errorf("last: %+v", g)
	}
	f := list["dir/f\\g"]
	if x := f.e.Entry; f.data != "one" || x.Kind != index.File || x.Mode != 0o640 || x.MtimeSec != 1_700_000_000 || x.MtimeNsec != 123_456_789 ||
		x.User != "anna" || x.Group != "staff" || !x.HasOwner || x.UID != 1000 || x.GID != 50 || x.HasWinAttrs {
		t.Errorf("%+v", f)
	}
	if x := list["dir"].e.Entry; x.Kind != index.Dir || x.Mode != 0o711 {
		t.Errorf("%+v", x)
	}
	if x := list["soft"].e.Entry; x.Kind != index.Symlink || x.Target != "dir/x" {
		t.Errorf("%+v", x)
	}
	if e := list["hard"].e; e.LinkTo.String() != "dir/f\\g" || e.Open != nil || e.Err != nil {
		t.Errorf("%+v", e)
	}
	if x := list["win"].e.Entry; x.Kind != index.File || x.Mode != 0o644 || x.WinAttrs != 0x22 {
		t.Errorf("%+v", x)
	}
	if e := list["wsoft"].e; e.Entry.Target != "a/b" || len(e.Lost) != 1 || e.Entry.Mode != 0o777 || e.Entry.WinAttrs != 0x20 {
		t.Errorf("%+v", e)
	}
}

func TestRefused(t *testing.T) {
	crypt := func(exponent byte) []byte {
		return extra5(1, vint(0, 0), []byte{exponent}, make([]byte, 32))
	}
	one := file5{name: "a", flags: 4, data: "x"}.block()
	for name, c := range map[string]struct {
		b     []byte
		o     source.Options
		want  error
		probe bool
	}{
		"volume 4":        {rar4(1, file4(kind4File, 0, "a", "x", 3, 0o100644)), source.Options{}, unpack.ErrUnsupported, false},
		"volume 5":        {rar5(1, one), source.Options{}, unpack.ErrUnsupported, false},
		"before 1.5":      {[]byte("RE~^ and more"), source.Options{}, format.ErrCorrupt, false},
		"no passphrase":   {rar5(0, file5{name: "a", flags: 4, data: "0123456789abcdef", extra: crypt(2)}.block()), source.Options{}, format.ErrAuth, true},
		"hidden 4":        {rar4(0x80, make([]byte, 64)), source.Options{}, format.ErrAuth, true},
		"hidden 5":        {slices.Concat([]byte(magic5), block5(kind5Encrypt, 0, append(vint(0, 0), make([]byte, 17)...), nil, nil)), source.Options{}, format.ErrAuth, true},
		"hidden 5, wrong": {slices.Concat([]byte(magic5), block5(kind5Encrypt, 0, append(vint(0, 0), make([]byte, 17)...), nil, nil), make([]byte, 64)), sourcetest.Pass("x"), format.ErrAuth, true},
		"much work":       {rar5(0, file5{name: "a", data: "x", extra: crypt(24)}.block()), sourcetest.Pass("x"), source.ErrLimit, true},
		"no end":          {rar5(0)[:len(rar5(0))-8], source.Options{}, format.ErrCorrupt, true},
		"more entries":    {rar5(0, one, one), source.Options{MaxEntries: 1}, source.ErrLimit, true},
		"window":          {rar5(0, block5(kind5File, 2, append(vint(0, 1<<40, 0, 3<<7|14<<10, 0, 1), 'a'), nil, []byte("xxxx"))), source.Options{}, unpack.ErrWindow, true},
	} {
		if v := Probe(sourcetest.Input(c.b)); v.Format != Format || v.Supported != c.probe || (v.Detail == "") != c.probe {
			t.Errorf("%s: %+v", name, v)
		}
		if _, _, err := readAll(t, c.b, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, list, err := readAll(t, rar5(0, file5{name: "a", flags: 4, data: "0123456789abcdef", extra: crypt(2)}.block()), sourcetest.Pass("wrong"))
	if err != nil || !errors.Is(list["a"].err, format.ErrAuth) {
		t.Errorf("with a wrong passphrase: %v, %v", err, list)
	}
}

func TestDamage(t *testing.T) {
	for _, good := range [][]byte{
		rar4(0, file4(kind4File, 0, "a", "content one", 3, 0o100644), file4(kind4File, 0, "b", "content two", 3, 0o100644)),
		rar5(0, file5{name: "a", flags: 4, data: "content one"}.block(), file5{name: "b", flags: 4, data: "content two"}.block()),
	} {
		for i := range good {
			bad := slices.Clone(good)
			bad[i] ^= 0x04
			_, list, err := readAll(t, bad, sourcetest.Pass("x"))
			for name, g := range list {
				if err == nil && g.err == nil && g.e.Err == nil && !strings.HasPrefix(g.data, "content ") {
					t.Errorf("byte %d: %s is %q", i, name, g.data)
				}
			}
		}
		for n := range good {
			_, list, err := readAll(t, good[:n], source.Options{})
			if err == nil && list["b"].data == "content two" && n < len(good)-7 {
				t.Errorf("cut to %d of %d bytes: nothing is missing", n, len(good))
			}
		}
	}
}

func TestProgramInFront(t *testing.T) {
	stub := slices.Concat([]byte("MZ"), []byte(magic4+magic5), make([]byte, 3000))
	if v := Probe(sourcetest.Input(stub)); v.Format != "" {
		t.Errorf("a program with the signatures in it: %+v", v)
	}
	if b := slices.Concat(stub, rar4(0, file4(kind4File, 0, "a", "x", 3, 0o100644))); !Probe(sourcetest.Input(b)).Supported {
		t.Error("the older layout behind a program is not found")
	}
	b := slices.Concat(stub, rar5(0, file5{name: "a", flags: 4, data: "x"}.block()))
	info, list, err := readAll(t, b, source.Options{})
	if !Probe(sourcetest.Input(b)).Supported || err != nil || list["a"].data != "x" || len(info.Notes) != 1 {
		t.Errorf("%v, %v, %v", info, list, err)
	}
	for _, s := range []string{"", "MZ", "Rar!", "MZ no archive at all"} {
		if v := Probe(sourcetest.Input([]byte(s))); v.Format != "" {
			t.Errorf("%q: %+v", s, v)
		}
	}
}

// What follows the end is lost, another archive as well.
func TestBytesBehindTheEnd(t *testing.T) {
	four := rar4(0, file4(kind4File, 0, "a", "content", 3, 0o100644))
	five := rar5(0, file5{name: "a", flags: 4, data: "content"}.block())
	for _, b := range [][]byte{four, five} {
		for _, more := range [][]byte{nil, {0}, b} {
			info, list, err := readAll(t, slices.Concat(b, more), source.Options{})
			if err != nil || list["a"].data != "content" || len(info.Lost) != min(len(more), 1) || len(more) > 0 && !strings.HasPrefix(info.Lost[0], strconv.Itoa(len(more))+" bytes") {
				t.Errorf("%d bytes more: %v, %+v", len(more), err, info)
			}
		}
	}
}

// Real archives that are cut anywhere are damaged, also between two blocks, where a program before RAR 3 would have ended.
func TestCutAnywhere(t *testing.T) {
	for name, lengths := range map[string][]int{
		"rar": nil, "rar_windows": nil, "rar5_hardlink": nil, "rar5_symlink": nil,
		"rar_encryption_header": {20, 107, 108, 109, 195, 196, 197, 219}, // each derives a key
	} {
		b, err := os.ReadFile("testdata/libarchive/test_read_format_" + name + ".rar")
		if err != nil {
			t.Fatal(err)
		}
		if lengths == nil {
			for n := len(magic5); n < len(b); n++ {
				lengths = append(lengths, n)
			}
		}
		for _, n := range lengths {
			_, list, err := readAll(t, b[:n], sourcetest.Pass("12345678"))
			if !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%s cut to %d bytes: %v, %d entries", name, n, err, len(list))
			}
		}
	}
}

// Before RAR 3 the end had no mark.
func TestEndWithoutMark(t *testing.T) {
	f := file4(kind4File, 0, "a", "content", 3, 0o100644)
	f[24] = 20 // the version that is needed
	binary.LittleEndian.PutUint16(f, uint16(crc32.ChecksumIEEE(f[2:len(f)-len("content")])))
	b := rar4(0, f)
	for cut, notes := range map[int]int{0: 0, 7: 1} {
		info, list, err := readAll(t, b[:len(b)-cut], source.Options{})
		if err != nil || list["a"].data != "content" || len(info.Notes) != notes {
			t.Errorf("%v, %+v, %q", err, list, info.Notes)
		}
	}
}

func FuzzOpen(f *testing.F) {
	sourcetest.Seed(f, "testdata/libarchive", ".rar")
	f.Add(rar4(0, file4(kind4File, 0, "a", "content one", 3, 0o100644), file4(kind4Service, 0, "CMT", "b", 3, 0)))
	f.Add(rar5(0, file5{name: "a", flags: 4, data: "x", extra: extra5(3, vint(1|2|16), make([]byte, 8))}.block()))
	f.Add(rar5(0, block5(kind5File, 2, append(vint(0, 100, 0, 3<<7, 0, 1), 'a'), nil, []byte("\x00\x01\x02 packed"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = fixed(b)
		Probe(sourcetest.Input(b))
		a, err := Open(context.Background(), sourcetest.Input(b), sourcetest.Pass("p"))
		if err != nil {
			return
		}
		for e, err := range a.Entries(context.Background()) {
			if err != nil {
				return
			}
			if e.Err != nil || e.Open == nil {
				continue
			}
			r, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, io.LimitReader(r, 4<<20))
			if err != nil && !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrAuth) && !errors.Is(err, unpack.ErrUnsupported) && !errors.Is(err, unpack.ErrWindow) {
				t.Fatalf("an error of no kind: %v", err)
			}
		}
	})
}

// fixed puts the checksums of headers right as far as they are found, so that the fuzzer gets behind them.
func fixed(b []byte) []byte {
	b = slices.Clone(b)
	if !bytes.HasPrefix(b, []byte(magic5)) {
		for off := 7; off+11 < len(b); {
			size := int(binary.LittleEndian.Uint16(b[off+5:]))
			if size < 7 || size > len(b)-off {
				break
			}
			binary.LittleEndian.PutUint16(b[off:], uint16(crc32.ChecksumIEEE(b[off+2:off+size])))
			if b[off+4]&0x80 != 0 {
				size += int(binary.LittleEndian.Uint32(b[off+7:]))
			}
			off += size
		}
		return b
	}
	for off := len(magic5); off+7 < len(b); {
		size, k := binary.Uvarint(b[off+4:])
		if k <= 0 || size > uint64(len(b)-off-4-k) {
			break
		}
		end := off + 4 + k + int(size)
		binary.LittleEndian.PutUint32(b[off:], crc32.ChecksumIEEE(b[off+4:end]))
		v := vints(b[off+4+k : end])
		v.next()
		flags := v.next()
		if flags&1 != 0 {
			v.next()
		}
		if flags&2 != 0 {
			end += int(min(v.next(), uint64(len(b))))
		}
		off = end
	}
	return b
}

// Archives that RAR itself made, of both layouts: contents of every kind of compression, filters, links, names, owners.
func TestRealArchives(t *testing.T) {
	sourcetest.Facts(t, "testdata/libarchive", func(_ string, b []byte) (source.Archive, error) {
		if v := Probe(sourcetest.Input(b)); v.Format != Format || !v.Supported {
			t.Errorf("%+v", v)
		}
		return Open(context.Background(), sourcetest.Input(b), sourcetest.Pass("12345678"))
	})
	b, err := os.ReadFile("testdata/libarchive/test_read_format_rar5_owner.rar")
	if err != nil {
		t.Fatal(err)
	}
	_, list, err := readAll(t, b, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if x := list["root.txt"].e.Entry; x.User != "root" || x.Group != "wheel" {
		t.Errorf("%+v", x)
	}
	if x := list["nobody.txt"].e.Entry; x.User != "nobody" || x.Group != "nogroup" {
		t.Errorf("%+v", x)
	}
	if x := list["numeric.txt"].e.Entry; !x.HasOwner || x.UID != 9999 || x.GID != 8888 {
		t.Errorf("%+v", x)
	}
}

// What stands before damage is given out, and the damage is the last thing.
func TestCutShort(t *testing.T) {
	for _, b := range [][]byte{
		rar4(0, file4(kind4File, 0, "a", "content one", 3, 0o100644), file4(kind4File, 0, "b", "content two", 3, 0o100644)),
		rar5(0, file5{name: "a", flags: 4, data: "content one"}.block(), file5{name: "b", flags: 4, data: "content two"}.block()),
	} {
		at := strings.LastIndex(string(b), "b")
		_, list, err := readAll(t, b[:at-5], source.Options{})
		if !errors.Is(err, format.ErrCorrupt) || list["a"].data != "content one" {
			t.Errorf("%v, %+v", err, list)
		}
	}
}
