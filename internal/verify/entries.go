package verify

import (
	"bytes"
	"fmt"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// entriesPass reads the entries tree and holds it against the contents.
func (c *checker) entriesPass() error {
	e := entryPass{c: c, at: -1}
	if err := c.walk(index.Entries, false, e.entry); err != nil {
		return err
	}
	c.got.Entries = uint64(e.at + 1)
	if c.broken[index.Entries] {
		return nil // how many references there should be is not known
	}
	for r, left := range c.contents.left {
		if left != 0 && c.contents.size[r] > 0 {
			c.find(KindContent, -1, "content %d: its count of references is off by %d", c.contents.num[r], int32(left))
		}
	}
	return nil
}

type entryPass struct {
	c     *checker
	at    int                      // position of the current entry
	under []byte                   // key of the last entry that is not a directory, with a separator: nothing may lie below it
	links map[uint64]format.Digest // of the record of each link group's first member
}

// name reports a finding about the current entry.
func (e *entryPass) name(path, kind, detail string, args ...any) {
	fresh := !e.c.flagged.has(e.at)
	e.c.flagged.add(e.at)
	e.c.rep.add(Finding{Path: path, Kind: kind, Offset: -1, Detail: fmt.Sprintf(detail, args...)}, fresh)
}

func (e *entryPass) entry(key, value []byte) error {
	c := e.c
	e.at++
	rec, err := index.DecodeEntry(key, value)
	if err != nil {
		path := pathsafe.Quote(string(bytes.ReplaceAll(key, []byte{0}, []byte{'/'})))
		if p, perr := pathsafe.FromKey(key); perr == nil {
			path = p.String()
		}
		c.broken[index.Entries] = true
		e.name(path, KindEntry, "%s", detail(err))
		return nil
	}
	path := rec.Path.String()
	selected := c.o.Only == nil || c.o.Only(rec.Path)
	if selected {
		c.sum.Entries++
	}
	switch {
	case len(e.under) > 0 && bytes.HasPrefix(key, e.under):
		e.name(path, KindEntry, "it lies below %s, which is not a directory", index.Entries.KeyText(e.under[:len(e.under)-1], ""))
	case rec.Kind != index.Dir:
		e.under = append(append(e.under[:0], key...), 0)
	}
	if rec.Kind == index.File {
		// Decoding has held size, sparse map and the presence of a content against each other.
		if size := e.refer(path, rec.Content, selected, 0); size > 0 && size != rec.DataSize() {
			e.name(path, KindEntry, "content %d has %d bytes where the entry has %d", rec.Content, size, rec.DataSize())
		}
	}
	if size := e.refer(path, rec.XattrsContent, selected, isXattrs); size > index.MaxXattrsContent {
		e.name(path, KindEntry, "content %d with its extended attributes has %d bytes, more than there may be", rec.XattrsContent, size)
	}
	if rec.LinkGroup != 0 {
		e.link(path, &rec)
	}
	return nil
}

// link holds a name of a file against the first name of the same file: all that is stored of them is the same, but
// for what this version does not know.
func (e *entryPass) link(path string, rec *index.Entry) {
	rec.Unknown = nil
	sum := format.Digest(blake3.Sum256(index.AppendEntry(nil, rec)))
	if first, ok := e.links[rec.LinkGroup]; !ok {
		if e.links == nil {
			e.links = make(map[uint64]format.Digest)
		}
		e.links[rec.LinkGroup] = sum
	} else if sum != first {
		e.name(path, KindEntry, "it is not like the entry before it that is a hard link of the same file, in link group %d", rec.LinkGroup)
	}
}

// refer counts a reference to a content, which it flags, and returns the content's size, 0 when it is not known.
func (e *entryPass) refer(path string, content uint64, selected bool, flag uint8) int64 {
	c := e.c
	if content == 0 {
		return 0
	}
	r, ok := c.contents.rank(content)
	if !ok {
		if c.broken[index.Contents] {
			e.name(path, KindContent, "content %d: its record cannot be reached", content)
		} else {
			e.name(path, KindEntry, "content %d does not exist", content)
		}
		return 0
	}
	c.contents.left[r]--
	c.contents.flags[r] |= flag
	if selected {
		c.contents.flags[r] |= isSelected
	}
	return c.contents.size[r]
}

// namePass names every entry that has a damaged content.
func (c *checker) namePass() error {
	t := &c.contents
	if len(t.bad) == 0 {
		return nil
	}
	e := entryPass{c: c, at: -1}
	err := c.walk(index.Entries, true, func(key, value []byte) error {
		e.at++
		rec, err := index.DecodeEntry(key, value)
		if err != nil {
			return nil
		}
		for _, n := range rec.Contents() {
			if r, ok := t.rank(n); ok && n != 0 && t.bad.has(r) {
				t.flags[r] |= isNamed
				if c.o.Only == nil || c.o.Only(rec.Path) {
					e.name(rec.Path.String(), KindContent, "content %d: %s", n, t.why(r))
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for r, f := range t.flags {
		// A record that cannot be read was reported itself.
		if t.bad.has(r) && f&isNamed == 0 && t.size[r] > 0 {
			c.find(KindContent, -1, "content %d, which no entry that can be read has: %s", t.num[r], t.why(r))
		}
	}
	return nil
}

// freePass reads the free tree.
func (c *checker) freePass() error {
	var last index.FreeExtent
	checked := int64(0) // up to where wiped extents were read: what overlaps is not read again
	return c.walk(index.Free, false, func(key, value []byte) error {
		f, err := index.DecodeFree(key, value)
		if err != nil {
			c.broken[index.Free] = true
			return c.damage(KindNode, -1, fmt.Errorf("tree free, key %s: %w", index.Free.KeyText(key, "0"), err))
		}
		if !c.extentOK(f.Ext) {
			c.broken[index.Free] = true
			c.find(KindOwnership, f.Ext.Off, "a free extent of %d bytes is not made of sectors inside the archive", f.Ext.Len)
			return nil
		}
		c.owners.add(f.Ext, ownFree, 0)
		if f.Gen > c.super.Generation {
			c.find(KindOwnership, f.Ext.Off, "a free extent was retired by generation %d, which is still to come", f.Gen)
		}
		if f.State == index.FreeWiped {
			if last.State == index.FreeWiped && last.Ext.Len > 0 && last.Ext.End() == f.Ext.Off {
				c.find(KindOwnership, f.Ext.Off, "two wiped free extents that touch")
			}
			c.got.FreeBytes += uint64(f.Ext.Len)
			if c.o.Full && f.Ext.Off >= checked {
				checked = f.Ext.End()
				if c.portion != nil {
					c.portion.wiped = append(c.portion.wiped, f.Ext)
				} else if _, err := c.zero(format.Extent{Off: f.Ext.Off, Len: min(f.Ext.Len, max(c.size-f.Ext.Off, 0))}, "a wiped free extent"); err != nil {
					return err
				} else {
					c.rep.advance(f.Ext.Len)
				}
			}
		} else {
			c.got.Pending++
		}
		last = f
		return nil
	})
}
