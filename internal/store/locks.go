package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/vfs"
)

// Where the locks are: ranges past the end of any file. A reader of generation g holds genBase+g
// shared; a cleanup of what generation g retired needs every byte below genBase+g free.
const (
	writerLock  = int64(1) << 62
	publishLock = writerLock + 1
	genBase     = writerLock + 1024
	maxGen      = uint64(1) << 61
)

// lockWait polls for a lock until it is free, the time is up (ErrBusy) or ctx ends.
func lockWait(ctx context.Context, f vfs.File, off int64, exclusive bool, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		ok, err := f.TryLock(off, 1, exclusive)
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return &format.Error{Kind: format.ErrBusy, Offset: -1, Detail: fmt.Sprintf("waited %v", timeout)}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pause, left)):
		}
	}
}

// readersBelow reports whether a reader holds a generation before gen. A file system without locks
// counts as having one: nothing is wiped there.
func readersBelow(f vfs.File, gen uint64) (bool, error) {
	if skip(noReaderCheck) {
		return false, nil
	}
	if gen == 0 {
		return false, nil
	}
	if gen > maxGen {
		return true, nil
	}
	ok, err := f.TryLock(genBase, int64(gen), true)
	if errors.Is(err, vfs.ErrLockUnsupported) {
		return true, nil
	}
	if err != nil || !ok {
		return true, err
	}
	return false, f.Unlock(genBase, int64(gen))
}

// quiet answers for many extents which generations no reader holds any more: each is asked for once.
type quiet struct {
	f    vfs.File
	seen map[uint64]bool
}

func newQuiet(f vfs.File) *quiet { return &quiet{f: f, seen: map[uint64]bool{}} }

// below reports whether no reader holds a generation before gen.
func (q *quiet) below(gen uint64) (bool, error) {
	ok, seen := q.seen[gen]
	if seen {
		return ok, nil
	}
	busy, err := readersBelow(q.f, gen)
	if err != nil {
		return false, err
	}
	q.seen[gen] = !busy
	return !busy, nil
}
