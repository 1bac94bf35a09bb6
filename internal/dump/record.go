package dump

import (
	"fmt"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// shown is how many parts of one record are printed.
const shown = 16

// parts joins what of gives for the first of n parts.
func parts(n int, of func(i int) string) string {
	var b strings.Builder
	for i := range min(n, shown) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(of(i))
	}
	if n > shown {
		fmt.Fprintf(&b, " and %d more", n-shown)
	}
	return b.String()
}

// entryText is all that an entry's record holds.
func entryText(e *index.Entry) string {
	var b strings.Builder
	field := func(has bool, text string, args ...any) {
		if has {
			fmt.Fprintf(&b, ", "+text, args...)
		}
	}
	fmt.Fprintf(&b, "%v, mode %04o", e.Kind, e.Mode)
	field(e.Kind == index.File, "%d bytes", e.Size)
	field(e.Content != 0, "content %d", e.Content)
	field(e.Kind == index.Symlink, `target "%s"`, pathsafe.Quote(e.Target))
	field(e.HasMtime, "modified %d.%09d", e.MtimeSec, e.MtimeNsec)
	field(e.HasBirth, "born %d.%09d", e.BirthSec, e.BirthNsec)
	field(e.HasOwner, "owner %d:%d", e.UID, e.GID)
	field(e.User != "", `user "%s"`, pathsafe.Quote(e.User))
	field(e.Group != "", `group "%s"`, pathsafe.Quote(e.Group))
	field(e.LinkGroup != 0, "link group %d", e.LinkGroup)
	field(e.HasDevice, "device %d:%d", e.Major, e.Minor)
	field(e.Sparse != nil, "sparse (data and hole): %s", parts(len(e.Sparse), func(i int) string {
		return fmt.Sprintf("%d %d", e.Sparse[i].Data, e.Sparse[i].Hole)
	}))
	field(e.Xattrs != nil, "attributes: %s", parts(len(e.Xattrs), func(i int) string {
		return fmt.Sprintf(`"%s" of %d bytes`, pathsafe.Quote(e.Xattrs[i].Name), len(e.Xattrs[i].Value))
	}))
	field(e.XattrsContent != 0, "attributes in content %d", e.XattrsContent)
	field(e.HasWinAttrs, "Windows attributes %#x", e.WinAttrs)
	field(e.HasBSDFlags, "BSD flags %#x", e.BSDFlags)
	field(len(e.Unknown) > 0, "%d bytes of fields that this version does not know", len(e.Unknown))
	return b.String()
}

// contentText is a content's record. In an encrypted archive the digest is as secret as the content.
func (d *dumper) contentText(c *index.Content) string {
	return fmt.Sprintf("%d bytes, %d references, digest %v, in %s", c.Size, c.Refs, c.Digest, parts(len(c.Runs), func(i int) string {
		r := &c.Runs[i]
		if r.Unit == 0 {
			return fmt.Sprintf("frame %d at %d for %d", r.Frame, r.Off, r.Len)
		}
		return fmt.Sprintf("frames %d to %d, %d of %d each", r.Frame, r.Frame+r.Frames()-1, r.Len, r.Unit)
	}))
}

// buffers are used for one frame after the other.
type buffers struct{ stored, plain []byte }

// frame prints a frame's record and what its bytes say to it.
func (w *walker) frame(depth int, number uint64, f *index.Frame) error {
	codec := "raw"
	if f.Codec == frames.Zstd {
		codec = "zstd"
	}
	if f.BlockShift != 0 {
		codec += fmt.Sprintf(" in %d blocks of %d", f.Blocks(), 1<<f.BlockShift)
	}
	kind := ""
	if f.Class != index.NoClass {
		kind = fmt.Sprintf(", pack of class %d", f.Class)
	}
	w.line(depth, "%d  %s: %s%s, %d bytes stored as %d, attempt %v, commitment %x, contents %s", number, extentText(f.Ext), codec, kind,
		f.Plain, f.Stored, f.Attempt, f.Commitment[:w.suite.TagSize()], parts(len(f.Contents), func(i int) string { return fmt.Sprint(f.Contents[i]) }))
	what := fmt.Sprintf("frame %d", number)
	// Frames own their bytes. Reading all of those that overlap could take for ever.
	if w.owned += f.Ext.Len; !w.within(f.Ext) || w.owned > w.size {
		return w.broken(depth+1, what, format.Corrupt("frame", f.Ext.Off, "outside the archive, or the frames take more than the file has"))
	}
	info := frames.Info{
		Number: number, Attempt: f.Attempt, Codec: f.Codec, BlockShift: f.BlockShift, Class: f.Class,
		Plain: f.Plain, Stored: f.Stored, MemberTable: f.MemberTable, Commitment: f.Commitment,
	}
	members, err := w.checkFrame(&info, f)
	if err != nil {
		return w.broken(depth+1, what, err)
	}
	w.line(depth+1, "verified: %s", parts(len(members), func(i int) string {
		return fmt.Sprintf("content %d from %d for %d", members[i].Content, members[i].Off, members[i].Len)
	}))
	return nil
}

// checkFrame reads a frame without its fill, and checks its header and everything it holds.
func (d *dumper) checkFrame(info *frames.Info, f *index.Frame) ([]frames.Member, error) {
	tag := d.suite.TagSize()
	ext := resize(&d.buf.stored, int(info.Used(tag)))
	if err := d.read(ext, f.Ext.Off, "frame"); err != nil {
		return nil, err
	}
	members, err := frames.CheckHeader(ext, d.suite, d.super.Archive, info, f.Ext.Off)
	if err != nil {
		return nil, err
	}
	at := frames.HeaderSize(tag)
	stored := ext[at : at+int(info.Stored) : at+int(info.Stored)]
	if info.BlockShift == 0 {
		checked, err := frames.Check(d.suite, d.super.Archive, info, stored)
		if err != nil {
			return nil, err
		}
		return members, checked.Decode(resize(&d.buf.plain, int(info.Plain)))
	}
	at += int(info.Stored)
	table, err := frames.CheckTable(d.suite, d.super.Archive, info, ext[at:at+info.TableSize(tag)])
	if err != nil {
		return nil, err
	}
	return members, table.Open(0, stored)
}

func resize(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	return (*b)[:n]
}
