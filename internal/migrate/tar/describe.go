package tar

import (
	"errors"
	"fmt"
	"strings"

	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
)

// oldDir reports a directory of before there was a kind for them.
func (h *header) oldDir() bool { return h.kind == typeOldFile && strings.HasSuffix(h.name, "/") }

// headerOnly reports the kinds after which no data come, whatever the header's size says.
func headerOnly(kind byte) bool {
	switch kind {
	case typeLink, typeSymlink, typeChar, typeBlock, typeDir, typeFIFO:
		return true
	}
	return false
}

// describe fills in what a header says.
func describe(e *source.Entry, h *header) (err error) {
	en := &e.Entry
	if en.Path, err = source.Path(h.name, true); err != nil {
		return err
	}
	en.Mode = uint32(h.mode & 0o7777)
	if h.uid >= 0 && h.gid >= 0 {
		en.HasOwner, en.UID, en.GID = true, uint64(h.uid), uint64(h.gid)
	} else {
		e.Lost = append(e.Lost, "its owner, who has a negative number")
	}
	en.User, en.Group = h.user, h.group
	switch h.kind {
	case typeFile, typeOldFile, typeCont, typeSparse:
		en.Kind = index.File
		if h.oldDir() {
			en.Kind = index.Dir
		}
	case typeLink:
		en.Kind = index.File
		if e.LinkTo, err = source.Path(h.link, true); err != nil {
			return fmt.Errorf("the file that it is another name of: %w", err)
		}
		if e.LinkTo.IsZero() || e.LinkTo == en.Path {
			return corrupt(-1, "it is another name of itself, or of nothing")
		}
	case typeSymlink:
		en.Kind = index.Symlink
		if en.Target = h.link; en.Target == "" {
			return corrupt(-1, "the symbolic link leads nowhere")
		}
	case typeChar, typeBlock:
		en.Kind = index.CharDevice
		if h.kind == typeBlock {
			en.Kind = index.BlockDevice
		}
		if h.major < 0 || h.minor < 0 {
			return corrupt(-1, "its device number is negative")
		}
		en.HasDevice, en.Major, en.Minor = true, uint64(h.major), uint64(h.minor)
	case typeDir, typeDump:
		en.Kind = index.Dir
	case typeFIFO:
		en.Kind = index.FIFO
	case typePart:
		return errors.New("it is a file that another volume of the archive begins")
	default:
		return fmt.Errorf("it is of the unknown kind %q", h.kind)
	}
	if en.Path.IsZero() && en.Kind != index.Dir {
		return errors.New("it is no directory, and has the name of the top")
	}
	return nil
}
