package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// appendLong appends what stands before the name.
func (l *lister) appendLong(b []byte, e *index.Entry, link bool) []byte {
	b = appendMode(b, e)
	if link {
		b[len(b)-modeLen] = 'h'
	}
	switch {
	case hasXattrs(e):
		b = append(b, '+')
	case l.plus:
		b = append(b, ' ')
	}
	b = append(b, ' ')
	if l.owner > 0 {
		start := len(b)
		b = append(l.owner.pad(appendOwner(b, e), start), ' ')
	}
	var size [64]byte
	text := appendSize(size[:0], e)
	for range int(l.size) - len(text) {
		b = append(b, ' ')
	}
	b = append(b, text...)
	return append(appendLocalTime(append(b, ' '), e), ' ')
}

func hasXattrs(e *index.Entry) bool { return e.Xattrs != nil || e.XattrsContent != 0 }

// appendOwner appends user and group, by name where they have one, or nothing where no owner is stored.
func appendOwner(b []byte, e *index.Entry) []byte {
	if !e.HasOwner && e.User == "" && e.Group == "" {
		return b
	}
	one := func(name string, id uint64) {
		switch {
		case name != "":
			b = append(b, pathsafe.Quote(name)...)
		case e.HasOwner:
			b = strconv.AppendUint(b, id, 10)
		default:
			b = append(b, '-')
		}
	}
	one(e.User, e.UID)
	b = append(b, '/')
	one(e.Group, e.GID)
	return b
}

// appendSize appends a size, what a device has in its place, or a dash for what has none.
func appendSize(b []byte, e *index.Entry) []byte {
	switch {
	case e.HasDevice:
		b = append(strconv.AppendUint(b, e.Major, 10), ", "...)
		return strconv.AppendUint(b, e.Minor, 10)
	case e.Kind == index.File || e.Kind == index.Symlink:
		return append(b, humanBytes(sizeOf(e))...)
	}
	return append(b, '-')
}

const modeLen = 10

// appendMode appends modeLen characters as ls has them.
func appendMode(b []byte, e *index.Entry) []byte {
	types := [...]byte{index.File: '-', index.Dir: 'd', index.Symlink: 'l', index.FIFO: 'p', index.CharDevice: 'c', index.BlockDevice: 'b', index.Socket: 's'}
	c := byte('?')
	if int(e.Kind) < len(types) && types[e.Kind] != 0 {
		c = types[e.Kind]
	}
	b = append(b, c)
	const letters = "rwxrwxrwx"
	start := len(b)
	for i := range letters {
		if e.Mode&(1<<(8-i)) != 0 {
			b = append(b, letters[i])
		} else {
			b = append(b, '-')
		}
	}
	for _, s := range []struct {
		bit   uint32
		at    int
		with  byte
		alone byte
	}{{0o4000, 2, 's', 'S'}, {0o2000, 5, 's', 'S'}, {0o1000, 8, 't', 'T'}} {
		if e.Mode&s.bit == 0 {
			continue
		}
		if b[start+s.at] == 'x' {
			b[start+s.at] = s.with
		} else {
			b[start+s.at] = s.alone
		}
	}
	return b
}

const timeLayout = "2006-01-02 15:04:05"

func appendLocalTime(b []byte, e *index.Entry) []byte {
	start := len(b)
	switch {
	case !e.HasMtime:
		b = append(b, '-')
	case !fourDigits(e.MtimeSec):
		b = strconv.AppendInt(append(b, '@'), e.MtimeSec, 10)
	default:
		b = time.Unix(e.MtimeSec, int64(e.MtimeNsec)).AppendFormat(b, timeLayout)
	}
	return column(len(timeLayout)).pad(b, start)
}

func (l *lister) formatJSON(ctx context.Context, e *index.Entry) error {
	kind, first := e.Kind.String(), l.firstName(e)
	if first != "" {
		kind = "hardlink"
	}
	o := l.object.begin().bytes("path", e.Path.String()).str("type", kind).int("size", sizeOf(e))
	o.key("mode")
	o.b = append(o.b, '"', '0'+byte(e.Mode>>9&7), '0'+byte(e.Mode>>6&7), '0'+byte(e.Mode>>3&7), '0'+byte(e.Mode&7), '"')
	o.time("mtime", e.HasMtime, e.MtimeSec, e.MtimeNsec)
	o.time("birth", e.HasBirth, e.BirthSec, e.BirthNsec)
	if e.HasOwner {
		o.uint("uid", e.UID).uint("gid", e.GID)
	}
	if e.User != "" {
		o.bytes("user", e.User)
	}
	if e.Group != "" {
		o.bytes("group", e.Group)
	}
	switch {
	case first != "":
		o.bytes("target", first)
	case e.Kind == index.Symlink:
		o.bytes("target", e.Target)
	}
	if e.HasDevice {
		o.uint("major", e.Major).uint("minor", e.Minor)
	}
	if e.Kind == index.File {
		d, err := l.digest(e)
		if err != nil {
			return err
		}
		o.key("digest")
		o.b = append(appendHex(append(o.b, '"'), d), '"')
		if e.Sparse != nil {
			o.bool("sparse", true)
		}
	}
	xattrs, err := l.ar.Xattrs(ctx, e)
	if err != nil {
		err = fmt.Errorf("the extended attributes of %s: %w", quoted(e.Path.String()), unnamed(err, e))
		if !errors.Is(err, format.ErrCorrupt) {
			return err
		}
		l.a.fail(err) // they are bytes that the index only leads to; what it says itself is all there
	}
	if xattrs != nil {
		o.list("xattrs")
		for _, x := range xattrs {
			o.item().bytes("name", x.Name).str("value", base64.StdEncoding.EncodeToString(x.Value)).close()
		}
		o.endList()
	}
	if e.HasWinAttrs {
		o.uint("windows_attributes", e.WinAttrs)
	}
	if e.HasBSDFlags {
		o.uint("bsd_flags", e.BSDFlags)
	}
	l.line = o.line()
	return nil
}

// sizeOf is an entry's size as systems have it: of a link, the length of its target.
func sizeOf(e *index.Entry) int64 {
	if e.Kind == index.Symlink {
		return int64(len(e.Target))
	}
	return e.Size
}
