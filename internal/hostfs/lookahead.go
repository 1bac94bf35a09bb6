package hostfs

import "sync"

// maxAhead bounds the items that are loaded before they are needed. One directory may go beyond it.
const maxAhead = 8192

type unitState uint8

const (
	unitIdle unitState = iota
	unitRunning
	unitDone
)

// lookahead loads units before the consumer needs them. Units that are not loaded stand in one list in
// the order of the walk; a worker takes the first that nobody has taken, so what is loaded is always
// what the consumer comes to next. The consumer never waits for a unit that nobody is loading: it
// loads that itself, and with one job all of them.
type lookahead struct {
	load    func(*unit) // without the lock
	workers int

	mu      sync.Mutex
	change  sync.Cond
	head    *unit // the list of units that are not loaded yet
	ahead   int   // items of units that are loaded and not needed yet
	stopped bool
	started bool
	wg      sync.WaitGroup
}

func newLookahead(jobs int, load func(*unit)) *lookahead {
	l := &lookahead{load: load, workers: jobs - 1}
	l.change.L = &l.mu
	return l
}

// push adds the first unit of a tree. Workers start with the first tree.
func (l *lookahead) push(u *unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.insertAfter(nil, u)
	if !l.started && !l.stopped {
		l.started = true
		for range l.workers {
			l.wg.Go(l.work)
		}
	}
	l.change.Broadcast()
}

func (l *lookahead) work() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopped {
		u := l.firstIdle()
		if u == nil || l.ahead >= maxAhead {
			l.change.Wait()
			continue
		}
		l.run(u)
	}
}

// firstIdle passes at most the units that are being loaded, as many as there are jobs.
func (l *lookahead) firstIdle() *unit {
	for u := l.head; u != nil; u = u.next {
		if u.state == unitIdle {
			return u
		}
	}
	return nil
}

// run loads u, with the lock released meanwhile, and puts what it found in its place.
func (l *lookahead) run(u *unit) {
	u.state = unitRunning
	l.mu.Unlock()
	l.load(u)
	l.mu.Lock()
	at := u
	for i := range u.items {
		if sub := u.items[i].sub; sub != nil {
			l.insertAfter(at, sub)
			at = sub
		}
	}
	if u.rest != nil {
		l.insertAfter(at, u.rest)
	}
	l.remove(u)
	u.state = unitDone
	l.ahead += len(u.items)
	l.change.Broadcast()
}

// need returns when u is loaded, or false when the walk was stopped.
func (l *lookahead) need(u *unit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopped {
		switch u.state {
		case unitDone:
			l.ahead -= len(u.items)
			l.change.Broadcast()
			return true
		case unitIdle:
			l.run(u)
		case unitRunning:
			l.change.Wait()
		}
	}
	return false
}

// cancel makes workers and the consumer stop soon; stop also waits for the workers.
func (l *lookahead) cancel() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.change.Broadcast()
}

func (l *lookahead) stop() {
	l.cancel()
	l.wg.Wait()
}

func (l *lookahead) insertAfter(at, u *unit) {
	u.prev = at
	if at == nil {
		u.next, l.head = l.head, u
	} else {
		u.next, at.next = at.next, u
	}
	if u.next != nil {
		u.next.prev = u
	}
}

func (l *lookahead) remove(u *unit) {
	if u.prev == nil {
		l.head = u.next
	} else {
		u.prev.next = u.next
	}
	if u.next != nil {
		u.next.prev = u.prev
	}
	u.prev, u.next = nil, nil
}
