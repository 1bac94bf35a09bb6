package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/index"
)

// Piece is a part of a file as Bulk delivers it: data only, and none across a hole. Data is valid during the call
// only.
type Piece struct {
	Entry *index.Entry // the same pointer for all pieces of a file, and for no other file
	Off   int64        // in the file, with its holes
	Data  []byte
	Err   error // this part is damaged; Data is empty
}

// Bounds of a batch, and of what one read of the archive fetches for several frames.
const (
	bulkEntries = 8192
	bulkMeta    = 16 << 20 // bytes of what entries have beside their fields, as far as that may be much
	bulkRead    = 64 << 10
)

// want is a run of bytes that an entry needs: from position in of a frame on, for a run of several
// frames the unit of their division.
type want struct {
	frame   uint64
	in, len int64
	unit    int64
	entry   *index.Entry
	data    *dataMap
	off     int64 // position in the content
}

var wantLists = sync.Pool{New: func() any { w := make([]want, 0, 512); return &w }}

// Bulk reads files whole: every frame that they need is read and decoded once per batch of entries, by
// the handle's workers, which call fn concurrently and in no particular order (in file order of the
// frames with one job). Entries that are not files are passed over; a file without data, empty or all hole, gives
// one piece without data. A part that is damaged or cannot be read is reported to fn and the rest goes on; fn's own error
// and an error of entries end it.
func (a *Archive) Bulk(ctx context.Context, entries iter.Seq2[index.Entry, error], fn func(Piece) error) error {
	b := &bulk{a: a, v: a.view(), fn: fn}
	b.contents, b.frames = a.records(index.Contents, b.v), a.records(index.Frames, b.v)
	wants := wantLists.Get().(*[]want)
	b.wants = *wants
	defer func() {
		clear(b.wants[:cap(b.wants)]) // the pool keeps no entry alive
		*wants = b.wants[:0]
		wantLists.Put(wants)
	}()
	for e, err := range entries {
		if err == nil {
			err = b.add(e)
		}
		if err == nil && (b.count >= bulkEntries || len(b.wants) >= 4*bulkEntries || b.meta >= bulkMeta) {
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
	meta             int           // bytes of their maps and attributes
	wants            []want
	content          index.Content // the latest one
	contents, frames records
}

func (b *bulk) add(e index.Entry) error {
	if e.Kind != index.File {
		return nil
	}
	// In chunks that are never moved: pieces point at the entries.
	if len(b.entries) == cap(b.entries) {
		b.entries = make([]index.Entry, 0, 64)
	}
	b.entries = append(b.entries, e)
	p := &b.entries[len(b.entries)-1]
	b.count++
	b.meta += len(e.Sparse)*(16+24) + index.XattrsSize(e.Xattrs) // a run of the entry's map, and one of dataMap
	if e.Content == 0 {
		return b.fn(Piece{Entry: p})
	}
	c := &b.content
	value, err := b.contents.get(e.Content)
	if err == nil {
		err = c.Decode(value)
	}
	if err == nil {
		err = b.v.plausible(c)
	}
	if err == nil && c.Size != e.DataSize() {
		err = format.Corrupt("entry", -1, "its size disagrees with its content's")
	}
	if err != nil {
		return b.fn(Piece{Entry: p, Err: err})
	}
	m, off := newDataMap(p), int64(0)
	for _, r := range c.Runs {
		b.wants = append(b.wants, want{frame: r.Frame, in: r.Off, len: r.Len, unit: r.Unit, entry: p, data: m, off: off})
		off += r.Len
	}
	return nil
}

// group is a job of a worker: wants of one frame, or of frames that stand close together.
type group struct {
	refs  []frameRef
	wants [][]want // per frame; positions are within the frame
}

var groups = sync.Pool{New: func() any { return new(group) }}

func (g *group) release() {
	clear(g.wants)
	g.refs, g.wants = g.refs[:0], g.wants[:0]
	groups.Put(g)
}

// run reads what the batch needs.
func (b *bulk) run(ctx context.Context) error {
	order := func(x, y want) int {
		return cmp.Or(cmp.Compare(x.frame, y.frame), cmp.Compare(x.unit, y.unit), cmp.Compare(x.in, y.in), cmp.Compare(x.len, y.len))
	}
	if !slices.IsSortedFunc(b.wants, order) {
		slices.SortStableFunc(b.wants, order)
	}
	err := b.dispatch(ctx)
	b.count, b.meta, b.wants = 0, 0, b.wants[:0]
	b.entries = nil // the next batch's chunk keeps none of this one's entries alive
	return err
}

func (b *bulk) dispatch(ctx context.Context) error {
	jobs := b.a.opt.Jobs
	if jobs == 1 {
		return b.groups(ctx, func(g *group) error {
			defer g.release()
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
				g.release()
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
		if slices.ContainsFunc(ws, ref.lacks) {
			if err := b.lacking(&ref, ws); err != nil {
				return err
			}
			if ws = slices.DeleteFunc(slices.Clone(ws), ref.lacks); len(ws) == 0 {
				return nil
			}
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
			g = groups.Get().(*group)
		}
		g.refs = append(g.refs, ref)
		g.wants = append(g.wants, ws)
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
				ws = append(ws, want{in: 0, len: min(x.unit, x.len-at), entry: x.entry, data: x.data, off: x.off + at})
			}
			if err := one(w.frame+uint64(at/w.unit), ws); err != nil {
				return err
			}
		}
		i = j
	}
	return flush()
}

// lacks reports whether a want reaches past the end of the frame.
func (f *frameRef) lacks(w want) bool {
	return w.in < 0 || w.len <= 0 || w.in+w.len > int64(f.Plain)
}

// lacking reports the wants that a frame lacks.
func (b *bulk) lacking(f *frameRef, ws []want) error {
	for i, w := range ws {
		if f.lacks(w) {
			if err := b.damaged(ws[i:i+1], format.Corrupt("content", -1, "it reaches past the end of frame %d", f.Number)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bulk) ref(number uint64) (frameRef, error) {
	value, err := b.frames.get(number)
	if err != nil {
		return frameRef{}, err
	}
	return b.a.decodeRef(number, value)
}

func (b *bulk) damaged(ws []want, err error) error {
	b.a.DropTrust()
	for _, w := range ws {
		off, _ := w.data.from(w.off, w.len)
		if e := b.fn(Piece{Entry: w.entry, Off: off, Err: err}); e != nil {
			return e
		}
	}
	return nil
}
