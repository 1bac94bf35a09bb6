package store

import (
	"sync"
	"sync/atomic"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/journal"
	"lockbox/internal/vfs"
)

// Trust says whether a handle verifies again what it has verified before.
type Trust uint8

const (
	// EveryRead verifies every byte after every read of it.
	EveryRead Trust = iota
	// Earned is for handles that live long. The first read of a block is verified whole. Later reads of the
	// same handle still fetch it from the file, but do not hash it again, so that a medium that rots in
	// between is not noticed by them: whoever chooses this runs verify.Scrub beside it, which bounds for how
	// long, and gives it DropTrust to call. Nothing is remembered beyond the handle.
	//
	// It holds for what File reads of frames that are not compressed. Bulk, CopyTo and everything that a
	// writer does verify every time; decoded frames are shared through the cache, verified before they
	// got there. In an encrypted archive it changes nothing: decrypting a block verifies it.
	//
	// All trust of a handle ends when the handle moves to another generation, when a read or a verification
	// fails, when the file's size or times change, whoever changed them, and with DropTrust. There is none
	// while the archive has a newer generation than the handle, within two seconds after the file changed,
	// and where the file system has no locks.
	Earned
)

const (
	// trustBytes bounds what a handle remembers: about 30,000 frames. When it is full, all is forgotten.
	trustBytes = 4 << 20
	// trustedFrame is what one frame takes beside a bit for each block: its place in the map, a slice.
	trustedFrame = 128
	// trustLook is how long a look at the file's stamp counts. Asking at every read costs more than hashing a
	// small one, and no file system's clock tells moments apart that lie much closer together.
	trustLook = 10 * time.Millisecond
	// trustSettle is how old a stamp must be before equal ones mean an equal file: two changes within one tick
	// of the file system's clock give the same stamp. FAT's tick is two seconds.
	trustSettle = 2 * time.Second
)

type trustKey struct {
	attempt format.ID
	number  uint64
}

// trust is what a handle has verified of one generation while the file had one stamp.
type trust struct {
	v      *view
	stamp  vfs.Stamp
	begun  time.Time    // when the stamp was taken; zero: not yet
	firm   bool         // the stamp is old enough, and the archive's generation is v
	looked atomic.Int64 // when the stamp was last compared, since begun

	mu     sync.Mutex
	blocks map[trustKey][]uint64 // a bit for each block
	used   int
}

// DropTrust makes the handle verify everything again.
func (a *Archive) DropTrust() {
	if t := a.trust.Load(); t != nil {
		a.trust.CompareAndSwap(t, &trust{v: t.v})
	}
}

// trusted returns what is trusted of a generation, or nil where nothing is and nothing can be earned.
func (a *Archive) trusted(v *view) *trust {
	if a.opt.Trust != Earned || a.suite.ID() == format.SuiteEncrypted || a.suite.ID() == format.SuiteBoth || !a.writer && !a.locked {
		return nil
	}
	t := a.trust.Load()
	if t == nil {
		// Until its first commit a handle has one generation.
		a.trust.CompareAndSwap(nil, &trust{v: v})
		t = a.trust.Load()
	}
	if t.v != v {
		return nil // a File of an older generation: what it reads may be wiped meanwhile
	}
	now, last := int64(time.Since(t.begun)), t.looked.Load()
	if now-last >= int64(trustLook) && t.looked.CompareAndSwap(last, now) {
		t = a.look(t)
	}
	if !t.firm {
		return nil
	}
	return t
}

// look compares the file's stamp with t's and returns t, or what takes its place.
func (a *Archive) look(t *trust) *trust {
	next := &trust{v: t.v, begun: time.Now(), blocks: map[trustKey][]uint64{}}
	var err error
	next.stamp, err = vfs.StampOf(a.f)
	if err == nil && t.firm && next.stamp == t.stamp {
		return t
	}
	if err == nil && next.begun.Sub(next.stamp.Latest()) > trustSettle {
		// After the stamp: a commit in between makes the next look differ. What only an older generation needs
		// is not what a scrubber reads, so it is not trusted.
		c, err := journal.ReadCopies(a.f)
		next.firm = err == nil && *c.Current == *t.v.super
	}
	a.trust.CompareAndSwap(t, next) // else something newer is there, which the next read will find
	return next
}

// readRaw fills p, all of which lies in one raw frame, with what stands there from position in on. What the
// handle trusts is read straight into p, the rest is verified. When it fails, p holds zeros.
func (f *File) readRaw(of *openFrame, p []byte, in int64) error {
	a, ref := f.a, &of.ref
	t := a.trusted(f.v)
	if t == nil {
		return a.verifyRaw(of, p, in)
	}
	base := ref.storedOff(a.suite.TagSize())
	for n := 0; n < len(p); {
		known, k := t.next(ref, in+int64(n), len(p)-n)
		part, at := p[n:n+k], in+int64(n)
		var err error
		if known {
			err = a.pread(part, base+at, "frame")
			// Nothing is wiped before the handle has moved on; then t is not its trust any more.
			known = a.trust.Load() == t
		}
		if err == nil && !known {
			if err = a.verifyRaw(of, part, at); err == nil {
				t.earn(ref, at, k)
			}
		}
		if err != nil {
			clear(p)
			return err
		}
		n += k
	}
	return nil
}

func (a *Archive) verifyRaw(of *openFrame, p []byte, in int64) error {
	if of.table != nil {
		return a.readRaw(&of.ref, of.table, p, in)
	}
	return a.readSmallRaw(&of.ref, p, in)
}

// blockAt is the block of a raw frame in which position in lies.
func blockAt(f *frames.Info, in int64) int64 {
	if f.BlockShift == 0 {
		return 0
	}
	return in >> f.BlockShift
}

// next returns how many of the n bytes from position in on lie in blocks that are all trusted, or all not.
func (t *trust) next(f *frameRef, in int64, n int) (known bool, k int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bits := t.blocks[trustKey{f.Attempt, f.Number}]
	has := func(b int64) bool { return bits != nil && bits[b/64]>>(b%64)&1 != 0 }
	b, last := blockAt(&f.Info, in), blockAt(&f.Info, in+int64(n)-1)
	known = has(b)
	for b++; b <= last; b++ {
		if has(b) != known {
			return known, int(b<<f.BlockShift - in)
		}
	}
	return known, n
}

// earn notes that all blocks were verified that n bytes from position in on touch.
func (t *trust) earn(f *frameRef, in int64, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := trustKey{f.Attempt, f.Number}
	bits := t.blocks[key]
	if bits == nil {
		bits = make([]uint64, (f.Blocks()+63)/64)
		size := trustedFrame + 8*len(bits)
		if t.used += size; t.used > trustBytes {
			clear(t.blocks)
			t.used = size
		}
		t.blocks[key] = bits
	}
	for b := blockAt(&f.Info, in); b <= blockAt(&f.Info, in+int64(n)-1); b++ {
		bits[b/64] |= 1 << (b % 64)
	}
}
