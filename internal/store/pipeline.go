package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// pipeline turns plain frames into stored ones: workers read all but the largest files, encode and seal; one
// ordered writer gives out offsets and writes. Numbers are given out when a frame is dispatched, in input order.
// With one job everything happens in the caller's goroutine.
type pipeline struct {
	t       *Tx
	serial  bool
	reads   chan *item
	encodes chan *job
	ordered chan *job
	stop    chan struct{}
	workers sync.WaitGroup
	writer  sync.WaitGroup
	pending sync.WaitGroup // frames not yet written
	err     atomic.Pointer[error]
	own     *encoder // of the caller, when it is serial
}

// job is a frame on its way.
type job struct {
	info    frames.Info
	plain   *[]byte
	users   atomic.Int32 // of plain, beside the worker that encodes it
	members []frames.Member
	ext     *[]byte
	done    chan struct{}
}

// release gives plain back to the pool when nobody else needs it.
func (j *job) release() {
	if j.users.Add(-1) < 0 {
		putBuf(j.plain)
	}
}

// encoder is a frame encoder that takes the time.
type encoder struct {
	*frames.Encoder
	at time.Time // when the stage under way began
}

func (t *Tx) startPipe() error {
	if t.pipe != nil {
		return nil
	}
	jobs := t.a.opt.Jobs
	p := &pipeline{t: t, serial: jobs == 1, stop: make(chan struct{})}
	e, err := p.encoder() // so that bad settings fail here and not in a worker
	if err != nil {
		return err
	}
	t.pipe = p
	if p.serial {
		p.own = e
		return nil
	}
	p.reads = make(chan *item, 2*jobs)
	p.encodes = make(chan *job, jobs)
	p.ordered = make(chan *job, 2*jobs)
	p.workers.Go(func() { p.work(e) })
	for range jobs - 1 {
		p.workers.Go(func() { p.work(nil) })
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

func (p *pipeline) encoder() (*encoder, error) {
	l := p.t.level()
	f, err := frames.NewEncoder(p.t.a.suite, p.t.a.id, l, blockShift(p.t.a.suite.ID()), p.t.a.sector, max(unit(l), maxPack(l), rawUnit))
	if err != nil {
		return nil, err
	}
	f.Pad(p.t.base.commit.Options.Padding)
	e := &encoder{Encoder: f}
	e.Compressed = func() { e.at = lap(&p.t.a.stats.compress, e.at) }
	return e, nil
}

// work is a worker: encoding goes before reading, for it is what the ordered writer waits for. A worker makes
// its encoder when it needs one, unless it is given one: that of the level best takes 40 MB.
func (p *pipeline) work(e *encoder) {
	encode := func(j *job) {
		defer close(j.done)
		if e == nil {
			var err error
			if e, err = p.encoder(); err != nil {
				p.fail(err)
				return
			}
		}
		e.encode(j, &p.t.a.stats)
	}
	for {
		select {
		case j := <-p.encodes:
			encode(j)
			continue
		default:
		}
		select {
		case j := <-p.encodes:
			encode(j)
		case it := <-p.reads:
			p.t.fetch(it)
			close(it.done)
		case <-p.stop:
			return
		}
	}
}

func (e *encoder) encode(j *job, s *counters) {
	j.ext = getBuf(len(*j.plain) + 4096)
	e.at = time.Now()
	*j.ext = e.Encode(*j.ext, &j.info, *j.plain, j.members)
	since(&s.seal, e.at)
	j.release()
}

// dispatch numbers a frame and sends it on its way. It takes j.plain over.
func (t *Tx) dispatch(j *job) {
	p := t.pipe
	j.info.Number, j.info.Attempt = t.nextFrame, t.attempt
	t.nextFrame++
	if p.serial {
		p.own.encode(j, &t.a.stats)
		p.write(j)
		return
	}
	j.done = make(chan struct{})
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
	t.frames.add(r)
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
		if i := number - t.firstFrame; i < uint64(t.frames.len()) {
			return t.frames.at(int(i)), nil
		}
		return nil, missing(index.Frames, number)
	}
	r, err := t.a.frameRecord(t.base, number)
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
	return t.a.plainFrame(ref)
}
