package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// item is a source on its way through the pipeline.
type item struct {
	src    Source
	entry  index.Entry
	data   *[]byte   // a small file's bytes
	units  []*[]byte // those of a larger one, cut into frames
	digest format.Digest
	large  bool // place reads it
	same   bool // the committed entry is like that already
	weight int64
	err    error
	done   chan struct{} // closed when a worker has read the file; nil when no worker does
}

// recycle gives up the buffers that nobody has taken over.
func (it *item) recycle() {
	if it.data != nil {
		putBuf(it.data)
		it.data = nil
	}
	for _, b := range it.units {
		putBuf(b)
	}
	it.units = nil
}

// Add stores sources, in their order. Workers read and digest all but the largest files, compress and seal
// frames; everything that decides a number or an offset happens in input order. Memory is bounded by the bytes
// on their way, whatever the number and the size of the sources. done, if not nil, is
// told in input order what became of each. An error of the archive ends it and dooms the transaction.
func (t *Tx) Add(ctx context.Context, sources iter.Seq[Source], done func(Added)) error {
	if err := t.usableErr(); err != nil {
		return err
	}
	if done == nil {
		done = func(Added) {}
	}
	if err := t.startPipe(); err != nil {
		return t.fail(err)
	}
	if t.pipe.serial {
		for src := range sources {
			it := &item{src: src}
			t.fetch(it)
			if err := t.place(ctx, it, done); err != nil {
				return t.fail(err)
			}
		}
		return t.uncut(ctx)
	}
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	order := make(chan *item, 64)
	fed := make(chan struct{})
	flight := newBudget(inFlight(t.a.opt.Jobs))
	release := context.AfterFunc(ctx, flight.wake)
	defer release()
	go func() {
		defer close(fed)
		defer close(order)
		for src := range sources {
			it := &item{src: src}
			if n := index.XattrsSize(src.Entry.Xattrs); n > index.MaxXattrs {
				it.weight = min(int64(n), index.MaxXattrsContent)
			}
			if src.reads() && src.Entry.Size >= 0 && src.Entry.Size <= wholeMax {
				it.done = make(chan struct{})
				it.weight += src.Entry.Size
			}
			if it.weight > 0 && !flight.take(ctx, it.weight) {
				return
			}
			select {
			case order <- it:
			case <-ctx.Done():
				return
			}
			if it.done != nil {
				select {
				case t.pipe.reads <- it:
				case <-ctx.Done():
					it.err = ctx.Err()
					close(it.done)
					return
				}
			}
		}
	}()
	var err error
	for it := range order {
		if it.done != nil {
			<-it.done
		} else {
			t.fetch(it)
		}
		if err = t.place(ctx, it, done); err != nil {
			break
		}
		flight.give(it.weight)
	}
	cancel()
	for it := range order {
		if it.done != nil {
			<-it.done
		}
		it.recycle()
	}
	<-fed
	if err == nil {
		err = t.pipe.failure()
	}
	if err != nil {
		return t.fail(err)
	}
	return t.uncut(whole)
}

// uncut refuses what may be a part of the sources: where ctx has ended, it may have ended them.
func (t *Tx) uncut(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return t.fail(err)
	}
	return nil
}

// fetch reads a file whole, twice when the first reading is not consistent, and leaves one that is too large
// for that to place. Safe for concurrent use.
func (t *Tx) fetch(it *item) {
	it.entry = it.src.Entry
	if !it.src.reads() {
		return
	}
	if it.entry.Size < 0 || it.entry.Size > wholeMax {
		it.large = true
		return
	}
	for range 2 {
		if it.err = t.read(it); !errors.Is(it.err, ErrSourceChanged) {
			return
		}
	}
}

func (t *Tx) read(it *item) error {
	start := time.Now()
	defer func() { since(&t.a.stats.read, start) }()
	it.recycle()
	r, entry, err := it.src.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	it.entry = entry
	switch size := entry.DataSize(); {
	case size < 0 || size > max(it.src.Entry.Size, smallMax):
		it.large = true // more than the budget has been told of
		return nil
	case size > smallMax:
		since(&t.a.stats.read, start)
		err := t.readUnits(it, r)
		start = time.Now() // it takes the time itself
		return err
	}
	start, err = t.readSmall(it, r, start)
	return err
}

// readSmall reads an open file that is to go into a pack. Reading began at start; what it returns is when it ended, or
// start when it failed.
func (t *Tx) readSmall(it *item, r Reader, start time.Time) (time.Time, error) {
	it.recycle()
	size := it.entry.DataSize()
	it.data = getBuf(int(size) + 1) // one more, to see a file that has grown
	n, err := readFull(r, *it.data)
	if err != nil && err != io.EOF {
		return start, err
	}
	if err := r.Check(); err != nil {
		return start, fmt.Errorf("%w: %w", ErrSourceChanged, err)
	}
	if int64(n) != size {
		return start, fmt.Errorf("%w: %d bytes read of %d", ErrSourceChanged, n, size)
	}
	*it.data = (*it.data)[:n]
	start = lap(&t.a.stats.read, start)
	it.digest = blake3.Sum256(*it.data)
	return lap(&t.a.stats.digest, start), nil
}

// place stores a fetched item: it finds duplicates, gives out the content number and fills packs.
func (t *Tx) place(ctx context.Context, it *item, done func(Added)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.pipe.failure(); err != nil {
		return err
	}
	defer it.recycle()
	if it.src.Open != nil && t.links[it.src.LinkTo].err != nil {
		// The file may still be there under this name.
		it.src.LinkTo, it.src.Stored, it.src.Entry.LinkGroup = pathsafe.Path{}, nil, 0
		t.fetch(it)
	}
	out := Added{Path: it.src.Entry.Path, Err: it.err}
	var err error
	switch {
	case out.Err != nil:
	case !it.src.LinkTo.IsZero():
		out.Err, err = t.link(it)
	case it.src.Stored != nil:
		err = t.keep(it)
	default:
		var n uint64
		if it.src.Open != nil {
			n, out.Deduplicated, out.Err, err = t.storeData(ctx, it)
		}
		it.entry.Content, it.entry.XattrsContent, it.entry.LinkGroup = n, 0, it.src.Entry.LinkGroup
	}
	if err == nil && out.Err == nil && !it.same {
		out.Err, err = t.putEntry(it)
	}
	if err != nil {
		return err
	}
	if out.Err == nil {
		out.Bytes, out.Unchanged = it.entry.DataSize(), it.same
		if it.src.reads() {
			t.sum.PlainBytes += out.Bytes
		}
	}
	if (it.src.Entry.LinkGroup != 0 || it.src.Linkable) && it.src.LinkTo.IsZero() {
		l := linkTarget{err: out.Err}
		switch {
		case out.Err != nil:
		case it.same:
			l.record, _ = t.entries.record(&it.entry) // its record is in the tree
		default:
			l.record = t.entries.ops[len(t.entries.ops)-1]
		}
		t.target(out.Path, l)
	}
	done(out)
	return nil
}

// storeData stores what a fetched item has read or is to read, and returns its content's number.
func (t *Tx) storeData(ctx context.Context, it *item) (n uint64, dup bool, bad, err error) {
	switch {
	case it.large:
		return t.storeLarge(ctx, it)
	case it.units != nil:
		n, dup, err = t.storeUnits(it)
	case len(*it.data) > 0:
		n, dup, err = t.storeSmall(it)
	}
	return n, dup, nil, err
}

// putEntry stores the entry of an item, which has its content. bad says why it is left out.
func (t *Tx) putEntry(it *item) (bad, err error) {
	e := &it.entry
	if it.src.LinkTo.IsZero() {
		if bad, err = t.placeXattrs(e, it.src.NoDedup); err != nil {
			return nil, err
		}
	}
	if bad == nil && it.src.Stored == nil && it.src.LinkTo.IsZero() {
		if err := t.regroup(e, nil); err != nil {
			return nil, err
		}
	}
	if bad == nil {
		bad = e.Check() // such as a target that is too long
	}
	if bad == nil && e.Kind == index.Socket {
		bad = errors.New("it is a socket")
	}
	if bad == nil && !t.entries.put(e) {
		bad = errors.New("its metadata is too much for a record")
	}
	if bad != nil {
		return fmt.Errorf("%w: %v", ErrUnstorable, bad), t.refer(e, -1)
	}
	return nil, nil
}

// keep makes the item's entry one with the content of the stored entry.
func (t *Tx) keep(it *item) (err error) {
	e, old := &it.entry, it.src.Stored
	e.Content, e.Size, e.Sparse, e.Unknown = old.Content, old.Size, old.Sparse, old.Unknown
	e.XattrsContent = 0
	if err := t.keepXattrs(e, old); err != nil {
		return err
	}
	if err := t.regroup(e, old); err != nil {
		return err
	}
	if it.same, err = t.isStored(it); it.same || err != nil {
		return err
	}
	return t.referCommitted(e, 1)
}

// storeSmall puts a file into the open pack of its class.
func (t *Tx) storeSmall(it *item) (n uint64, dup bool, err error) {
	data := *it.data
	if !it.src.NoDedup {
		if n, err := t.duplicate(it.digest, int64(len(data))); n != 0 || err != nil {
			return n, true, err
		}
	}
	n = t.newContent(newContent{digest: it.digest, size: int64(len(data)), refs: 1}, it.src.NoDedup)
	return n, false, t.pack(classOf(int64(len(data))), n, data)
}

func (t *Tx) newContent(c newContent, private bool) uint64 {
	n := t.nextContent()
	t.fresh.add(c)
	if !private {
		t.dupes.add(&t.fresh, int(n-t.firstContent))
	}
	return n
}

func (t *Tx) level() frames.Level { return t.base.level() }
