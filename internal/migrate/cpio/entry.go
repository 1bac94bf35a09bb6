package cpio

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/migrate/unpack"
)

// describe makes an entry of a header, all but a file's content.
func describe(s *stream, h *header, name string) *source.Entry {
	e := &source.Entry{Name: name}
	x := &e.Entry
	x.Path, e.Err = source.Path(name, true)
	x.Mode = uint32(h.mode & 0o7777)
	x.HasMtime, x.MtimeSec = true, h.mtime
	x.HasOwner, x.UID, x.GID = true, h.uid, h.gid
	if e.Err != nil {
		return e
	}
	switch x.Kind = source.UnixKind(h.mode, index.File); x.Kind {
	case index.Symlink:
		x.Target, e.Err = target(s.cur)
	case index.CharDevice, index.BlockDevice:
		x.HasDevice, x.Major, x.Minor = true, h.major, h.minor
	case index.Socket:
		e.Err = errors.New("it is a socket, which only a running program can make")
	case 0:
		e.Err = fmt.Errorf("it is of a kind that is not known (mode %o)", h.mode)
	}
	switch {
	case e.Err != nil:
	case x.Path.IsZero() && x.Kind != index.Dir:
		e.Err = errors.New("it is no directory, and has the name of the top")
	case h.size > 0 && x.Kind != index.File && x.Kind != index.Symlink:
		e.Err = format.Corrupt("cpio header", -1, "a %v with content", x.Kind)
	}
	return e
}

// target reads what a symbolic link points to, which is its content.
func target(c *content) (string, error) {
	if c.left > format.MaxTarget {
		return "", format.Corrupt("cpio header", -1, "the target of the symbolic link is %d bytes long", c.left)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	// Some programs count a zero byte behind it.
	s := strings.TrimSuffix(string(b), "\x00")
	if s == "" || strings.IndexByte(s, 0) >= 0 {
		return "", format.Corrupt("cpio header", -1, "the target of the symbolic link is empty or has a zero byte")
	}
	return s, nil
}

// inode is what names of one file have in common.
type inode struct {
	archive  int
	dev, ino uint64
}

// group is the names of one file.
type group struct {
	names   uint64          // as many as the headers say there are
	waiting []*source.Entry // without data, before the one that has it
	main    *source.Entry
	content *content // of main
}

type links map[inode]*group

// add returns the entries that can be given out once h was read: none, when it is a name of a file whose data is still
// to come; one; or that of the data, and behind it those that have waited.
func (l links) add(s *stream, h *header, name string) []*source.Entry {
	e := describe(s, h, name)
	if e.Err != nil || e.Entry.Kind != index.File {
		return []*source.Entry{e}
	}
	e.Entry.Size, e.Open = h.size, s.cur.open
	if h.nlink <= 1 {
		return []*source.Entry{e}
	}
	s.cur.digest = sha256.New()
	k := inode{s.number, h.dev, h.ino}
	g := l[k]
	if g == nil {
		g = &group{names: h.nlink}
		l[k] = g
	}
	switch {
	case g.main != nil:
		e.Err = g.join(s.ctx, e, s.cur)
		return []*source.Entry{e}
	case h.size == 0:
		g.waiting = append(g.waiting, e)
		if uint64(len(g.waiting)) < g.names {
			return nil
		}
		return g.empty()
	}
	g.main, g.content = e, s.cur
	return g.release([]*source.Entry{e})
}

// release lets those that wait follow the one with the data.
func (g *group) release(list []*source.Entry) []*source.Entry {
	for _, w := range g.waiting {
		link(w, g.main)
	}
	list = append(list, g.waiting...)
	g.waiting = nil
	return list
}

// empty makes a file without data of the first that waits.
func (g *group) empty() []*source.Entry {
	g.main = g.waiting[0]
	g.waiting = g.waiting[1:]
	g.main.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }
	return g.release([]*source.Entry{g.main})
}

func link(e, to *source.Entry) {
	e.LinkTo, e.Open = to.Entry.Path, nil
	e.Entry.Size = 0
}

// join makes e, which comes behind the data, another name of it. The older layouts have the data with every name; it
// must be the same, for numbers of inodes in them are short and need not be unique.
func (g *group) join(ctx context.Context, e *source.Entry, c *content) error {
	if c.left > 0 {
		if err := unpack.Drain(ctx, c); err != nil {
			return err
		}
		if g.content == nil || g.main.Entry.Size != e.Entry.Size || g.content.left > 0 || string(g.content.digest.Sum(nil)) != string(c.digest.Sum(nil)) {
			return fmt.Errorf("it says that it is the same file as %q, and has other bytes", g.main.Name)
		}
	}
	link(e, g.main)
	return nil
}

// rest gives out what still waits when the last archive has ended: names of files without data.
func (l links) rest(yield func(*source.Entry, error) bool) {
	for _, g := range l.ordered() {
		for _, e := range g.empty() {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// cut gives out what still waits where an archive cannot be read further: names whose data were to come.
func (l links) cut(yield func(*source.Entry, error) bool) bool {
	for _, g := range l.ordered() {
		for _, e := range g.waiting {
			if e.Err = format.Corrupt("cpio archive", -1, "the data of the file stand behind what can be read"); !yield(e, nil) {
				return false
			}
		}
	}
	return true
}

// ordered lists the groups that wait, always in the same order.
func (l links) ordered() []*group {
	var list []*group
	for _, k := range slices.SortedFunc(maps.Keys(l), func(a, b inode) int {
		return cmp.Or(cmp.Compare(a.archive, b.archive), cmp.Compare(a.dev, b.dev), cmp.Compare(a.ino, b.ino))
	}) {
		if len(l[k].waiting) > 0 {
			list = append(list, l[k])
		}
	}
	return list
}
