//go:build mutants

package store_test

import (
	"flag"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

var (
	oneMutant = flag.String("crash.mutant", "", "only this mutant")
	dirSync   atomic.Bool
)

// noDirSync reports whether the system forgets to sync the directory of a new file.
func noDirSync() bool { return dirSync.Load() }

// equivalent are barriers that another one covers; docs/durability.md has the arguments.
var equivalent = map[string]string{
	"NoSyncAfterWipe":     "the next sync is the checkpoint's sync 1, and until the checkpoint is published the extents stay on the old root's list",
	"NoSyncAfterTruncate": "a file that is longer than its root says is not taken for one that was closed in order, and its tail was wiped and synced before the cut",
	"NoRecoverySync":      "all that a publication names was synced before its first copy was written, and each copy is rewritten with a sync of its own",
}

// hunting is the effort of a sweep that looks for one mutant.
var hunting = effort{
	images:    vfs.Spread{Exhaustive: 16, Steps: 2, Random: 2, Garbage: 2},
	nested:    vfs.Spread{Exhaustive: 8, Steps: 1, Random: 1, Garbage: 1},
	nestEvery: 100, postEvery: 400, killEvery: 12, cutEvery: 2, followEvery: 4, faultEvery: 5,
}

// TestCrashMutants leaves out one barrier after the other and expects the sweep to notice.
func TestCrashMutants(t *testing.T) {
	names := append(store.MutantNames(), "NoDirSyncAfterPublish")
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	runtime.MemProfileRate = 0
	killed := 0
	for _, name := range names {
		if *oneMutant != "" && name != *oneMutant {
			continue
		}
		store.SetMutant(name)
		dirSync.Store(name == "NoDirSyncAfterPublish")
		start := time.Now()
		var all tally
		why, argued := equivalent[name]
		e, seeds := hunting, uint64(2)
		if argued {
			e, seeds = brief, 1
		}
		v := hunt(&all, e, seeds)
		since := time.Since(start).Round(time.Millisecond)
		looked := all.images.Load() + all.nested.Load()
		switch {
		case v != nil && argued:
			t.Errorf("%s is said to be equivalent (%s), but: %v", name, why, v)
		case v != nil:
			killed++
			t.Logf("%s: killed after %d images, %v: %v", name, looked, since, v)
		case argued:
			t.Logf("%s: equivalent, not noticed in %d images, %v: %s", name, looked, since, why)
		default:
			t.Errorf("%s: survived %d images, %v", name, looked, since)
		}
	}
	store.SetMutant("")
	dirSync.Store(false)
	t.Logf("%d mutants, %d killed, %d equivalent", len(names), killed, len(equivalent))
}

// hunt sweeps until something is noticed.
func hunt(all *tally, e effort, seeds uint64) error {
	var first atomic.Pointer[error]
	var group sync.WaitGroup
	limit := make(chan struct{}, 2)
	for seed := range seeds {
		for _, k := range tasks(seed+1, combos, e, all) {
			limit <- struct{}{}
			if first.Load() != nil {
				break
			}
			group.Go(func() {
				defer func() { <-limit }()
				k.run.stop = func() bool { return first.Load() != nil }
				if err := k.run.protect(func() { k.fn(k.run) }); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			})
		}
	}
	group.Wait()
	if e := first.Load(); e != nil {
		return *e
	}
	return nil
}
