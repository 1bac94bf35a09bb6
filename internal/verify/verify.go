package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/vfs"
)

// File is what a check needs of an archive's file. It must allow concurrent reads.
type File interface {
	io.ReaderAt
	Size() (int64, error)
}

// Options say what is checked and who hears of it. The zero value checks the structure silently.
type Options struct {
	Full bool // also every frame, every content digest and all fill
	// Only restricts, with Full, the contents that are read to those of the entries it selects. The
	// structure is always checked whole.
	Only    func(pathsafe.Path) bool
	Unlock  seal.Unlock      // asked for keys when the archive is encrypted
	Signers []seal.PublicKey // refuse (format.ErrAuth) an archive that none of these has signed

	Jobs int // workers that read frames; up to 1: no goroutine is started
	// Rate is how many bytes of the file are read in a second, at most; 0: no bound.
	Rate  int64
	Clock Clock // nil: the system's
	// State makes a check with Full and without Only a run of a pass, which reads what earlier runs have not; a new
	// one begins the first pass. It is not changed: Summary.Part has the one to go on with.
	State *State
	// Born is when the file came to be, in nanoseconds since 1970, as far as the system tells; else 0. By it a State knows when
	// a copy, or what a rotation of the key made, has taken the archive's place, of which nothing was read. Neither the number of an inode does for that, which some file
	// systems draw anew each time, nor the time of the last write, for a change that comes to nothing writes, too.
	Born int64
	// Until is when a run of a pass begins to read no more frames; zero: never. Structure is checked whole all the same.
	Until time.Time
	// Finding and Progress are never called concurrently. With more than one job the findings of frames
	// come in no particular order.
	Finding  func(Finding)
	Progress func(done, total int64) // bytes of the file
}

// Kinds of findings.
const (
	KindRepairable = "repairable" // redundancy is lost, nothing else; the next change mends it
	KindSuperblock = "superblock"
	KindKeys       = "keys"      // the key directory
	KindCommit     = "commit"    // the commit block, or a number in it that does not hold
	KindNode       = "node"      // a node, or a record in it
	KindFrame      = "frame"     // a frame, or what the index says of it
	KindContent    = "content"   // a content's record, or bytes that are not what was stored
	KindEntry      = "entry"     // an entry's record, or what it refers to
	KindOwnership  = "ownership" // an extent with two owners or none, the free tree, a short file
	KindFill       = "fill"      // bytes that must be zero and are not
)

// Finding is one thing that is wrong. Path is the stored path when it concerns an entry (the escaped
// key when that is no path), else "". Offset is a file offset, or -1.
type Finding struct {
	Path   string
	Kind   string
	Detail string
	Offset int64
}

// Summary says what was checked and how it went.
type Summary struct {
	Archive    format.ID
	Generation uint64
	Root       format.Digest
	Signer     seal.PublicKey // whose signature has verified; zero when the archive is not signed
	Entries    uint64         // entries checked; with Only, those selected
	Bytes      uint64         // plain bytes that were decoded and compared with their digest
	Contents   uint64         // records of each kind that were read
	Frames     uint64
	Nodes      uint64
	Damaged    int  // distinct damaged entries and structures
	Repairable int  // findings that only cost redundancy
	Work       Work // what it took
	// Part is what a run of a pass came to, also when it ended with an error; nil when it did not get that far.
	Part     *Part
	Complete bool // false when damage hid a part of a tree
}

// Run checks an archive. What is damaged is reported as findings, not as an error. An error says why
// the check is impossible or did not come to its end: the file is not a lockbox (format.ErrNotLockbox),
// of an unknown version (ErrVersion), damaged at its root (ErrCorrupt, besides a finding), not to be
// unlocked or not signed as it must be (ErrAuth), cannot be read, or ctx was cancelled.
func Run(ctx context.Context, f File, o Options) (Summary, error) {
	c := &checker{ctx: ctx, f: newInput(ctx, f, &o), o: o}
	c.rep.finding, c.rep.progress = o.Finding, o.Progress
	err := c.run()
	c.forget()
	c.sum.Damaged, c.sum.Repairable = c.rep.damaged, c.rep.repairable
	c.sum.Work = Work{Reads: c.f.reads.Load(), BytesRead: c.f.bytes.Load(), Nodes: c.nodes, Frames: c.decoded.Load(), Blocks: c.blocks.Load()}
	return c.sum, err
}

type checker struct {
	ctx    context.Context
	f      *input
	size   int64
	o      Options
	rep    report
	sum    Summary
	suite  seal.Suite
	keys   *journal.Keys // of an encrypted archive
	tag    int
	super  *journal.Super
	commit *journal.Commit
	roots  [index.Free + 1]index.Root
	broken [index.Free + 1]bool // a node of the tree or a record in it cannot be read
	owners ownership
	got    journal.Counters // recomputed from the trees

	contents contents
	flagged  bitset   // entries, by position in the tree, that a finding has named
	portion  *portion // with a State
	partial  bool     // something other than a broken tree kept a part from being checked

	nodes           uint64 // parsed
	decoded, blocks atomic.Uint64
}

func (c *checker) run() error {
	if c.o.State != nil && (!c.o.Full || c.o.Only != nil) {
		return errors.New("a pass reads everything: it cannot be confined to some entries or to the structure")
	}
	if err := c.front(); err != nil {
		return err
	}
	passes := []func() error{c.contentsPass, c.entriesPass, c.digestsPass, c.framesPass, c.freePass, c.namePass}
	if c.o.State != nil {
		c.portion = newPortion(c, c.o.State)
		passes = slices.Insert(passes, len(passes)-1, c.portionPass)
	}
	for _, pass := range passes {
		if err := pass(); err != nil {
			return err
		}
	}
	c.sum.Complete = !c.partial
	for _, b := range c.broken {
		c.sum.Complete = c.sum.Complete && !b
	}
	c.ownershipPass()
	c.countersPass()
	c.rep.finish()
	return nil
}

// front checks what stands before the trees: the copies, the commit block, the tree roots.
func (c *checker) front() error {
	var err error
	if c.size, err = c.f.Size(); err != nil {
		return fmt.Errorf("size of the archive: %w", err)
	}
	page := make([]byte, min(c.size, format.CopiesSize))
	if n, err := journal.ReadFront(c.f, page); n < len(page) {
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading superblocks: %w", err)
		}
		return c.fatal(KindSuperblock, format.Corrupt("superblock", 0, "the file ends inside it"))
	}
	copies, err := journal.DecodeCopies(page)
	if err != nil {
		return c.fatal(KindSuperblock, err)
	}
	c.super = copies.Current
	c.sum.Archive, c.sum.Generation = c.super.Archive, c.super.Generation
	c.copies(page)

	if c.suite, c.keys, err = (journal.Opening{Unlock: c.o.Unlock}).Suite(c.ctx, c.f, c.super); err != nil {
		return c.fatal(KindKeys, err)
	}
	c.tag = c.suite.TagSize()
	if c.keys != nil {
		secrets.Store(true)
	}
	m, raw, err := journal.ReadCommit(c.f, c.super, c.suite)
	if err != nil {
		return c.fatal(KindCommit, err)
	}
	if n := len(c.o.Signers); n > 0 && !slices.Contains(c.o.Signers, m.Signer) {
		return &format.Error{Kind: format.ErrAuth, Offset: -1, Detail: "the archive is not signed by a key that was asked for"}
	}
	c.sum.Signer = m.Signer
	c.commit = m
	c.sum.Root = c.super.RootHash(raw)
	cur := format.NewCursor(m.Trees, "tree roots", c.super.CommitOff)
	for t := index.Entries; t <= index.Free; t++ {
		c.roots[t] = index.DecodeRoot(cur, c.tag)
	}
	if err := cur.Done(); err != nil {
		return c.fatal(KindCommit, err)
	}
	if c.size < c.super.End {
		c.partial = true
		c.find(KindOwnership, c.size, "the file is cut short: it ends at %d, the archive at %d", c.size, c.super.End)
	}
	ext := c.super.CommitExtent()
	c.owners.add(ext, ownCommit, 0)
	keys := c.super.KeyDirExtent()
	if keys.Len > 0 {
		c.owners.add(keys, ownKeys, 0)
	}
	for _, p := range m.Stage {
		c.owners.add(p.Extent, ownStage, 0)
	}
	for _, p := range m.Retire {
		c.owners.add(p.Extent, ownRetire, 0)
	}
	c.rep.total = c.workload()
	if !c.o.Full {
		return nil
	}
	if _, err := c.zero(format.Extent{Off: c.super.CommitOff + int64(c.super.CommitLen), Len: ext.Len - int64(c.super.CommitLen)}, "the commit block"); err != nil {
		return err
	}
	if keys.Len == 0 {
		return nil
	}
	_, bad, err := journal.KeyDirBytes(c.f, c.super, true)
	if err != nil {
		return c.fatal(KindKeys, err)
	}
	n := int64(c.super.KeyDirLen)
	for k := range bad {
		off := c.super.KeyDirCopy(k)
		if bad[k] {
			c.find(KindRepairable, off, "one of the two copies of the key directory cannot be read")
		}
		if _, err := c.zero(format.Extent{Off: off + n, Len: keys.Len/2 - n}, "the key directory"); err != nil {
			return err
		}
	}
	return nil
}

// forget overwrites keys that were used.
func (c *checker) forget() {
	if c.keys != nil {
		c.keys.Key.Wipe()
		c.suite.Wipe()
	}
}

// workload is the number of bytes that will be read, as far as the counters can be believed.
func (c *checker) workload() int64 {
	n := c.commit.Counters.NodeBytes
	if c.o.Full {
		n += c.commit.Counters.FrameBytes + c.commit.Counters.FreeBytes
	}
	return int64(min(n, uint64(c.super.End)))
}

// copies reports which of the four copies is not valid, each tried alone.
func (c *checker) copies(page []byte) {
	var bad [4]bool
	for i := range bad {
		alone := make([]byte, format.CopiesSize)
		off := i * format.PageSize
		if off < len(page) {
			copy(alone[off:off+format.PageSize], page[off:])
		}
		_, err := journal.DecodeCopies(alone)
		bad[i] = err != nil
	}
	for i, b := range bad {
		if !b {
			continue
		}
		detail := "one of the four superblock copies cannot be read"
		if bad[i^2] {
			detail = "a superblock copy cannot be read, nor its twin: a later state than this may be lost"
		}
		c.find(KindRepairable, int64(i*format.PageSize), "%s", detail)
	}
}

// countersPass compares the commit block's counters with what the trees gave. What a damaged tree hides
// cannot be compared.
func (c *checker) countersPass() {
	want, got := &c.commit.Counters, &c.got
	same := func(ok bool, what string, want, got uint64) {
		if ok && want != got {
			c.find(KindCommit, c.super.CommitOff, "counter %q is %d, the trees give %d", what, want, got)
		}
	}
	whole := func(t index.Tree) bool { return !c.broken[t] }
	above := func(ok bool, what string, next, last uint64) {
		if ok && next <= last {
			c.find(KindCommit, c.super.CommitOff, "the next %s number is %d, but number %d is in use", what, next, last)
		}
	}
	above(true, "content", want.NextContent, got.NextContent)
	above(true, "frame", want.NextFrame, got.NextFrame)
	same(whole(index.Entries), "entries", want.Entries, got.Entries)
	same(whole(index.Contents), "plain bytes", want.PlainBytes, got.PlainBytes)
	same(whole(index.Frames), "stored bytes", want.StoredBytes, got.StoredBytes)
	same(whole(index.Frames), "frame bytes", want.FrameBytes, got.FrameBytes)
	same(c.sum.Complete, "node bytes", want.NodeBytes, got.NodeBytes)
	same(whole(index.Free), "free bytes", want.FreeBytes, got.FreeBytes)
	same(whole(index.Free), "pending extents", want.Pending, got.Pending)
}

// find reports a finding that concerns no entry.
func (c *checker) find(kind string, off int64, detail string, args ...any) {
	c.rep.add(Finding{Kind: kind, Offset: off, Detail: fmt.Sprintf(detail, args...)}, true)
}

// damage turns an error of kind ErrCorrupt into a finding and returns any other as it is.
func (c *checker) damage(kind string, off int64, err error) error {
	if !errors.Is(err, format.ErrCorrupt) {
		return err
	}
	c.find(kind, off, "%s", detail(err))
	return nil
}

// fatal is damage that ends the check: a finding as well as an error.
func (c *checker) fatal(kind string, err error) error {
	off := int64(-1)
	if e := (*format.Error)(nil); errors.As(err, &e) {
		off = e.Offset
	}
	_ = c.damage(kind, off, err)
	return err
}

// detail is an error's text without its kind and offset, which a finding has already.
func detail(err error) string {
	e := (*format.Error)(nil)
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Record == "" {
		return e.Detail
	}
	return e.Record + ": " + e.Detail
}

// read fills b from the file. Bytes that the file does not have or the device does not give back are damage, which
// leaves the rest to be checked; other errors are not.
func (c *checker) read(b []byte, off int64, record string) error {
	if len(b) == 0 {
		return nil
	}
	n, err := c.f.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return format.Corrupt(record, off, "the file ends inside it")
	case vfs.Unreadable(err):
		return format.Corrupt(record, off, "it cannot be read: %v", err)
	}
	return fmt.Errorf("reading %s at offset %d: %w", record, off, err)
}
