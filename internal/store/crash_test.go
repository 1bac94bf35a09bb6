package store_test

import (
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/vfs"
)

var (
	crashSeeds = flag.Int("crash.seeds", 0, "run the crash sweep at full length with this many seeds")
	crashRun   = flag.String("crash.run", "", "only the runs of the sweep that match")
)

// combos are kinds of disks, with archives that are neither signed nor encrypted nor padded.
var combos = []Combo{
	{Level: frames.LevelNone, Sector: 512, Disk: 512},
	{Level: frames.LevelDefault, Sector: 512, Disk: 512, NamedTemps: true},
	{Level: frames.LevelNone, Sector: 4096, Disk: 4096},
	{Level: frames.LevelDefault, Sector: 4096, Disk: 512},
}

// kinds returns four of the sixteen kinds of archives, one of each suite, on different disks, half of them written by
// several workers; any four successive seeds give all kinds.
func kinds(seed uint64) (four []Combo) {
	for k := range 4 {
		form := (k + int(seed)) % 4 // compressed or not, padded or not
		c := combos[(k+2*form+int(seed/4))%4]
		c.Suite, c.Level, c.Jobs = format.Suite(k), frames.LevelNone, 1+2*((k+int(seed))%2)
		if form%2 == 1 {
			c.Level = frames.LevelDefault
		}
		if form/2 == 1 {
			c.Padding = format.PadPadme + format.Padding(k%2)
		}
		four = append(four, c)
	}
	return four
}

var scripts = []struct {
	name string
	make func(seed uint64) *script
}{{"everyday", everyday}, {"wide", wide}, {"tall", tall}, {"compacting", compacting}, {"faithful", faithful}}

var (
	brief = effort{
		images:    vfs.Spread{Exhaustive: 32, Steps: 3, Random: 2, Garbage: 2},
		nested:    vfs.Spread{Exhaustive: 8, Steps: 1, Random: 1, Garbage: 1},
		nestEvery: 200, postEvery: 600, killEvery: 30, cutEvery: 4, followEvery: 12, faultEvery: 13,
	}
	thorough = effort{
		images:    vfs.Spread{Exhaustive: 1 << 10, Steps: 8, Random: 8, Garbage: 4},
		nested:    vfs.Spread{Exhaustive: 8, Steps: 1, Random: 1, Garbage: 1},
		nestEvery: 200, postEvery: 1500, killEvery: 16, cutEvery: 20, followEvery: 40, faultEvery: 1,
	}
)

// task is one run of the sweep.
type task struct {
	name string
	fn   func(*run)
	run  *run
}

// tasks lists the runs of a sweep over four combos. The longest script meets all of them, the others one each.
func tasks(seed uint64, combos []Combo, e effort, t *tally) (list []task) {
	add := func(name string, fn func(*run), script func(uint64) *script, c Combo) {
		list = append(list, task{fmt.Sprintf("%s, seed %d, %v", name, seed, c), fn, newRun(seed, c, script(seed), e, t)})
	}
	both := func(name string, script func(uint64) *script, c Combo) {
		add(name+", crash", (*run).crash, script, c)
		add(name+", faults", (*run).faults, script, c)
	}
	for k := range combos {
		both(scripts[0].name, scripts[0].make, combos[(k+int(seed))%len(combos)])
		if k == 0 {
			add("lost locks", (*run).lostLocks, everyday, combos[int(seed)%len(combos)])
		}
		if k+1 < len(scripts) {
			both(scripts[k+1].name, scripts[k+1].make, combos[(2*k+int(seed))%len(combos)])
		}
	}
	return list
}

// TestCrash interrupts a real archive on a simulated disk before every operation that changes something,
// and lets every one fail.
func TestCrash(t *testing.T) {
	seeds, e := max(1, *crashSeeds), brief
	if *crashSeeds > 0 {
		e = thorough
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	runtime.MemProfileRate = 0 // a tenth of the time
	var all tally
	start := time.Now()
	var group sync.WaitGroup
	only := regexp.MustCompile(*crashRun)
	limit := make(chan struct{}, 2)
	for seed := 1; seed <= seeds; seed++ {
		list := tasks(uint64(seed), kinds(uint64(seed)), e, &all)
		if testing.Short() {
			list = list[:5]
		}
		for _, k := range list {
			if !only.MatchString(k.name) {
				continue
			}
			limit <- struct{}{}
			group.Go(func() {
				defer func() { <-limit }()
				began := time.Now()
				if err := k.run.protect(func() { k.fn(k.run) }); err != nil {
					t.Errorf("%s: %v", k.name, err)
				}
				t.Logf("%s: %v", k.name, time.Since(began).Round(time.Millisecond))
			})
		}
	}
	group.Wait()
	t.Logf("%d seeds: %v, in %v", seeds, &all, time.Since(start).Round(time.Second))
}
