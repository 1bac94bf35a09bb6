package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"

	"lockbox/internal/format"
	"lockbox/internal/hostfs"
	"lockbox/internal/index"
)

// change is what a directory is, seen from the archive.
type change int

const (
	unchanged change = iota
	added
	removed
	typeChanged
	modified
	metadataChanged
	changeKinds
)

var changeWords = [changeKinds]string{"unchanged", "added", "removed", "type", "modified", "metadata"}

// compare finds out what differs without reading a file. Where that does not tell, it asks for the bytes.
func (d *differ) compare(ctx context.Context, c *comparison) error {
	e, it := c.entry, c.item
	switch {
	case c.err != nil:
		return nil
	case e == nil:
		c.change = added
		return nil
	case it == nil:
		c.change = removed
		return nil
	case hostfs.Kind(e.Kind) != it.Kind:
		c.change, c.fields = typeChanged, []string{"type"}
		return nil
	}
	content := false
	switch {
	case e.Kind == index.File && e.Size != it.Size:
		c.fields, content = append(c.fields, "size"), true
	case e.Kind == index.Symlink && e.Target != it.Target:
		c.fields, content = append(c.fields, "target"), true
	case e.HasDevice && (e.Major != it.Major || e.Minor != it.Minor):
		c.fields, content = append(c.fields, "device"), true
	}
	c.fields = append(c.fields, d.metadataFields(e, &it.Meta)...)
	if c.stored, c.found = d.links.firsts(c); c.stored != c.found {
		c.fields = append(c.fields, "links")
	}
	same, err := d.sameXattrs(ctx, c)
	switch {
	case err != nil:
		return err
	case c.err != nil:
		c.fields = nil
		return nil
	case !same:
		c.fields = append(c.fields, "xattrs")
	}
	switch {
	case content:
		c.change = modified
	case len(c.fields) > 0:
		c.change = metadataChanged
	}
	if d.opt.content && e.Kind == index.File && !content {
		c.done = make(chan struct{})
		if len(e.Sparse) == 0 {
			var err error
			if c.digest, err = d.ar.Digest(e); err != nil {
				return fmt.Errorf("the digest of %s: %w", quoted(e.Path.String()), err)
			}
		}
	}
	return nil
}

// metadataFields names what differs beside the bytes. What a system does not keep is not compared.
func (d *differ) metadataFields(e *index.Entry, m *hostfs.Meta) (fields []string) {
	link := e.Kind == index.Symlink
	if !link && runtime.GOOS != "windows" && e.Mode != m.Mode {
		fields = append(fields, "mode")
	}
	if e.HasMtime && (e.MtimeSec != m.MtimeSec || e.MtimeNsec != m.MtimeNsec) && (!link || runtime.GOOS == "linux") {
		fields = append(fields, "mtime")
	}
	if d.opt.owners && e.HasOwner && m.HasOwner {
		if e.UID != m.UID {
			fields = append(fields, "uid")
		}
		if e.GID != m.GID {
			fields = append(fields, "gid")
		}
	}
	return fields
}

// sameXattrs compares extended attributes, access control lists among them, where the system has any. An entry with neither
// an owner nor attributes, as --reproducible stores it, says nothing of them. What cannot be read, on the disk or
// because it is damaged in the archive, is the comparison's error.
func (d *differ) sameXattrs(ctx context.Context, c *comparison) (bool, error) {
	e, it := c.entry, c.item
	if e.Kind == index.Symlink || runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return true, nil
	}
	if !e.HasOwner && len(e.Xattrs) == 0 && e.XattrsContent == 0 {
		return true, nil
	}
	if c.err = it.XattrErr; e.Kind == index.File {
		c.err = it.LoadXattrs()
	}
	if c.err != nil {
		return true, nil
	}
	stored, err := d.ar.Xattrs(ctx, e)
	if errors.Is(err, format.ErrCorrupt) {
		c.err = fmt.Errorf("its extended attributes: %w", unnamed(err, e))
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("the extended attributes of %s: %w", quoted(e.Path.String()), unnamed(err, e))
	}
	return bytes.Equal(index.AppendXattrs(nil, stored), index.AppendXattrs(nil, storedXattrs(it.Xattrs))), nil
}

// compareBytes reads a file, and completes what compare has begun.
func (d *differ) compareBytes(ctx context.Context, c *comparison) {
	f, err := c.item.Open()
	if err == nil {
		err = sameBytes(ctx, d.ar, c.entry, c.digest, f)
		err = errors.Join(err, f.Close())
	}
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled), errors.Is(err, format.ErrAuth):
		c.fatal = err
	case errors.Is(err, errDiffers):
		c.change, c.fields = modified, append([]string{"content"}, c.fields...)
	default:
		c.change, c.err = unchanged, err
	}
}
