package migrate

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// The defaults. No real archive is compressed better than a thousand to one by deflate. An entry takes some 0.5 KB of
// memory until its migration ends, so that many take 250 MiB.
const (
	DefaultSize    = 4 << 40
	DefaultEntries = 500_000
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
	l.Entries = min(l.Entries, math.MaxInt32) // they are counted so
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
	Key    bool // the key that was given does not open it
	Entry  bool // the whole entry, not only something of it
}

// Report says what was migrated.
type Report struct {
	Info     source.Info
	Entries  int64    // stored
	Bytes    int64    // of their contents
	Lost     []Loss   // as many as there is room for
	Unlisted int      // further ones; Options.Lost has heard of them
	Repeated []string // names that came again, as many as there is room for; the last one counts
	Summary  store.Summary
}

// LossError says that something would not come over.
type LossError struct {
	Count   int
	Damaged bool // something is damaged
	Locked  bool // something does not open with the key that was given
}

func (e *LossError) Error() string {
	if e.Count == 1 {
		return "one thing in it cannot be carried over"
	}
	return fmt.Sprintf("%d things in it cannot be carried over", e.Count)
}

// Unwrap gives the kind.
func (e *LossError) Unwrap() error {
	switch {
	case e.Damaged:
		return format.ErrCorrupt
	case e.Locked:
		return format.ErrAuth
	}
	return nil
}

// listMax bounds what is kept of names and reasons for the report: an old archive decides how many there are.
const listMax = 256 << 20

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
	var l *source.LimitError
	if errors.As(err, &l) && l.Bound == source.BoundSize && r.most < r.limits.Size {
		l.Bound = source.BoundRatio
	}
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
	list  int // bytes that the lists of the report take

	damaged, locked bool // some loss is
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

func (r *run) tooMany() error { return source.TooManyEntries(r.limits.Entries) }

func (r *run) tooLarge() error {
	if r.most == r.limits.Size {
		return &source.LimitError{Bound: source.BoundSize, Detail: fmt.Sprintf("more than %d bytes", r.limits.Size)}
	}
	return &source.LimitError{Bound: source.BoundRatio, Detail: fmt.Sprintf("more than %d bytes in an archive of %d, a ratio as of a bomb", r.most, r.in.Size)}
}
