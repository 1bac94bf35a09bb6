package store

import (
	"sync"

	"lockbox/internal/frames"
)

// packReader holds the pack that streams are going through, for one size class of files. Who reads files in the
// order in which they were packed, each through a stream of its own, gets them out of one buffer: no pack takes a
// place in the cache that nobody will ask for again. It belongs to whoever holds the lock; a stream that finds it
// taken reads by way of the cache.
type packReader struct {
	mu     sync.Mutex
	v      *view
	number uint64  // the pack that was touched last
	end    int64   // where that touch ended
	inRow  bool    // that touch was where the one before it ended
	buf    *[]byte // for the plain bytes of a pack; nil until one was read whole
	plain  []byte  // those of number; nil when it was not read whole
}

// maxPackBuf is up to which size a pack is read into the buffer.
const maxPackBuf = 2 * baseUnit

// packReader returns the locked packReader of the file's size class, or nil.
func (f *File) packReader() *packReader {
	if f.content.Size > smallMax {
		return nil
	}
	if r := &f.a.packs[classOf(f.content.Size)]; r.mu.TryLock() {
		return r
	}
	return nil
}

// touch notes that n bytes from position in on of a frame are wanted, and tells whether reading the frame whole
// would pay: because the bytes follow those of the touch before, in the same frame or at the start of a later one.
func (r *packReader) touch(v *view, number uint64, in, n int64) bool {
	same := r.v == v && r.number == number
	r.inRow = same && in == r.end || r.v == v && number > r.number && in == 0 && r.inRow
	if !same {
		r.plain = nil
	}
	r.v, r.number, r.end = v, number, in+n
	return r.inRow && r.plain == nil
}

// at returns n bytes from position in on of the frame touched last, or nil where it was not read whole.
func (r *packReader) at(in, n int64) []byte {
	if in < 0 || in+n > int64(len(r.plain)) {
		return nil
	}
	return r.plain[in : in+n]
}

// load reads the frame that was touched, if it is a pack.
func (r *packReader) load(a *Archive, f *frameRef) error {
	n := a.wholeSize(f)
	if f.Class == frames.NoPack || f.Codec != frames.Raw || n > maxPackBuf {
		return nil
	}
	if r.buf == nil || cap(*r.buf) < n+frames.Slack {
		if r.buf != nil {
			putBuf(r.buf)
		}
		r.buf = getBuf(n)
	}
	*r.buf = (*r.buf)[:n]
	if err := a.readWhole(f, *r.buf); err != nil {
		return err
	}
	r.plain = (*r.buf)[:f.Plain]
	return nil
}
