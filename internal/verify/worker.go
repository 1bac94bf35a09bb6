package verify

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zeebo/blake3"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// buffers of plain bytes go from worker to stream and back; each has a power of two as its capacity.
var buffers sync.Pool

func getBuffer(n int) *[]byte {
	if p, ok := buffers.Get().(*[]byte); ok && cap(*p) >= n {
		*p = (*p)[:n]
		return p
	}
	b := make([]byte, n, 1<<bits.Len(uint(max(n, 1<<12)-1)))
	return &b
}

// secrets is set when this process has checked an encrypted archive: from then on buffers are overwritten after use.
var secrets atomic.Bool

func putBuffer(b *[]byte) {
	if secrets.Load() {
		clear((*b)[:cap(*b)])
	}
	buffers.Put(b)
}

// worker checks frames. It is used by one goroutine.
type worker struct {
	r     *reader
	read  []byte
	plain *[]byte
	hash  *blake3.Hasher
	bad   []int // blocks of the current frame
}

func newWorker(r *reader) *worker { return &worker{r: r, hash: blake3.New()} }

// end overwrites what the worker has read.
func (w *worker) end() {
	if secrets.Load() {
		clear(w.read[:cap(w.read)])
		if w.plain != nil {
			clear((*w.plain)[:cap(*w.plain)])
		}
	}
}

// task reads a group's frames with one read and checks each.
func (w *worker) task(t task) {
	defer func() {
		if t.b.left.Add(-1) == 0 {
			t.b.done <- struct{}{}
		}
	}()
	jobs := t.b.jobs[t.lo:t.hi]
	if w.r.ctx.Err() != nil {
		return
	}
	if w.r.c.portion != nil && !t.b.must && w.r.c.late() {
		t.b.cut.Store(true)
		return
	}
	off := jobs[0].ext.Off
	size := jobs[len(jobs)-1].ext.End() - off
	buf := grow(&w.read, int(size))
	err := w.r.c.read(buf, off, "frame")
	for i := range jobs {
		j := &jobs[i]
		b := buf[j.ext.Off-off:][:j.ext.Len]
		if err != nil {
			// The file may end inside a later frame of the group.
			err := w.r.c.read(b, j.ext.Off, "frame")
			if errors.Is(err, format.ErrCorrupt) {
				w.lost(t.b, j, err)
				continue
			}
			if err != nil {
				w.r.cancel(err)
				return
			}
		}
		w.frame(t.b, j, b)
	}
	w.r.c.rep.advance(size)
}

// detail is detail of an error, with the frame's number once.
func (j *job) detail(err error) string {
	d, frame := detail(err), fmt.Sprintf("frame %d: ", j.info.Number)
	if !strings.HasPrefix(d, frame) {
		d = frame + d
	}
	return d
}

// lost reports a frame none of whose bytes can be used.
func (w *worker) lost(b *batch, j *job, err error) {
	w.r.damagedIn(j.info.Number)
	w.r.c.find(KindFrame, j.ext.Off, "%s", j.detail(err))
	for i := range b.parts[j.lo:j.hi] {
		w.damaged(&b.parts[j.lo+i], fmt.Sprintf("frame %d is damaged", j.info.Number))
	}
}

func (w *worker) damaged(p *part, reason string) {
	w.r.c.contents.markBad(p.rank, reason)
	if p.stream != nil {
		p.stream.end()
	}
}

// frame checks a frame's whole extent and the contents that it holds.
func (w *worker) frame(b *batch, j *job, ext []byte) {
	c := w.r.c
	members, err := frames.CheckHeader(ext, c.suite, c.super.Archive, &j.info, j.ext.Off)
	if err == nil && j.listed && !w.same(members, b.parts[j.lo:j.hi]) {
		err = format.Corrupt("frame member table", j.ext.Off, "disagrees with the index")
	}
	if err != nil {
		// Reading goes by the index, so the contents may still be whole.
		w.r.damagedIn(j.info.Number)
		c.find(KindFrame, j.ext.Off, "%s", j.detail(err))
	}
	plain, err := w.open(&j.info, ext)
	if err != nil {
		w.lost(b, j, err)
		return
	}
	if len(w.bad) > 0 {
		w.r.damagedIn(j.info.Number)
		c.find(KindFrame, j.ext.Off, "frame %d: %d of %d blocks do not verify, the first is number %d", j.info.Number, len(w.bad), j.info.Blocks(), w.bad[0])
	}
	parts := b.parts[j.lo:j.hi]
	for i := range parts {
		p := &parts[i]
		if w.hit(&j.info, p.share) {
			w.damaged(p, fmt.Sprintf("frame %d is damaged", j.info.Number))
			continue
		}
		if p.skip {
			continue
		}
		data := plain[p.off : p.off+p.length]
		if p.stream != nil {
			w.feed(p, data, len(parts) == 1, j.info.Number)
			continue
		}
		w.hash.Reset()
		w.hash.Write(data)
		var sum format.Digest
		w.hash.Sum(sum[:0])
		w.r.digested(p.rank, p.size, sum == p.digest, j.info.Number)
		if p.xattrs && p.size <= index.MaxXattrsContent {
			c.contents.checkXattrs(p.rank, data)
		}
	}
}

// digested notes that all of a content's bytes were read, the last of them in a frame, and whether they are the right
// ones.
func (r *reader) digested(rank int, size int64, right bool, frame uint64) {
	t := &r.c.contents
	r.bytes.Add(size)
	t.mu.Lock()
	t.known.add(rank)
	t.mu.Unlock()
	if !right {
		t.markBad(rank, "its bytes do not have the digest that was stored")
		r.damagedIn(frame)
	}
}

// same reports whether a member table lists exactly the parts.
func (w *worker) same(members []frames.Member, parts []part) bool {
	if len(members) != len(parts) {
		return false
	}
	for i, m := range members {
		p := &parts[i]
		if m.Content != w.r.c.contents.num[p.rank] || m.Off != p.pos || m.Len != p.length {
			return false
		}
	}
	return true
}

// open verifies and decodes a frame. The plain bytes stand in w.plain or in ext. Blocks that do not
// verify are left in w.bad; the plain bytes are zero there.
func (w *worker) open(info *frames.Info, ext []byte) ([]byte, error) {
	c := w.r.c
	w.bad = w.bad[:0]
	at := frames.HeaderSize(c.tag)
	stored := ext[at : at+int(info.Stored)]
	c.blocks.Add(uint64(info.Blocks()))
	if info.BlockShift == 0 {
		checked, err := frames.Check(c.suite, c.super.Archive, info, stored)
		if err != nil || info.Codec == frames.Raw {
			return stored, err
		}
		if w.plain == nil || cap(*w.plain) < int(info.Plain) {
			w.plain = getBuffer(int(info.Plain))
		}
		plain := (*w.plain)[:info.Plain]
		c.decoded.Add(1)
		return plain, checked.Decode(plain)
	}
	at += int(info.Stored)
	table, err := frames.CheckTable(c.suite, c.super.Archive, info, ext[at:at+info.TableSize(c.tag)])
	if err != nil {
		return nil, err
	}
	for k := range info.Blocks() {
		lo, hi := table.BlockRange(k)
		if table.Open(k, stored[lo:hi]) != nil {
			w.bad = append(w.bad, k)
		}
	}
	return stored, nil
}

// hit reports whether a share touches a bad block of the frame that was opened last.
func (w *worker) hit(info *frames.Info, s share) bool {
	k, _ := slices.BinarySearch(w.bad, int(s.off>>info.BlockShift))
	return k < len(w.bad) && w.bad[k] <= int((s.off+s.length-1)>>info.BlockShift)
}

// single reads one frame by number. bad says why none of its bytes can be used.
func (w *worker) single(records *lookup, number uint64) (info frames.Info, plain []byte, bad string, err error) {
	rec, f, err := records.frameAt(number)
	if err != nil {
		return info, nil, "", err
	}
	info = infoOf(number, &rec)
	if f != present {
		return info, nil, fmt.Sprintf("the record of frame %d cannot be read", number), nil
	}
	ext := grow(&w.read, int(info.Used(w.r.c.tag)))
	if err = w.r.c.read(ext, rec.Ext.Off, "frame"); err == nil {
		plain, err = w.open(&info, ext)
	}
	switch {
	case err != nil && !errors.Is(err, format.ErrCorrupt):
		return info, nil, "", err
	case err != nil:
		return info, nil, fmt.Sprintf("frame %d is damaged", number), nil
	}
	return info, plain, "", nil
}

// stream digests a content over several frames in order, whichever order they arrive in. Whoever brings
// the part that is due hashes it and what waits behind it; nobody waits.
type stream struct {
	r     *reader
	given int64 // bytes whose parts were handed out; the walk's own
	first int   // of a run's units, the one in which it begins

	mu      sync.Mutex
	hash    *blake3.Hasher // nil after the end
	rank    int
	size    int64
	digest  format.Digest
	next    int64
	busy    bool
	waiting map[int64]*[]byte
}

func newStream(r *reader, p *part) *stream {
	return &stream{r: r, hash: blake3.New(), rank: p.rank, size: p.size, digest: p.digest}
}

// end drops the stream: its digest will not be known.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hash = nil
	for _, b := range s.waiting {
		putBuffer(b)
	}
	s.waiting = nil
}

// feed gives a part's bytes to its stream. alone says that no other part needs them.
func (w *worker) feed(p *part, data []byte, alone bool, frame uint64) {
	s := p.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hash == nil {
		return
	}
	if s.busy || s.next != p.pos {
		if s.waiting == nil {
			s.waiting = make(map[int64]*[]byte)
		}
		s.waiting[p.pos] = w.keep(data, alone)
		return
	}
	s.busy = true
	var held *[]byte
	for hash := s.hash; ; {
		s.mu.Unlock()
		hash.Write(data)
		n := int64(len(data))
		if held != nil {
			putBuffer(held)
		}
		s.mu.Lock()
		s.next += n
		if held = s.waiting[s.next]; held == nil {
			break
		}
		delete(s.waiting, s.next)
		data = *held
	}
	s.busy = false
	if s.hash != nil && s.next == s.size {
		var sum format.Digest
		s.hash.Sum(sum[:0])
		s.hash = nil
		s.r.digested(s.rank, s.size, sum == s.digest, frame)
	}
}

// keep returns data in a buffer of its own: the worker's, when data fills it and nobody else needs it.
func (w *worker) keep(data []byte, alone bool) *[]byte {
	if b := w.plain; alone && b != nil && len(*b) > 0 && len(data) > 0 && &data[0] == &(*b)[:1][0] {
		*b = (*b)[:len(data)]
		w.plain = nil
		return b
	}
	b := getBuffer(len(data))
	copy(*b, data)
	return b
}
