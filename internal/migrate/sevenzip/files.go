package sevenzip

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
)

// Windows attributes, and the bit by which 7z says that a Unix mode stands in the upper half.
const (
	attrReadOnly = 0x1
	attrDir      = 0x10
	attrReparse  = 0x400
	attrUnix     = 0x8000
)

// file is one record of the directory. Names stay as they are in the header until they are needed.
type file struct {
	name              []byte // UTF-16
	created, modified uint64 // 100 ns since 1601
	attributes        uint32
	stream            int
	hasStream         bool
	dir, anti         bool
	hasCreated        bool
	hasModified       bool
	hasAttributes     bool
}

func (h *header) parseFiles(c *format.Cursor, most int) error {
	v := number(c)
	if v > uint64(most) {
		if most < maxFiles {
			return source.TooManyEntries(int64(most))
		}
		return limit("entries", most)
	}
	n := int(v)
	// A name takes two bytes and more, so a short header cannot ask for much.
	if n > c.Len() {
		return corrupt("%d files do not fit into it", n)
	}
	h.files = make([]file, n)
	for i := range h.files {
		h.files[i].hasStream = true
	}
	var empty []int // files without a stream
	for c.Err() == nil {
		id := c.U8()
		if id == idEnd {
			break
		}
		p := format.NewCursor(c.Bytes(count(c, c.Len(), "bytes")), "7z header", -1)
		switch id {
		case idEmptyStream:
			if empty != nil {
				p.Fail("it says twice which files are empty")
			}
			m := bitmap(p, n)
			for i := range h.files {
				if p.Err() == nil && bit(m, i) {
					h.files[i].hasStream, h.files[i].dir = false, true
					empty = append(empty, i)
				}
			}
		case idEmptyFile, idAnti:
			m := bitmap(p, len(empty))
			for k, i := range empty {
				if p.Err() == nil && bit(m, k) {
					if id == idEmptyFile {
						h.files[i].dir = false
					} else {
						h.files[i].anti = true
					}
				}
			}
		case idNames:
			h.parseNames(p)
		case idCreated:
			each(p, n, func(i int) { h.files[i].created, h.files[i].hasCreated = p.U64(), true })
		case idModified:
			each(p, n, func(i int) { h.files[i].modified, h.files[i].hasModified = p.U64(), true })
		case idAccessed:
			each(p, n, func(int) { p.U64() })
		case idAttributes:
			each(p, n, func(i int) { h.files[i].attributes, h.files[i].hasAttributes = p.U32(), true })
		case idStartPos, idDummy:
			p = nil // the one says where to begin in a file that was once split, the other fills up
		default:
			p = nil
			h.unknown = append(h.unknown, fmt.Sprintf("what it says of its files in a part of the unknown kind %d", id))
			if len(h.unknown) > 100 {
				return corrupt("too many parts of unknown kinds")
			}
		}
		if p != nil {
			if err := p.Done(); err != nil {
				return err
			}
		}
	}
	return c.Err()
}

// each reads a value for every file that has one.
func each(p *format.Cursor, n int, read func(i int)) {
	m := defined(p, n)
	if p.U8() != 0 {
		p.Fail("a part of it stands in a stream of its own")
	}
	for i := range n {
		if p.Err() != nil {
			return
		}
		if m == nil || bit(m, i) {
			read(i)
		}
	}
}

func (h *header) parseNames(p *format.Cursor) {
	if p.U8() != 0 {
		p.Fail("names stand in a stream of their own")
	}
	b := p.Bytes(p.Len())
	for i := range h.files {
		end := 0
		for end+1 < len(b) && (b[end] != 0 || b[end+1] != 0) {
			end += 2
		}
		if end+1 >= len(b) {
			p.Fail("fewer names than files")
			return
		}
		h.files[i].name, b = b[:end], b[end+2:]
	}
	if len(b) != 0 {
		p.Fail("more names than files")
	}
}

// text is the name in UTF-8. Halves of pairs that stand alone are kept in the form that UTF-8 would give them, so that
// two names that differ stay different.
func (f *file) text() string {
	b := make([]byte, 0, len(f.name))
	at := func(i int) rune { return rune(f.name[i]) | rune(f.name[i+1])<<8 }
	for i := 0; i+1 < len(f.name); i += 2 {
		r := at(i)
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+3 < len(f.name) {
				pair = utf16.DecodeRune(r, at(i+2))
			}
			if pair == utf8.RuneError {
				b = append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
				continue
			}
			r = pair
			i += 2
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

// unix says that a Unix system wrote the record.
func (f *file) unix() bool { return f.hasAttributes && f.attributes&attrUnix != 0 }

// describe fills in what the record says. Size and target are the stream's matter.
func (f *file) describe(e *source.Entry) error {
	x := &e.Entry
	if f.hasModified {
		x.HasMtime = true
		x.MtimeSec, x.MtimeNsec = source.WindowsTime(f.modified)
	}
	if f.anti {
		return fmt.Errorf("it is an order to delete a file of this name, which no archive but 7z knows")
	}
	if !f.unix() {
		if f.hasCreated {
			x.HasBirth = true
			x.BirthSec, x.BirthNsec = source.WindowsTime(f.created)
		}
		x.Kind, x.Mode = index.File, 0o644
		if f.attributes&attrReadOnly != 0 {
			x.Mode = 0o444
		}
		if f.dir {
			x.Kind, x.Mode = index.Dir, 0o755
		}
		if f.hasAttributes {
			x.HasWinAttrs, x.WinAttrs = true, uint64(f.attributes&0xffff&^attrDir)
		}
		if f.attributes&attrReparse != 0 {
			return fmt.Errorf("it is a link of Windows, whose content only Windows understands")
		}
		return nil
	}
	mode, none := f.attributes>>16, index.File
	if f.dir {
		none = index.Dir
	}
	x.Mode = mode & 0o7777
	switch x.Kind = source.UnixKind(uint64(mode), none); x.Kind {
	case index.Socket:
		return fmt.Errorf("it is a socket, which only a running program can make")
	case index.CharDevice, index.BlockDevice, 0:
		return fmt.Errorf("it is a device, and 7z does not say which")
	}
	if f.dir != (x.Kind == index.Dir) {
		return corrupt("%q is a directory by one field and none by another", f.text())
	}
	return nil
}
