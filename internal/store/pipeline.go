package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// pipeline turns plain frames into stored ones: workers read small files, encode and seal; one ordered
// writer gives out offsets and writes. Numbers are given out when a frame is dispatched, in input order.
// With one job everything happens in the caller's goroutine.
type pipeline struct {
	t        *Tx
	serial   bool
	reads    chan *item
	encodes  chan *job
	ordered  chan *job
	stop     chan struct{}
	workers  sync.WaitGroup
	writer   sync.WaitGroup
	pending  sync.WaitGroup // frames not yet written
	err      atomic.Pointer[error]
	encoders sync.Pool
}

// job is a frame on its way. plain goes back to the pool when it is encoded.
type job struct {
	info    frames.Info
	plain   *[]byte
	members []frames.Member
	ext     *[]byte
	done    chan struct{}
}

func (t *Tx) startPipe() error {
	if t.pipe != nil {
		return nil
	}
	jobs := t.a.opt.Jobs
	p := &pipeline{t: t, serial: jobs == 1, stop: make(chan struct{})}
	t.pipe = p
	e, err := p.encoder() // so that bad settings fail here and not in a worker
	if err != nil {
		return err
	}
	p.release(e)
	if p.serial {
		return nil
	}
	p.reads = make(chan *item, 2*jobs)
	p.encodes = make(chan *job, jobs)
	p.ordered = make(chan *job, 2*jobs)
	for range jobs {
		p.workers.Go(p.work)
	}
	p.writer.Go(func() {
		for j := range p.ordered {
			<-j.done
			p.write(j)
			p.pending.Done()
		}
	})
	return nil
}

func (p *pipeline) encoder() (*frames.Encoder, error) {
	if e, ok := p.encoders.Get().(*frames.Encoder); ok {
		return e, nil
	}
	l := p.t.level()
	e, err := frames.NewEncoder(p.t.a.suite, p.t.a.id, l, blockShift(p.t.a.suite.ID()), p.t.a.sector, max(unit(l), maxPack, rawUnit))
	if err == nil {
		e.Pad(p.t.base.commit.Options.Padding)
	}
	return e, err
}

func (p *pipeline) release(e *frames.Encoder) { p.encoders.Put(e) }

// plain returns a buffer of n bytes for plain bytes.
func (p *pipeline) plain(n int) *[]byte { return getBuf(n) }

func (p *pipeline) recycle(b *[]byte) { putBuf(b) }

// work is a worker: encoding goes before reading, for it is what the ordered writer waits for.
func (p *pipeline) work() {
	e, err := p.encoder()
	if err != nil {
		p.fail(err)
	}
	for {
		select {
		case j := <-p.encodes:
			p.encode(e, j)
			continue
		default:
		}
		select {
		case j := <-p.encodes:
			p.encode(e, j)
		case it := <-p.reads:
			p.t.fetch(it)
			close(it.done)
		case <-p.stop:
			return
		}
	}
}

func (p *pipeline) encode(e *frames.Encoder, j *job) {
	defer close(j.done)
	if e == nil {
		return
	}
	defer since(&p.t.a.stats.encode, time.Now())
	j.ext = getBuf(len(*j.plain) + 4096)
	*j.ext = e.Encode(*j.ext, &j.info, *j.plain, j.members)
	p.recycle(j.plain)
	j.plain = nil
}

// dispatch numbers a frame and sends it on its way. It takes j.plain over.
func (t *Tx) dispatch(j *job) {
	p := t.pipe
	j.info.Number, j.info.Attempt = t.nextFrame, t.attempt
	t.nextFrame++
	j.done = make(chan struct{})
	if p.serial {
		e, err := p.encoder()
		if err != nil {
			p.fail(err)
			return
		}
		p.encode(e, j)
		p.release(e)
		p.write(j)
		return
	}
	p.pending.Add(1)
	p.ordered <- j
	p.encodes <- j
}

// write is the ordered writer: it gives the frame its place and writes it.
func (p *pipeline) write(j *job) {
	if p.failure() != nil || j.ext == nil {
		p.fail(fmt.Errorf("frame %d was not encoded", j.info.Number))
		return
	}
	t := p.t
	defer since(&t.a.stats.write, time.Now())
	ext := t.space.alloc(int64(len(*j.ext)), false)
	if err := t.out.write(*j.ext, ext.Off); err != nil {
		p.fail(err)
		return
	}
	putBuf(j.ext)
	i := &j.info
	r := index.Frame{Codec: i.Codec, BlockShift: i.BlockShift, Class: i.Class, Ext: ext, Stored: i.Stored, Plain: i.Plain,
		MemberTable: i.MemberTable, Attempt: i.Attempt, Commitment: i.Commitment, Contents: make([]uint64, len(j.members))}
	for k, m := range j.members {
		r.Contents[k] = m.Content
	}
	t.frames = append(t.frames, r)
	t.sum.StoredBytes += int64(i.Stored)
	t.a.stats.FramesWritten.Add(1)
}

func (p *pipeline) fail(err error) { p.err.CompareAndSwap(nil, &err) }

func (p *pipeline) failure() error {
	if e := p.err.Load(); e != nil {
		return *e
	}
	return nil
}

// drain waits until every dispatched frame is written.
func (t *Tx) drain() error {
	if t.pipe == nil {
		return nil
	}
	t.pipe.pending.Wait()
	return t.pipe.failure()
}

// stopPipe ends the workers; frames on their way are written first.
func (t *Tx) stopPipe() {
	p := t.pipe
	if p == nil {
		return
	}
	t.pipe = nil
	if p.serial {
		return
	}
	close(p.ordered)
	p.writer.Wait()
	close(p.stop)
	p.workers.Wait()
}

// frameRecord is the record of a frame, committed or of this transaction, with its members.
func (t *Tx) frameRecord(number uint64) (*index.Frame, error) {
	if number >= t.firstFrame {
		if i := number - t.firstFrame; i < uint64(len(t.frames)) {
			return &t.frames[i], nil
		}
		return nil, format.Corrupt("frames tree", -1, "frame %d is missing", number)
	}
	value, ok, err := index.Get(t.a, index.Frames, t.base.tree(index.Frames), index.AppendNumKey(nil, number))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, format.Corrupt("frames tree", -1, "frame %d is missing", number)
	}
	r, err := index.DecodeFrame(value, t.a.suite.TagSize(), t.a.sector)
	return &r, err
}

// readFrame returns all plain bytes of a frame, verified.
func (t *Tx) readFrame(ref *frameRef) ([]byte, error) {
	if err := t.a.checkRef(ref); err != nil {
		return nil, err
	}
	if ref.Number >= t.firstFrame {
		// Of this transaction: read back only after drain, when the writer rests.
		if err := t.out.flush(); err != nil {
			return nil, err
		}
	}
	if ref.BlockShift != 0 {
		table, err := t.a.table(ref)
		if err != nil {
			return nil, err
		}
		b := make([]byte, ref.Plain)
		return b, t.a.readRaw(ref, table, b, 0)
	}
	return t.a.plainFrame(ref)
}
