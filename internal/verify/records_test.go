package verify

import (
	"slices"
	"strings"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
)

// Each case falsifies a record, with valid tags all the way up: only the cross checks can notice.
func TestFalseRecords(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *model)
		full   bool // noticed only by reading everything
		want   []string
	}{
		"too many references": {func(m *model) { m.contents[1].Refs++ }, false, []string{"content: content 1: its count of references is off by 1"}},
		"too few references":  {func(m *model) { m.contents[2].Refs-- }, false, []string{"content: content 2: its count of references is off by -1"}},
		"entry without its content": {func(m *model) { m.entries[1].Content = 77 }, false,
			[]string{"content: content 1: its count of references is off by 1", "entry docs/f001: content 77 does not exist"}},
		"entry of another size": {func(m *model) { m.entries[1].Size++ }, false, []string{"entry docs/f001: content 1 has 300 bytes where the entry has 301"}},
		"entry below a file": {func(m *model) { m.entry("empty/below/it", index.Entry{Kind: index.File}) }, false,
			[]string{`entry empty/below/it: it lies below "empty", which is not a directory`}},
		"entry far below a link": {func(m *model) {
			m.entry("link/x", index.Entry{Kind: index.Dir})
			m.entry("link/x/y", index.Entry{Kind: index.File})
		}, false, []string{`entry link/x: it lies below "link"`, `entry link/x/y: it lies below "link"`}},
		"links that differ": {func(m *model) { m.entries[len(m.entries)-1].Mode = 0o600 }, false,
			[]string{"entry zattrs: it is not like the entry before it that is a hard link"}},
		"links of two kinds": {func(m *model) { m.entry("fifo", index.Entry{Kind: index.FIFO, LinkGroup: 7}) }, false,
			[]string{"entry yattrs: it is not like", "entry zattrs: it is not like"}},
		"attributes that are none": {func(m *model) { m.entry("not", index.Entry{Kind: index.Dir, XattrsContent: 3}) }, true,
			[]string{"content docs/f003: content 3: what should be extended attributes is not", "content not: content 3: what should be"}},
		"attributes in frames that are none": {func(m *model) { m.entry("not", index.Entry{Kind: index.Dir, XattrsContent: 30}) }, true,
			[]string{"content big: content 30: what should be extended attributes is not", "content not: content 30: what should be"}},
		"attributes without end": {func(m *model) {
			set := index.AppendXattrs(nil, []index.Xattr{{Name: "user.a", Value: make([]byte, 1<<20)}})
			m.content(60, set, m.split(20, 60, set, 1<<19, 0, 1, 2))
			m.entry("not", index.Entry{Kind: index.Dir, XattrsContent: 60})
		}, false, []string{"entry not: content 60 with its extended attributes has"}},
		"missing digest": {func(m *model) { delete(m.digests, m.digestKey(3)) }, false, []string{"content: content 3 has no key in the digests tree"}},
		"digest of nothing": {func(m *model) { m.digests[string(index.DigestKey([8]byte{1}, 88))] = true }, false,
			[]string{"content: the digests tree has content 88, which does not exist"}},
		"duplicated digest": {func(m *model) { m.digests[string(index.DigestKey([8]byte{1}, 3))] = true }, false,
			[]string{"content: the digests tree has content 3 under another digest"}},
		"content of another digest": {func(m *model) {
			delete(m.digests, m.digestKey(1))
			m.contents[1].Digest[31] ^= 1
			m.digests[m.digestKey(1)] = true
		}, true, []string{"content docs/f001: content 1: its bytes do not have the digest"}},
		"long content of another digest": {func(m *model) { m.contents[30].Digest[31] ^= 1 }, true, []string{"content big: content 30: its bytes do not"}},
		"odd content of another digest":  {func(m *model) { m.contents[20].Digest[31] ^= 1 }, true, []string{"content odd: content 20: its bytes do not"}},
		"two contents in one place": {func(m *model) { m.contents[2].Runs[0].Off = 0 }, false,
			[]string{"frame: frame 1 lists content 2 at byte 300", "full: content docs/f002: content 2: its bytes", "full: content docs/again: content 2: its bytes"}},
		"content in a missing frame": {func(m *model) { m.contents[40].Runs[0].Frame = 55 }, false,
			[]string{"content: content 40: frame 55 does not exist", "content sparse: content 40: frame 55", "frame: frame 10 lists content 40"}},
		"content past its frame": {func(m *model) { m.contents[4].Runs[0].Off++ }, false,
			[]string{"content: content 4: it reaches past the end of frame 1", "content docs/f004: content 4: it reaches past", "frame: frame 1 lists content 4 at byte 577"}},
		"another unit": {func(m *model) { m.contents[30].Runs[0].Unit = 1023 }, false,
			[]string{"content: content 30: frame 3 holds 1024 bytes", "content big: content 30", "frame: frame 3 lists", "frame: frame 4", "frame: frame 5", "frame: frame 6", "frame: frame 7"}},
		"frame that lists another content": {func(m *model) { m.frames[10].Contents[0] = 4 }, false,
			[]string{"content: content 40: frame 10 does not list it", "frame: frame 10 lists content 4 at byte 0"}},
		"frame that lists nothing known": {func(m *model) { m.frames[10].Contents[0] = 41 }, false,
			[]string{"content: content 40: frame 10 does not list it", "frame: frame 10 lists content 41, which does not exist"}},
		"frame that leaves a member out": {func(m *model) { m.frames[1].Contents = m.frames[1].Contents[:3] }, false,
			[]string{"content: content 4: frame 1 does not list it", "frame: frame 1 holds 578 bytes, its members 577"}},
		"frame in another order": {func(m *model) { c := m.frames[1].Contents; c[0], c[1] = c[1], c[0] }, false,
			[]string{"frame: frame 1 lists content 2 at byte 0"}},
		"frame outside the archive": {func(m *model) { m.frames[10].Ext.Off += 1 << 30 }, false,
			[]string{"content sparse", "frame: frame 10: record: extent"}},
		"frame of another attempt": {func(m *model) { m.frames[10].Attempt[0]++ }, true, []string{"content sparse", "frame: frame 10: frame header", "frame: frame 10: tag"}},
		"duplicated content": {func(m *model) { m.contents[41] = m.contents[40] }, false,
			[]string{"content: content 41 has no key", "content: content 41: frame 10 does not list", "content: content 41: its count"}},
		"duplicated frame": {func(m *model) { m.frames[11] = m.frames[10] }, false,
			[]string{"frame: frame 11 lists content 40", "full: frame: frame 11: frame header", "full: frame: frame 11: tag", "ownership: 512 bytes belong to frame 10 and to frame 11"}},
		"two owners": {func(m *model) { m.retire[0].Off -= 512; m.retire[0].Len += 512 }, false,
			[]string{"ownership: 512 bytes belong to the stage set and to the retire set"}},
		"free and owned": {func(m *model) { m.free[0].Ext.Len += 512 }, true, []string{"fill: bytes of a wiped free extent", "ownership: 512 bytes belong to the free tree and to frame 3"}},
		"gap":            {func(m *model) { m.free[0].Ext.Len -= 512 }, false, []string{"ownership: 512 bytes before frame 3 belong to nothing"}},
		"lost pending":   {func(m *model) { m.free = m.free[:1] }, false, []string{"ownership: 512 bytes before frame 10 belong to nothing"}},
		"lost stage":     {func(m *model) { m.stage = nil }, false, []string{"ownership: 512 bytes before the retire set belong to nothing"}},
		"free not whole sectors": {func(m *model) { m.free[0].Ext.Len -= 100 }, false,
			[]string{"ownership: a free extent of 924 bytes"}},
		"free of the future": {func(m *model) { m.free[0].Gen = 9 }, false, []string{"ownership: a free extent was retired by generation 9"}},
		"free that touch": {func(m *model) {
			e := m.free[0].Ext
			m.free[0].Ext.Len = 512
			m.free = append(m.free, index.FreeExtent{Ext: format.Extent{Off: e.Off + 512, Len: e.Len - 512}})
		}, false, []string{"ownership: two wiped free extents that touch"}},
		"free that is not zero": {func(m *model) { m.file[m.free[0].Ext.Off+700] = 1 }, true, []string{"fill: bytes of a wiped free extent"}},
		"open pack missing":     {func(m *model) { m.packs[0] = 99 }, false, []string{"commit: the open pack of class 0 is frame 99"}},
		"open pack of another class": {func(m *model) { m.packs[2] = 1 }, false,
			[]string{"commit: the open pack of class 2 is frame 1"}},
		"counter entries": {func(m *model) { m.alter = func(k *journal.Counters) { k.Entries++ } }, false, []string{`commit: counter "entries"`}},
		"counter plain":   {func(m *model) { m.alter = func(k *journal.Counters) { k.PlainBytes-- } }, false, []string{`commit: counter "plain bytes"`}},
		"counter stored":  {func(m *model) { m.alter = func(k *journal.Counters) { k.StoredBytes++ } }, false, []string{`commit: counter "stored bytes"`}},
		"counter frames":  {func(m *model) { m.alter = func(k *journal.Counters) { k.FrameBytes = 0 } }, false, []string{`commit: counter "frame bytes"`}},
		"counter nodes":   {func(m *model) { m.alter = func(k *journal.Counters) { k.NodeBytes++ } }, false, []string{`commit: counter "node bytes"`}},
		"counter free":    {func(m *model) { m.alter = func(k *journal.Counters) { k.FreeBytes++ } }, false, []string{`commit: counter "free bytes"`}},
		"counter pending": {func(m *model) { m.alter = func(k *journal.Counters) { k.Pending++ } }, false, []string{`commit: counter "pending extents"`}},
		"number in use":   {func(m *model) { m.alter = func(k *journal.Counters) { k.NextContent = 40; k.NextFrame = 10 } }, false, []string{"commit: the next content number", "commit: the next frame number"}},
		"count in a root": {func(m *model) { m.roots = func(r []index.Root) { r[0].Count++ } }, false, []string{"commit: the tree entries has"}},
		"entry record":    {func(m *model) { m.entries[1].Mode = 1 << 20 }, false, []string{"entry docs/f001: entry record"}},
		"content record":  {func(m *model) { m.contents[40].Size++ }, false, []string{"content: content record", "content sparse: content 40: the record"}},
		"frame record":    {func(m *model) { m.frames[10].Stored-- }, false, []string{"content sparse", "frame: frame record"}},
		"frame of impossible length": {func(m *model) { m.frames[10].Ext.Len = 1 << 40; m.super = func(s *journal.Super) { s.End = 1 << 50 } }, false,
			[]string{"content sparse: content 40: the record of frame 10 cannot be read", "frame: frame 10: record: extent", "ownership: the file is cut short"}},
		"impossible counts": {func(m *model) {
			m.roots = func(r []index.Root) { r[1].Count, r[3].Count = 1<<63, 1<<64-1 }
			m.super = func(s *journal.Super) { s.End = 1 << 56 }
		}, false, []string{"commit: the tree contents has", "commit: the tree frames has", "ownership: the file is cut short"}},
		"endless content": {func(m *model) {
			m.contents[30].Runs[0].Len = 1 << 60
			m.contents[30].Runs[0].Unit = 1
			m.contents[30].Size = 1 << 60
		}, false, []string{"content: content 30: frame 3 holds 1024 bytes", "content big", "entry big", "frame: frame 3", "frame: frame 4", "frame: frame 5", "frame: frame 6", "frame: frame 7"}},
		"exchanged frames": {func(m *model) { m.frames[8].Ext, m.frames[9].Ext = m.frames[9].Ext, m.frames[8].Ext }, true, []string{"content odd", "frame:", "frame:", "frame:", "frame:"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, full := range []bool{false, true} {
				m := sample(t, 512)
				c.change(m)
				s, fs, err := check(m.build(), Options{Full: full, Jobs: 2})
				if err != nil {
					t.Fatal(err)
				}
				if !full && c.full {
					continue
				}
				if s.Damaged == 0 {
					t.Fatalf("full %v: not noticed", full)
				}
				var want []string
				for _, w := range c.want {
					if w, only := strings.CutPrefix(w, "full: "); full || !only {
						want = append(want, w)
					}
				}
				for _, w := range want {
					if !slices.ContainsFunc(fs, func(f Finding) bool { return strings.HasPrefix(show(f), w) }) {
						t.Errorf("full %v: no finding %q", full, w)
					}
				}
				for _, f := range fs {
					if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(show(f), w) }) {
						t.Errorf("full %v: finding %q was not expected", full, show(f))
					}
				}
			}
		})
	}
}

func show(f Finding) string { return strings.TrimSpace(f.Kind+" "+f.Path) + ": " + f.Detail }

func (m *model) digestKey(n uint64) string {
	return string(index.DigestKey([8]byte(m.contents[n].Digest[:8]), n))
}
