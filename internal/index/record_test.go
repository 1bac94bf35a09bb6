package index

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
)

func mustPath(s string) pathsafe.Path {
	p, err := pathsafe.Parse(s)
	if err != nil {
		panic(err)
	}
	return p
}

// genEntry makes entries that Check accepts.
func genEntry() *rapid.Generator[Entry] {
	return rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{
			Path: mustPath(rapid.SampledFrom([]string{"a", "a/b", "dir/näme"}).Draw(t, "path")),
			Kind: Kind(rapid.IntRange(1, 7).Draw(t, "kind")),
			Mode: rapid.Uint32Range(0, maxMode).Draw(t, "mode"),
			User: rapid.SampledFrom([]string{"", "root", "alice"}).Draw(t, "user"),
		}
		nsec := rapid.Uint32Range(0, maxNsec)
		if e.HasMtime = rapid.Bool().Draw(t, "mtime"); e.HasMtime {
			e.MtimeSec, e.MtimeNsec = rapid.Int64().Draw(t, "sec"), nsec.Draw(t, "nsec")
		}
		if e.HasBirth = rapid.Bool().Draw(t, "birth"); e.HasBirth {
			e.BirthSec, e.BirthNsec = rapid.Int64().Draw(t, "sec"), nsec.Draw(t, "nsec")
		}
		if e.HasOwner = rapid.Bool().Draw(t, "owner"); e.HasOwner {
			e.UID, e.GID, e.Group = rapid.Uint64().Draw(t, "uid"), rapid.Uint64().Draw(t, "gid"), "wheel"
		}
		if e.HasWinAttrs = rapid.Bool().Draw(t, "win"); e.HasWinAttrs {
			e.WinAttrs = rapid.Uint64().Draw(t, "attrs")
		}
		if e.HasBSDFlags = rapid.Bool().Draw(t, "bsd"); e.HasBSDFlags {
			e.BSDFlags = rapid.Uint64().Draw(t, "flags")
		}
		if e.Kind != Dir {
			e.LinkGroup = rapid.Uint64Range(0, 3).Draw(t, "links")
		}
		switch e.Kind {
		case File:
			e.Size = rapid.Int64Range(0, 1<<40).Draw(t, "size")
			if e.Size > 100 && rapid.Bool().Draw(t, "sparse") {
				e.Sparse = []SparseRun{{0, 50}, {10, e.Size - 61}, {1, 0}}
			}
			if e.DataSize() > 0 {
				e.Content = rapid.Uint64Range(1, maxNumber).Draw(t, "content")
			}
		case Symlink:
			e.Target = rapid.StringMatching(`[a-z/.]{1,40}`).Draw(t, "target")
		case CharDevice, BlockDevice:
			if e.HasDevice = rapid.Bool().Draw(t, "device"); e.HasDevice {
				e.Major, e.Minor = rapid.Uint64().Draw(t, "major"), rapid.Uint64().Draw(t, "minor")
			}
		}
		switch rapid.IntRange(0, 2).Draw(t, "xattrs") {
		case 1:
			e.Xattrs = []Xattr{{"user.a", nil}, {"user.b", rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "value")}}
		case 2:
			e.XattrsContent = 9
		}
		if rapid.Bool().Draw(t, "tag 0") {
			e.Unknown = append(e.Unknown, 0, 2, 'h', 'i')
		}
		if rapid.Bool().Draw(t, "tag 200") {
			e.Unknown = append(append(e.Unknown, 200, 0xac, 2), make([]byte, 300)...)
		}
		return e
	})
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEntry().Draw(t, "entry")
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		value := AppendEntry([]byte("before"), &e)[6:]
		got, err := DecodeEntry(e.Path.Key(), value)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v became %+v, %v", e, got, err)
		}
		if again := AppendEntry(nil, &got); !bytes.Equal(again, value) {
			t.Fatalf("%x became %x", value, again)
		}
		for i := range value {
			value[i] ^= 0xff // the decoded entry is its own
		}
		if again := AppendEntry(nil, &got); reflect.DeepEqual(again, value) {
			t.Fatal("the entry aliases the record")
		}
	})
}

func TestEntryRefuses(t *testing.T) {
	path := mustPath("dir/file")
	for name, e := range map[string]Entry{
		"no kind":                  {},
		"kind 8":                   {Kind: 8},
		"mode":                     {Kind: File, Mode: 0o10000},
		"nanoseconds":              {Kind: File, HasMtime: true, MtimeNsec: 1e9},
		"birth nanoseconds":        {Kind: File, HasBirth: true, BirthNsec: 1e9},
		"negative size":            {Kind: File, Size: -1, Content: 1},
		"size over the limit":      {Kind: File, Size: format.MaxFileSize + 1, Content: 1},
		"content number":           {Kind: File, Size: 1, Content: 1 << 63},
		"data without content":     {Kind: File, Size: 1},
		"content without data":     {Kind: File, Content: 1},
		"content of a hole":        {Kind: File, Size: 5, Content: 1, Sparse: []SparseRun{{0, 5}}},
		"size of a directory":      {Kind: Dir, Size: 1},
		"content of a link":        {Kind: Symlink, Target: "x", Content: 1},
		"sparse map of a FIFO":     {Kind: FIFO, Sparse: []SparseRun{{0, 1}}},
		"link without target":      {Kind: Symlink},
		"target of a file":         {Kind: File, Target: "x"},
		"long target":              {Kind: Symlink, Target: strings.Repeat("x", format.MaxTarget+1)},
		"target with a zero byte":  {Kind: Symlink, Target: "a\x00b"},
		"directory's link group":   {Kind: Dir, LinkGroup: 1},
		"user name too long":       {Kind: File, User: strings.Repeat("u", maxOwner+1)},
		"group name too long":      {Kind: File, Group: strings.Repeat("g", maxOwner+1)},
		"file's device":            {Kind: File, HasDevice: true},
		"sparse map too short":     {Kind: File, Size: 10, Content: 1, Sparse: []SparseRun{{1, 2}}},
		"sparse map too long":      {Kind: File, Size: 10, Content: 1, Sparse: []SparseRun{{1, 20}}},
		"sparse map overflows":     {Kind: File, Size: 10, Content: 1, Sparse: []SparseRun{{1, math.MaxInt64}, {1, 8}}},
		"sparse map without hole":  {Kind: File, Size: 10, Content: 1, Sparse: []SparseRun{{10, 0}}},
		"hole of no bytes":         {Kind: File, Size: 10, Content: 1, Sparse: []SparseRun{{1, 1}, {1, 0}, {1, 6}}},
		"data of no bytes":         {Kind: File, Size: 10, Content: 1, Sparse: []SparseRun{{1, 1}, {0, 8}}},
		"xattrs twice":             {Kind: File, XattrsContent: 1, Xattrs: []Xattr{{"a", nil}}},
		"xattr without name":       {Kind: File, Xattrs: []Xattr{{"", nil}}},
		"xattrs out of order":      {Kind: File, Xattrs: []Xattr{{"b", nil}, {"a", nil}}},
		"xattr repeated":           {Kind: File, Xattrs: []Xattr{{"a", nil}, {"a", nil}}},
		"xattrs over 32 KiB":       {Kind: File, Xattrs: []Xattr{{"a", make([]byte, MaxXattrs)}}},
		"xattrs content too large": {Kind: File, XattrsContent: 1 << 63},
	} {
		e.Path = path
		if err := e.Check(); !errors.Is(err, format.ErrCorrupt) || !strings.Contains(err.Error(), "dir/file") {
			t.Errorf("%s: check: %v", name, err)
		}
		if _, err := DecodeEntry(path.Key(), AppendEntry(nil, &e)); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: decode: %v", name, err)
		}
	}
	for name, v := range map[string]string{
		"empty":              "",
		"tag alone":          "\x01\x01",
		"length too long":    "\x01\x01\x02\x01",
		"tags descend":       "\x02\x08\x01a\x07\x01a",
		"tag repeated":       "\x02\x07\x01a\x07\x01a",
		"unknown repeated":   "\x02\x63\x01a\x63\x01a",
		"mode said to be 0":  "\x01\x01\x01\x00",
		"size said to be 0":  "\x01\x03\x01\x00",
		"empty name":         "\x01\x07\x00",
		"left over":          "\x01\x01\x02\x07\x07",
		"long form":          "\x01\x01\x02\x87\x00",
		"mtime cut":          "\x01\x02\x01\x07",
		"half a sparse pair": "\x01\x0b\x01\x07",
		"xattr cut":          "\x01\x0c\x03\x01a\x07",
	} {
		if _, err := DecodeEntry(path.Key(), []byte(v)); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, key := range []string{"", "..", "a\x00..\x00b", "a/b", "\x00a", "a\x00\x00b"} {
		if _, err := DecodeEntry([]byte(key), []byte{byte(Dir)}); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestKindNames(t *testing.T) {
	want := []string{"kind 0", "file", "dir", "symlink", "fifo", "char", "block", "socket", "kind 8"}
	for i, w := range want {
		if Kind(i).String() != w {
			t.Errorf("kind %d is %s", i, Kind(i))
		}
	}
}

func TestContentRefuses(t *testing.T) {
	run := Run{Frame: 1, Len: 10}
	good := Content{Size: 10, Refs: 1, Runs: []Run{run}}
	for name, change := range map[string]func(c *Content){
		"size 0":         func(c *Content) { c.Size = 0; c.Runs[0].Len = 0 },
		"size too large": func(c *Content) { c.Size = format.MaxFileSize + 1 },
		"no references":  func(c *Content) { c.Refs = 0 },
		"no runs":        func(c *Content) { c.Runs = nil },
		"many runs": func(c *Content) {
			c.Size, c.Runs = 10*(format.MaxRuns+1), bytes2runs(format.MaxRuns+1, run)
		},
		"frame 0":           func(c *Content) { c.Runs[0].Frame = 0 },
		"frame too large":   func(c *Content) { c.Runs[0].Frame = 1 << 63 },
		"frames overflow":   func(c *Content) { c.Runs[0] = Run{Frame: maxNumber, Len: 10, Unit: 1} },
		"empty run":         func(c *Content) { c.Runs = []Run{run, {Frame: 1}} },
		"sum too small":     func(c *Content) { c.Size = 11 },
		"sum too large":     func(c *Content) { c.Runs = []Run{run, run} },
		"beyond the frame":  func(c *Content) { c.Runs[0].Off = format.MaxFramePlain - 9 },
		"offset with unit":  func(c *Content) { c.Runs[0].Unit, c.Runs[0].Off = 5, 1 },
		"unit over a frame": func(c *Content) { c.Runs[0].Unit = format.MaxFramePlain + 1 },
	} {
		c := good
		c.Runs = append([]Run(nil), good.Runs...)
		change(&c)
		if _, err := DecodeContent(AppendContent(nil, &c)); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeContent(append(AppendContent(nil, &good), 0)); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("left over: %v", err)
	}
}

func bytes2runs(n int, r Run) []Run {
	runs := make([]Run, n)
	for i := range runs {
		runs[i] = r
	}
	return runs
}

func TestLocate(t *testing.T) {
	c := Content{Size: 135, Refs: 2, Runs: []Run{
		{Frame: 5, Off: 7, Len: 20},
		{Frame: 9, Len: 105, Unit: 50},
		{Frame: 2, Len: 10},
	}}
	got, err := DecodeContent(AppendContent(nil, &c))
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Fatal(got, err)
	}
	for _, w := range []struct {
		pos        int64
		frame      uint64
		off, avail int64
	}{
		{0, 5, 7, 20}, {19, 5, 26, 1}, {20, 9, 0, 50}, {69, 9, 49, 1}, {70, 10, 0, 50}, {120, 11, 0, 5}, {124, 11, 4, 1},
		{125, 2, 0, 10}, {134, 2, 9, 1}, {135, 0, 0, 0}, {-1, 0, 0, 0}, {math.MaxInt64, 0, 0, 0},
	} {
		if frame, off, avail := c.Locate(w.pos); frame != w.frame || off != w.off || avail != w.avail {
			t.Errorf("%d is at %d+%d for %d", w.pos, frame, off, avail)
		}
	}
	if n := c.Runs[1].Frames(); n != 3 {
		t.Errorf("%d frames", n)
	}
}

func testFrame() Frame {
	f := Frame{Codec: CodecZstd, Class: 3, Ext: format.Extent{Off: 20480, Len: 4096}, Stored: 3000, Plain: 9000, MemberTable: 20,
		Attempt: format.ID{1, 2, 3}, Contents: []uint64{70, 71, 5, maxNumber}}
	for i := range testTag {
		f.Commitment[i] = byte(0xc0 + i)
	}
	return f
}

func TestFrameRecord(t *testing.T) {
	raw := Frame{BlockShift: 14, Class: NoClass, Ext: format.Extent{Off: 1 << 30, Len: 1<<20 + 4096}, Stored: 1 << 20, Plain: 1 << 20,
		MemberTable: 9, Contents: []uint64{1}}
	for _, f := range []Frame{testFrame(), raw} {
		for _, sector := range []int64{512, 4096} {
			b := AppendFrame(nil, &f, testTag, sector)
			got, err := DecodeFrame(b, testTag, sector)
			if err != nil || !reflect.DeepEqual(got, f) {
				t.Fatalf("%+v became %+v, %v", f, got, err)
			}
			lean, err := DecodeFrameLean(b, testTag, sector)
			if got.Contents = nil; err != nil || !reflect.DeepEqual(lean, got) {
				t.Fatalf("lean: %+v, %v", lean, err)
			}
		}
	}
	if raw.Blocks() != 64 || raw.Used(16) != 64+32+1<<20+64*16+9 {
		t.Error(raw.Blocks(), raw.Used(16))
	}
	for name, change := range map[string]func(f *Frame){
		"codec":                  func(f *Frame) { f.Codec = 2 },
		"shift of compressed":    func(f *Frame) { f.BlockShift = 9 },
		"shift too small":        func(f *Frame) { f.Codec, f.Plain, f.BlockShift = CodecRaw, f.Stored, 8 },
		"shift too large":        func(f *Frame) { f.Codec, f.Plain, f.BlockShift = CodecRaw, f.Stored, 24 },
		"one block":              func(f *Frame) { f.Codec, f.Plain, f.BlockShift = CodecRaw, f.Stored, 14 },
		"class":                  func(f *Frame) { f.Class = 16 },
		"nothing stored":         func(f *Frame) { f.Stored = 0 },
		"nothing plain":          func(f *Frame) { f.Plain = 0 },
		"stored over the limit":  func(f *Frame) { f.Stored, f.Ext.Len = format.MaxFramePlain+1, 16<<20 },
		"plain over the limit":   func(f *Frame) { f.Plain = format.MaxFramePlain + 1 },
		"raw of other length":    func(f *Frame) { f.Codec = CodecRaw },
		"extent into the copies": func(f *Frame) { f.Ext.Off = 16384 },
		"extent beyond the end":  func(f *Frame) { f.Ext.Off = format.MaxLogicalEnd },
		"extent too short":       func(f *Frame) { f.Ext.Len = 3072 },
		"member table":           func(f *Frame) { f.MemberTable, f.Ext.Len = maxMemberTable+1, 1<<20 },
		"no members":             func(f *Frame) { f.Contents = nil },
		"many members":           func(f *Frame) { f.Contents = make([]uint64, format.MaxMembers+1) },
		"members of no pack":     func(f *Frame) { f.Class = NoClass },
		"member 0":               func(f *Frame) { f.Contents = []uint64{0} },
		"member 0 later":         func(f *Frame) { f.Contents = []uint64{5, 0} },
		"member too large":       func(f *Frame) { f.Contents = []uint64{5, 1 << 63} },
		"member repeated":        func(f *Frame) { f.Contents = []uint64{5, 5} },
	} {
		f := testFrame()
		change(&f)
		if _, err := DecodeFrame(AppendFrame(nil, &f, testTag, 512), testTag, 512); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFreeAndKeys(t *testing.T) {
	f := FreeExtent{Ext: format.Extent{Off: 20480, Len: 512}, Gen: 9, State: FreePending}
	got, err := DecodeFree(f.Key(), AppendFree(nil, &f))
	if err != nil || got != f {
		t.Fatal(got, err)
	}
	for name, c := range map[string]FreeExtent{
		"offset": {Ext: format.Extent{Off: 512, Len: 512}},
		"length": {Ext: format.Extent{Off: 20480}},
		"end":    {Ext: format.Extent{Off: 20480, Len: format.MaxLogicalEnd}},
		"state":  {Ext: format.Extent{Off: 20480, Len: 512}, State: 3},
	} {
		if _, err := DecodeFree(c.Key(), AppendFree(nil, &c)); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeFree(f.Key(), make([]byte, freeValue+1)); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("long value: %v", err)
	}
	if n, err := DecodeNumKey(NumKey(1 << 40)); n != 1<<40 || err != nil {
		t.Error(n, err)
	}
	if bytes.Compare(NumKey(255), NumKey(256)) >= 0 {
		t.Error("keys are not in the order of numbers")
	}
	if _, err := DecodeNumKey(make([]byte, 7)); !errors.Is(err, format.ErrCorrupt) {
		t.Error(err)
	}
	prefix := [8]byte{1, 2, 3}
	if p, n, err := DecodeDigestKey(DigestKey(prefix, 77)); p != prefix || n != 77 || err != nil {
		t.Error(p, n, err)
	}
	for _, key := range [][]byte{nil, DigestKey(prefix, 0), DigestKey(prefix, 1<<63), append(DigestKey(prefix, 1), 0)} {
		if _, _, err := DecodeDigestKey(key); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("digest key %x: %v", key, err)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range vectorEntries() {
		f.Add(e.Path.Key(), AppendEntry(nil, &e))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := DecodeEntry(key, value)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		if got := AppendEntry(nil, &e); !bytes.Equal(got, value) || !bytes.Equal(e.Path.Key(), key) {
			t.Fatalf("%x = %x is written as %x", key, value, got)
		}
	})
}

func FuzzDecodeContent(f *testing.F) {
	f.Add(AppendContent(nil, &Content{Size: 30, Refs: 1, Runs: []Run{{1, 5, 10, 0}, {2, 0, 20, 6}}}), int64(12))
	f.Fuzz(func(t *testing.T, value []byte, pos int64) {
		c, err := DecodeContent(value)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if got := AppendContent(nil, &c); !bytes.Equal(got, value) {
			t.Fatalf("%x is written as %x", value, got)
		}
		if frame, off, avail := c.Locate(pos); (avail > 0) != (pos >= 0 && pos < c.Size) || off < 0 || avail < 0 || avail > 0 && frame == 0 {
			t.Fatalf("%d of %d is at %d+%d for %d", pos, c.Size, frame, off, avail)
		}
	})
}

func FuzzDecodeFrame(f *testing.F) {
	fr := testFrame()
	f.Add(AppendFrame(nil, &fr, testTag, 512))
	f.Fuzz(func(t *testing.T, value []byte) {
		fr, err := DecodeFrame(value, testTag, 512)
		if _, leanErr := DecodeFrameLean(value, testTag, 512); err == nil && leanErr != nil {
			t.Fatal(leanErr)
		}
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if got := AppendFrame(nil, &fr, testTag, 512); !bytes.Equal(got, value) {
			t.Fatalf("%x is written as %x", value, got)
		}
	})
}

func FuzzDecodeFree(f *testing.F) {
	f.Add(NumKey(20480), AppendFree(nil, &FreeExtent{Ext: format.Extent{Len: 512}, Gen: 1, State: FreeWiped}))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		fr, err := DecodeFree(key, value)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(fr.Key(), key) || !bytes.Equal(AppendFree(nil, &fr), value) {
			t.Fatalf("%x = %x is written as %+v", key, value, fr)
		}
	})
}

func FuzzDecodeRoot(f *testing.F) {
	f.Add(Root{}.Append(nil, testTag))
	f.Add(Root{Ref: Ref{Off: format.DataStart, Len: 99}, Height: 2, Count: 5}.Append(nil, testTag))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := format.NewCursor(b, "root record", -1)
		r := DecodeRoot(c, testTag)
		if err := c.Done(); err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if got := r.Append(nil, testTag); !bytes.Equal(got, b) {
			t.Fatalf("%x is written as %x", b, got)
		}
	})
}
