package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/blake3"
	"pgregory.net/rapid"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/index"
)

// slowFile takes a nanosecond for each byte that is read past the front, and counts how often each was read.
type slowFile struct {
	memFile
	mu   sync.Mutex
	now  time.Time
	read []uint8
	stop func() // called at byte stopAt
	at   int64
}

func (f *slowFile) ReadAt(b []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.memFile.ReadAt(b, off)
	if off >= format.DataStart {
		f.now = f.now.Add(time.Duration(n))
	}
	for i := range n {
		f.read[int(off)+i]++
	}
	if f.stop != nil && off <= f.at && f.at < off+int64(n) {
		f.stop()
	}
	return n, err
}

func (f *slowFile) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *slowFile) Sleep(context.Context, time.Duration) error { return nil }

var passStart = time.Unix(1_800_000_000, 0)

// passRun makes one run of a pass that begins to read no more after some bytes of frames.
func passRun(t testing.TB, f *slowFile, s *State, budget int64, jobs int) (Summary, []Finding) {
	t.Helper()
	var fs []Finding
	o := Options{Full: true, Jobs: jobs, Clock: f, State: s, Finding: func(x Finding) { fs = append(fs, x) }}
	if budget >= 0 {
		// The structure is read first, whatever it takes.
		free := &slowFile{memFile: f.memFile, read: make([]uint8, len(f.memFile))}
		if _, err := Run(context.Background(), free, Options{Clock: free}); err != nil {
			t.Fatal(err)
		}
		o.Until = f.now.Add(free.now.Sub(time.Time{}) + time.Duration(budget))
	}
	sum, err := Run(context.Background(), f, o)
	if err != nil || sum.Part == nil {
		t.Fatalf("%+v, %v", sum, err)
	}
	// What is stored is what the next run gets.
	b := sum.Part.State.Append(nil)
	back, err := DecodeState(b)
	if err != nil || !bytes.Equal(back.Append(nil), b) {
		t.Fatalf("a state does not survive being stored: %v", err)
	}
	sum.Part.State = back
	return sum, fs
}

func newSlowFile(b []byte) *slowFile {
	return &slowFile{memFile: b, now: passStart, read: make([]uint8, len(b))}
}

// long is an archive of n packs of about 600 bytes, of a content over several frames, and of wiped space.
func long(t testing.TB, n int) *model {
	m := newModel(t, 512, frames.LevelNone)
	for k := range uint64(n) {
		m.pack(k+1, 0, "d", k*3+1, random(300, k), random(200, k+1000), random(100, k+2000))
	}
	big := random(20_000, 77)
	m.content(90_000, big, m.split(uint64(n)+1, 90_000, big, 1024, slices.Collect(func(yield func(int) bool) {
		for i := range 20 {
			if !yield(i) {
				return
			}
		}
	})...))
	m.entry("big", index.Entry{Kind: index.File, Size: 20_000, Content: 90_000})
	m.entry("d", index.Entry{Kind: index.Dir})
	m.wiped(64 << 10)
	return m
}

// commit builds the archive's next generation; what the trees of the last one took is free.
func (m *model) commit() []byte {
	start := int64(len(m.file))
	m.generation++
	b := bytes.Clone(m.build())
	m.free = append(m.free, index.FreeExtent{Ext: format.Extent{Off: start, Len: int64(len(b)) - start}, Gen: m.generation, State: index.FreePending})
	return b
}

// However short the runs are, a pass ends, has read every byte, and none of a frame more often than damage or a
// content cut in two make necessary.
func TestPassInRuns(t *testing.T) {
	for _, budget := range []int64{0, 1, 5_000, 40_000, 1 << 40} {
		for _, jobs := range []int{1, 3} {
			m := long(t, 100)
			f := newSlowFile(m.commit())
			s := &State{}
			runs := 0
			for {
				runs++
				sum, fs := passRun(t, f, s, budget, jobs)
				if len(fs) > 0 || sum.Damaged != 0 || !sum.Complete {
					t.Fatalf("budget %d: %v", budget, fs)
				}
				p := sum.Part
				if p.Pass != 1 || p.Anew != "" || p.Complete() != (p.Left == 0) || p.Complete() != (p.NextFrame == 0 && p.Left == 0) || p.Later != 0 {
					t.Fatalf("budget %d, run %d: %+v", budget, runs, p)
				}
				s = p.State
				if p.Complete() {
					if s.Pass != 2 || s.Last.Pass != 1 || !s.Began.IsZero() || len(s.done) != 0 {
						t.Errorf("after the pass: %+v", s)
					}
					break
				}
				if runs > 40 {
					t.Fatal("the pass does not end")
				}
			}
			if budget == 1<<40 && runs != 1 || budget == 0 && runs < 8 {
				t.Errorf("budget %d: %d runs", budget, runs)
			}
			for _, r := range m.frames {
				for off := r.Ext.Off; off < r.Ext.End(); off++ {
					if f.read[off] == 0 || f.read[off] > 3 {
						t.Fatalf("budget %d: byte %d of a frame was read %d times in %d runs", budget, off, f.read[off], runs)
					}
				}
			}
			for _, x := range m.free {
				if x.State == index.FreeWiped && slices.Contains(f.read[x.Ext.Off:x.Ext.End()], 0) {
					t.Fatalf("budget %d: wiped space was not read", budget)
				}
			}
		}
	}
}

// The second pass reads everything once more.
func TestNextPass(t *testing.T) {
	f := newSlowFile(long(t, 20).commit())
	first, _ := passRun(t, f, &State{}, -1, 1)
	second, _ := passRun(t, f, first.Part.State, -1, 1)
	if p := second.Part; p.Pass != 2 || !p.Complete() || p.Read != first.Part.Read || second.Bytes != first.Bytes || second.Bytes == 0 ||
		p.State.Last.Pass != 2 || first.Part.State.Last.Ended.Unix() < passStart.Unix() {
		t.Errorf("%+v", p)
	}
}

// Damage is found wherever it is, and told in every run from then on until it is mended.
func TestPassTellsDamageInEveryRun(t *testing.T) {
	m := long(t, 100)
	clean := m.commit()
	for _, number := range []uint64{1, 50, 100, 110} {
		b := bytes.Clone(clean)
		at := m.frames[number].Ext.Off + int64(frames.HeaderSize(testTag)) + 20
		b[at] ^= 1
		f, s, told := newSlowFile(b), &State{}, 0
		for range 60 {
			sum, fs := passRun(t, f, s, 20_000, 2)
			s = sum.Part.State
			entries := len(paths(fs, KindContent))
			if told > 0 && (sum.Damaged == 0 || entries == 0) {
				t.Fatalf("frame %d: damage was forgotten: %v", number, fs)
			}
			told += entries
			if sum.Part.Pass == 2 && sum.Part.Complete() {
				break
			}
		}
		if told == 0 || s.Pass != 3 {
			t.Fatalf("frame %d: told of %d entries, %+v", number, told, s)
		}
		b[at] ^= 1
		sum, fs := passRun(t, f, s, 0, 1)
		if len(fs) != 0 || len(sum.Part.State.bad) != 0 {
			t.Errorf("frame %d was mended: %v", number, fs)
		}
	}
}

// Space that must be zero and is not is told in every run too.
func TestPassTellsFill(t *testing.T) {
	m := long(t, 40)
	b := m.commit()
	b[m.free[0].Ext.Off+40_000] = 1
	f, s, told := newSlowFile(b), &State{}, 0
	for range 40 {
		sum, fs := passRun(t, f, s, 0, 1)
		s = sum.Part.State
		if told += len(fs); told > 0 && len(fs) != 1 {
			t.Fatalf("%v", fs)
		}
		if s.Pass > 2 {
			break
		}
	}
	if told < 2 {
		t.Errorf("told %d times", told)
	}
}

// What was written since, where the pass has been already or not, is read: by the next run that has time, whatever
// the numbers of its frames are.
func TestPassReadsWhatWasWrittenSince(t *testing.T) {
	for name, change := range map[string]func(m *model) uint64{
		"a new frame": func(m *model) uint64 {
			m.pack(900, 0, "new", 95_000, random(250, 5))
			m.entry("new", index.Entry{Kind: index.Dir})
			return 900
		},
		"a frame that was moved": func(m *model) uint64 {
			r := m.frames[2]
			m.free = append(m.free, index.FreeExtent{Ext: r.Ext, Gen: 2, State: index.FreePending})
			r.Ext = m.extent(bytes.Clone(m.file[r.Ext.Off:r.Ext.End()]))
			return 2
		},
	} {
		m := long(t, 100)
		first, _ := passRun(t, newSlowFile(m.commit()), &State{}, 20_000, 1)
		if p := first.Part; p.Complete() || p.NextFrame < unitFrames {
			t.Fatalf("%s: %+v", name, p)
		}
		number := change(m)
		b := m.commit()
		b[m.frames[number].Ext.Off+int64(frames.HeaderSize(testTag))] ^= 1
		sum, fs := passRun(t, newSlowFile(b), first.Part.State, -1, 1)
		if sum.Part.Anew != "" || !sum.Part.Complete() || sum.Part.Later != 0 || len(paths(fs, KindContent)) == 0 {
			t.Errorf("%s: %+v, %v", name, sum.Part, fs)
		}
		// Without time it is left to the pass after.
		s, told := first.Part.State, 0
		for s.Pass < 3 {
			sum, fs = passRun(t, newSlowFile(b), s, 0, 1)
			if sum.Part.Complete() && sum.Part.Pass == 1 && told == 0 && sum.Part.Later == 0 {
				t.Errorf("%s: what was written since was not counted: %+v", name, sum.Part)
			}
			s, told = sum.Part.State, told+len(fs)
		}
		if told == 0 {
			t.Errorf("%s: two passes have not read it", name)
		}
	}
}

// A pass ends also over an archive that grows faster than it is read.
func TestPassOverGrowingArchive(t *testing.T) {
	m := long(t, 60)
	s := &State{}
	for run := range 30 {
		sum, fs := passRun(t, newSlowFile(m.commit()), s, 0, 1)
		if len(fs) > 0 || sum.Part.Anew != "" {
			t.Fatalf("%+v, %v", sum.Part, fs)
		}
		if s = sum.Part.State; sum.Part.Complete() {
			if sum.Part.Later == 0 {
				t.Errorf("%+v", sum.Part)
			}
			return
		}
		for k := range uint64(30) {
			n := 1000 + uint64(run)*100 + k
			m.pack(n, 0, fmt.Sprintf("more%d", n), 100_000+n, random(300, n))
			m.entry(fmt.Sprintf("more%d", n), index.Entry{Kind: index.Dir})
		}
	}
	t.Error("the pass does not end")
}

// A state that is not of the archive's past is not used, and the run says why.
func TestStateOfAnotherTime(t *testing.T) {
	m := long(t, 60)
	older := m.commit()
	m.entry("x", index.Entry{Kind: index.File})
	newer := m.commit()
	first, _ := passRun(t, newSlowFile(newer), &State{}, 5_000, 1)
	other := *first.Part.State
	other.Archive[3]++
	fork := *first.Part.State
	fork.Root[0]++
	for _, c := range []struct {
		b    []byte
		s    *State
		want string
	}{{older, first.Part.State, "gone back"}, {newer, &other, "another archive"}, {newer, &fork, "another generation"}} {
		sum, _ := passRun(t, newSlowFile(c.b), c.s, -1, 1)
		if p := sum.Part; !strings.Contains(p.Anew, c.want) || p.Pass != 1 || !p.Complete() {
			t.Errorf("%s: %+v", c.want, p)
		}
	}
	if _, err := Run(context.Background(), memFile(newer), Options{State: &State{}}); err == nil {
		t.Error("a pass over the structure alone")
	}
}

// A copy in the archive's place begins a pass anew, which goes on with what is known of damage. What a file system does not
// tell, or tells more coarsely, changes nothing.
func TestStateOfAnotherFile(t *testing.T) {
	m := long(t, 60)
	b := m.commit()
	b[m.frames[50].Ext.Off+100] ^= 1
	run := func(s *State, born, budget int64) Summary {
		f := newSlowFile(b)
		sum, err := Run(context.Background(), f, Options{Full: true, Clock: f, State: s, Born: born, Until: f.now.Add(time.Duration(budget))})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for _, c := range []struct {
		name    string
		was, is time.Duration
		anew    bool
	}{
		{"the same", 5 * time.Second, 5 * time.Second, false},
		{"nothing known", 0, 0, false},
		{"coarser", 5*time.Second + 9*time.Millisecond, 5 * time.Second, false},
		{"a copy", 5 * time.Second, 50 * time.Second, true},
		{"an older file", 50 * time.Second, 5 * time.Second, true},
		{"a copy on a file system that does not tell", time.Second, 0, true},
		{"a copy on one that tells", 0, time.Second, true},
	} {
		first := run(&State{}, int64(c.was), 1<<40)
		if first.Damaged == 0 || first.Part.Pass != 1 || !first.Part.Complete() {
			t.Fatalf("%s: %+v", c.name, first)
		}
		second := run(first.Part.State, int64(c.is), 1)
		pass := uint64(2)
		if c.anew {
			pass = 1
		}
		if p := second.Part; p.Pass != pass || strings.Contains(p.Anew, "another file") != c.anew || p.Complete() || c.anew != p.State.Last.Ended.IsZero() {
			t.Errorf("%s: %+v", c.name, p)
		}
		if second.Damaged == 0 {
			t.Errorf("%s: damage is forgotten", c.name)
		}
		// The next run knows the file.
		if third := run(second.Part.State, int64(c.is), 1); third.Part.Anew != "" || third.Part.Left >= second.Part.Left {
			t.Errorf("%s, again: %+v", c.name, third.Part)
		}
	}
}

// Wherever a run is interrupted, its state holds nothing that was not read.
func TestInterruptedRun(t *testing.T) {
	m := long(t, 100)
	b := m.commit()
	for at := int64(format.DataStart); at < int64(len(b)); at += 2048 {
		for _, jobs := range []int{1, 3} {
			ctx, cancel := context.WithCancel(context.Background())
			f := newSlowFile(b)
			f.at, f.stop = at, cancel
			sum, err := Run(ctx, f, Options{Full: true, Jobs: jobs, Clock: f, State: &State{}})
			cancel()
			if err == nil || sum.Part == nil {
				continue // before the first frame, or where no check reads
			}
			if !errors.Is(err, context.Canceled) || sum.Part.Complete() {
				t.Fatalf("%v, %+v", err, sum.Part)
			}
			for _, u := range sum.Part.State.done {
				for number := u.id * unitFrames; number < (u.id+1)*unitFrames; number++ {
					if r := m.frames[number]; r != nil && slices.Contains(f.read[r.Ext.Off:r.Ext.End()], 0) {
						t.Fatalf("interrupted at %d: frame %d counts as read", at, number)
					}
				}
			}
		}
	}
}

func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomState(t)
		b := s.Append(nil)
		back, err := DecodeState(b)
		if err != nil || !bytes.Equal(back.Append(nil), b) || !back.Began.Equal(s.Began) || !slices.Equal(back.done, s.done) || back.born != s.born {
			t.Fatalf("%+v came back as %+v, %v", s, back, err)
		}
		for n := range len(b) {
			if _, err := DecodeState(b[:n]); !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("cut to %d of %d bytes: %v", n, len(b), err)
			}
		}
	})
}

func randomState(t *rapid.T) *State {
	s := &State{Pass: rapid.Uint64Min(1).Draw(t, "pass"), Generation: rapid.Uint64().Draw(t, "generation"), Read: rapid.Uint64().Draw(t, "read")}
	s.Began = time.Unix(rapid.Int64Range(1, 1<<40).Draw(t, "began"), 0)
	for _, id := range ascendingNumbers(t, "units") {
		s.done = append(s.done, unit{id: id, sum: rapid.Uint64().Draw(t, "sum")})
	}
	s.bad = ascendingNumbers(t, "bad")
	s.born = rapid.Int64().Draw(t, "born")
	s.fill = rapid.SliceOfN(rapid.Int64Range(0, format.MaxLogicalEnd), 0, 5).Draw(t, "fill")
	return s
}

func ascendingNumbers(t *rapid.T, label string) []uint64 {
	list := rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, label)
	slices.Sort(list)
	return slices.Compact(list)
}

func FuzzState(f *testing.F) {
	f.Add((&State{Pass: 1, done: []unit{{id: 3, sum: 9}, {id: 4, sum: 1}}, bad: []uint64{50}, fill: []int64{99_000}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeState(b)
		if err != nil {
			if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeState(s.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), s.Append(nil)) {
			t.Fatalf("%v", err)
		}
	})
}

func TestStatesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := States{}
		for _, name := range rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "names") {
			s[name] = randomState(t)
		}
		b := s.Encode()
		back, err := DecodeStates(b)
		if err != nil || len(back) != len(s) || !bytes.Equal(back.Encode(), b) {
			t.Fatalf("%v came back as %v, %v", s, back, err)
		}
		if i := rapid.IntRange(0, len(b)-1).Draw(t, "flipped"); true {
			b[i] ^= 1 << (i % 8)
			if _, err := DecodeStates(b); !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("byte %d flipped: %v", i, err)
			}
		}
	})
}

func FuzzStates(f *testing.F) {
	f.Add((States{"a": {Pass: 1}, "b": {Pass: 2, bad: []uint64{7}}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		// With a checksum that fits, or nothing but that would be tried.
		sum := blake3.Sum256(b)
		for _, in := range [][]byte{b, append(bytes.Clone(b), sum[:]...)} {
			if s, err := DecodeStates(in); err == nil {
				if _, err := DecodeStates(s.Encode()); err != nil {
					t.Fatal(err)
				}
			} else if !errors.Is(err, format.ErrCorrupt) {
				t.Fatal(err)
			}
		}
	})
}

// More damage than a run has time for stays known, and is told.
func TestPassRemembersMuchDamage(t *testing.T) {
	const n = (mostAgain + 10) * unitFrames
	m := long(t, n)
	b := m.commit()
	flip := func(number uint64) { b[m.frames[number].Ext.Off+int64(frames.HeaderSize(testTag))] ^= 1 }
	for number := uint64(1); number <= n; number += unitFrames {
		flip(number)
	}
	f := newSlowFile(b)
	first, _ := passRun(t, f, &State{}, -1, 1)
	if len(first.Part.State.bad) != n/unitFrames || first.Damaged != 4*n/unitFrames {
		t.Fatalf("%d frames, %+v", len(first.Part.State.bad), first)
	}
	flip(n - unitFrames + 1) // the last is mended
	sum, fs := passRun(t, f, first.Part.State, 0, 1)
	reminded := 0
	for _, x := range fs {
		if strings.Contains(x.Detail, "no time") {
			reminded++
		}
	}
	named := len(paths(fs, KindContent)) / 3
	if named < mostAgain || named > mostAgain+1 || reminded != n/unitFrames-named || len(sum.Part.State.bad) != n/unitFrames {
		t.Errorf("%d named, %d reminded of, %d known", named, reminded, len(sum.Part.State.bad))
	}
	if sum, _ = passRun(t, f, sum.Part.State, -1, 1); len(sum.Part.State.bad) != n/unitFrames-1 {
		t.Errorf("%d known after one was mended", len(sum.Part.State.bad))
	}
}

// wide is an archive of 40 contents in five frames of 64 KiB each: more than a batch, and units end within contents.
func wide(t testing.TB) *model { return wideOf(t, 40, 5) }

// wideOf is an archive of contents in so many frames of 64 KiB each.
func wideOf(t testing.TB, contents, each uint64) *model {
	m := newModel(t, 512, frames.LevelNone)
	inOrder := make([]int, each)
	for i := range inOrder {
		inOrder[i] = i
	}
	for k := range contents {
		data := random(int(each)<<16, k)
		m.content(k+1, data, m.split(k*each+1, k+1, data, 1<<16, inOrder...))
		m.entry(fmt.Sprintf("f%02d", k), index.Entry{Kind: index.File, Size: int64(each) << 16, Content: k + 1})
	}
	return m
}

// Runs do not end within a content, so that its digest is compared; and they stop soon. The frames with which a run
// begins may have the end of a content that the one before has compared: that one is not known to be. Contents of
// twenty frames are longer than a unit, so that a run leaves units that it has read to the next one.
func TestPassKeepsContentsWhole(t *testing.T) {
	for _, each := range []uint64{5, 20} {
		t.Run(fmt.Sprintf("frames=%d", each), func(t *testing.T) { passKeepsContentsWhole(t, 200/each, each) })
	}
}

func passKeepsContentsWhole(t *testing.T, contents, each uint64) {
	f, s := newSlowFile(wideOf(t, contents, each).commit()), &State{}
	from := uint64(1)
	for range 40 {
		sum, fs := passRun(t, f, s, 5<<20, 1)
		if len(fs) > 0 || sum.Part.Uncompared > 1 || sum.Work.BytesRead > 7<<20 {
			t.Fatalf("%+v, %+v, %v", sum.Part, sum.Work, fs)
		}
		s = sum.Part.State
		if s.Pass > 1 {
			return
		}
		begun := uint64(0) // contents that begin where this run has read, and the next one does not
		for first := uint64(1); first < sum.Part.NextFrame; first += each {
			if first >= from {
				begun++
			}
		}
		if begun == 0 || sum.Bytes < begun*each<<16 {
			t.Fatalf("frames %d to %d: %d contents begin there, %d bytes were compared", from, sum.Part.NextFrame, begun, sum.Bytes)
		}
		from = sum.Part.NextFrame
		next, _ := passRun(t, newSlowFile(f.memFile), s, -1, 1)
		if next.Part.Uncompared != 0 {
			t.Fatalf("the next run does not compare what this one has left: %+v", next.Part)
		}
	}
	t.Fatal("the pass does not end")
}

// An interrupt while a batch is under way leaves it out.
func TestInterruptedBatches(t *testing.T) {
	m := wide(t)
	b := m.commit()
	some := false
	for at := int64(1 << 20); at < 12<<20; at += 900_000 {
		for _, jobs := range []int{1, 2} {
			ctx, cancel := context.WithCancel(context.Background())
			f := newSlowFile(b)
			f.at, f.stop = at, cancel
			sum, err := Run(ctx, f, Options{Full: true, Jobs: jobs, Clock: f, State: &State{}})
			cancel()
			if !errors.Is(err, context.Canceled) || sum.Part == nil {
				t.Fatalf("%v", err)
			}
			for _, u := range sum.Part.State.done {
				some = true
				for number := u.id * unitFrames; number < (u.id+1)*unitFrames; number++ {
					if r := m.frames[number]; r != nil && slices.Contains(f.read[r.Ext.Off:r.Ext.End()], 0) {
						t.Fatalf("interrupted at %d: frame %d counts as read", at, number)
					}
				}
			}
		}
	}
	if !some {
		t.Error("no interrupted run has read anything")
	}
}

// Nor does wiped space that comes about faster than it is read keep a pass from ending.
func TestPassOverGrowingWipedSpace(t *testing.T) {
	m := long(t, 10)
	s := &State{}
	for range 15 {
		m.wiped(2 << 20)
		sum, _ := passRun(t, newSlowFile(m.commit()), s, 0, 1)
		if s = sum.Part.State; sum.Part.Complete() {
			return
		}
		m.pending(512, index.FreePending) // what is wiped does not touch
	}
	t.Error("the pass does not end")
}

// A batch that the workers have passed over after an interrupt is done like any other, and does not count as read, whichever
// of the two the walk is told first.
func TestInterruptedBatchIsNotConfirmed(t *testing.T) {
	r := newReader(&checker{ctx: context.Background(), o: Options{Jobs: 2}})
	read := &batch{units: 1, done: make(chan struct{}, 1)}
	read.done <- struct{}{}
	r.flight = append(r.flight, read)
	if err := r.drain(0); err != nil || r.confirmed != 1 {
		t.Fatalf("%d units, %v", r.confirmed, err)
	}
	r.cancel(context.Canceled)
	for i := range 8 {
		b := &batch{units: i + 2, done: make(chan struct{}, 1)}
		b.left.Store(1)
		newWorker(r).task(task{b: b})
		r.flight = append(r.flight, b)
	}
	for len(r.flight) > 0 {
		if err := r.drain(0); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if r.confirmed != 1 {
		t.Errorf("%d units count as read", r.confirmed)
	}
}
