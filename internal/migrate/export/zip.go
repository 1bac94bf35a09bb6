package export

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zip"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// zipWriter writes ZIP archives as a stream: lengths and check sums stand behind each entry.
type zipWriter struct {
	shared
	z *zip.Writer
}

func newZipWriter(w io.Writer, s shared) *zipWriter { return &zipWriter{s, zip.NewWriter(w)} }

// maxName is how long a name can be in a ZIP archive.
const maxName = 1<<16 - 2

func (z *zipWriter) entry(ctx context.Context, e *index.Entry, first pathsafe.Path) error {
	h := &zip.FileHeader{Name: e.Path.String(), Method: zip.Store}
	mode := fs.FileMode(e.Mode & 0o777)
	for bit, m := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if e.Mode&bit != 0 {
			mode |= m
		}
	}
	switch e.Kind {
	case index.File:
		h.Method = zip.Deflate
	case index.Dir:
		h.Name += "/"
		mode |= fs.ModeDir
	case index.Symlink:
		mode |= fs.ModeSymlink
	default:
		z.left(e, "ZIP has no special files")
		return nil
	}
	if len(h.Name) > maxName {
		z.left(e, "its name is too long for ZIP")
		return nil
	}
	h.SetMode(mode)
	z.times(e, h)
	if e.HasOwner {
		h.Extra = append(h.Extra, owner(e)...)
	}
	z.losses(e, first)
	w, err := z.z.CreateHeader(h)
	if err != nil {
		return err
	}
	z.sum.Entries++
	switch {
	case e.Kind == index.Symlink:
		_, err = io.WriteString(w, e.Target)
	case e.Kind == index.File && e.Size > 0:
		f, err := z.ar.Open(e)
		if err != nil {
			return err
		}
		return z.copy(ctx, w, f, 0, e.Size)
	}
	return err
}

// times writes the time in both ways, the second one exact and without a time zone.
func (z *zipWriter) times(e *index.Entry, h *zip.FileHeader) {
	if !e.HasMtime {
		return
	}
	if e.MtimeSec < -1<<31 || e.MtimeSec >= 1<<31 {
		z.lost(e, "its time, which ZIP cannot write")
		return
	}
	h.Modified = time.Unix(e.MtimeSec, 0)
}

// owner is Info-ZIP's field for owners by number.
func owner(e *index.Entry) []byte {
	b := []byte{0x75, 0x78, 19, 0, 1, 8}
	b = binary.LittleEndian.AppendUint64(b, e.UID)
	return binary.LittleEndian.AppendUint64(append(b, 8), e.GID)
}

func (z *zipWriter) losses(e *index.Entry, first pathsafe.Path) {
	if len(e.Xattrs) > 0 || e.XattrsContent != 0 {
		z.lost(e, "its extended attributes")
	}
	if !first.IsZero() {
		z.lost(e, "that it is another name of "+pathsafe.Quote(first.String())+": it is written as a copy")
	}
	if !utf8.ValidString(e.Path.String()) {
		z.lost(e, "a name that all programs read alike: it is not UTF-8")
	}
	if e.HasBSDFlags {
		z.lost(e, "its BSD flags")
	}
}

// broken does nothing: without a directory it is no archive.
func (z *zipWriter) broken() {}

func (z *zipWriter) end() error { return z.z.Close() }
