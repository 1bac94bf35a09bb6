package bench

import (
	"runtime"
	"sync"
	"time"
)

// heapUse is what a run does to the heap: how much it keeps alive at most, and how much it allocates in all.
type heapUse struct{ live, allocated int64 }

// useOf runs a contender outside all timing: once to see what it allocates, then for a moment again and again while
// garbage is collected all the time. What is left after each collection is what the run keeps alive.
func useOf(c Contender) (u heapUse, err error) {
	before, err := readyFor(c)
	if err != nil {
		return u, err
	}
	if _, err := c.Run(); err != nil {
		return u, err
	}
	u.allocated = int64(readHeap().TotalAlloc - before.TotalAlloc)

	// The collector needs a processor of its own, or it would only run when the contender waits.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	begin := time.Now()
	for run := 0; run == 0 || run < 20 && time.Since(begin) < 50*time.Millisecond; run++ {
		before, err := readyFor(c)
		if err != nil {
			return u, err
		}
		quit := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				runtime.GC()
				u.live = max(u.live, int64(readHeap().HeapAlloc)-int64(before.HeapAlloc))
				select {
				case <-quit:
					return
				default:
				}
			}
		})
		_, err = c.Run()
		close(quit)
		wg.Wait()
		if err != nil {
			return u, err
		}
	}
	return u, nil
}

// readyFor prepares a run and returns the heap as it finds it.
func readyFor(c Contender) (m runtime.MemStats, err error) {
	if c.Prepare != nil {
		err = c.Prepare()
	}
	for range 2 { // what a pool holds goes with the second collection
		runtime.GC()
	}
	return readHeap(), err
}

func readHeap() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}

// allocations returns how many objects fn allocates in a run, on average over 20.
func allocations(fn func() error) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const runs = 20
	if err := fn(); err != nil {
		return 0, err
	}
	before := readHeap()
	for range runs {
		if err := fn(); err != nil {
			return 0, err
		}
	}
	return float64((readHeap().Mallocs - before.Mallocs) / runs), nil
}
