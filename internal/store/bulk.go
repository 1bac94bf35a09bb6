package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// Piece is a part of a file as Bulk delivers it. Data is valid during the call only.
type Piece struct {
	Entry *index.Entry
	Off   int64
	Data  []byte
	Err   error // this part is damaged; Data is empty
}

// Bounds of a batch, and of what one read of the archive fetches.
const (
	bulkEntries = 8192
	bulkRead    = 1 << 20
)

// want is a run of bytes that an entry needs: from position in of a frame on, for a run of several
// frames the unit of their division.
type want struct {
	frame   uint64
	in, len int64
	unit    int64
	entry   *index.Entry
	off     int64 // position in the file
}

// Bulk reads files whole: every frame that they need is read and decoded once per batch of entries, by
// the handle's workers, which call fn concurrently and in no particular order (in file order of the
// frames with one job). Entries that are not files are passed over; an empty file gives one piece
// without data. A damaged part is reported to fn and the rest goes on; fn's own error, an error of
// entries, and an input error end it.
func (a *Archive) Bulk(ctx context.Context, entries iter.Seq2[index.Entry, error], fn func(Piece) error) error {
	b := &bulk{a: a, v: a.view(), fn: fn}
	b.contents = numbers{it: index.NewIter(a, index.Contents, b.v.tree(index.Contents)), record: "contents tree"}
	b.frames = numbers{it: index.NewIter(a, index.Frames, b.v.tree(index.Frames)), record: "frames tree"}
	for e, err := range entries {
		if err == nil {
			err = b.add(e)
		}
		if err == nil && (b.count >= bulkEntries || len(b.wants) >= 4*bulkEntries) {
			err = b.run(ctx)
		}
		if err != nil {
			return err
		}
	}
	return b.run(ctx)
}

type bulk struct {
	a                *Archive
	v                *view
	fn               func(Piece) error
	entries          []index.Entry // the chunk being filled
	count            int           // entries in the batch
	wants            []want
	contents, frames numbers
}

// numbers looks records up by number from where the last one stood: files in path order mostly have
// ascending numbers.
type numbers struct {
	it     *index.Iter
	valid  bool
	record string
}

func (s *numbers) get(n uint64) ([]byte, error) {
	var buf [8]byte
	key := index.AppendNumKey(buf[:0], n)
	if s.valid && string(s.it.Key()) == string(key) {
		return s.it.Value(), nil
	}
	if s.valid {
		s.valid = s.it.Next()
	}
	if !s.valid || string(s.it.Key()) != string(key) {
		s.valid = s.it.Seek(key)
	}
	if err := s.it.Err(); err != nil {
		return nil, err
	}
	if !s.valid || string(s.it.Key()) != string(key) {
		return nil, format.Corrupt(s.record, -1, "number %d is missing", n)
	}
	return s.it.Value(), nil
}

func (b *bulk) add(e index.Entry) error {
	if e.Kind != index.File {
		return nil
	}
	// In chunks that are never moved: pieces point at the entries.
	if len(b.entries) == cap(b.entries) {
		b.entries = make([]index.Entry, 0, 256)
	}
	b.entries = append(b.entries, e)
	p := &b.entries[len(b.entries)-1]
	b.count++
	if err := readable(p); err != nil {
		return b.fn(Piece{Entry: p, Err: err})
	}
	if e.Content == 0 {
		return b.fn(Piece{Entry: p})
	}
	var c index.Content
	value, err := b.contents.get(e.Content)
	if err == nil {
		c, err = index.DecodeContent(value)
	}
	if err == nil {
		err = b.v.plausible(&c)
	}
	if err == nil && c.Size != e.Size {
		err = format.Corrupt("entry", -1, "its size disagrees with its content's")
	}
	if err != nil {
		return b.fn(Piece{Entry: p, Err: err})
	}
	off := int64(0)
	for _, r := range c.Runs {
		b.wants = append(b.wants, want{frame: r.Frame, in: r.Off, len: r.Len, unit: r.Unit, entry: p, off: off})
		off += r.Len
	}
	return nil
}

// group is a job of a worker: wants of one frame, or of frames that stand close together.
type group struct {
	refs  []frameRef
	wants [][]want // per frame; positions are within the frame
	size  int64    // from the first stored byte to the end of the last frame
}

// run reads what the batch needs.
func (b *bulk) run(ctx context.Context) error {
	slices.SortStableFunc(b.wants, func(x, y want) int {
		return cmp.Or(cmp.Compare(x.frame, y.frame), cmp.Compare(x.unit, y.unit), cmp.Compare(x.in, y.in), cmp.Compare(x.len, y.len))
	})
	err := b.dispatch(ctx)
	b.count, b.wants = 0, b.wants[:0]
	return err
}

func (b *bulk) dispatch(ctx context.Context) error {
	jobs := b.a.opt.Jobs
	if jobs == 1 {
		return b.groups(ctx, func(g *group) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return b.read(g)
		})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *group, jobs)
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			for g := range queue {
				if ctx.Err() == nil {
					if err := b.read(g); err != nil {
						cancel(err)
					}
				}
			}
		})
	}
	err := b.groups(ctx, func(g *group) error {
		select {
		case queue <- g:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(queue)
	wg.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// groups cuts the sorted wants into groups of frames that one read fetches.
func (b *bulk) groups(ctx context.Context, emit func(*group) error) error {
	var g *group
	flush := func() error {
		if g == nil {
			return nil
		}
		full := g
		g = nil
		return emit(full)
	}
	one := func(number uint64, ws []want) error {
		ref, err := b.ref(number)
		if err != nil {
			return b.damaged(ws, err)
		}
		end := ref.ext.End()
		if g != nil {
			last := g.refs[len(g.refs)-1].ext.End()
			if start := g.refs[0].ext.Off; ref.ext.Off != last || end-start > bulkRead {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if g == nil {
			g = &group{}
		}
		g.refs = append(g.refs, ref)
		g.wants = append(g.wants, ws)
		g.size = end - g.refs[0].ext.Off
		return nil
	}
	for i := 0; i < len(b.wants); {
		w := b.wants[i]
		if w.unit == 0 {
			j := i + 1
			for j < len(b.wants) && b.wants[j].frame == w.frame && b.wants[j].unit == 0 {
				j++
			}
			if err := one(w.frame, b.wants[i:j]); err != nil {
				return err
			}
			i = j
			continue
		}
		// A run of equal frames; entries that share the content have the same run.
		j := i + 1
		for j < len(b.wants) && b.wants[j].frame == w.frame && b.wants[j].len == w.len && b.wants[j].unit == w.unit {
			j++
		}
		for at := int64(0); at < w.len; at += w.unit {
			if err := ctx.Err(); err != nil {
				return err
			}
			ws := make([]want, 0, j-i)
			for _, x := range b.wants[i:j] {
				ws = append(ws, want{in: 0, len: min(x.unit, x.len-at), entry: x.entry, off: x.off + at})
			}
			if err := one(w.frame+uint64(at/w.unit), ws); err != nil {
				return err
			}
		}
		i = j
	}
	return flush()
}

func (b *bulk) ref(number uint64) (frameRef, error) {
	value, err := b.frames.get(number)
	if err != nil {
		return frameRef{}, err
	}
	r, err := index.DecodeFrameLean(value, b.a.suite.TagSize(), b.a.sector)
	if err != nil {
		return frameRef{}, err
	}
	f := toRef(number, &r)
	return f, b.a.checkRef(&f)
}

func (b *bulk) damaged(ws []want, err error) error {
	for _, w := range ws {
		if e := b.fn(Piece{Entry: w.entry, Off: w.off, Err: err}); e != nil {
			return e
		}
	}
	return nil
}

// read fetches a group with one read, verifies and decodes its frames and delivers the pieces.
func (b *bulk) read(g *group) error {
	t := b.a.suite.TagSize()
	base := g.refs[0].storedOff(t)
	end := g.refs[len(g.refs)-1]
	n := end.storedOff(t) + int64(end.Stored) + int64(end.TableSize(t)) - base
	buf := getBuf(int(n))
	defer putBuf(buf)
	readErr := b.a.pread(*buf, base, "frame")
	for k := range g.refs {
		ref := &g.refs[k]
		if readErr != nil && len(g.refs) > 1 {
			// Part of the group may still be readable.
			if err := b.read(&group{refs: g.refs[k : k+1], wants: g.wants[k : k+1]}); err != nil {
				return err
			}
			continue
		}
		err := readErr
		if err == nil {
			at := ref.storedOff(t) - base
			err = b.deliver(ref, (*buf)[at:at+int64(ref.Stored)+int64(ref.TableSize(t))], g.wants[k])
		} else {
			err = b.damaged(g.wants[k], err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deliver verifies a frame's stored bytes (with its tag table) and hands out what is wanted of it.
func (b *bulk) deliver(ref *frameRef, stored []byte, ws []want) error {
	plain := stored[:ref.Stored]
	var err error
	switch {
	case ref.BlockShift != 0:
		var t *frames.Table
		if t, err = frames.CheckTable(b.a.suite, b.a.id, &ref.Info, stored[ref.Stored:]); err == nil {
			// Block by block, so that one damaged block costs only the files that lie in it.
			return b.deliverBlocks(ref, t, plain, ws)
		}
	case ref.Codec == frames.Raw:
		_, err = frames.Check(b.a.suite, b.a.id, &ref.Info, plain)
		b.a.stats.BlocksVerified.Add(1)
	default:
		out := getBuf(int(ref.Plain) + frames.Slack)
		defer putBuf(out)
		err = b.a.decodeFrame(ref, plain, (*out)[:ref.Plain])
		plain = (*out)[:ref.Plain]
	}
	if err != nil {
		return b.damaged(ws, err)
	}
	for _, w := range ws {
		if err := b.piece(ref, plain, w); err != nil {
			return err
		}
	}
	return nil
}

func (b *bulk) deliverBlocks(ref *frameRef, t *frames.Table, plain []byte, ws []want) error {
	bad := make(map[int]error)
	for k := range ref.Blocks() {
		lo, hi := t.BlockRange(k)
		b.a.stats.BlocksVerified.Add(1)
		if err := t.Open(k, plain[lo:hi]); err != nil {
			bad[k] = err
		}
	}
	for _, w := range ws {
		var err error
		if len(bad) > 0 && w.len > 0 {
			for k := w.in >> ref.BlockShift; k <= (w.in+w.len-1)>>ref.BlockShift; k++ {
				if bad[int(k)] != nil {
					err = bad[int(k)]
					break
				}
			}
		}
		if err != nil {
			err = b.damaged([]want{w}, err)
		} else {
			err = b.piece(ref, plain, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bulk) piece(ref *frameRef, plain []byte, w want) error {
	if w.in < 0 || w.len <= 0 || w.in+w.len > int64(len(plain)) {
		return b.damaged([]want{w}, format.Corrupt("content", -1, "it reaches past the end of frame %d", ref.Number))
	}
	return b.fn(Piece{Entry: w.entry, Off: w.off, Data: plain[w.in : w.in+w.len]})
}
