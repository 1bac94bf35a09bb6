package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/vfs"
)

// CopyOptions say how to copy. The zero value is the default.
type CopyOptions struct {
	Progress func(done, total int64) // bytes of frames
}

// CopyTo writes the handle's generation to a new file: the same archive, byte for byte where something
// is stored, so that its root and its identity are the same, and zeros everywhere else. Every byte is
// verified on the way. The file gets its name when it is complete and durable; fs.ErrExist when the
// name is taken. Other processes may change the archive meanwhile.
func (a *Archive) CopyTo(ctx context.Context, name string, o CopyOptions) error {
	v := a.view()
	if v.super.Generation == 0 {
		return errors.New("the archive has no committed state yet")
	}
	if f, err := a.opt.FS.Open(name, false); err == nil {
		return errors.Join(&fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}, f.Close())
	}
	fi, err := a.f.Stat()
	if err != nil {
		return err
	}
	dst, err := a.opt.FS.CreateTemp(name, fi.Mode().Perm())
	if err != nil {
		return err
	}
	c := &copier{a: a, v: v, dst: dst, out: countedFile{dst, &a.stats}, name: name, progress: o.Progress}
	return errors.Join(c.run(ctx), dst.Close())
}

// copier copies one generation.
type copier struct {
	a        *Archive
	v        *view
	dst      vfs.Temp
	out      countedFile // dst, for writing
	name     string      // of the copy
	progress func(done, total int64)
	own      index.Ownership // two owners of a place would not both survive the copying

	mu   sync.Mutex
	done int64
}

func (c *copier) run(ctx context.Context) error {
	s := c.v.super
	// The front's pages are whole from the start; what is free and not staged stays a hole, which reads as zeros.
	if err := c.write(make([]byte, format.DataStart), 0); err != nil {
		return err
	}
	block := make([]byte, s.CommitLen)
	if err := c.a.pread(block, s.CommitOff, "commit block"); err != nil {
		return err
	}
	if journal.Sum(block) != s.CommitHash {
		return format.Corrupt("commit block", s.CommitOff, "digest does not match the superblock")
	}
	if err := c.write(block, s.CommitOff); err != nil {
		return err
	}
	if c.v.keys != nil {
		b, _, err := journal.KeyDirBytes(c.a.f, s, false)
		if err == nil {
			err = c.write(journal.PutKeyDir(new(*s), b, s.KeyDirOff), s.KeyDirOff)
		}
		if err != nil {
			return err
		}
		c.own.Add(s.KeyDirExtent(), index.OwnerKeyDir, 0)
	}
	c.own.Add(s.CommitExtent(), index.OwnerCommit, 0)
	room := stageBytes // no writer of this program stages more, but a record may say anything
	for _, p := range c.v.commit.Stage {
		c.own.Add(p.Extent, index.OwnerStage, 0)
		// A hole would be no reserve.
		e := format.Extent{Off: p.Off, Len: min(p.Len, room)}
		if room -= e.Len; e.Len > 0 {
			if err := c.zero(ctx, e); err != nil {
				return err
			}
		}
	}
	for _, p := range c.v.commit.Retire {
		c.own.Add(p.Extent, index.OwnerRetire, 0)
	}
	if err := c.trees(ctx); err != nil {
		return err
	}
	if err := c.own.Check(format.DataStart, s.End); err != nil {
		return err
	}
	return c.publish(ctx)
}

func (c *copier) write(b []byte, off int64) error {
	if _, err := c.out.WriteAt(b, off); err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	return nil
}

func (c *copier) zero(ctx context.Context, e format.Extent) error {
	for e.Len > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(e.Len, int64(len(zeros)))
		if err := c.write(zeros[:n], e.Off); err != nil {
			return err
		}
		e.Off, e.Len = e.Off+n, e.Len-n
	}
	return nil
}

// trees copies all nodes and every frame that they name: with several jobs the frames in workers.
func (c *copier) trees(ctx context.Context) error {
	if c.a.opt.Jobs == 1 {
		return c.nodes(ctx, c.frame)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan frameRef, 4*c.a.opt.Jobs)
	var workers sync.WaitGroup
	for range c.a.opt.Jobs {
		workers.Go(func() {
			for f := range work {
				if ctx.Err() != nil {
					continue
				}
				if err := c.frame(&f); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := c.nodes(ctx, func(f *frameRef) error {
		select {
		case work <- *f:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(work)
	workers.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// nodes copies all nodes and calls frame for every frame that they name.
func (c *copier) nodes(ctx context.Context, frame func(*frameRef) error) error {
	for tree := index.Entries; tree <= index.Free; tree++ {
		root := c.v.tree(tree)
		if root.Height == 0 {
			continue
		}
		if err := c.node(ctx, tree, root.Ref, int(root.Height)-1, frame); err != nil {
			return err
		}
	}
	return nil
}

// node copies a node and everything below it.
func (c *copier) node(ctx context.Context, tree index.Tree, ref index.Ref, level int, frame func(*frameRef) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a := c.a
	c.own.Add(format.Extent{Off: ref.Off, Len: format.AlignUp(int64(ref.Len), a.sector)}, index.OwnerNode, uint64(tree))
	n, err := c.nodeBytes(tree, ref, level)
	if err != nil {
		return err
	}
	if err := n.Check(); err != nil {
		return err
	}
	sc := n.Scan()
	for sc.Next() {
		if level > 0 {
			child, err := sc.Ref()
			if err != nil {
				return err
			}
			if err := c.node(ctx, tree, child, level-1, frame); err != nil {
				return err
			}
			continue
		}
		if err := a.checkRecord(&c.own, tree, sc.Key(), sc.Value()); err != nil {
			return err
		}
		if tree != index.Frames {
			continue
		}
		number, err := index.DecodeNumKey(sc.Key())
		if err != nil {
			return err
		}
		rec, err := index.DecodeFrame(sc.Value(), a.suite.TagSize(), a.sector)
		if err != nil {
			return err
		}
		f := toRef(number, &rec)
		if err := frame(&f); err != nil {
			return err
		}
	}
	return sc.Err()
}

// nodeBytes copies one node as it is stored and returns it verified.
func (c *copier) nodeBytes(tree index.Tree, ref index.Ref, level int) (*index.Node, error) {
	if ref.Len == 0 || ref.Len > format.MaxNode {
		return nil, format.Corrupt("node reference", ref.Off, "out of range")
	}
	stored := make([]byte, index.StoredLen(c.a.suite, ref.Len, c.a.sector))
	if err := c.a.pread(stored, ref.Off, tree.String()+" node"); err != nil {
		return nil, err
	}
	plain, ok := index.OpenNode(c.a.suite, c.a.id, tree, &ref, append([]byte(nil), stored...)) // opening may work in place
	if !ok {
		return nil, format.Corrupt(tree.String()+" node", ref.Off, "tag does not verify")
	}
	if err := c.write(stored, ref.Off); err != nil {
		return nil, err
	}
	c.a.stats.NodesDecoded.Add(1)
	return index.ParseNode(plain, tree, level, c.a.suite.TagSize(), ref.Off)
}

// frame copies a frame's extent, verified. Safe for concurrent use.
func (c *copier) frame(f *frameRef) error {
	if err := c.a.checkRef(f); err != nil {
		return err
	}
	used := f.Used(c.a.suite.TagSize())
	if c.a.suite.Hider() != nil {
		if used = f.ext.Len; used > maxExtent { // the fill is enciphered; it is copied too
			return format.Corrupt("frame record", -1, "frame %d: an extent of %d bytes", f.Number, used)
		}
	}
	buf := getBuf(int(used))
	defer putBuf(buf)
	if err := c.a.pread(*buf, f.ext.Off, "frame"); err != nil {
		return err
	}
	if err := c.a.checkExtent(f, *buf); err != nil {
		return err
	}
	if err := c.write(*buf, f.ext.Off); err != nil {
		return err
	}
	if err := c.a.checkFill(format.Extent{Off: f.ext.Off + used, Len: f.ext.Len - used}); err != nil {
		return err
	}
	if c.progress != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done += f.ext.Len
		c.progress(c.done, int64(c.v.commit.Counters.FrameBytes))
	}
	return nil
}

// checkFill checks that what follows a frame in its extent is zero.
func (a *Archive) checkFill(e format.Extent) error {
	buf := getBuf(int(min(e.Len, 64<<10)))
	defer putBuf(buf)
	for e.Len > 0 {
		b := (*buf)[:min(e.Len, int64(len(*buf)))]
		if err := a.pread(b, e.Off, "frame"); err != nil {
			return err
		}
		for i := range b {
			if b[i] != 0 {
				return format.Corrupt("frame", e.Off+int64(i), "fill after the frame is not zero")
			}
		}
		e.Off += int64(len(b))
		e.Len -= int64(len(b))
	}
	return nil
}

// publish makes the copy durable and gives it its name.
func (c *copier) publish(ctx context.Context) error {
	s, dst := c.v.super, c.dst
	if err := dst.Truncate(s.End); err != nil { // a free extent may be the last
		return fmt.Errorf("writing the copy: %w", err)
	}
	for pair := range 2 {
		for n := range 2 {
			if err := journal.WriteCopy(c.out, s, pair, n); err != nil {
				return fmt.Errorf("writing the copy: %w", err)
			}
		}
	}
	if err := journal.WriteMark(c.out, s); err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	if err := c.out.Sync(); err != nil {
		return fmt.Errorf("syncing the copy: %w", err)
	}
	if err := c.a.Recheck(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Until its name is durable, readers of the copy wait for the publish lock; closing releases it.
	if err := lockWait(ctx, dst, publishLock, true, 0); err != nil && !errors.Is(err, vfs.ErrLockUnsupported) {
		return err
	}
	if err := dst.Publish(); err != nil {
		// As in publishNew: a name that may not last is taken back.
		if same, e := dst.SameFile(c.name); e == nil && same {
			err = errors.Join(err, c.a.opt.FS.Remove(c.name))
		}
		return err
	}
	return nil
}
