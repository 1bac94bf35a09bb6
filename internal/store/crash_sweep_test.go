package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"

	"lockbox/internal/format"
	"lockbox/internal/journal"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// live is a disk with processes working on it, and what has been acknowledged.
type live struct {
	r      *run
	sim    *vfs.Sim
	window window
}

func (l *live) begin(next *state) { l.window.next = next }

func (l *live) acknowledge() {
	l.window.acked, l.window.next, l.window.create = l.window.next, nil, false
	l.window.ever = l.window.ever.or(l.window.acked.tokens)
}

// open opens or creates the archive for a session.
func (l *live) open(s *session) (*store.Archive, error) {
	o := l.r.options(l.sim)
	if s.create {
		c := store.CreateOptions{Level: l.r.combo.Level, Sector: l.r.combo.Sector, Padding: l.r.combo.Padding}
		store.Protect(&o, &c, l.r.combo.Suite)
		return store.Create(l.r.ctx, archive, o, c)
	}
	return store.OpenWrite(l.r.ctx, archive, o)
}

// play runs a session. failed is called when something failed that should not, before the handle is
// closed; acked after each acknowledgement.
func (l *live) play(s *session, acked func(), failed func(a *store.Archive, err error)) error {
	a, err := l.open(s)
	if err != nil {
		return err
	}
	for i := range s.txns {
		if err = l.transact(a, &s.txns[i], acked); err != nil {
			err = fmt.Errorf("%s: %w", s.txns[i].name, err)
			break
		}
	}
	if err != nil && failed != nil {
		failed(a, err)
	}
	return errors.Join(err, a.Close())
}

func (l *live) transact(a *store.Archive, t *txn, acked func()) error {
	ctx := l.r.ctx
	l.window.staged = l.window.staged.or(t.next.tokens)
	if t.fate == compacts {
		l.begin(t.next)
		if _, err := a.Compact(ctx, store.CompactOptions{}); err != nil {
			return err
		}
		l.acknowledge()
		if acked != nil {
			acked()
		}
		return nil
	}
	tx, err := a.Begin(ctx)
	if err != nil {
		return err
	}
	if err := t.stage(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	switch t.fate {
	case rollsBack:
		return tx.Rollback()
	case conflicts:
		if _, err := tx.Commit(ctx); !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("a conflict was not refused: %w", err)
		}
		return nil
	}
	l.begin(t.next)
	if _, err := tx.Commit(ctx); err != nil {
		return err
	}
	l.acknowledge()
	if acked != nil {
		acked()
	}
	return nil
}

// crash runs the script and looks, before every operation that changes something, at what a power cut
// would leave.
func (r *run) crash() {
	l := r.start()
	for i := range r.script.sessions {
		s := &r.script.sessions[i]
		r.where = fmt.Sprintf("seed %d, %v: session %q", r.seed, r.combo, s.name)
		var reader *store.Archive
		var held *state
		if s.reader {
			var err error
			if reader, err = store.Open(r.ctx, archive, r.options(l.sim)); err != nil {
				fail(inv1, r.where, "opening a reader: %v", err)
			}
			held = l.window.acked
		}
		l.watch()
		err := l.play(s, func() { r.unmirrored(l) }, nil)
		l.sim.Hook = nil
		if err != nil {
			fail(inv1, r.where, "it failed though nothing else did: %v", err)
		}
		if reader != nil {
			if f, err := readEntries(reader); err != nil || !f.is(held) {
				fail(inv1, r.where, "a reader of the state before lost it: %v", err)
			}
			if err := reader.Close(); err != nil {
				fail(inv1, r.where, "closing the reader: %v", err)
			}
			continue // cleanup has to wait for the next session
		}
		r.quiet(l.sim, r.where, l.window.acked, l.window.ever.or(l.window.staged))
		r.idle(l.sim, r.where)
		r.rot(l.sim, r.where, l.window)
	}
}

func (r *run) start() *live {
	sim := vfs.NewSim(r.combo.Disk)
	sim.NamedTemps = r.combo.NamedTemps
	sim.NoDirSync = noDirSync()
	return &live{r: r, sim: sim, window: window{create: true}}
}

// watch makes the sweep look at every boundary.
func (l *live) watch() {
	r := l.r
	guard := r.guard(l.sim, func() string { return r.where })
	n := 0
	l.sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind == vfs.OpLock {
			return nil
		}
		guard(op)
		n++
		r.tally.boundaries.Add(1)
		where := fmt.Sprintf("%s, boundary %d (%s)", r.where, n, opName(op))
		shown := r.shown(l.sim, where)
		l.sim.Pending().Each(r.effort.images, r.r, func(img *vfs.Sim, rule vfs.Rule) bool {
			r.check(img, false, where+ruleName(rule), l.window, shown)
			return true
		})
		if op.Kind == vfs.OpSyncDir || r.every(r.effort.killEvery) {
			r.kill(l.sim.Clone(), where+"/killed", l.window, true)
		}
		return nil
	}
}

// noSync lets a reader look at a disk without changing what is durable there.
type noSync struct{ vfs.FS }

func (s noSync) Open(name string, writable bool) (vfs.File, error) {
	f, err := s.FS.Open(name, writable)
	return noSyncFile{f}, err
}

func (noSync) SyncDir(string) error { return nil }

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error { return nil }

// shown returns the generation that a reader gets that opens now, 0 when it has to wait.
func (r *run) shown(sim *vfs.Sim, where string) uint64 {
	a, err := store.Open(r.ctx, archive, r.options(noSync{sim}))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, format.ErrBusy) {
		return 0
	}
	if err != nil {
		fail(inv1, where, "a reader beside the writer: %v", err)
	}
	f, err := readEntries(a)
	if err := errors.Join(err, a.Close()); err != nil {
		fail(inv1, where, "a reader beside the writer: %v", err)
	}
	return f.gen
}

// kill ends all processes and lets another one recover on the same cache, with power cuts on the way. lasting says
// that no sync has failed: after one that has, nobody can know what is on the disk but who writes it again.
func (r *run) kill(sim *vfs.Sim, where string, w window, lasting bool) {
	f, err := r.read(noSync{sim})
	if errors.Is(err, fs.ErrNotExist) && w.create {
		return
	}
	r.tally.kills.Add(1)
	s := w.acked
	if err == nil && !f.is(s) {
		s = w.next
	}
	if err != nil || !f.is(s) {
		fail(inv1, where, "neither what was acknowledged nor what was in flight: %v", err)
	}
	if s == w.next && s != nil && lasting {
		// What a reader is shown now, no power cut takes back.
		x := sim.Clone()
		if f, err := r.read(x); err != nil || !f.is(s) {
			fail(inv1, where, "a reader was shown something else: %v", err)
		}
		x.Pending().Each(r.effort.nested, r.r, func(img *vfs.Sim, rule vfs.Rule) bool {
			r.check(img, true, where+"/read"+ruleName(rule), window{acked: s, ever: w.ever, staged: w.staged}, f.gen)
			return true
		})
	}
	// The cache has all that was done, the taking back of the clean mark too: nothing staged may be left either.
	r.recover(sim, where, s, w.ever.or(w.staged), func(op vfs.SimOp) {
		if r.every(r.effort.cutEvery) {
			r.cut(sim, where+"/recovery "+opName(op), w)
		}
	})
	r.cut(sim, where+"/recovered", window{acked: s, ever: w.ever})
	if r.every(r.effort.followEvery) {
		r.posts(sim, where, window{acked: s, ever: w.ever.or(s.tokens)})
	}
}

// cut looks at a few of the disks that a power cut would leave now.
func (r *run) cut(sim *vfs.Sim, where string, w window) {
	sim.Pending().Each(r.effort.nested, r.r, func(x *vfs.Sim, rule vfs.Rule) bool {
		r.check(x, true, where+ruleName(rule), w, 0)
		return true
	})
}

// posts lets life go on: two more transactions, with a look at every boundary, and then a recovery.
func (r *run) posts(sim *vfs.Sim, where string, w window) {
	r.tally.posts.Add(1)
	l := &live{r: r, sim: sim, window: w}
	path := "after the crash"
	for i, b := range r.script.posts {
		next := &state{name: fmt.Sprintf("after the crash, %d", i+1), files: map[string]*body{}}
		for p, b := range l.window.acked.files {
			next.files[p] = b
		}
		next.files[path] = b
		next.tokens = l.window.acked.tokens
		if i > 0 {
			next.tokens = next.tokens.without(bitsetOf(r.script.posts[i-1].id))
		}
		next.tokens.add(b.id)
		at := fmt.Sprintf("%s/%s", where, next.name)
		guard := r.guard(sim, func() string { return at })
		sim.Hook = func(op vfs.SimOp) *vfs.Fault {
			if op.Kind != vfs.OpLock {
				guard(op)
				r.cut(sim, at+"/"+opName(op), l.window)
			}
			return nil
		}
		s := &session{txns: []txn{{name: next.name, puts: []put{{path, b}}, next: next}}}
		err := l.play(s, nil, nil)
		sim.Hook = nil
		if err != nil {
			fail(inv1, at, "it failed though nothing else did: %v", err)
		}
		r.quiet(sim, at, next, l.window.ever)
	}
}

func bitsetOf(n int) (s bitset) {
	s.add(n)
	return s
}

// unmirrored checks, when a commit has just been acknowledged and only one pair of copies has it, that
// rot in any one copy changes nothing.
func (r *run) unmirrored(l *live) {
	hook := l.sim.Hook
	l.sim.Hook = nil
	defer func() { l.sim.Hook = hook }()
	l.sim.Pending().Each(vfs.Spread{}, r.r, func(img *vfs.Sim, _ vfs.Rule) bool {
		for n := range 4 {
			x := img.Clone()
			flip(x, int64(n)*format.PageSize+60)
			r.tally.rots.Add(1)
			r.check4(x, fmt.Sprintf("%s, acknowledged, copy %d rotted", r.where, n), window{acked: l.window.acked, ever: l.window.ever})
		}
		// The older state is still in the other pair of copies and whole in the file.
		r.rotRoot(img, r.where+", acknowledged, root rotted")
		return true
	})
}

func flip(sim *vfs.Sim, off int64) {
	b := sim.Bytes(archive)
	sim.Edit(archive, off, []byte{b[off] ^ 0x10})
}

// rot damages an archive that was closed in order (invariant 4).
func (r *run) rot(sim *vfs.Sim, where string, w window) {
	only := window{acked: w.acked, ever: w.ever}
	noise := make([]byte, 512)
	for i := range noise {
		noise[i] = byte(r.r.Uint32())
	}
	for n := range 4 {
		off := int64(n) * format.PageSize
		for k, damage := range []func(*vfs.Sim){
			func(x *vfs.Sim) { flip(x, off+int64(r.r.IntN(498))) },
			func(x *vfs.Sim) { x.Edit(archive, off, make([]byte, 512)) },
			func(x *vfs.Sim) { x.Edit(archive, off, noise) },
		} {
			x := sim.Clone()
			damage(x)
			r.tally.rots.Add(1)
			r.check4(x, fmt.Sprintf("%s, copy %d rotted in way %d", where, n, k), only)
		}
	}
	// The two copies of a pair: the others have the same state.
	for pair := range 2 {
		x := sim.Clone()
		flip(x, int64(pair)*format.PageSize+70)
		flip(x, int64(pair+2)*format.PageSize+70)
		r.tally.rots.Add(1)
		r.check4(x, fmt.Sprintf("%s, pair %d rotted", where, pair), only)
	}
	if s := r.current(sim); s.KeyDirLen > 0 {
		for n := range 2 {
			x := sim.Clone()
			flip(x, s.KeyDirCopy(n)+int64(r.r.IntN(int(s.KeyDirLen))))
			r.tally.rots.Add(1)
			if f, err := r.read(x); err != nil || !f.is(w.acked) {
				fail(inv4, where, "copy %d of the key directory rotted: %v", n, err)
			}
			r.mended(x, fmt.Sprintf("%s, copy %d of the key directory rotted", where, n), only)
		}
	}
	for range 3 {
		r.rotRoot(sim.Clone(), where+", root rotted")
	}
}

// check4 is check, with what it finds put down to invariant 4.
func (r *run) check4(x *vfs.Sim, where string, w window) {
	defer func() {
		if v, ok := recover().(*violation); ok {
			v.inv = inv4
			panic(v)
		}
	}()
	r.check(x, true, where, w, 0)
}

// current is the superblock in the cache.
func (r *run) current(sim *vfs.Sim) *journal.Super {
	f, err := sim.Open(archive, false)
	if err != nil {
		fail(inv4, r.where, "%v", err)
	}
	c, err := journal.ReadCopies(f)
	if err := errors.Join(err, f.Close()); err != nil {
		fail(inv4, r.where, "%v", err)
	}
	return c.Current
}

// mended checks that the next change writes a damaged copy of the key directory anew.
func (r *run) mended(sim *vfs.Sim, where string, w window) {
	l := &live{r: r, sim: sim, window: w}
	next := &state{name: "mended", files: maps.Clone(w.acked.files)}
	next.files["mended"] = r.script.posts[0]
	if err := l.play(&session{txns: []txn{{name: next.name, puts: []put{{"mended", r.script.posts[0]}}, next: next}}}, nil, nil); err != nil {
		fail(inv4, where, "%v", err)
	}
	if err := r.verify(sim, true); err != nil {
		fail(inv4, where, "%v", err)
	}
}

// rotRoot flips a bit of the current commit block and expects an error, and no older state.
func (r *run) rotRoot(x *vfs.Sim, where string) {
	r.tally.rots.Add(1)
	if s := r.current(x); s.KeyDirLen > 0 && r.every(3) {
		for n := range 2 {
			flip(x, s.KeyDirCopy(n)+int64(r.r.IntN(int(s.KeyDirLen))))
		}
	} else {
		flip(x, s.CommitOff+int64(r.r.IntN(int(s.CommitLen))))
	}
	if f, err := r.read(x); !errors.Is(err, format.ErrCorrupt) {
		fail(inv4, where, "reading gave generation %d, %v", f.gen, err)
	}
	x.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind != vfs.OpLock {
			fail(inv4, where, "opening for writing did %s", opName(op))
		}
		return nil
	}
	if a, err := store.OpenWrite(r.ctx, archive, r.options(x)); !errors.Is(err, format.ErrCorrupt) {
		if err == nil {
			err = a.Close()
		}
		fail(inv4, where, "opening for writing gave %v", err)
	}
}

// mode is a way in which an operation fails.
type mode struct {
	name  string
	err   error
	kept  func(n int) int
	kinds []vfs.OpKind
}

var modes = []mode{
	{"I/O error", syscall.EIO, func(int) int { return 0 },
		[]vfs.OpKind{vfs.OpWrite, vfs.OpSync, vfs.OpTruncate, vfs.OpCreate, vfs.OpPublish, vfs.OpSyncDir, vfs.OpLock, vfs.OpRemove}},
	{"I/O error, done nonetheless", syscall.EIO, func(n int) int { return max(n, 1) }, []vfs.OpKind{vfs.OpWrite, vfs.OpTruncate, vfs.OpPublish}},
	{"short write", syscall.EIO, func(n int) int { return n / 2 }, []vfs.OpKind{vfs.OpWrite}},
	{"disk full", syscall.ENOSPC, func(n int) int { return n / 3 }, []vfs.OpKind{vfs.OpWrite, vfs.OpSync}},
}

// faults runs each session again and again and lets the n-th operation fail, until there is no n-th.
func (r *run) faults() {
	l := r.start()
	for i := range r.script.sessions {
		s := &r.script.sessions[i]
		for m := range modes {
			skip := 0
			if r.effort.faultEvery > 1 {
				skip = r.r.IntN(r.effort.faultEvery)
			}
			for n := skip; r.fault(l, s, n, &modes[m]); n += r.effort.faultEvery {
			}
		}
		r.where = fmt.Sprintf("seed %d, %v: session %q", r.seed, r.combo, s.name)
		if err := l.play(s, nil, nil); err != nil {
			fail(inv1, r.where, "it failed though nothing else did: %v", err)
		}
	}
}

// fault plays a session on a copy of the disk and lets its n-th operation fail. It reports whether there
// was one.
func (r *run) fault(from *live, s *session, n int, m *mode) bool {
	l := &live{r: r, sim: from.sim.Clone(), window: from.window}
	r.where = fmt.Sprintf("seed %d, %v: session %q", r.seed, r.combo, s.name)
	var failed *vfs.SimOp
	count, closing, other := 0, false, false
	guard := r.guard(l.sim, func() string { return r.where })
	l.sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if closing && op.Kind != vfs.OpRemove {
			fail(inv5, r.where, "a poisoned handle did %s", opName(op))
		}
		guard(op)
		count++
		if count != n+1 {
			return nil
		}
		if !slices.Contains(m.kinds, op.Kind) {
			other = true
			return nil
		}
		failed = &op
		r.where += fmt.Sprintf(", operation %d (%s): %s", n, opName(op), m.name)
		return &vfs.Fault{Err: m.err, Kept: m.kept(op.Len)}
	}
	err := l.play(s, nil, func(a *store.Archive, err error) {
		if failed == nil || failed.Kind == vfs.OpLock || failed.Kind == vfs.OpCreate || failed.Kind == vfs.OpRemove {
			return
		}
		if _, e := a.Begin(r.ctx); !errors.Is(e, format.ErrPoisoned) {
			fail(inv5, r.where, "after %v, a new transaction gave %v", err, e)
		}
		closing = true
	})
	l.sim.Hook = nil
	if failed == nil {
		return other
	}
	r.tally.faults.Add(1)
	if err == nil && l.window.next != nil {
		fail(inv1, r.where, "a failed commit reported success")
	}
	r.cut(l.sim, r.where+"/power cut", l.window)
	// Another process on the same cache. The window stays open: what the failed one has left in the cache
	// may be the acknowledged or the in-flight state.
	l.sim.Kill()
	if l.window.create {
		if _, err := l.sim.Open(archive, false); err != nil {
			r.nothingLeft(l.sim, failed)
			return true
		}
	}
	r.kill(l.sim, r.where+"/next process", l.window, failed.Kind != vfs.OpSync && failed.Kind != vfs.OpSyncDir && failed.Kind != vfs.OpPublish)
	return true
}

// nothingLeft checks that a failed creation leaves nothing behind, and that it can be repeated.
func (r *run) nothingLeft(sim *vfs.Sim, failed *vfs.SimOp) {
	if names := sim.Names(); len(names) > 0 && failed.Kind != vfs.OpRemove {
		fail(inv1, r.where, "it left %q", names)
	}
	l := &live{r: r, sim: sim, window: window{create: true}}
	if err := l.play(&r.script.sessions[0], nil, nil); err != nil {
		fail(inv1, r.where, "creating again: %v", err)
	}
	r.cut(sim, r.where+"/created again", l.window)
}
