package hostfs

import (
	"container/list"
	"sync"
)

// maxDirs bounds the directories a walk or an extractor keeps open beyond those in use at the moment.
const maxDirs = 96

// extractDirs is how many of them an extractor keeps open: a small limit on open files leaves room for a second cache, that of
// what looks at the destination first, and for the files of all workers.
func extractDirs() int { return int(min(maxDirs, openFileLimit()/6)) }

// dirCache keeps directories open under keys of its user, the least recently used ones are closed.
// It is safe for concurrent use; a directory that several ask for is opened once.
type dirCache[K comparable] struct {
	open func(K) (*dir, error) // may acquire and release other keys
	most int                   // of those that nobody uses

	mu     sync.Mutex
	byKey  map[K]*cached[K]
	unused *list.List // of *cached with refs 0, most recently used first
	closed bool       // nothing is kept any more
}

type cached[K comparable] struct {
	*dir
	key  K
	once sync.Once
	err  error
	refs int
	elem *list.Element
}

func newDirCache[K comparable](most int, open func(K) (*dir, error)) *dirCache[K] {
	return &dirCache[K]{open: open, most: most, byKey: make(map[K]*cached[K]), unused: list.New()}
}

// acquire returns the open directory of key. The caller releases it.
func (c *dirCache[K]) acquire(key K) (*cached[K], error) {
	c.mu.Lock()
	h := c.byKey[key]
	if h == nil {
		h = &cached[K]{key: key}
		c.byKey[key] = h
	}
	h.refs++
	if h.elem != nil {
		c.unused.Remove(h.elem)
		h.elem = nil
	}
	c.mu.Unlock()
	// Outside of the lock: one slow directory must not hold up the others.
	h.once.Do(func() { h.dir, h.err = c.open(key) })
	if h.err != nil {
		err := h.err
		c.release(h)
		return nil, err
	}
	return h, nil
}

// release gives h back. A failed open is forgotten, so that the next acquire tries again.
func (c *dirCache[K]) release(h *cached[K]) {
	var drop []*cached[K]
	c.mu.Lock()
	h.refs--
	if h.err != nil && c.byKey[h.key] == h {
		delete(c.byKey, h.key)
	}
	if h.refs == 0 && h.err == nil {
		h.elem = c.unused.PushFront(h)
		most := c.most
		if c.closed {
			most = 0
		}
		for c.unused.Len() > most {
			drop = append(drop, c.evictLocked())
		}
	}
	c.mu.Unlock()
	for _, h := range drop {
		_ = h.dir.close()
	}
}

func (c *dirCache[K]) evictLocked() *cached[K] {
	h := c.unused.Remove(c.unused.Back()).(*cached[K])
	h.elem = nil
	delete(c.byKey, h.key)
	return h
}

// close closes what is not in use now, and the rest as it is released.
func (c *dirCache[K]) close() {
	var drop []*cached[K]
	c.mu.Lock()
	c.closed = true
	for c.unused.Len() > 0 {
		drop = append(drop, c.evictLocked())
	}
	c.mu.Unlock()
	for _, h := range drop {
		_ = h.dir.close()
	}
}
