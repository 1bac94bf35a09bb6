package tar

import (
	stdtar "archive/tar"
	"bytes"
	"compress/gzip"
	"context"
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

	"pgregory.net/rapid"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
)

type item struct {
	e    *source.Entry
	data []byte
	err  error
}

// readEverything reads an archive, every content to its end; err is what the archive itself ends with.
func readEverything(b []byte, o source.Options) (list []item, info source.Info, err error) {
	a, err := Open(context.Background(), sourcetest.Input(b), o)
	if err != nil {
		return nil, info, err
	}
	defer a.Close()
	for e, err := range a.Entries(context.Background()) {
		if err != nil {
			return list, a.Info(), err
		}
		it := item{e: e, err: e.Err}
		if e.Err == nil && e.Open != nil {
			r, err := e.Open()
			if err == nil {
				it.data, err = io.ReadAll(r)
				_ = r.Close()
			}
			it.err = err
		}
		list = append(list, it)
	}
	return list, a.Info(), nil
}

func find(list []item, name string) item {
	for _, it := range list {
		if strings.TrimSuffix(it.e.Name, "/") == name {
			return it
		}
	}
	return item{e: &source.Entry{}, err: errors.New("not there")}
}

func gunzip(t testing.TB, name string) (packed, plain []byte) {
	t.Helper()
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return packed, plain
}

// Samples that GNU tar wrote of one tree, in every dialect, read alone and compressed.
func TestSamples(t *testing.T) {
	list, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(list) != 8 {
		t.Fatalf("%d samples: %v", len(list), err)
	}
	stamp := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC).Unix()
	for _, name := range list {
		packed, plain := gunzip(t, name)
		for kind, b := range map[string][]byte{"tar.gz": packed, "tar": plain} {
			t.Run(filepath.Base(name)+" as "+kind, func(t *testing.T) {
				if v := Probe(sourcetest.Input(b)); v.Format != kind || !v.Supported {
					t.Fatalf("probe: %+v", v)
				}
				got, info, err := readEverything(b, source.Options{})
				if err != nil || len(info.Lost) != 0 {
					t.Fatal(err, info.Lost)
				}
				for _, it := range got {
					if it.err != nil || len(it.e.Lost) > 0 {
						t.Errorf("%s: %v, %v", it.e.Name, it.err, it.e.Lost)
					}
				}
				text := find(got, "t/text")
				if e := text.e.Entry; e.Mode != 0o4711 || e.MtimeSec != stamp || !e.HasOwner || e.UID != 1000 || e.GID != 100 || crc32.ChecksumIEEE(text.data) != 0x4d30ee71 {
					t.Errorf("text: %+v, %d bytes", e, len(text.data))
				}
				if strings.Contains(name, "pax") && text.e.Entry.MtimeNsec != 789000000 {
					t.Errorf("text: %d ns", text.e.Entry.MtimeNsec)
				}
				if e := find(got, "t/zhard").e; e.LinkTo.String() != "t/text" {
					t.Errorf("zhard: %+v", e)
				}
				if e := find(got, "t/link").e.Entry; e.Kind != index.Symlink || e.Target != "text" {
					t.Errorf("link: %+v", e)
				}
				if e := find(got, "t").e.Entry; e.Kind != index.Dir || !strings.Contains(name, "v7") && e.User != "alice" {
					t.Errorf("t: %+v", e)
				}
				if !strings.Contains(name, "sparse") {
					return
				}
				s := find(got, "t/sparse")
				want := []index.SparseRun{{Data: 0, Hole: 1 << 20}, {Data: 4096, Hole: 2<<20 - 4096}, {Data: 4096, Hole: 5<<20 - 4096}}
				if e := s.e.Entry; e.Size != 8<<20 || !slices.Equal(e.Sparse, want) || int64(len(s.data)) != e.DataSize() || s.data[0] != 'A' || s.data[4096] != 'B' {
					t.Errorf("sparse: %+v, %d bytes", e, len(s.data))
				}
				l := find(got, "t/lead")
				if e := l.e.Entry; e.Size != 2<<20+10 || len(e.Sparse) != 2 || e.Sparse[0].Data != 4096 || int64(len(l.data)) != e.DataSize() {
					t.Errorf("lead: %+v, %d bytes", e, len(l.data))
				}
			})
		}
	}
}

// What the standard library writes is read as it was meant.
func TestAgainstStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := stdtar.NewWriter(&b)
		kind := rapid.SampledFrom([]stdtar.Format{stdtar.FormatUSTAR, stdtar.FormatPAX, stdtar.FormatGNU}).Draw(t, "format")
		var want []*stdtar.Header
		var data [][]byte
		for i := range rapid.IntRange(1, 6).Draw(t, "entries") {
			h := &stdtar.Header{
				Format: kind, Typeflag: rapid.SampledFrom([]byte{stdtar.TypeReg, stdtar.TypeDir, stdtar.TypeSymlink, stdtar.TypeChar, stdtar.TypeFifo}).Draw(t, "type"),
				Name: fmt.Sprintf("%s/%d", rapid.StringMatching(`[a-z]{1,20}(/[a-z]{1,40}){0,2}`).Draw(t, "name"), i), Mode: rapid.Int64Range(0, 0o7777).Draw(t, "mode"),
				Uid: rapid.IntRange(0, 1<<21-1).Draw(t, "uid"), Gid: rapid.IntRange(0, 1<<21-1).Draw(t, "gid"),
				Uname: rapid.StringMatching(`[a-z]{0,12}`).Draw(t, "user"), ModTime: time.Unix(rapid.Int64Range(0, 1<<33-1).Draw(t, "time"), 0),
			}
			var content []byte
			switch h.Typeflag {
			case stdtar.TypeReg:
				content = rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "data")
				h.Size = int64(len(content))
			case stdtar.TypeSymlink:
				h.Linkname = rapid.StringMatching(`[a-z/.]{1,90}`).Draw(t, "target")
			case stdtar.TypeChar:
				h.Devmajor, h.Devminor = rapid.Int64Range(0, 500).Draw(t, "major"), rapid.Int64Range(0, 500).Draw(t, "minor")
			}
			if kind == stdtar.FormatPAX {
				h.Name = "ü" + h.Name + strings.Repeat("/long name", rapid.IntRange(0, 30).Draw(t, "long"))
				h.ModTime = h.ModTime.Add(time.Duration(rapid.Int64Range(0, 999999999).Draw(t, "ns")))
				h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": rapid.StringMatching(`[a-z=\n]{0,20}`).Draw(t, "xattr") + "."}
			} else if kind == stdtar.FormatGNU {
				h.Name += strings.Repeat("/long", rapid.IntRange(0, 60).Draw(t, "long"))
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
			want, data = append(want, h), append(data, content)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, _, err := readEverything(b.Bytes(), source.Options{})
		if err != nil || len(got) != len(want) {
			t.Fatal(len(got), err)
		}
		for i, h := range want {
			e := &got[i].e.Entry
			if got[i].err != nil || e.Path.String() != h.Name || e.Mode != uint32(h.Mode) || e.UID != uint64(h.Uid) || e.GID != uint64(h.Gid) || e.User != h.Uname ||
				e.MtimeSec != h.ModTime.Unix() || int(e.MtimeNsec) != h.ModTime.Nanosecond() || e.Target != h.Linkname || !bytes.Equal(got[i].data, data[i]) ||
				e.Major != uint64(h.Devmajor) || e.Minor != uint64(h.Devminor) {
				t.Fatalf("entry %d: %v, %+v, want %+v", i, got[i].err, e, h)
			}
			if v, ok := h.PAXRecords["SCHILY.xattr.user.x"]; ok && (len(e.Xattrs) != 1 || string(e.Xattrs[0].Value) != v) {
				t.Fatalf("entry %d: %+v", i, e.Xattrs)
			}
		}
	})
}

// write makes an archive of headers.
func write(t testing.TB, headers ...*stdtar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := stdtar.NewWriter(&b)
	for _, h := range headers {
		if h.Mode == 0 && h.Typeflag != stdtar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRefusedEntries(t *testing.T) {
	for _, c := range []struct {
		h    stdtar.Header
		want string
	}{
		{stdtar.Header{Name: "../x", Typeflag: stdtar.TypeReg}, `".."`},
		{stdtar.Header{Name: "/etc/passwd", Typeflag: stdtar.TypeReg}, "absolute"},
		{stdtar.Header{Name: `C:\x`, Typeflag: stdtar.TypeReg}, "drive"},
		{stdtar.Header{Name: `a\..\..\b`, Typeflag: stdtar.TypeReg}, `".."`},
		{stdtar.Header{Name: "a", Linkname: "../../b", Typeflag: stdtar.TypeLink}, `".."`},
		{stdtar.Header{Name: "a", Linkname: "a", Typeflag: stdtar.TypeLink}, "another name of itself"},
		{stdtar.Header{Name: "a", Typeflag: stdtar.TypeSymlink}, "leads nowhere"},
		{stdtar.Header{Name: "a", Typeflag: 'M'}, "another volume"},
		{stdtar.Header{Name: "a", Typeflag: 'Q'}, "unknown kind"},
	} {
		got, _, err := readEverything(write(t, &c.h, &stdtar.Header{Name: "next", Typeflag: stdtar.TypeReg, Size: 3}), source.Options{})
		if err != nil || len(got) != 2 || got[0].err == nil || !strings.Contains(got[0].err.Error(), c.want) || got[1].err != nil {
			t.Errorf("%+v: %v, %+v", c.h, err, got)
		}
	}
}

// head makes a header of the oldest layout.
func head(name string, kind byte, size int) []byte {
	b := make([]byte, blockSize)
	copy(b, name)
	for at, n := range map[int]int{100: 0o644, 108: 0, 116: 0} {
		copy(b[at:], fmt.Sprintf("%07o", n))
	}
	copy(b[124:], fmt.Sprintf("%011o\x00%011o", size, 0))
	b[156] = kind
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00", sum))
	return b
}

// What extended headers make a reader keep, and look at again for each entry, has a bound.
func TestExtendedHeadersAreBounded(t *testing.T) {
	records := func(kind byte, format string, from, n int) []byte {
		var s strings.Builder
		for i := range n {
			kv := fmt.Sprintf(format, from+i)
			fmt.Fprintf(&s, "%d %s\n", len(kv)+4, kv) // two digits
		}
		data := append([]byte(s.String()), make([]byte, -s.Len()&(blockSize-1))...)
		return append(head("x", kind, s.Len()), data...)
	}
	file := append(head("x", '0', 0), make([]byte, 2*blockSize)...)
	for _, c := range []struct {
		what string
		b    [][]byte
		err  string
	}{
		{"attributes", [][]byte{records('x', "SCHILY.xattr.user.%06d=v", 0, maxRecords)}, ""},
		{"one more", [][]byte{records('x', "SCHILY.xattr.user.%06d=v", 0, maxRecords+1)}, "more than"},
		{"in two headers", [][]byte{records('x', "unknown.%06d=v", 0, maxRecords), records('x', "unknown.%06d=v", maxRecords, 1)}, "more than"},
		{"for all", [][]byte{records('g', "atime%06d=v", 0, maxForAll)}, ""},
		{"for all, one more", [][]byte{records('g', "atime%06d=v", 0, maxForAll), records('g', "atime%06d=v", maxForAll, 1)}, "more than"},
		{"for all, long", [][]byte{records('g', "atime%06d=v", 0, maxForAllSize/17+1)}, "longer than"},
		{"long names", [][]byte{append(head("x", 'L', maxExtended/2+1), make([]byte, maxExtended/2+blockSize)...), append(head("x", 'K', maxExtended/2+1), make([]byte, maxExtended/2+blockSize)...)}, "longer than"},
	} {
		got, _, err := readEverything(append(bytes.Join(c.b, nil), file...), source.Options{})
		if c.err == "" && (err != nil || len(got) != 1 || got[0].err != nil) || c.err != "" && (!errors.Is(err, format.ErrCorrupt) || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, %d entries", c.what, err, len(got))
		}
	}
}

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

func TestEnds(t *testing.T) {
	one := write(t, &stdtar.Header{Name: "a", Typeflag: stdtar.TypeReg, Size: 700})
	two := write(t, &stdtar.Header{Name: "b", Typeflag: stdtar.TypeReg, Size: 7})
	for _, c := range []struct {
		what    string
		b       []byte
		entries int
		lost    int
		notes   int
		err     string
	}{
		{"whole", one, 1, 0, 0, ""},
		{"padded", append(bytes.Clone(one), make([]byte, 5000)...), 1, 0, 0, ""}, // not whole blocks
		{"appended", append(bytes.Clone(one), two...), 2, 0, 1, ""},
		{"comment", write(t, &stdtar.Header{Typeflag: stdtar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "8344185"}}, &stdtar.Header{Name: "a", Typeflag: stdtar.TypeReg, Size: 7}), 1, 0, 1, ""},
		{"trailing", append(bytes.Clone(one), []byte(strings.Repeat("x", 600))...), 1, 1, 0, ""},
		{"no end", one[:len(one)-1024], 1, 0, 0, "end is missing"},
		{"cut in content", one[:900], 1, 0, 0, "cut short"},
		{"cut in a header", append(bytes.Clone(one[:1536]), one[:100]...), 1, 0, 0, "cut short"},
		{"bad header", append(bytes.Clone(one[:1536]), []byte(strings.Repeat("x", 1024))...), 1, 0, 0, "check sum"},
	} {
		for _, packed := range []bool{false, true} {
			b := c.b
			if packed {
				b = zip(t, b)
			}
			got, info, err := readEverything(b, source.Options{})
			if len(got) != c.entries || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !errors.Is(err, format.ErrCorrupt)) {
				t.Errorf("%s, packed %v: %d entries, %v", c.what, packed, len(got), err)
			}
			if len(got) > 0 && len(got[0].e.Lost) != 0 {
				t.Errorf("%s: what is said of all is lost for one: %q", c.what, got[0].e.Lost)
			}
			if len(info.Lost) != c.lost || len(info.Notes) != c.notes {
				t.Errorf("%s, packed %v: lost %q, notes %q", c.what, packed, info.Lost, info.Notes)
			}
		}
	}
	for n, want := range map[int]string{512: "", 1024: "tar.gz", 10240: "tar.gz", maxNothing: "tar.gz", 4 * maxNothing: ""} {
		if v := Probe(sourcetest.Input(zip(t, make([]byte, n)))); v.Format != want {
			t.Errorf("an archive of nothing, %d bytes: %+v", n, v)
		}
	}
	if v := Probe(sourcetest.Input(zip(t, append(make([]byte, 32<<10), "\x01CD001 and so on: the image of a disk"...)))); v.Format != "" {
		t.Errorf("zeros, and then something else: %+v", v)
	}
	if _, _, err := readEverything(zip(t, one), source.Options{MaxBytes: 1000}); !errors.Is(err, source.ErrLimit) {
		t.Errorf("too long: %v", err)
	}
}

// Before there was a kind for directories their names ended in a slash, and no data followed whatever the size said.
func TestOldDirectories(t *testing.T) {
	end, data := make([]byte, 2*blockSize), append([]byte("data"), make([]byte, blockSize-4)...)
	for _, c := range []struct {
		what string
		b    [][]byte
		lost []string
	}{
		{"with a size and no data", [][]byte{head("d/", 0, 4), head("f", '0', 0), end}, nil},
		{"last", [][]byte{head("f", '0', 0), head("d/", 0, 4), end}, nil},
		{"with data", [][]byte{head("d/", 0, 4), data, head("f", '0', 0), end}, []string{"4 bytes of data, for it is a directory"}},
	} {
		got, _, err := readEverything(bytes.Join(c.b, nil), source.Options{})
		if packed, _, perr := readEverything(zip(t, bytes.Join(c.b, nil)), source.Options{}); perr != nil || len(packed) != len(got) {
			t.Errorf("%s, packed: %v, %d entries", c.what, perr, len(packed))
		}
		d, f := find(got, "d"), find(got, "f")
		if err != nil || len(got) != 2 || d.err != nil || d.e.Entry.Kind != index.Dir || !slices.Equal(d.e.Lost, c.lost) || f.err != nil {
			t.Errorf("%s: %v, %+v %+v", c.what, err, d.e, f.e)
		}
	}
}

// A block of which the signed bytes add up to nothing, and that has no check sum, is no header.
func TestNoCheckSum(t *testing.T) {
	b := head("x", '0', 0)
	copy(b[148:156], make([]byte, 8))
	sum := 8 * int(' ')
	for _, c := range b {
		sum += int(int8(c))
	}
	for i := 300; sum != 0; i++ {
		b[i] = byte(-min(sum, 128))
		sum -= min(sum, 128)
	}
	if v := Probe(sourcetest.Input(append(b, make([]byte, 1024)...))); v.Format != "" {
		t.Errorf("%+v", v)
	}
}

// An access list of Solaris stands before its entry, as extended headers do.
func TestSolarisAccessLists(t *testing.T) {
	list := append([]byte("4000003user::rwx\x00"), make([]byte, blockSize-17)...)
	got, _, err := readEverything(slices.Concat(head("f", 'A', 17), list, head("f", '0', 0), head("g", '0', 0), make([]byte, 1024)), source.Options{})
	if err != nil || len(got) != 2 || got[0].err != nil || !slices.Equal(got[0].e.Lost, []string{"its access control list"}) || len(got[1].e.Lost) != 0 {
		t.Errorf("%v, %+v", err, got)
	}
	if _, _, err := readEverything(slices.Concat(head("f", 'A', 17), list, make([]byte, 1024)), source.Options{}); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("nothing behind it: %v", err)
	}
}

// GNU tar's label stands where a file would.
func TestLabel(t *testing.T) {
	for _, name := range []string{"tape 7", strings.Repeat("long ", 50)} {
		var long []byte
		if len(name) > 100 {
			long = append(append(head("././@LongLink", 'L', len(name)), name...), make([]byte, -len(name)&(blockSize-1))...)
		}
		got, info, err := readEverything(slices.Concat(long, head(name[:min(len(name), 100)], 'V', 5), make([]byte, blockSize), head("a", '0', 0), make([]byte, 1024)), source.Options{})
		if err != nil || len(got) != 1 || got[0].e.Name != "a" || got[0].err != nil || len(info.Lost) != 0 || len(info.Notes) != 1 || !strings.Contains(info.Notes[0], name) {
			t.Errorf("%v, %+v, %+v", err, got, info)
		}
	}
}

// What star says of the whole archive is not lost with each entry of it.
func TestStarVolumeHeader(t *testing.T) {
	b := write(t, &stdtar.Header{Typeflag: stdtar.TypeXGlobalHeader, PAXRecords: map[string]string{
		"SCHILY.archtype": "xustar", "SCHILY.volhdr.dumpdate": "1", "SCHILY.volhdr.label": "tape 7",
	}}, &stdtar.Header{Name: "a", Typeflag: stdtar.TypeReg})
	got, info, err := readEverything(b, source.Options{})
	if err != nil || len(got) != 1 || len(got[0].e.Lost) != 0 || len(info.Lost) != 0 || len(info.Notes) != 1 || !strings.Contains(info.Notes[0], "tape 7") {
		t.Errorf("%v, %+v, %+v", err, got, info)
	}
}

func TestNumbers(t *testing.T) {
	for s, want := range map[string]int64{"0000644\x00": 0o644, "   644 \x00": 0o644, "\x00\x00\x00\x00\x00\x00\x00\x00": 0, "\x80\x00\x00\x00\x00\x00\x01\x00": 256, "\xff\xff\xff\xff\xff\xff\xff\xfe": -2} {
		if n, ok := number([]byte(s)); !ok || n != want {
			t.Errorf("%q is %d, %v", s, n, ok)
		}
	}
	for _, s := range []string{"0000684\x00", "abc", "\xbf\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if n, ok := number([]byte(s)); ok {
			t.Errorf("%q is %d", s, n)
		}
	}
	for s, want := range map[string][2]int64{"1": {1, 0}, "1.5": {1, 5e8}, "-1.5": {-2, 5e8}, "-0.25": {-1, 75e7}, "0.123456789123": {0, 123456789}, "99999999999": {99999999999, 0}} {
		sec, nsec, err := paxTime(s)
		if err != nil || sec != want[0] || int64(nsec) != want[1] {
			t.Errorf("%q is %d, %d, %v", s, sec, nsec, err)
		}
	}
}

// A map with more holes than a record can hold: the smallest are read as zeros.
func TestManyHoles(t *testing.T) {
	var list []piece
	r := rand.New(rand.NewPCG(1, 1))
	pos, data := int64(0), int64(0)
	var plain bytes.Buffer
	for range 30000 {
		hole, n := int64(1+r.IntN(700)), int64(1+r.IntN(5))
		plain.Write(make([]byte, hole))
		plain.WriteString(strings.Repeat("x", int(n)))
		list = append(list, piece{pos + hole, n})
		pos, data = pos+hole+n, data+n
	}
	e := &source.Entry{Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Repeat("x", int(data)))), nil
	}}
	if err := holes(e, list, pos+9, data, 0); err != nil {
		t.Fatal(err)
	}
	plain.Write(make([]byte, 9))
	if len(e.Entry.Sparse) == 0 || len(e.Entry.Sparse) >= len(list) {
		t.Fatalf("%d runs", len(e.Entry.Sparse))
	}
	f, err := e.Open()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil || int64(len(b)) != e.Entry.DataSize() {
		t.Fatalf("%d bytes, want %d, %v", len(b), e.Entry.DataSize(), err)
	}
	var out []byte
	for _, x := range e.Entry.Sparse {
		out = append(append(out, b[:x.Data]...), make([]byte, x.Hole)...)
		b = b[x.Data:]
	}
	if !bytes.Equal(out, plain.Bytes()) {
		t.Error("the file is not what it was")
	}
}

// bsdtar writes attributes in its own way, and other programs compress.
func TestRealPrograms(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(strings.Repeat("text ", 9999)), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program, format string
		args            []string
	}{
		{"bsdtar", "tar", []string{"--format", "pax"}}, {"bsdtar", "tar", []string{"--format", "ustar"}}, {"bsdtar", "tar.lz4", []string{"--lz4"}},
		{"tar", "tar.bz2", []string{"-j"}}, {"tar", "tar.xz", []string{"-J"}}, {"tar", "tar.zst", []string{"--zstd"}}, {"tar", "tar.lz", []string{"--lzip"}},
	} {
		t.Run(c.program+" "+c.format, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skipf("%s is not installed", c.program)
			}
			out := filepath.Join(t.TempDir(), "x")
			cmd := exec.Command(c.program, append([]string{"-cf", out, "-C", dir}, append(c.args, "file")...)...)
			if b, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("%s cannot do that here: %s", c.program, b)
			}
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if v := Probe(sourcetest.Input(b)); v.Format != c.format {
				t.Errorf("probe: %+v", v)
			}
			got, _, err := readEverything(b, source.Options{})
			if err != nil || len(got) != 1 || got[0].err != nil || len(got[0].data) != 5*9999 || got[0].e.Entry.Mode != 0o640 {
				t.Errorf("%v, %+v", err, got)
			}
		})
	}
}

func FuzzTar(f *testing.F) {
	sourcetest.Seed(f, "../testdata/libarchive", ".tar", ".Z", ".tlz")
	list, _ := filepath.Glob("testdata/*.tar.gz")
	for _, name := range list {
		packed, plain := gunzip(f, name)
		f.Add(packed)
		f.Add(plain)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		Probe(sourcetest.Input(b))
		a, err := Open(context.Background(), sourcetest.Input(b), source.Options{MaxBytes: 4 << 20})
		if err != nil {
			return
		}
		for e, err := range a.Entries(context.Background()) {
			if err != nil {
				break
			}
			if e.Err != nil || e.Open == nil {
				continue
			}
			if r, err := e.Open(); err == nil {
				n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
				if err == nil && n < 1<<20 && n != e.Entry.DataSize() {
					t.Errorf("%q: %d bytes of %d without an error", e.Name, n, e.Entry.DataSize())
				}
			}
		}
	})
}
