package store

import (
	"sync"

	"lockbox/internal/format"
)

// cacheKey names an immutable thing of one archive: a node by attempt and sequence number, a frame by
// attempt and frame number. Neither is ever reused for other bytes, so a value stays right when the
// generation moves on, and an offset is never part of the key.
type cacheKey struct {
	attempt format.ID
	number  uint64
	kind    uint8
}

const (
	cacheNode  uint8 = 1 // *index.Node
	cacheFrame uint8 = 2 // decoded plain bytes
	cacheTable uint8 = 3 // *frames.Table
)

// cache is a bounded SIEVE cache (Zhang et al., NSDI 2024: one visited bit, a hand that moves from old
// to new) of shared, immutable values. Concurrent misses of one key load it once. A value larger
// than a quarter of the budget is returned but not kept.
type cache struct {
	mu      sync.Mutex
	budget  int64
	used    int64
	m       map[cacheKey]*cacheItem
	flights map[cacheKey]*flight
	head    *cacheItem // newest
	tail    *cacheItem // oldest
	hand    *cacheItem
	stats   *counters
}

type cacheItem struct {
	key          cacheKey
	value        any
	size         int64
	visited      bool
	newer, older *cacheItem
}

type flight struct {
	done  chan struct{}
	value any
	err   error
}

func newCache(budget int64, stats *counters) *cache {
	return &cache{budget: budget, m: map[cacheKey]*cacheItem{}, flights: map[cacheKey]*flight{}, stats: stats}
}

// get returns the value of k, loading it when it is not there. load returns the value's size in
// bytes; its error is given to everybody who waited, and nothing is kept.
func (c *cache) get(k cacheKey, load func() (any, int64, error)) (any, error) {
	c.mu.Lock()
	if it := c.m[k]; it != nil {
		it.visited = true
		c.mu.Unlock()
		c.stats.CacheHits.Add(1)
		return it.value, nil
	}
	if f := c.flights[k]; f != nil {
		c.mu.Unlock()
		c.stats.CacheHits.Add(1)
		<-f.done
		return f.value, f.err
	}
	f := &flight{done: make(chan struct{})}
	c.flights[k] = f
	c.mu.Unlock()
	c.stats.CacheMisses.Add(1)

	value, size, err := load()
	f.value, f.err = value, err
	c.mu.Lock()
	delete(c.flights, k)
	if err == nil && size <= c.budget/4 {
		c.insert(k, value, size)
	}
	c.mu.Unlock()
	close(f.done)
	return value, err
}

func (c *cache) insert(k cacheKey, value any, size int64) {
	for c.used+size > c.budget && c.tail != nil {
		c.evict()
	}
	it := &cacheItem{key: k, value: value, size: size, older: c.head}
	if c.head != nil {
		c.head.newer = it
	}
	c.head = it
	if c.tail == nil {
		c.tail = it
	}
	c.m[k] = it
	c.used += size
}

func (c *cache) evict() {
	it := c.hand
	if it == nil {
		it = c.tail
	}
	for it.visited {
		it.visited = false
		if it = it.newer; it == nil {
			it = c.tail
		}
	}
	c.hand = it.newer
	c.remove(it)
}

func (c *cache) remove(it *cacheItem) {
	if it.newer != nil {
		it.newer.older = it.older
	} else {
		c.head = it.older
	}
	if it.older != nil {
		it.older.newer = it.newer
	} else {
		c.tail = it.newer
	}
	delete(c.m, it.key)
	c.used -= it.size
}
