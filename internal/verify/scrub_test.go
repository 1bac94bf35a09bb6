package verify

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"lockbox/internal/format"
)

// testClock is a clock that only sleeping moves.
type testClock struct {
	now   time.Time
	slept func(d time.Duration) // called after each sleep
}

func newTestClock() *testClock { return &testClock{now: time.Unix(1e9, 0)} }

func (c *testClock) Now() time.Time { return c.now }

func (c *testClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.now = c.now.Add(d)
	if c.slept != nil {
		c.slept(d)
	}
	return nil
}

// scrubFile is a file in memory that notes when every byte was read last.
type scrubFile struct {
	memFile
	clock    *testClock
	read     []time.Time
	uncached int
	fail     error // what reads past the front return
}

func newScrubFile(b []byte, c *testClock) *scrubFile {
	return &scrubFile{memFile: b, clock: c, read: make([]time.Time, len(b))}
}

func (f *scrubFile) Uncache() error { f.uncached++; return nil }

func (f *scrubFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fail != nil && off >= format.DataStart {
		return 0, f.fail
	}
	n, err := f.memFile.ReadAt(p, off)
	for i := range n {
		f.read[int(off)+i] = f.clock.now
	}
	return n, err
}

var errEnough = errors.New("enough")

// scrub runs until pass says that it was enough, and returns what was found.
func scrub(t *testing.T, f File, o ScrubOptions, pass func(Pass) bool) (fs []Finding, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	o.Damage = func(x Finding) { fs = append(fs, x) }
	o.Pass = func(p Pass) {
		if !pass(p) {
			cancel(errEnough)
		}
	}
	if err = Scrub(ctx, f, o); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return fs, err
}

// Every byte is read again within MaxAge, at no more than the rate; rot is found by the next pass.
func TestScrub(t *testing.T) {
	m := sample(t, 512)
	clock := newTestClock()
	f := newScrubFile(m.build(), clock)
	const rate = 4096
	begun := clock.now
	o := ScrubOptions{MaxAge: 4 * time.Minute, Rate: rate, Clock: clock}
	rot := m.frames[1].Ext.Off + 100
	passes, read := 0, uint64(0)
	before := f.read
	found, err := scrub(t, f, o, func(p Pass) bool {
		passes++
		read += p.Work.BytesRead
		if p.Cached || f.uncached != passes {
			t.Errorf("pass %d: the page cache was emptied %d times", passes, f.uncached)
		}
		if p.Age > o.MaxAge || p.Age < p.Took || p.Took > o.MaxAge/2 || p.Took < time.Duration(p.Work.BytesRead/rate-1)*time.Second {
			t.Errorf("pass %d took %v, age %v, %d bytes", passes, p.Took, p.Age, p.Work.BytesRead)
		}
		if limit := clock.now.Sub(begun).Seconds() * rate; float64(read) > limit+2*rate*paceSlack.Seconds()+float64(passes-1)*rate*paceSlack.Seconds() {
			t.Errorf("pass %d: %d bytes read by then, the rate allows %.0f", passes, read, limit)
		}
		if passes > 1 {
			for off, at := range f.read {
				if old := before[off]; !m.unread(int64(off)) && at.Sub(old) > p.Age {
					t.Fatalf("byte %d was read %v after the time before", off, at.Sub(old))
				}
			}
		}
		before = append([]time.Time(nil), f.read...)
		if passes == 2 {
			f.memFile[rot] ^= 1
		}
		return passes < 4
	})
	if err != errEnough || passes != 4 {
		t.Fatalf("%d passes, %v", passes, err)
	}
	if len(found) == 0 || len(found)%2 != 0 || found[0].Kind != KindFrame {
		t.Fatalf("the third and the fourth pass found %v", found)
	}
}

// Where the rate is too low for the archive, passes follow each other and say how old bytes may be.
func TestScrubThatIsLate(t *testing.T) {
	clock := newTestClock()
	f := newScrubFile(sample(t, 512).build(), clock)
	n := 0
	_, err := scrub(t, f, ScrubOptions{MaxAge: time.Second, Rate: 1000, Clock: clock}, func(p Pass) bool {
		if n++; n > 1 && (p.Age < p.Took*3/2 || p.Age <= time.Second) {
			t.Errorf("age %v, took %v", p.Age, p.Took)
		}
		return n < 3
	})
	if err != errEnough {
		t.Fatal(err)
	}
}

// A pass reads what is current when it begins.
func TestScrubFollowsGenerations(t *testing.T) {
	clock := newTestClock()
	f := newScrubFile(sample(t, 512).build(), clock)
	var got []uint64
	clock.slept = func(d time.Duration) {
		m := sample(t, 512)
		m.generation = 4
		f.memFile = m.build()
	}
	found, err := scrub(t, f, ScrubOptions{MaxAge: time.Hour, Clock: clock}, func(p Pass) bool {
		got = append(got, p.Generation)
		return len(got) < 2
	})
	if err != errEnough || len(found) > 0 || got[0] != 3 || got[1] != 4 {
		t.Fatalf("generations %v, found %v, %v", got, found, err)
	}
}

type testHolder struct {
	moved  func() bool
	closed *int
}

func (h testHolder) Recheck() error {
	if h.moved() {
		return format.ErrChanged
	}
	return nil
}
func (h testHolder) Close() error { *h.closed++; return nil }

// What was found while another process changed the archive is looked at again, and not for ever.
func TestScrubWhileTheArchiveChanges(t *testing.T) {
	for _, moves := range []int{0, 1, 9, 10} {
		m := sample(t, 512)
		clock := newTestClock()
		f := newScrubFile(m.build(), clock)
		f.memFile[m.frames[1].Ext.Off+100] ^= 1
		held, closed := 0, 0
		o := ScrubOptions{MaxAge: time.Hour, Clock: clock, Hold: func(context.Context) (Holder, error) {
			held++
			return testHolder{func() bool { return held <= moves }, &closed}, nil
		}}
		found, err := scrub(t, f, o, func(Pass) bool { return false })
		if moves == 10 {
			if !errors.Is(err, format.ErrBusy) || len(found) > 0 {
				t.Errorf("%d moves: %v, found %v", moves, err, found)
			}
		} else if err != errEnough || len(found) == 0 || held != moves+1 {
			t.Errorf("%d moves: %v, %d passes, found %v", moves, err, held, found)
		}
		if closed != held {
			t.Errorf("%d of %d holders closed", closed, held)
		}
	}
}

func TestScrubStops(t *testing.T) {
	b := sample(t, 512).build()
	// In the middle of a pass that would take a day.
	ctx, cancel := context.WithCancel(context.Background())
	clock := newTestClock()
	sleeps := 0
	clock.slept = func(time.Duration) {
		if sleeps++; sleeps == 3 {
			cancel()
		}
	}
	f := newScrubFile(b, clock)
	o := ScrubOptions{MaxAge: time.Hour, Rate: 1, Clock: clock, Damage: func(f Finding) { t.Errorf("found %v", f) }}
	if err := Scrub(ctx, f, o); err != context.Canceled || sleeps != 3 {
		t.Errorf("%v after %d sleeps", err, sleeps)
	}
	// The system's clock wakes up as well.
	ctx, cancel = context.WithCancel(context.Background())
	o.Clock, o.Rate = nil, 0
	o.Pass = func(Pass) { time.AfterFunc(time.Millisecond, cancel) }
	if err := Scrub(ctx, memFile(b), o); err != context.Canceled {
		t.Error(err)
	}
	// A file that cannot be read, one that is none of ours, and no sense at all.
	var told atomic.Int32
	o = ScrubOptions{MaxAge: time.Hour, Damage: func(Finding) { told.Add(1) }}
	f.fail = fs.ErrPermission
	if err := Scrub(context.Background(), f, o); !errors.Is(err, fs.ErrPermission) || told.Swap(0) != 1 {
		t.Error(err)
	}
	if err := Scrub(context.Background(), memFile("PK\x03\x04 and so on"), o); !errors.Is(err, format.ErrNotLockbox) || told.Swap(0) != 1 {
		t.Error(err)
	}
	if Scrub(context.Background(), memFile(b), ScrubOptions{MaxAge: time.Hour}) == nil ||
		Scrub(context.Background(), memFile(b), ScrubOptions{Damage: o.Damage}) == nil {
		t.Error("accepted")
	}
}

// A bounded rate changes nothing but the time it takes, whatever the number of workers.
func TestRate(t *testing.T) {
	b := sample(t, 512).build()
	free, _, err := check(b, Options{Full: true})
	if err != nil {
		t.Fatal(err)
	}
	clock := newTestClock()
	start := clock.now
	paced, fs, err := check(b, Options{Full: true, Rate: 1000, Clock: clock})
	if err != nil || len(fs) > 0 || paced != free {
		t.Fatalf("%+v, %v, %v", paced, fs, err)
	}
	want := time.Duration(paced.Work.BytesRead) * time.Millisecond
	if took := clock.now.Sub(start); took < want-2*paceSlack || took > want+paceSlack {
		t.Errorf("%d bytes took %v", paced.Work.BytesRead, took)
	}
	if s, _, err := check(b, Options{Full: true, Jobs: 4, Rate: 1 << 40}); err != nil || !s.Complete {
		t.Errorf("%+v, %v", s, err)
	}
	if w := free.Work; w.Reads == 0 || w.BytesRead < uint64(len(b))/2 || w.Nodes < free.Nodes || w.Frames == 0 || w.Blocks <= free.Frames {
		t.Errorf("%+v", free)
	}
}
