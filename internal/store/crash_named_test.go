package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"lockbox/internal/format"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// These are single sequences that went wrong once or that the sweep cannot produce.

// must ends the test when err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prepared returns a run and a disk with the state after the first sessions of the everyday script.
func prepared(t *testing.T, sessions int) (*run, *live) {
	t.Helper()
	r := newRun(7, combos[0], everyday(7), brief, new(tally))
	l := r.start()
	for i := range sessions {
		must(t, l.play(&r.script.sessions[i], nil, nil))
	}
	return r, l
}

// begin opens the archive for writing, stages one new file and leaves the transaction open.
func (r *run) begin(sim *vfs.Sim, path string, b *body) (*store.Archive, *store.Tx) {
	a, err := store.OpenWrite(r.ctx, archive, r.options(sim))
	if err != nil {
		fail(inv1, r.where, "opening: %v", err)
	}
	tx, err := a.Begin(r.ctx)
	if err == nil {
		err = (&txn{puts: []put{{path, b}}}).stage(r.ctx, tx)
	}
	if err != nil {
		fail(inv1, r.where, "staging: %v", err)
	}
	return a, tx
}

// lostLocks lets a writer lose its lock while another one commits: the first must notice before it harms
// what the other has stored; at its commit, at its next transaction and when it closes.
func (r *run) lostLocks() {
	before := r.start()
	for i := range 3 {
		if err := before.play(&r.script.sessions[i], nil, nil); err != nil {
			fail(inv1, r.where, "preparing: %v", err)
		}
	}
	for _, when := range []string{"commit", "begin", "close"} {
		r.where = fmt.Sprintf("seed %d, %v: lost lock, %s", r.seed, r.combo, when)
		sim := before.sim.Clone()
		commit := func(tx *store.Tx) {
			if _, err := tx.Commit(r.ctx); err != nil {
				fail(inv1, r.where, "commit: %v", err)
			}
		}
		a, tx := r.begin(sim, "mine", r.script.posts[0])
		if when != "commit" {
			commit(tx)
		}
		sim.LoseLocks(archive)
		b, other := r.begin(sim, "theirs", r.script.posts[1])
		commit(other)
		if err := b.Close(); err != nil {
			fail(inv1, r.where, "closing the second writer: %v", err)
		}
		want := sim.Bytes(archive)
		sim.Hook = func(op vfs.SimOp) *vfs.Fault {
			if op.Kind != vfs.OpLock {
				fail(inv1, r.where, "the first writer did %s", opName(op))
			}
			return nil
		}
		refused := func(err error) {
			if !errors.Is(err, format.ErrChanged) {
				fail(inv1, r.where, "the first writer was told %v", err)
			}
		}
		switch when {
		case "commit":
			_, err := tx.Commit(r.ctx)
			refused(err)
		case "begin":
			_, err := a.Begin(r.ctx)
			refused(err)
		}
		switch err := a.Close(); {
		case when == "close":
			refused(err)
		case err != nil:
			fail(inv1, r.where, "closing: %v", err)
		}
		if !bytes.Equal(sim.Bytes(archive), want) {
			fail(inv1, r.where, "the archive is not as the second writer left it")
		}
	}
}

// TestCrashNewNameIsDurable: a process is killed when a new archive has its name and the directory is not
// yet synced; what the next process commits must not vanish with the name.
func TestCrashNewNameIsDurable(t *testing.T) {
	r := newRun(7, combos[0], everyday(7), brief, new(tally))
	l := r.start()
	var killed *vfs.Sim
	l.sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind == vfs.OpSyncDir && killed == nil {
			killed = l.sim.Clone()
			if r.shown(l.sim, "a reader before the directory is synced") != 0 {
				t.Error("a reader opened an archive whose name a power cut may take away")
			}
		}
		return nil
	}
	must(t, l.play(&r.script.sessions[0], nil, nil))
	a, tx := r.begin(killed, "new", r.script.posts[0])
	_, err := tx.Commit(r.ctx)
	must(t, err)
	killed.Pending().Each(vfs.Spread{Exhaustive: 1 << 10}, r.r, func(x *vfs.Sim, _ vfs.Rule) bool {
		if _, err := r.read(x); err != nil {
			t.Error(err)
		}
		return true
	})
	must(t, a.Close())
}

// TestCrashFailedPublish: giving a new archive its name fails; the handle must not write once more, and a
// name that may not be durable must not stay: no later sync would make it so.
func TestCrashFailedPublish(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpPublish, vfs.OpSyncDir} {
		r := newRun(7, combos[0], everyday(7), brief, new(tally))
		sim := vfs.NewSim(512)
		sim.Hook = func(op vfs.SimOp) *vfs.Fault {
			if op.Kind == kind {
				return &vfs.Fault{Err: syscall.EIO, Kept: 1}
			}
			return nil
		}
		a, err := store.Create(r.ctx, archive, r.options(sim), store.CreateOptions{})
		must(t, err)
		tx, err := a.Begin(r.ctx)
		must(t, err)
		if _, err := tx.Commit(r.ctx); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if _, err := a.Begin(r.ctx); !errors.Is(err, format.ErrPoisoned) {
			t.Errorf("%v failed: a second attempt gave %v", kind, err)
		}
		must(t, a.Close())
		if names := sim.Names(); len(names) > 0 {
			t.Errorf("%v failed and left %q", kind, names)
		}
	}
	// The name being taken in the last moment is an error that says so.
	r := newRun(7, combos[0], everyday(7), brief, new(tally))
	sim := vfs.NewSim(512)
	sim.Hook = func(op vfs.SimOp) *vfs.Fault {
		if op.Kind == vfs.OpPublish {
			return &vfs.Fault{Err: fs.ErrExist}
		}
		return nil
	}
	a, err := store.Create(r.ctx, archive, r.options(sim), store.CreateOptions{})
	must(t, err)
	tx, err := a.Begin(r.ctx)
	must(t, err)
	if _, err := tx.Commit(r.ctx); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	must(t, a.Close())
}

// TestCrashMisdirectedWrite: one write after the other goes elsewhere and reports success. What is opened
// afterwards is the acknowledged state or an error, never an older state and never other bytes.
func TestCrashMisdirectedWrite(t *testing.T) {
	r, l := prepared(t, 6)
	s := &r.script.sessions[6]
	noticed, n := 0, 0
	for more := true; more; n++ {
		sim := l.sim.Clone()
		size := int64(len(sim.Bytes(archive)))
		w := &live{r: r, sim: sim, window: l.window}
		count := 0
		more = false
		sim.Hook = func(op vfs.SimOp) *vfs.Fault {
			if op.Kind != vfs.OpWrite {
				return nil
			}
			if count++; count-1 != n {
				return nil
			}
			more = true
			return &vfs.Fault{Misdirect: true, To: r.r.Int64N(size/512) * 512}
		}
		_ = w.play(s, nil, nil) // it may notice itself
		sim.Hook = nil
		f, err := r.read(sim)
		if err != nil || r.verify(sim, true) != nil {
			noticed++
		} else if !f.is(w.window.acked) && !f.is(w.window.next) {
			t.Fatalf("write %d: the archive is whole, and is not what was acknowledged", n)
		}
	}
	if noticed < n/3 {
		t.Errorf("of %d misdirected writes %d were noticed", n, noticed)
	}
}
