package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
	"lockbox/internal/journal"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/store"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

const archive = "a.lbx"

// The invariants that the sweep checks, by number.
const (
	inv1 = 1 + iota // the state is the acknowledged or the in-flight one, whole and verified
	inv2            // recovery and cleanup change no state and can be repeated
	inv3            // after cleanup no deleted byte is left, in the cache or on the disk
	inv4            // one rotted superblock copy changes nothing, a rotted root is an error
	inv5            // a poisoned handle refuses everything but close
	inv6            // what is written, and wiped, is staged, retired or past the end
	inv7            // no key and nonce seal twice
)

// violation ends a run.
type violation struct {
	inv   int
	where string
	what  string
}

func (v *violation) Error() string {
	if v.inv == 0 {
		return v.where + ": " + v.what
	}
	return fmt.Sprintf("invariant %d: %s: %s", v.inv, v.where, v.what)
}

// Combo is one kind of archive on one kind of disk.
type Combo struct {
	Level      frames.Level
	Sector     int64 // of the archive
	Disk       int   // sector of the disk; at most the archive's
	NamedTemps bool  // the system knows no anonymous files
	Suite      format.Suite
	Padding    format.Padding
	Jobs       int // workers; 0: one. With more, what the sweep finds ends the test binary
}

func (c Combo) String() string {
	s := fmt.Sprintf("%v, level %d, padding %v, sector %d on %d", c.Suite, c.Level, c.Padding, c.Sector, c.Disk)
	if c.NamedTemps {
		s += ", named temporary files"
	}
	if c.Jobs > 1 {
		s += fmt.Sprintf(", %d workers", c.Jobs)
	}
	return s
}

// effort is how much of what is possible a run looks at.
type effort struct {
	images vfs.Spread // at each boundary
	nested vfs.Spread // at each boundary of a recovery, of two more transactions, and after a fault
	// One image in so many is recovered with power cuts during recovery, or is followed by two more
	// transactions; one boundary in so many sees all processes killed.
	nestEvery, postEvery, killEvery int
	// Of the recoveries after a kill or a fault, the power fails at one boundary in so many, and one recovery in
	// so many is followed by two more transactions.
	cutEvery, followEvery int
	faultEvery            int // one operation in so many is made to fail
}

// tally counts what was done.
type tally struct {
	boundaries, images, nested, faults, posts, kills, rots, seals atomic.Int64
}

func (t *tally) String() string {
	return fmt.Sprintf("%d boundaries, %d images, %d nested images, %d injected faults, %d continuations, %d kills, %d damaged archives, %d things sealed",
		t.boundaries.Load(), t.images.Load(), t.nested.Load(), t.faults.Load(), t.posts.Load(), t.kills.Load(), t.rots.Load(), t.seals.Load())
}

// run is one script on one kind of archive.
type run struct {
	ctx    context.Context
	seed   uint64
	combo  Combo
	script *script
	effort effort
	tally  *tally
	r      *rand.Rand
	memo   map[*byte]bitset // tokens in a sector, by the address of its bytes
	where  string
	drawn  uint64              // handles that have drawn randomness, each its own
	sealed map[uint64]struct{} // keys and nonces, digested
	stop   func() bool         // ends the run early when it is true; may be nil
}

// stopped ends a run that is no longer needed.
type stopped struct{}

// window is what may be found after a crash: the acknowledged state, nil when the archive has no name yet, and
// the one in flight, nil when there is none. ever is every token of any acknowledged state, staged every
// token that any transaction has brought, whatever became of it.
type window struct {
	acked, next  *state
	ever, staged bitset
	create       bool // acked is nil, and the archive may be missing
}

func newRun(seed uint64, c Combo, s *script, e effort, t *tally) *run {
	return &run{ctx: context.Background(), seed: seed, combo: c, script: s, effort: e, tally: t,
		r: rand.New(rand.NewPCG(seed, 99)), memo: map[*byte]bitset{}, sealed: map[uint64]struct{}{}}
}

// protect turns a violation, or any other panic, into an error.
func (r *run) protect(fn func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil, stopped:
		case *violation:
			err = p
		default:
			err = &violation{0, r.where, fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	defer func() { r.memo, r.sealed = nil, nil }() // runs are kept in lists
	fn()
	return nil
}

func fail(inv int, where, what string, args ...any) {
	panic(&violation{inv, where, fmt.Sprintf(what, args...)})
}

// every reports true once in n times; never when n is 0.
func (r *run) every(n int) bool { return n > 0 && r.r.IntN(n) == 0 }

// options are those of a process of its own: no two of them draw the same random bytes.
func (r *run) options(fsys vfs.FS) store.Options {
	var seed [32]byte
	r.drawn++
	binary.LittleEndian.PutUint64(seed[:], r.seed)
	binary.LittleEndian.PutUint64(seed[8:], r.drawn)
	o := store.Options{FS: fsys, Entropy: rand.NewChaCha8(seed), LockTimeout: -1, Jobs: max(r.combo.Jobs, 1), CacheBytes: 4 << 20}
	store.Protect(&o, nil, r.combo.Suite)
	store.Observe(&o, r.seal)
	return o
}

// seal notes that something is sealed (invariant 7).
func (r *run) seal(key [seal.KeySize]byte, n seal.Nonce) {
	sum := xxh3.Hash(append(key[:], n[:]...))
	if _, ok := r.sealed[sum]; ok {
		fail(inv7, r.where, "a key seals twice with the nonce %x", n)
	}
	r.sealed[sum] = struct{}{}
	r.tally.seals.Add(1)
}

// found is what one reader saw.
type found struct {
	gen     uint64
	entries []foundEntry
}

type foundEntry struct {
	path  string
	entry index.Entry // with its extended attributes
	data  []byte
}

func readEntries(a *store.Archive) (f found, err error) {
	in, err := a.Info()
	if err != nil {
		return f, err
	}
	f.gen = in.Generation
	for e, err := range a.List(pathsafe.Path{}) {
		if err != nil {
			return f, err
		}
		fe := foundEntry{path: e.Path.String(), entry: e}
		if fe.entry.Xattrs, err = a.Xattrs(context.Background(), &e); err != nil {
			return f, err
		}
		if e.Kind == index.File {
			file, err := a.Open(&e)
			if err != nil {
				return f, err
			}
			fe.data = make([]byte, file.Size())
			if n, err := file.ReadAt(fe.data, 0); n < len(fe.data) || err != nil && !errors.Is(err, io.EOF) {
				return f, fmt.Errorf("%s: %d of %d bytes: %w", fe.path, n, len(fe.data), err)
			}
		}
		f.entries = append(f.entries, fe)
	}
	return f, nil
}

// read opens the archive for reading and reads all of it.
func (r *run) read(fsys vfs.FS) (f found, err error) {
	a, err := store.Open(r.ctx, archive, r.options(fsys))
	if err != nil {
		return f, err
	}
	f, err = readEntries(a)
	return f, errors.Join(err, a.Close())
}

func (f *found) is(s *state) bool {
	if s == nil || len(f.entries) != len(s.files) {
		return false
	}
	for i := range f.entries {
		e := &f.entries[i]
		b, ok := s.files[e.path]
		if plain := b != nil && b.rich == nil; !ok || b == nil && e.entry.Kind != index.Dir || plain && e.entry.Kind != index.File || b != nil && !bytes.Equal(b.data, e.data) {
			return false
		}
	}
	return f.like(s)
}

// simFile lets verify read a file of a Sim.
func (r *run) verify(sim *vfs.Sim, clean bool) error {
	f, err := sim.Open(archive, false)
	if err != nil {
		return err
	}
	var first *verify.Finding
	s, err := verify.Run(r.ctx, f, verify.Options{Full: true, Jobs: 1, Unlock: r.options(sim).Unlock, Signers: r.options(sim).Signers, Finding: func(x verify.Finding) {
		if first == nil && (clean || x.Kind != verify.KindRepairable) {
			first = &x
		}
	}})
	switch {
	case err != nil:
	case first != nil:
		err = fmt.Errorf("verify: %+v", *first)
	case s.Damaged > 0 || !s.Complete:
		err = fmt.Errorf("verify: %+v", s)
	}
	return errors.Join(err, f.Close())
}

// scan looks for tokens that are dead, in everything that the cache shows or the disk may have.
func (r *run) scan(sim *vfs.Sim, where string, dead bitset) {
	for off, b := range sim.Remains(archive) {
		tokens, ok := r.memo[&b[0]]
		if !ok {
			tokens = r.script.g.find(b)
			if len(r.memo) > 1<<13 { // each keeps the bytes of a whole write alive
				clear(r.memo)
			}
			r.memo[&b[0]] = tokens
		}
		if id := tokens.first(dead); id >= 0 {
			fail(inv3, where, "at offset %d there are still bytes of %s", off, r.script.g.names[id])
		}
	}
}

// check looks at the disk that a power cut has left: what a reader finds, what a writer makes of it.
// minGen is the generation that a reader was shown before the cut.
func (r *run) check(img *vfs.Sim, nested bool, where string, w window, minGen uint64) {
	if r.stop != nil && r.stop() {
		panic(stopped{})
	}
	if nested {
		r.tally.nested.Add(1)
	} else {
		r.tally.images.Add(1)
	}
	before, err := r.read(img)
	if errors.Is(err, fs.ErrNotExist) && w.create {
		if minGen > 0 {
			fail(inv1, where, "a reader was shown generation %d, now there is no archive", minGen)
		}
		return
	}
	if err != nil {
		fail(inv1, where, "reading: %v", err)
	}
	s := w.acked
	if !before.is(s) {
		if s = w.next; !before.is(s) {
			fail(inv1, where, "generation %d is neither what was acknowledged nor what was in flight: %v", before.gen, before.paths())
		}
	}
	if before.gen < minGen {
		fail(inv1, where, "a reader was shown generation %d, now there is %d", minGen, before.gen)
	}
	if err := r.verify(img, false); err != nil {
		fail(inv1, where, "before recovery: %v", err)
	}
	if w.ever = w.ever.or(s.tokens); !r.closedInOrder(img) {
		w.ever = w.ever.or(w.staged) // recovery overwrites what was staged as well
	}
	only := window{acked: s, ever: w.ever, staged: w.staged}
	var during func(vfs.SimOp)
	if !nested && r.every(r.effort.nestEvery) {
		during = func(op vfs.SimOp) {
			at := where + "/recovery " + opName(op)
			img.Pending().Each(r.effort.nested, r.r, func(x *vfs.Sim, rule vfs.Rule) bool {
				r.check(x, true, at+ruleName(rule), only, 0)
				return true
			})
		}
	}
	r.recover(img, where, s, w.ever, during)
	if !nested && r.every(r.effort.postEvery) {
		r.posts(img, where, only)
	}
}

// closedInOrder reports whether an archive looks as if its last writer had closed it: whoever opens it for
// writing has nothing to repair.
func (r *run) closedInOrder(sim *vfs.Sim) bool {
	f, err := sim.Open(archive, false)
	if err != nil {
		return false
	}
	defer f.Close()
	c, err := journal.ReadCopies(f)
	if err != nil || !c.AllEqual() {
		return false
	}
	marked, err := journal.Marked(f, c.Current)
	size, serr := f.Size()
	return marked && err == nil && serr == nil && size == c.Current.End
}

func opName(op vfs.SimOp) string {
	if op.Kind == vfs.OpWrite {
		return fmt.Sprintf("%v %d+%d", op.Kind, op.Off, op.Len)
	}
	return op.Kind.String()
}

func ruleName(rule vfs.Rule) string { return fmt.Sprintf("/%s %d", rule.Name, rule.N) }

func (f *found) paths() (p []string) {
	for i := range f.entries {
		p = append(p, f.entries[i].path)
	}
	return p
}

// recover opens the archive for writing and closes it, which repairs and cleans up; that must change no
// state, leave nothing deleted, and leave nothing to do for a second time. during is called at each
// boundary.
func (r *run) recover(sim *vfs.Sim, where string, s *state, ever bitset, during func(vfs.SimOp)) {
	guard := r.guard(sim, func() string { return where })
	sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind != vfs.OpLock {
			guard(op)
			if during != nil {
				during(op)
			}
		}
		return nil
	}
	a, err := store.OpenWrite(r.ctx, archive, r.options(sim))
	if err != nil {
		fail(inv2, where, "recovery: %v", err)
	}
	after, err := readEntries(a)
	if err != nil || !after.is(s) {
		fail(inv2, where, "recovery changed the state %q: %v", s.name, err)
	}
	if err := a.Close(); err != nil {
		fail(inv2, where, "cleanup: %v", err)
	}
	sim.Hook = nil
	r.quiet(sim, where, s, ever)
	r.idle(sim, where)
}

// quiet checks an archive that was recovered and cleaned up, with no reader.
func (r *run) quiet(sim *vfs.Sim, where string, s *state, ever bitset) {
	after, err := r.read(sim)
	if err != nil || !after.is(s) {
		fail(inv2, where, "cleanup changed the state %q: %v", s.name, err)
	}
	if err := r.verify(sim, true); err != nil {
		fail(inv2, where, "after cleanup: %v", err)
	}
	if r.combo.Suite.Encrypted() {
		r.scan(sim, where, all(len(r.script.g.names))) // nothing that is or was stored shows
		return
	}
	r.scan(sim, where, ever.without(s.tokens))
}

func all(n int) (s bitset) {
	for i := range n {
		s.add(i)
	}
	return s
}

// idle checks that opening for writing and closing has nothing to do.
func (r *run) idle(sim *vfs.Sim, where string) {
	sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind != vfs.OpLock {
			fail(inv2, where, "a second recovery or cleanup still does: %s", opName(op))
		}
		return nil
	}
	a, err := store.OpenWrite(r.ctx, archive, r.options(sim))
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		fail(inv2, where, "opening once more: %v", err)
	}
	sim.Hook = nil
}
