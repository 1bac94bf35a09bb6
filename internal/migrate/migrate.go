package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/migrate/source"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// Limits of what an old archive may hold; 0 is the default. They keep a small file that claims to hold a large one from
// filling a disk.
type Limits struct {
	Size    int64 // bytes of all contents, without holes
	Entries int64
	Ratio   int64 // bytes of contents for each byte of the old archive, once there are more than RatioFrom
}

// The defaults. No real archive is compressed better than a thousand to one by deflate.
const (
	DefaultSize    = 4 << 40
	DefaultEntries = 10_000_000
	DefaultRatio   = 1000
	RatioFrom      = 64 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Size == 0 {
		l.Size = DefaultSize
	}
	if l.Entries == 0 {
		l.Entries = DefaultEntries
	}
	if l.Ratio == 0 {
		l.Ratio = DefaultRatio
	}
	return l
}

// Options say how to migrate. The callbacks are never called concurrently.
type Options struct {
	Source    source.Options
	Limits    Limits
	AllowLoss bool // go on without what cannot be carried over
	Jobs      int  // workers of the second reading; 0: as many as the store takes
	// Create makes the new archive, when it is known what the old one is.
	Create func(context.Context, source.Info) (*store.Archive, error)
	Lost   func(Loss) // hears of each loss at once; nil: nobody does
	// Progress counts bytes of contents, those of both readings; total is -1 while it is not known.
	Progress func(done, total int64)
}

// Loss is something that does not come over. Name is "" when it concerns the archive as a whole.
type Loss struct {
	Name   string
	Reason string
	Damage bool // the old archive is damaged there, or was changed
	Entry  bool // the whole entry, not only something of it
}

// Report says what was migrated.
type Report struct {
	Info     source.Info
	Entries  int64 // stored
	Bytes    int64 // of their contents
	Lost     []Loss
	Repeated []string // names that came again; the last one counts
	Summary  store.Summary
}

// LossError says that something would not come over.
type LossError struct {
	Count   int
	Damaged bool
}

func (e *LossError) Error() string {
	if e.Count == 1 {
		return "one thing in it cannot be carried over"
	}
	return fmt.Sprintf("%d things in it cannot be carried over", e.Count)
}

// Unwrap gives the kind.
func (e *LossError) Unwrap() error {
	if e.Damaged {
		return format.ErrCorrupt
	}
	return nil
}

// ErrChanged is the kind of an old archive that is not what it was when the migration began.
var ErrChanged = errors.New("it changed while it was read")

// Run migrates an old archive into a new one. The new one gets its name when all of it is on the device and every entry
// was compared with a second reading of the old one. Whoever made the new archive in Create closes it.
func Run(ctx context.Context, in *Input, o Options) (Report, error) {
	r := &run{o: o, in: in, limits: o.Limits.withDefaults(), slots: make(map[pathsafe.Path]slot)}
	if r.o.Jobs == 0 {
		r.o.Jobs = store.AutoJobs()
	}
	r.most = r.limits.Size
	if in.Size < r.limits.Size/r.limits.Ratio {
		r.most = min(r.most, max(RatioFrom, in.Size*r.limits.Ratio))
	}
	r.o.Source.MaxEntries, r.o.Source.AllowLoss = r.limits.Entries, o.AllowLoss
	// A stream has headers beside contents.
	r.o.Source.MaxBytes = r.most + r.most/8 + RatioFrom
	err := r.run(ctx)
	return r.rep, err
}

type run struct {
	o      Options
	in     *Input
	limits Limits
	most   int64 // bytes of contents
	arch   source.Archive
	ar     *store.Archive
	tx     *store.Tx

	encrypted bool // the new archive is
	slots     map[pathsafe.Path]slot
	entries   int32        // read so far
	read      atomic.Int64 // bytes of contents, in this reading
	before    int64        // and in the one before
	endless   error        // what ended the first reading early, when that is to be a loss

	mu    sync.Mutex // guards what follows, and the callbacks
	rep   Report
	queue []waiting
	fatal error
	told  int64
}

// slot is what a path stands for. Entries are counted from 1.
type slot struct {
	given  int32 // the latest entry of the path that was handed to the store; 0: only paths below it
	stored int32 // the latest that the store took
	kind   index.Kind
}

// waiting is an entry that the store has been given.
type waiting struct {
	number int32
	path   pathsafe.Path
	name   string
}

func (r *run) run(ctx context.Context) (err error) {
	if r.arch, err = open(ctx, r.in.Input, r.o.Source); err != nil {
		return err
	}
	defer func() {
		if e := guard(r.arch.Close); err == nil {
			err = e
		}
	}()
	if err := r.expect(); err != nil {
		return err
	}
	if r.ar, err = r.o.Create(ctx, r.rep.Info); err != nil {
		return err
	}
	is, err := r.ar.Info()
	if err != nil {
		return err
	}
	r.encrypted = is.Suite.Encrypted()
	if r.tx, err = r.ar.Begin(ctx); err != nil {
		return err
	}
	if err = r.first(ctx); err == nil {
		r.rep.Summary, err = r.tx.CommitProven(ctx, func() error { return r.second(ctx) })
	}
	if err != nil {
		err = errors.Join(err, r.tx.Rollback())
	}
	return err
}

// expect looks at what the archive says of itself.
func (r *run) expect() error {
	i := r.arch.Info()
	r.rep.Info = i
	switch {
	case i.Entries > r.limits.Entries:
		return r.tooMany()
	case i.Bytes > r.most:
		return r.tooLarge()
	}
	return nil
}

func (r *run) tooMany() error {
	return fmt.Errorf("%w: more than %d entries", source.ErrLimit, r.limits.Entries)
}

func (r *run) tooLarge() error {
	if r.most == r.limits.Size {
		return fmt.Errorf("%w: more than %d bytes", source.ErrLimit, r.limits.Size)
	}
	return fmt.Errorf("%w: more than %d bytes in an archive of %d, a ratio as of a bomb", source.ErrLimit, r.most, r.in.Size)
}

// first reads the old archive and stores what is in it.
func (r *run) first(ctx context.Context) error {
	next, stop := iter.Pull2(r.guarded(ctx))
	defer stop()
	var large *store.Source
	done := false
	for !done {
		err := r.tx.Add(ctx, func(yield func(store.Source) bool) {
			for {
				src, big, ok := r.next(next)
				if !ok {
					done = true
					return
				}
				if big {
					large = &src
					return
				}
				if !yield(src) {
					return
				}
			}
		}, r.done)
		// A content that is read as it comes is stored before the archive is read on.
		if err == nil && large != nil {
			err = r.tx.Add(ctx, func(yield func(store.Source) bool) { yield(*large) }, r.done)
			large = nil
		}
		if err == nil {
			err = r.failed()
		}
		if err != nil {
			return err
		}
	}
	return r.judge()
}

// failed is what must end the migration.
func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fatal
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
}

// judge decides, after the first reading, whether what was found may become an archive.
func (r *run) judge() error {
	info := r.arch.Info()
	info.Entries, info.Bytes = r.rep.Info.Entries, r.rep.Info.Bytes
	r.rep.Info = info
	for _, l := range info.Lost {
		r.lose(Loss{Reason: l})
	}
	for p, s := range r.slots {
		if s.stored == 0 && s.given == 0 {
			continue
		}
		if s.stored == 0 {
			delete(r.slots, p)
			continue
		}
		r.rep.Entries++
	}
	if len(r.rep.Lost) == 0 || r.o.AllowLoss {
		return nil
	}
	e := &LossError{Count: len(r.rep.Lost)}
	for _, l := range r.rep.Lost {
		e.Damaged = e.Damaged || l.Damage
	}
	return e
}

func (r *run) lose(l Loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Lost = append(r.rep.Lost, l)
	if r.o.Lost != nil {
		r.o.Lost(l)
	}
}

func lossOf(name string, err error) Loss {
	return Loss{Name: name, Reason: err.Error(), Damage: errors.Is(err, format.ErrCorrupt), Entry: true}
}

// guarded yields the archive's entries; a panic of a reader ends them.
func (r *run) guarded(ctx context.Context) iter.Seq2[*source.Entry, error] {
	return func(yield func(*source.Entry, error) bool) {
		stopped := false
		err := guard(func() error {
			for e, err := range r.arch.Entries(ctx) {
				if !yield(e, err) {
					stopped = true
					break
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// next returns the next entry that the store is to have; big says that its content has to be read before the archive is
// read on.
func (r *run) next(next func() (*source.Entry, error, bool)) (src store.Source, big, ok bool) {
	for r.failed() == nil {
		e, err, more := next()
		if !more {
			return src, false, false
		}
		if err != nil {
			r.broken(err)
			return src, false, false
		}
		if r.entries++; int64(r.entries) > r.limits.Entries {
			r.fail(r.tooMany())
			break
		}
		if src, big, ok = r.take(e); ok {
			return src, big, true
		}
	}
	return src, false, false
}

// broken hears that the archive cannot be read further.
func (r *run) broken(err error) {
	if errors.Is(err, source.ErrLimit) || !errors.Is(err, format.ErrCorrupt) {
		r.fail(err)
		return
	}
	r.endless = err
	r.lose(Loss{Reason: fmt.Sprintf("the archive cannot be read further: %v", err), Damage: true})
}

// take makes a source of an entry, or says why not.
func (r *run) take(e *source.Entry) (src store.Source, big, ok bool) {
	if err := r.acceptable(e); err != nil {
		r.lose(lossOf(e.Name, err))
		return src, false, false
	}
	src.Entry, src.LinkTo = e.Entry, e.LinkTo
	if e.Open != nil && e.LinkTo.IsZero() {
		src.Linkable = true
		if r.rep.Info.Random {
			src.Open = func() (store.Reader, index.Entry, error) {
				c, err := r.open(e.Open)
				return c, e.Entry, err
			}
		} else if err := r.ahead(e, &src); err != nil {
			if r.failed() == nil {
				r.lose(lossOf(e.Name, err))
			}
			return src, false, false
		} else {
			big = src.Entry.Size < 0
		}
	}
	for _, l := range e.Lost {
		r.lose(Loss{Name: e.Name, Reason: l})
	}
	r.claim(e)
	return src, big, true
}

// acceptable is nil when an entry can be stored beside those before it.
func (r *run) acceptable(e *source.Entry) error {
	if e.Err != nil {
		return e.Err
	}
	p, kind := e.Entry.Path, e.Entry.Kind
	switch {
	case p.IsZero():
		return errors.New("it has no name")
	case e.Secret && !r.encrypted:
		return errors.New("it is a secret, and the new archive is not encrypted")
	case kind == index.Socket:
		return errors.New("it is a socket, which means nothing outside of the system where it was made")
	case kind == index.File && e.Open == nil && e.LinkTo.IsZero():
		return errors.New("it has no content that could be read")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for up := p.Parent(); !up.IsZero(); up = up.Parent() {
		if s, ok := r.slots[up]; ok {
			if s.kind != index.Dir {
				return fmt.Errorf("it lies below %q, which is no directory", pathsafe.Quote(up.String()))
			}
			break
		}
	}
	if s, ok := r.slots[p]; ok && s.kind == index.Dir && kind != index.Dir {
		return errors.New("a directory has the same name")
	}
	if to := e.LinkTo; !to.IsZero() {
		if s := r.slots[to]; s.given == 0 || s.kind != index.File {
			return fmt.Errorf("it is another name of %q, which is not among the files before it", pathsafe.Quote(to.String()))
		}
	}
	return nil
}

// claim takes note of a path that an entry is given to the store under.
func (r *run) claim(e *source.Entry) {
	r.mu.Lock()
	p, kind := e.Entry.Path, e.Entry.Kind
	for up := p.Parent(); !up.IsZero(); up = up.Parent() {
		if _, ok := r.slots[up]; ok {
			break
		}
		r.slots[up] = slot{kind: index.Dir}
	}
	s := r.slots[p]
	twice := s.given != 0 && (kind != index.Dir || s.kind != index.Dir)
	s.given, s.kind = r.entries, kind
	r.slots[p] = s
	r.queue = append(r.queue, waiting{r.entries, p, e.Name})
	if twice && r.rep.Info.Repeats {
		r.rep.Repeated = append(r.rep.Repeated, e.Name)
	}
	r.mu.Unlock()
	if twice && !r.rep.Info.Repeats {
		r.lose(Loss{Name: e.Name, Reason: "another entry before it has the same name and is not taken", Entry: true})
	}
}

// done hears what became of the oldest entry that the store was given.
func (r *run) done(a store.Added) {
	r.mu.Lock()
	w := r.queue[0]
	if r.queue = r.queue[1:]; a.Err == nil {
		s := r.slots[w.path]
		s.stored = w.number
		r.slots[w.path] = s
		r.rep.Bytes += a.Bytes
	}
	r.mu.Unlock()
	if a.Err != nil && r.failed() == nil {
		r.lose(lossOf(w.name, a.Err))
	}
}

// content counts and guards what is read of one entry.
type content struct {
	r    *run
	body io.ReadCloser
}

func (r *run) open(open func() (io.ReadCloser, error)) (*content, error) {
	c := &content{r: r}
	return c, guard(func() (err error) { c.body, err = open(); return err })
}

func (c *content) Read(p []byte) (n int, err error) {
	err = guard(func() (err error) { n, err = c.body.Read(p); return err })
	if err != nil && err != io.EOF && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		// Nobody is to take it for the end.
		err = format.Corrupt("old archive", -1, "the data end too early: %v", err)
	}
	if !c.r.count(int64(n)) {
		return 0, c.r.failed()
	}
	return n, err
}

func (c *content) Close() error { return guard(c.body.Close) }

// Check implements store.Reader.
func (c *content) Check() error { return nil }

// count adds bytes that were read; it is false when they are too many.
func (r *run) count(n int64) bool {
	read := r.read.Add(n)
	if read > r.most {
		r.fail(r.tooLarge())
		return false
	}
	if r.o.Progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if now := r.before + read; now-r.told >= 1<<20 {
			r.told = now
			total := int64(-1)
			if b := r.rep.Info.Bytes; b >= 0 {
				total = 2 * b
			}
			r.o.Progress(now, total)
		}
	}
	return true
}

// aheadMax is how much of a content is read before the store has it, so that the archive can be read on meanwhile.
const aheadMax = 1 << 20

// ahead reads the content of an archive that has to be read in order, whole or, when it is larger, its beginning; then
// the source's size is -1 and its content can be opened once.
func (r *run) ahead(e *source.Entry, src *store.Source) error {
	c, err := r.open(e.Open)
	if err != nil {
		return err
	}
	n := e.Entry.DataSize()
	if e.Entry.Size < 0 || n > aheadMax {
		n = aheadMax
	}
	head := make([]byte, n+1)
	k, err := io.ReadFull(c, head)
	wrong := format.Corrupt("old archive", -1, "it does not have the %d bytes that the archive says", e.Entry.DataSize())
	if err == nil && n < aheadMax {
		_ = c.Close() // the other error counts
		return wrong
	}
	if err == nil {
		src.Entry.Size, src.Entry.Sparse = -1, nil
		src.Open = func() (store.Reader, index.Entry, error) {
			if head == nil { // the store tries again what did not have the length that was expected
				return nil, index.Entry{}, wrong
			}
			m := &memory{Reader: io.MultiReader(bytes.NewReader(head), c), Closer: c}
			head = nil
			return m, e.Entry, nil
		}
		return nil
	}
	if cerr := c.Close(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	} else if cerr != nil {
		return cerr
	}
	if e.Entry.Size < 0 {
		e.Entry.Size, src.Entry.Size = int64(k), int64(k)
	} else if int64(k) != e.Entry.DataSize() {
		return wrong
	}
	head = head[:k]
	src.Open = func() (store.Reader, index.Entry, error) {
		return &memory{Reader: bytes.NewReader(head), Closer: io.NopCloser(nil)}, e.Entry, nil
	}
	return nil
}

// memory is a content that was read, or begun to be.
type memory struct {
	io.Reader
	io.Closer
}

// Check implements store.Reader.
func (*memory) Check() error { return nil }
