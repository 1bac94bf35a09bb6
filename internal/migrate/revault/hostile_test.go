package revault

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"lockbox/internal/format"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/source/sourcetest"
	"lockbox/internal/pathsafe"
)

func (w *writer) options() source.Options { return source.Options{RawKey: w.key} }

func (w *writer) open(o source.Options) (source.Archive, error) {
	return Open(w.t.Context(), sourcetest.Input(w.buf), o)
}

// mustRead opens what w made and reads all of it.
func (w *writer) mustRead(o source.Options) (map[string]got, source.Info) {
	w.t.Helper()
	a, err := w.open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	all, _, err := readAll(a)
	if err != nil {
		w.t.Fatal(err)
	}
	return all, a.Info()
}

// wantError demands that opening fails with a kind and says something.
func (w *writer) wantError(o source.Options, kind error, says string) {
	w.t.Helper()
	if _, err := w.open(o); !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%v, want %v with %q", err, kind, says)
	}
}

func TestEntriesThatCannotBeTaken(t *testing.T) {
	w := newWriter(t, 2)
	long := "/" + strings.Repeat("x", 256)
	toc := w.toc([]string{"/../up", "//two", "/a", "/a-b", "/a/under", "/c:d", "/d/implied/f", "/e\u202e", "/huge", "/inf", "/link", "/other", long, "rel"},
		zeroFile("/../up", 1), zeroFile("//two", 1), zeroFile("/a", 3), dirEntry("/a-b"), zeroFile("/a/under", 1), zeroFile("/c:d", 1), zeroFile("/d/implied/f", 1),
		zeroFile("/e\u202e", 1), zeroFile("/huge", 1<<50), zeroFile("/inf", math.MaxUint64), w.link("/link", "/a/../../x"), w.link("/other", "/a-b"), zeroFile(long, 1), zeroFile("rel", 1))
	w.finish(toc, 0, 0)
	a, err := w.open(w.options())
	if err != nil {
		t.Fatal(err)
	}
	var good, bad []string
	for e, err := range a.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Err != nil {
			if !errors.Is(e.Err, format.ErrCorrupt) {
				t.Errorf("%s: %v", e.Name, e.Err)
			}
			bad = append(bad, e.Name)
			continue
		}
		if err := e.Entry.Check(); err != nil && e.Entry.DataSize() == 0 {
			t.Error(err)
		}
		good = append(good, fmt.Sprintf("%v %s %d %s", e.Entry.Kind, e.Entry.Path, e.Entry.Size, e.Entry.Target))
	}
	if want := []string{"/../up", "//two", "/a/under", "/c:d", "/e\u202e", "/inf", "/link", long, "rel"}; !slices.Equal(bad, want) {
		t.Errorf("refused: %q", bad)
	}
	if want := []string{"file a 3 ", "dir a-b 0 ", "dir d 0 ", "dir d/implied 0 ", "file d/implied/f 1 ", "file huge 1125899906842624 ", "symlink other 0 a-b"}; !slices.Equal(good, want) {
		t.Errorf("taken: %q", good)
	}
}

func TestRelative(t *testing.T) {
	for _, c := range [][3]string{
		{"a", "b", "b"}, {"a", "a", "a"}, {"a/l", "a", "."}, {"a/b/l", "a", ".."}, {"a/b/l", "c/d", "../../c/d"}, {"a/b/l", "a/b/m/n", "m/n"}, {"ab/l", "a/x", "../a/x"},
	} {
		from, err1 := pathsafe.Parse(c[0])
		to, err2 := pathsafe.Parse(c[1])
		if got := relative(from, to); err1 != nil || err2 != nil || got != c[2] {
			t.Errorf("%s to %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestTrees(t *testing.T) {
	deep := func(levels int) *writer {
		w := newWriter(t, 2)
		off := w.page(kindTOCLeaf, leaf(nil, zeroFile("/f", 2)))
		for range levels {
			off = w.page(kindTOCNode, node([]string{"/f"}, []int64{off}))
		}
		w.finish(off, 0, 0)
		return w
	}
	w := deep(8)
	if all, _ := w.mustRead(w.options()); len(all) != 1 || all["f"].err != nil {
		t.Errorf("%v", all)
	}
	deep(9).wantError(w.options(), format.ErrCorrupt, "too deep")

	w = newWriter(t, 2)
	self := int64(len(w.buf))
	w.finish(w.page(kindTOCNode, node([]string{"/f"}, []int64{self})), 0, 0)
	w.wantError(w.options(), format.ErrCorrupt, "leads back")

	w = newWriter(t, 2)
	w.finish(w.toc([]string{"/b", "/c"}, zeroFile("/c", 1), zeroFile("/b", 1)), 0, 0)
	w.wantError(w.options(), format.ErrCorrupt, "not in order")

	for name, payload := range map[string][]byte{
		"counts":   join(u8(1), u8(1), uv(1<<31, 0)),
		"frames":   join(u8(1), u8(1), uv(0, 1<<31)),
		"children": join(u8(1), u8(2), u32(1<<30)),
		"left":     append(leaf(nil, zeroFile("/f", 1)), 0),
		"size":     leaf(nil, tocEntry(0, "/f", 10, uv(0, 0, 0), uv(1), uv(0, 5, 6, 0, 0))),
		"flags":    leaf(nil, tocEntry(16, "/f", 1, uv(0, 0, 0, 0))),
		"utf8":     leaf(nil, zeroFile("/\xff", 1)),
	} {
		w := newWriter(t, 2)
		kind := uint8(kindTOCLeaf)
		if name == "children" {
			kind = kindTOCNode
		}
		w.finish(w.page(kind, payload), 0, 0)
		t.Run(name, func(t *testing.T) { w.wantError(w.options(), format.ErrCorrupt, "table of contents") })
	}
}

func TestLostSubtree(t *testing.T) {
	w := newWriter(t, 2)
	w.finish(w.toc([]string{"/a", "/b", "/c"}, zeroFile("/a", 1), zeroFile("/b", 1), zeroFile("/c", 1)), 0, 0)
	w.buf[frontV2+pageStep+pageHeader+20] ^= 1
	w.wantError(w.options(), format.ErrCorrupt, "does not authenticate")
	o := w.options()
	o.AllowLoss = true
	all, info := w.mustRead(o)
	if len(all) != 2 || len(info.Lost) != 1 || !strings.Contains(info.Lost[0], `from "/b" on and before "/c"`) {
		t.Errorf("%v, %v", all, info)
	}
}

func TestFrames(t *testing.T) {
	b := []byte("what the file holds")
	w := newWriter(t, 2)
	frame, entry := w.file("/f", b)
	w.finish(w.page(kindTOCLeaf, leaf([][]byte{frame}, entry)), 0, 0)
	if all, _ := w.mustRead(w.options()); all["f"].err != nil || all["f"].entry.Size != int64(len(b)) {
		t.Errorf("%v", all)
	}
	for name, change := range map[string]func([]byte) []byte{
		"another frame": func(f []byte) []byte { f[0]++; return f },
		"checksum":      func(f []byte) []byte { f[10]++; return f },
		"two segments": func(f []byte) []byte { // the same bytes twice
			s := f[len(f)-6:]
			n := len(f) - 7
			return join(f[:n], u8(2), s, s)
		},
	} {
		w := newWriter(t, 2)
		frame, entry := w.file("/f", b)
		w.finish(w.page(kindTOCLeaf, leaf([][]byte{change(frame)}, entry)), 0, 0)
		a, err := w.open(w.options())
		if err == nil {
			var all map[string]got
			all, _, err = readAll(a)
			if err == nil {
				err = all["f"].err
			}
		}
		if !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBomb has a page that unpacks to more than it says, and one that says more than a page can be.
func TestBomb(t *testing.T) {
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := e.EncodeAll(make([]byte, 64<<20), nil)
	for _, says := range []uint64{24, maxUnpacked, 64 << 20, math.MaxUint64} {
		w := newWriter(t, 2)
		w.finish(w.body(join(u8(1), u8(1), u16(0), u64(says), u32(0), u64(says), u8(codecZstd), sized(8, packed)), false), 0, 0)
		w.wantError(w.options(), format.ErrCorrupt, "compressed")
	}
}

func TestPageOfLaterCommit(t *testing.T) {
	w := newWriter(t, 2)
	w.seq++
	toc := w.page(kindTOCLeaf, leaf(nil, zeroFile("/f", 1)))
	w.seq--
	w.finish(toc, 0, 0)
	w.wantError(w.options(), format.ErrCorrupt, "after commit 5")
}

func TestPageInAnotherPlace(t *testing.T) {
	w := newWriter(t, 2)
	toc := w.page(kindTOCLeaf, leaf(nil, zeroFile("/f", 1)))
	w.buf = append(w.buf, w.buf[toc:]...)
	w.finish(toc+pageStep, 0, 0)
	w.wantError(w.options(), format.ErrCorrupt, "belongs at offset")
}

// twoCommits has commit 5 with /old, and commit 6 with /new in its place.
func twoCommits(t *testing.T) (w *writer, newRoot int64) {
	w = newWriter(t, 2)
	root, auth := w.commit(w.page(kindTOCLeaf, leaf(nil, zeroFile("/old", 1))), 0, 0, false)
	w.header(3, root, auth, w.seq)
	w.seq++
	root, auth = w.commit(w.page(kindTOCLeaf, leaf(nil, zeroFile("/new", 1))), 0, 0, true)
	w.header(4, root, auth, w.seq-1)
	return w, root
}

func TestOlderState(t *testing.T) {
	w, _ := twoCommits(t)
	loss := w.options()
	loss.AllowLoss = true
	all, info := w.mustRead(w.options())
	if _, ok := all["new"]; !ok || len(all) != 1 || len(info.Notes) != 1 || !strings.Contains(info.Notes[0], "clean-up") {
		t.Errorf("pending clean-up: %v, %v", all, info)
	}
	for name, c := range map[string]struct {
		change func(w *writer, root int64)
		says   string
	}{
		"newest header": {func(w *writer, _ int64) { w.buf[slotV2+20] ^= 1 }, "header copy 1 is damaged"},
		"its magic":     {func(w *writer, _ int64) { copy(w.buf[slotV2:], "zzzz") }, "header copy 1 is damaged"},
		"its root":      {func(w *writer, root int64) { w.buf[root+pageHeader] ^= 1 }, "does not authenticate"},
		// Somebody without the key makes the newest header look older: the checksum is right, the code is not.
		"forged": {func(w *writer, _ int64) {
			h := w.buf[slotV2 : 2*slotV2]
			h[16] = 2
			sum := checksum(h[:sumFrom])
			copy(h[sumFrom:], sum[:])
		}, "altered"},
	} {
		t.Run(name, func(t *testing.T) {
			w, root := twoCommits(t)
			c.change(w, root)
			w.wantError(w.options(), format.ErrCorrupt, c.says)
			all, info := w.mustRead(loss)
			if _, ok := all["old"]; !ok || len(all) != 1 || !strings.Contains(strings.Join(info.Lost, "\n"), "commit 5") {
				t.Errorf("%v, %q", all, info.Lost)
			}
		})
	}

	w, _ = twoCommits(t)
	copy(w.buf[slotV2:], w.buf[:slotV2]) // one header twice is as good as one
	if _, info := w.mustRead(w.options()); len(info.Notes) != 0 {
		t.Errorf("%q", info.Notes)
	}
	w, _ = twoCommits(t)
	copy(w.buf, magicV1) // format 1 by its first bytes, damaged, and format 2 by the second header
	w.wantError(w.options(), format.ErrCorrupt, "header copy 0 is damaged")
	if all, _ := w.mustRead(loss); all["new"].name != "/new" {
		t.Errorf("%v", all)
	}
}

// TestEmptyOlderState has nothing but the empty commit of a new archive beside the damaged newest one.
func TestEmptyOlderState(t *testing.T) {
	for name, change := range map[string]func(w *writer, root int64){
		"header": func(w *writer, _ int64) { w.buf[20] ^= 1 },
		"root":   func(w *writer, root int64) { w.buf[root+pageHeader] ^= 1 },
	} {
		w := newWriter(t, 2)
		root, auth := w.commit(w.page(kindTOCLeaf, leaf(nil)), 0, 0, false)
		w.header(2, root, auth, w.seq)
		w.seq++
		root, auth = w.commit(w.page(kindTOCLeaf, leaf(nil, zeroFile("/new", 1))), 0, 0, false)
		w.header(3, root, auth, w.seq-1)
		change(w, root)
		o := w.options()
		o.AllowLoss = true
		if _, err := w.open(o); !errors.Is(err, format.ErrCorrupt) || errors.Is(err, source.ErrAllowLoss) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNeverCommitted(t *testing.T) {
	for _, version := range []int{1, 2} {
		w := newWriter(t, version)
		w.keyDirectory()
		w.header(1, 0, 0, 0)
		w.header(2, 0, 0, 0)
		if all, info := w.mustRead(w.options()); len(all) != 0 || len(info.Notes) != 1 {
			t.Errorf("format %d: %v, %v", version, all, info)
		}
		w.page(kindTOCLeaf, leaf(nil))
		w.wantError(w.options(), format.ErrCorrupt, "more than it names")
	}
}

func TestDialects(t *testing.T) {
	summed := func(b []byte) []byte {
		b = append(b, make([]byte, 64-len(b))...)
		sum := checksum(b)
		return join(b, sum[:], make([]byte, 400))
	}
	for name, b := range map[string][]byte{
		"before format 1": summed(join([]byte(magicV2), u16(1), u16(0), u32(headerV1))),
		"under the name":  summed(join([]byte(magicV1), u16(2), u16(0), u32(headerV1))),
	} {
		v := Probe(sourcetest.Input(b))
		if _, err := Open(t.Context(), sourcetest.Input(b), source.Options{RawKey: []byte{1}}); v.Supported || v.Format != "revault" || !strings.Contains(v.Detail, name) || !errors.Is(err, format.ErrVersion) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	for _, b := range [][]byte{nil, []byte("PK\x03\x04"), make([]byte, 1000), []byte(magicPage)} {
		if v := Probe(sourcetest.Input(b)); v.Format != "" {
			t.Errorf("%q: %+v", b[:min(8, len(b))], v)
		}
	}
	if v := Probe(sourcetest.Input(append(make([]byte, frontV2), magicPage...))); v.Format != "revault" || !v.Supported || v.Detail == "" {
		t.Errorf("overwritten header: %+v", v)
	}
}
