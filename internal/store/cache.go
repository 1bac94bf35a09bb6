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
	cacheFrame uint8 = 2 // all plain bytes of a frame
	cacheHead  uint8 = 3 // the first plain bytes of a compressed frame
	cacheTable uint8 = 4 // *frames.Table
)

// cache is a bounded SIEVE cache (Zhang et al., NSDI 2024: one visited bit, a hand that moves from old
// to new) of shared, immutable values. Concurrent misses of one key load it once. A value larger
// than a quarter of the budget is returned but not kept. The zero value with a budget is ready.
type cache struct {
	mu     sync.Mutex
	budget int64
	used   int64
	m      map[cacheKey]*cacheItem // made with the first item: opening an archive needs none
	head   *cacheItem              // newest
	tail   *cacheItem              // oldest
	hand   *cacheItem
	stats  *counters
}

// cacheItem is a value, or the place of one that is being loaded: then it is in the map and not yet in
// the list, and done is made by the first who waits for it.
type cacheItem struct {
	key          cacheKey
	value        any
	err          error
	size         int64
	loading      bool
	visited      bool
	done         chan struct{}
	newer, older *cacheItem
}

// has reports whether the value of k is there or being loaded.
func (c *cache) has(k cacheKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[k] != nil
}

// get returns the value of k, loading it when it is not there. load returns the value's size in
// bytes; its error is given to everybody who waited, and nothing is kept.
func (c *cache) get(k cacheKey, load func() (any, int64, error)) (any, error) {
	c.mu.Lock()
	if it := c.m[k]; it != nil {
		c.stats.CacheHits.Add(1)
		if !it.loading {
			it.visited = true
			c.mu.Unlock()
			return it.value, nil
		}
		if it.done == nil {
			it.done = make(chan struct{})
		}
		c.mu.Unlock()
		<-it.done
		return it.value, it.err
	}
	it := &cacheItem{key: k, loading: true}
	if c.m == nil {
		c.m = make(map[cacheKey]*cacheItem)
	}
	c.m[k] = it
	c.mu.Unlock()
	c.stats.CacheMisses.Add(1)

	value, size, err := load()
	c.mu.Lock()
	it.value, it.err, it.loading = value, err, false
	if err == nil && size <= c.budget/4 {
		c.insert(it, size)
	} else {
		delete(c.m, k)
	}
	c.mu.Unlock()
	if it.done != nil { // nobody finds the item loading any more
		close(it.done)
	}
	return value, err
}

// insert puts a loaded item, which is in the map, at the head of the list.
func (c *cache) insert(it *cacheItem, size int64) {
	for c.used+size > c.budget && c.tail != nil {
		c.evict()
	}
	it.size, it.older = size, c.head
	if c.head != nil {
		c.head.newer = it
	}
	c.head = it
	if c.tail == nil {
		c.tail = it
	}
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
