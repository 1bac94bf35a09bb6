package dump

import (
	"bytes"
	"errors"
	"fmt"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// errEnough ends the walk of a tree of which as much was printed as was asked for.
var errEnough = errors.New("enough")

// noKey is what is printed for a key without a byte, as the separator before a tree's first node is.
const noKey = "the first"

// walker prints one tree, parents before children.
type walker struct {
	*dumper
	t     index.Tree
	items uint64 // printed
	nodes int
	bytes int64 // of nodes
	owned int64 // bytes of frames
}

func (d *dumper) tree(t index.Tree, root index.Root) error {
	d.line(0, "tree %v: %d items, %d levels", t, root.Count, root.Height)
	if root.Height == 0 {
		return nil
	}
	damaged := d.sum.Damaged
	w := &walker{dumper: d, t: t}
	err := w.node(int(root.Height)-1, 1, root.Ref, nil)
	switch {
	case errors.Is(err, errEnough):
		d.more(1, root.Count, w.items)
	case err != nil:
		return err
	case d.sum.Damaged == damaged && w.items != root.Count:
		return d.broken(1, "tree", format.Corrupt("", -1, "it has %d items where its root says %d", w.items, root.Count))
	}
	return nil
}

// node prints a node and what is below it. lower is the separator that its parent has before it.
func (w *walker) node(level, depth int, ref index.Ref, lower []byte) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.nodes++; w.o.Limit > 0 && w.nodes > w.o.Limit {
		return errEnough
	}
	ext := format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), w.super.Sector)}
	where := fmt.Sprintf("node %s, level %d, from %s", extentText(ext), level, w.t.KeyText(lower, noKey))
	if w.bytes += int64(ref.Len); !w.within(ext) || w.bytes > w.size {
		// Nodes own their bytes: without the second bound a hostile tree could make the walk endless.
		return w.broken(depth, where, format.Corrupt("node", ref.Off, "outside the archive, or its nodes take more than the file has"))
	}
	n, err := w.load(level, &ref)
	if err != nil {
		return w.broken(depth, where, err)
	}
	w.line(depth, "%s: %d items in %d bytes, sequence %d of attempt %v, tag %x", where, n.Len(), ref.Len, ref.Seq, ref.Attempt, ref.Tag[:w.suite.TagSize()])
	s := n.Scan()
	for s.Next() {
		if level > 0 {
			child, err := s.Ref()
			if err != nil {
				return w.broken(depth+1, "reference", err)
			}
			if err := w.node(level-1, depth+1, child, bytes.Clone(s.Key())); err != nil {
				return err
			}
			continue
		}
		if w.o.Limit > 0 && w.items == uint64(w.o.Limit) {
			return errEnough
		}
		w.items++
		if err := w.item(depth+1, s.Key(), s.Value()); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return w.broken(depth+1, "item", err)
	}
	return nil
}

// load reads a node and checks all of it but the values of a leaf.
func (w *walker) load(level int, ref *index.Ref) (*index.Node, error) {
	buf := make([]byte, index.StoredLen(w.suite, ref.Len, w.super.Sector))
	if err := w.read(buf, ref.Off, "node"); err != nil {
		return nil, err
	}
	b, ok := index.OpenNode(w.suite, w.super.Archive, w.t, ref, buf)
	if !ok {
		return nil, format.Corrupt("node", ref.Off, "tag does not verify")
	}
	n, err := index.ParseNode(b, w.t, level, w.suite.TagSize(), ref.Off)
	if err == nil {
		err = n.Check()
	}
	return n, err
}

// item prints one record.
func (w *walker) item(depth int, key, value []byte) error {
	var text string
	var err error
	switch w.t {
	case index.Entries:
		var e index.Entry
		if e, err = index.DecodeEntry(key, value); err == nil {
			text = entryText(&e)
		}
	case index.Contents:
		var c index.Content
		if c, err = index.DecodeContent(value); err == nil {
			text = w.contentText(&c)
		}
	case index.Digests:
		var prefix [8]byte
		var content uint64
		if prefix, content, err = index.DecodeDigestKey(key); err == nil {
			w.line(depth, "%x  content %d", prefix, content)
			return nil
		}
	case index.Frames:
		var f index.Frame
		if f, err = index.DecodeFrame(value, w.suite.TagSize(), w.super.Sector); err == nil {
			var number uint64
			if number, err = index.DecodeNumKey(key); err == nil {
				return w.frame(depth, number, &f)
			}
		}
	case index.Free:
		var f index.FreeExtent
		if f, err = index.DecodeFree(key, value); err == nil {
			w.line(depth, "%s  retired by generation %d, %s", extentText(f.Ext), f.Gen, stateText(f.State))
			return nil
		}
	}
	if err != nil {
		return w.broken(depth, "record of "+w.t.KeyText(key, noKey), err)
	}
	w.line(depth, "%s  %s", w.t.KeyText(key, noKey), text)
	return nil
}

func stateText(s index.FreeState) string {
	switch s {
	case index.FreeWiped:
		return "wiped"
	case index.FreePending:
		return "not wiped, may hold what was deleted"
	}
	return "not wiped, holds nothing that was deleted"
}
