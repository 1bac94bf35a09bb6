package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/store"
)

// second reads the old archive again and holds every entry against what the new one gives back: the metadata, the bytes,
// and the digest that is stored of them.
func (r *run) second(ctx context.Context) error {
	r.before += r.read.Swap(0)
	p := &proof{r: r}
	err := p.run(ctx)
	if err == nil {
		err = p.err
	}
	switch {
	case err != nil:
	case p.entries != r.entries:
		err = fmt.Errorf("%w: it had %d entries in the first reading and %d in the second", ErrChanged, r.entries, p.entries)
	case p.proven != r.rep.Entries:
		err = fmt.Errorf("%w: of %d entries %d were found in the second reading", ErrChanged, r.rep.Entries, p.proven)
	default:
		err = r.in.unchanged()
	}
	if err != nil {
		return fmt.Errorf("the second reading: %w", err)
	}
	return nil
}

// proof is the second reading.
type proof struct {
	r       *run
	entries int32

	mu     sync.Mutex
	proven int64
	err    error
}

// part is an entry that is to be held against the new archive.
type part struct {
	number int32
	e      *source.Entry
	body   io.Reader // what has been read of it already; nil: it is to be opened
}

func (p *proof) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

func (p *proof) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil || p.r.failed() != nil
}

func (p *proof) run(ctx context.Context) error {
	work := make(chan part)
	var wg sync.WaitGroup
	buf := newBuffers()
	give := func(w part) { work <- w }
	workers := p.r.o.Jobs
	if workers == 1 {
		workers, give = 0, func(w part) { p.check(ctx, w, buf) }
	}
	for range workers {
		wg.Go(func() {
			buf := newBuffers()
			for w := range work {
				if !p.failed() {
					p.check(ctx, w, buf)
				}
			}
		})
	}
	// The readers' panics are caught where they read; pulling keeps ours out of theirs.
	next, stop := iter.Pull2(p.r.guarded(ctx))
	defer stop()
	var broken error
	for !p.failed() {
		e, err, ok := next()
		if !ok {
			break
		}
		if err != nil {
			broken = err
			break
		}
		if p.entries++; p.entries > p.r.entries {
			break
		}
		w := part{number: p.entries, e: e}
		if e.Err != nil || p.r.slots[e.Entry.Path].stored != w.number {
			continue
		}
		if e.Open == nil || !e.LinkTo.IsZero() || p.r.rep.Info.Random {
			give(w)
			continue
		}
		c, err := p.r.open(e.Open)
		if err != nil {
			p.fail(p.named(e, err))
			break
		}
		if n := e.Entry.DataSize(); e.Entry.Size >= 0 && n <= aheadMax {
			// Short ones are compared by the workers.
			b, err := io.ReadAll(c)
			if cerr := c.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				p.fail(p.named(e, err))
				break
			}
			w.body = bytes.NewReader(b)
			give(w)
			continue
		}
		w.body = c
		p.check(ctx, w, buf)
		if err := c.Close(); err != nil {
			p.fail(p.named(e, err))
		}
	}
	close(work)
	wg.Wait()
	if err := p.r.failed(); err != nil {
		return err
	}
	if p.err == nil && broken != nil && p.r.endless == nil {
		return broken
	}
	return ctx.Err()
}

func (p *proof) named(e *source.Entry, err error) error {
	return fmt.Errorf("%q: %w", e.Name, err)
}

// buffers are what comparing needs.
type buffers struct{ old, now []byte }

func newBuffers() *buffers { return &buffers{make([]byte, 256<<10), make([]byte, 256<<10)} }

func (p *proof) check(ctx context.Context, w part, buf *buffers) {
	err := ctx.Err()
	if err == nil {
		err = p.compare(ctx, w, buf)
	}
	if err != nil {
		p.fail(p.named(w.e, err))
		return
	}
	p.mu.Lock()
	p.proven++
	p.mu.Unlock()
}

var errDiffers = errors.New("what was stored differs from the second reading; the old archive is being changed, or memory or the disk fails")

// compare holds one entry against what the new archive gives back.
func (p *proof) compare(ctx context.Context, w part, buf *buffers) error {
	got, err := p.r.ar.Get(w.e.Entry.Path)
	if err != nil {
		return err
	}
	if to := w.e.LinkTo; !to.IsZero() {
		first, err := p.r.ar.Get(to)
		if err != nil {
			return err
		}
		// The other name may have come to stand for something else since.
		if p.r.slots[to].stored < w.number && (got.LinkGroup == 0 || got.LinkGroup != first.LinkGroup || got.Content != first.Content) {
			return fmt.Errorf("it is not stored as another name of %q", to)
		}
		return nil
	}
	if err := p.metadata(ctx, w.e.Entry, got); err != nil {
		return err
	}
	if got.Kind != index.File {
		return nil
	}
	body := w.body
	if body == nil {
		c, err := p.r.open(w.e.Open)
		if err != nil {
			return err
		}
		defer c.Close()
		body = c
	}
	return p.data(ctx, &got, body, buf)
}

// metadata compares what is not content.
func (p *proof) metadata(ctx context.Context, want, got index.Entry) error {
	xattrs, err := p.r.ar.Xattrs(ctx, &got)
	if err != nil {
		return err
	}
	got.Xattrs, got.XattrsContent = xattrs, 0
	want.Content, want.LinkGroup = got.Content, got.LinkGroup
	if want.Size < 0 {
		want.Size = got.Size
	}
	if !bytes.Equal(index.AppendEntry(nil, &want), index.AppendEntry(nil, &got)) {
		return fmt.Errorf("its metadata: %w", errDiffers)
	}
	return nil
}

// data compares a content's bytes, and their digest with the one that is stored.
func (p *proof) data(ctx context.Context, got *index.Entry, old io.Reader, buf *buffers) error {
	e := *got
	e.Size, e.Sparse = e.DataSize(), nil // the data alone
	f, err := p.r.ar.Open(&e)
	if err != nil {
		return err
	}
	h := blake3.New()
	off := int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(old, buf.old)
		if n > 0 {
			h.Write(buf.old[:n])
			if k, err := f.ReadAt(buf.now[:n], off); k < n {
				if errors.Is(err, io.EOF) {
					err = errDiffers
				}
				return err
			}
			if !bytes.Equal(buf.old[:n], buf.now[:n]) {
				return errDiffers
			}
			off += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if off != e.Size {
		return errDiffers
	}
	if e.Content == 0 {
		return nil
	}
	want, err := p.r.ar.Digest(&e)
	if err != nil {
		return err
	}
	if format.Digest(h.Sum(nil)) != want {
		return fmt.Errorf("its digest: %w", errDiffers)
	}
	return nil
}

var _ store.Reader = (*content)(nil)
