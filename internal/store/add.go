package store

import (
	"bytes"
	"context"
	"encoding/binary"
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

// Source is something to store.
type Source struct {
	Entry index.Entry // path, kind, metadata; a file's Size is what is expected, -1 when unknown
	// Open opens a file and returns its entry as of opening, so that size and times belong to the bytes
	// that are read. It may be called a second time when the first reading was not consistent, and from
	// another goroutine than Add's. nil for everything but files.
	Open    func() (Reader, index.Entry, error)
	NoDedup bool // store the content even when an equal one is there
	// Stored is the committed entry of the same path when its content is to stay: then nothing is opened, and
	// only what else differs is stored anew.
	Stored *index.Entry
}

// reads reports whether the source is opened at all.
func (s *Source) reads() bool { return s.Open != nil && s.Stored == nil }

// Reader is an open source.
type Reader interface {
	io.ReadCloser
	// Check is called after the last byte was read: nil, or why what was read is not one state of the
	// source.
	Check() error
}

// Added is what became of a source.
type Added struct {
	Path         pathsafe.Path
	Bytes        int64
	Deduplicated bool  // an equal content was there
	Unchanged    bool  // of a source with Stored: that is how it is stored already
	Err          error // the source was left out, a stored older version stays; the transaction goes on
}

// ErrSourceChanged is the kind of a source that did not hold still for two readings.
var ErrSourceChanged = errors.New("changed while it was read")

// item is a source on its way through the pipeline.
type item struct {
	src    Source
	entry  index.Entry
	data   *[]byte   // a small file's bytes
	units  []*[]byte // those of a larger one, cut into frames
	digest format.Digest
	large  bool // place reads it
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
			if src.reads() && src.Entry.Size >= 0 && src.Entry.Size <= wholeMax {
				it.done, it.weight = make(chan struct{}), src.Entry.Size
				if !flight.take(ctx, it.weight) {
					return
				}
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
	switch {
	case entry.Size < 0 || entry.Size > max(it.src.Entry.Size, smallMax):
		it.large = true // more than the budget has been told of
		return nil
	case entry.Size > smallMax:
		since(&t.a.stats.read, start)
		err := t.readUnits(it, r)
		start = time.Now() // it takes the time itself
		return err
	}
	it.data = getBuf(int(entry.Size) + 1) // one more, to see a file that has grown
	n, err := readFull(r, *it.data)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := r.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrSourceChanged, err)
	}
	if int64(n) != entry.Size {
		return fmt.Errorf("%w: %d bytes read of %d", ErrSourceChanged, n, entry.Size)
	}
	*it.data = (*it.data)[:n]
	start = lap(&t.a.stats.read, start)
	it.digest = blake3.Sum256(*it.data)
	start = lap(&t.a.stats.digest, start)
	return nil
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
	out := Added{Path: it.src.Entry.Path, Err: it.err}
	if it.src.Stored != nil {
		var err error
		if out.Unchanged, err = t.keep(it); err != nil {
			return err
		}
		out.Bytes = it.entry.Size
	} else if it.err == nil && it.src.Open != nil {
		var n uint64
		var err error
		switch {
		case it.large:
			n, out.Deduplicated, out.Err, err = t.storeLarge(ctx, it)
		case it.units != nil:
			n, out.Deduplicated, err = t.storeUnits(it)
		case len(*it.data) > 0:
			n, out.Deduplicated, err = t.storeSmall(it)
		}
		if err != nil {
			return err
		}
		it.entry.Content = n
		out.Bytes = it.entry.Size
	}
	if out.Err == nil {
		if err := it.entry.Check(); err != nil { // such as a target that is too long
			out.Err = fmt.Errorf("%w: %v", ErrUnstorable, err)
		}
	}
	if out.Err == nil && !out.Unchanged {
		if it.src.reads() {
			t.sum.PlainBytes += out.Bytes
		}
		t.entries.put(&it.entry)
	}
	done(out)
	return nil
}

// keep makes the item's entry one with the content of the stored entry; same means that the two are equal.
func (t *Tx) keep(it *item) (same bool, err error) {
	e, old := &it.entry, it.src.Stored
	e.Content, e.Size, e.Sparse, e.Unknown = old.Content, old.Size, old.Sparse, old.Unknown
	t.scratch = index.AppendEntry(t.scratch[:0], e)
	n := len(t.scratch)
	t.scratch = index.AppendEntry(t.scratch, old)
	if same = bytes.Equal(t.scratch[:n], t.scratch[n:]); same || e.Content == 0 {
		return same, nil
	}
	if err := t.committed(e.Content); err != nil {
		return false, err
	}
	return false, t.reference(e.Content, 1)
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

// duplicate finds a content with this digest, adds a reference to it and returns its number, or 0.
func (t *Tx) duplicate(d format.Digest, size int64) (uint64, error) {
	if i, ok := t.dupes.find(&t.fresh, &d, size); ok {
		t.fresh.at(i).refs++
		return t.firstContent + uint64(i), nil
	}
	root := t.base.tree(index.Digests)
	if root.Height == 0 {
		return 0, nil
	}
	it := index.NewIter(t.a, index.Digests, root)
	prefix := t.a.suite.Prefix(&d)
	for ok := it.Seek(prefix[:]); ok; ok = it.Next() {
		key := it.Key()
		if len(key) != 16 || string(key[:8]) != string(prefix[:]) {
			break
		}
		n := binary.BigEndian.Uint64(key[8:])
		c, err := t.content(n)
		if err != nil {
			return 0, err
		}
		if c.Digest == d && c.Size == size && c.Refs > 0 {
			// Only what is still good is shared: adding a file again mends an archive that has rotted.
			if sound, err := t.soundContent(c); err != nil {
				return 0, err
			} else if sound {
				c.Refs++
				return n, nil
			}
		}
	}
	return 0, it.Err()
}

// soundContent reports whether all stored bytes of a content verify. Each frame is looked at once in a
// transaction.
func (t *Tx) soundContent(c *index.Content) (bool, error) {
	for i := range c.Runs {
		r := &c.Runs[i]
		if r.Frame == 0 || r.Frame >= t.firstFrame {
			continue // written, or read and verified, by this transaction
		}
		for f := r.Frame; f < r.Frame+r.Frames(); f++ {
			if ok, err := t.soundFrame(f); !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// soundFrame reports whether the stored bytes of a committed frame verify.
func (t *Tx) soundFrame(number uint64) (bool, error) {
	ok, seen := t.sound[number]
	if seen {
		return ok, nil
	}
	ref, err := t.a.frame(t.base, number)
	if err == nil {
		err = t.a.checkFrame(&ref)
	}
	if err != nil && !errors.Is(err, format.ErrCorrupt) {
		return false, err
	}
	t.sound[number] = err == nil
	return err == nil, nil
}

func (t *Tx) level() frames.Level { return t.base.level() }
