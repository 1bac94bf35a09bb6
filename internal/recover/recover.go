package recover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/store"
)

// Source is the damaged file. It must allow concurrent reads; what it cannot read counts as damaged.
type Source interface {
	io.ReaderAt
	Size() (int64, error)
}

// Sink takes what is recovered, as the store's transaction does: done is called once for each source, in
// their order.
type Sink interface {
	// NewLinkGroup returns a number for the names of one file. The sequence of sources calls it while Add goes through it.
	NewLinkGroup() uint64
	Add(ctx context.Context, sources iter.Seq[store.Source], done func(store.Added)) error
}

// Options say where what is recovered goes and who hears of it. The callbacks are never called concurrently.
type Options struct {
	// Create makes the place for what is recovered, once it is known how the damaged archive was made. nil:
	// everything is read and checked, and nothing is kept.
	Create     func(store.CreateOptions) (Sink, error)
	Jobs       int              // workers when nothing is kept; a Sink has its own
	ExpectRoot *format.Digest   // refuse (format.ErrAuth) an archive that cannot be shown to be in this state
	Unlock     seal.Unlock      // asked for keys when the archive is encrypted
	Signers    []seal.PublicKey // refuse (format.ErrAuth) an archive that cannot be shown to be signed by one of these
	Found      func(Item)
	Lost       func(Loss)
	Note       func(string)              // about the archive as a whole
	Progress   func(worked, total int64) // in bytes; total may be -1
}

// What became of an entry.
const (
	StatusOK      = "ok"      // recovered under its name
	StatusFound   = "found"   // recovered without its name, in lost+found
	StatusPartial = "partial" // not recovered, though parts of it are intact; or recovered without its attributes
	StatusLost    = "lost"    // not recovered
)

// Item is something that was recovered. Reason is empty when there is nothing to say about it.
type Item struct {
	Path    pathsafe.Path
	Status  string // StatusOK or StatusFound
	Kind    index.Kind
	Bytes   int64
	Content uint64 // of what was found: its content number
	Reason  string
}

// Range is a half-open range of bytes of a file.
type Range struct{ From, To int64 }

// Loss is something that was not recovered. Path is "" when it has no name any more. Intact are the ranges
// of a file that are whole, as far as they were looked for.
type Loss struct {
	Path    string
	Status  string // StatusPartial or StatusLost
	Reason  string
	Size    int64 // of the file, 0 when not known
	Content uint64
	Intact  []Range
}

// Where the state that was recovered was found.
const (
	OriginSuperblock = "superblock"
	OriginMark       = "clean mark"
	OriginScan       = "commit block found by scanning"
	OriginNone       = "none"
)

// Report says what was recovered.
type Report struct {
	Generation uint64         // the state that entries were taken from; 0 when none was found
	Newest     uint64         // the highest generation that a superblock names; 0 when none is left
	Root       format.Digest  // of that state, zero when its commit block is not whole
	Signer     seal.PublicKey // who signed it, zero when it is not signed or that cannot be checked any more
	Origin     string
	Current    bool   // it is known to be the newest published state
	Scanned    bool   // the file was searched for what no record names any more
	Recovered  uint64 // entries
	Found      uint64 // contents without a name
	Lost       uint64 // entries and contents that were not recovered, as far as they can be counted
	Bytes      int64  // of files recovered or found
	Complete   bool   // nothing is missing, and the state is the newest one
}

// Run recovers an archive. What is damaged is reported, not an error. An error says why nothing can be
// recovered: the file is not a lockbox (format.ErrNotLockbox, format.ErrCorrupt), of an unknown version
// (format.ErrVersion), not in the expected state (format.ErrAuth), the sink failed, or ctx was cancelled.
func Run(ctx context.Context, src Source, o Options) (Report, error) {
	size, err := src.Size()
	if err != nil {
		return Report{}, fmt.Errorf("size of the archive: %w", err)
	}
	s := newSalvage(ctx, src, size, o)
	s.rep.Origin = OriginNone
	err = s.run()
	if s.key != nil {
		s.key.Wipe()
	}
	s.suite.Wipe()
	return s.rep, err
}

func newSalvage(ctx context.Context, src Source, size int64, o Options) *salvage {
	s := &salvage{ctx: ctx, src: src, size: size, o: o, sector: 512}
	s.use(seal.New())
	s.nodes.s, s.cache.s = s, s
	return s
}

func (s *salvage) use(suite seal.Suite) { s.suite, s.tag = suite, suite.TagSize() }

type salvage struct {
	ctx   context.Context
	src   Source
	size  int64
	o     Options
	rep   Report
	suite seal.Suite
	key   *seal.ContentKey
	tag   int

	archive format.ID
	sector  int64
	newest  *journal.Super // the highest superblock that is valid, or the clean mark; nil without any
	base    base
	keyDirs func(*journal.Super, *journal.KeyDir) // of Search: told of key directories that are found

	nodes nodeCache
	cache frameCache

	lostContents ranges          // numbers whose content records cannot be reached
	lostFrames   ranges          // numbers whose frame records cannot be reached
	lostNames    bool            // a part of the entries tree cannot be reached
	known        []format.Extent // frames of the index, by offset; for the scan
	found        []foundFrame    // by number; frames of the scan
	scanned      bool
	parts        parts

	claimed  []uint64 // content numbers that entries have
	nameless []uint64 // content numbers whose entries could not be given their bytes
	topNames map[string]bool
	sink     Sink
	links    map[uint64]linked // by the number of their link group in the damaged archive

	mu            sync.Mutex // guards what follows
	queue         []pending
	worked, total int64
	ranges        int    // ranges of names that are lost
	seen          uint64 // entries that were read
}

// base is the state that is recovered.
type base struct {
	super    *journal.Super  // made up when the state was found by scanning; nil without a state
	commit   *journal.Commit // nil when it cannot be decoded
	verified bool            // the commit block has the digest that the superblock names
	have     [index.Free + 1]bool
	roots    [index.Free + 1]index.Root
}

func (s *salvage) run() error {
	if err := s.front(); err != nil {
		return err
	}
	if err := s.survey(); err != nil {
		return err
	}
	s.expectWork()
	s.sink = &rehearsal{jobs: max(s.o.Jobs, 1)}
	if s.o.Create != nil {
		var err error
		if s.sink, err = s.o.Create(s.creation()); err != nil {
			return err
		}
	}
	if err := s.add(s.entries); err != nil {
		return err
	}
	if s.lostNames || len(s.nameless) > 0 {
		if err := s.add(s.lostAndFound); err != nil {
			return err
		}
	}
	s.countUnnamed()
	s.rep.Complete = s.rep.Current && s.rep.Lost == 0 && s.rep.Found == 0
	return s.ctx.Err()
}

// creation is how the damaged archive was made, as far as that is known. The new one's ids are drawn anew, so
// that it is not called reproducible.
func (s *salvage) creation() store.CreateOptions {
	c := store.CreateOptions{Level: frames.LevelDefault, Sector: s.sector}
	if m := s.base.commit; m != nil {
		c.Level, c.Padding = frames.Level(m.Options.Level), m.Options.Padding
	}
	return c
}

// countUnnamed adds the entries whose very names are lost. The commit block says how many entries there are.
func (s *salvage) countUnnamed() {
	if s.ranges == 0 {
		return
	}
	n := uint64(s.ranges)
	if m := s.base.commit; m != nil && s.base.verified && m.Counters.Entries > s.seen {
		n = m.Counters.Entries - s.seen
		s.note("the names of %d entries are lost", n)
	} else {
		s.note("how many names are lost is not known")
	}
	s.rep.Lost += n
}

func (s *salvage) note(msg string, args ...any) {
	if s.o.Note != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.o.Note(fmt.Sprintf(msg, args...))
	}
}

// readBudget is how much of the file a search may read a second time.
func (s *salvage) readBudget() int64 { return 4*s.size + 64<<20 }

// read fills b from the file. What cannot be read, or lies past the end, becomes zeros: whatever is read is
// verified before it is used.
func (s *salvage) read(b []byte, off int64) {
	if off < 0 || off >= s.size {
		clear(b)
		return
	}
	n, err := s.src.ReadAt(b, off)
	if n == len(b) {
		return
	}
	if err == nil || errors.Is(err, io.EOF) {
		clear(b[n:])
		return
	}
	// A disk that fails gives what it can in small pieces.
	for at := 0; at < len(b); {
		k := min(len(b)-at, format.PageSize-int((off+int64(at))%format.PageSize))
		if n, err := s.src.ReadAt(b[at:at+k], off+int64(at)); n < k {
			_ = err // the damage shows when the bytes do not verify
			clear(b[at+max(n, 0) : at+k])
		}
		at += k
	}
}

// progressStep is how many bytes pass between two calls of Progress.
const progressStep = 1 << 20

// expectWork says how many bytes of files are to come.
func (s *salvage) expectWork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = -1
	if m := s.base.commit; m != nil && s.base.verified && m.Counters.PlainBytes < 1<<62 {
		s.total = s.worked + int64(m.Counters.PlainBytes)
	}
}

func (s *salvage) advance(n int64) {
	if s.o.Progress == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.worked
	s.worked += n
	if s.worked/progressStep != before/progressStep {
		total := s.total
		if total >= 0 {
			total = max(total, s.worked) // entries that share a content have it read again
		}
		s.o.Progress(s.worked, total)
	}
}
