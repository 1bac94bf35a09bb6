package revault

import (
	"container/list"
	"errors"
	"sync"

	"lockbox/internal/format"
)

// cache keeps what was checked and decoded last, up to a weight, and lets several goroutines that want the same thing
// load it once. Damage is remembered too: a page that hundreds of entries share is not decrypted for each of them.
type cache[K comparable, V any] struct {
	most int64

	mu    sync.Mutex
	used  int64
	items map[K]*item[K, V]
	order list.List // of *item, what was used last at the front
}

type item[K comparable, V any] struct {
	key    K
	ready  chan struct{}
	value  V
	err    error
	weight int64
	at     *list.Element // nil until it is loaded
}

const errorWeight = 256

var errNotLoaded = errors.New("an earlier attempt to read it failed")

func (c *cache[K, V]) get(key K, load func() (V, int64, error)) (V, error) {
	c.mu.Lock()
	if it, ok := c.items[key]; ok {
		if it.at != nil {
			c.order.MoveToFront(it.at)
		}
		c.mu.Unlock()
		<-it.ready
		return it.value, it.err
	}
	if c.items == nil {
		c.items = map[K]*item[K, V]{}
	}
	it := &item[K, V]{key: key, ready: make(chan struct{}), err: errNotLoaded}
	c.items[key] = it
	c.mu.Unlock()

	defer close(it.ready) // also when load panics: nobody may wait for ever
	it.value, it.weight, it.err = load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if it.err != nil {
		if !errors.Is(it.err, format.ErrCorrupt) {
			delete(c.items, key)
			return it.value, it.err
		}
		it.weight = errorWeight
	}
	it.at = c.order.PushFront(it)
	c.used += it.weight
	for c.used > c.most {
		old := c.order.Remove(c.order.Back()).(*item[K, V])
		delete(c.items, old.key)
		c.used -= old.weight
	}
	return it.value, it.err
}
