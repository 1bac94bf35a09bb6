package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"lockbox/internal/store"
)

// The names of the contenders that are libraries for ZIP.
const (
	stdZip = "archive/zip"
	kZip   = "klauspost zip"
)

func hasPrefix(s, prefix string) bool { return strings.HasPrefix(s, prefix) }

// Options say what to measure and where.
type Options struct {
	Dir     string // work files go below it
	Source  string // a directory whose text is the text of fixtures; "": it is generated
	Filter  *regexp.Regexp
	Quick   bool // three samples, and nothing that takes long
	OSCold  bool // archives are dropped from the system's cache before each sample
	Jobs    int  // what "all workers" are; 0: store.AutoJobs, for Sweep every CPU
	Sweep   bool // measure "add" with 1 to all workers instead
	Program string
	Version string // of the program, for the report
	// Begin is told about the machine before anything is measured; Next which workload comes; Done what it gave. An
	// error of Begin or Done ends the run.
	Begin func(Machine) error
	Next  func(workload string)
	Done  func([]Set) error
}

// env is a run.
type env struct {
	Options
	ctx     context.Context
	dir     string
	samples int
	text    *Text
	keys    *keys  // made when they are needed first
	sets    []Set  // of the current workload
	section string // likewise
	name    string // likewise
}

// workload is what can be chosen by a filter.
type workload struct {
	section, name string
	slow          bool  // not with Quick
	need          int64 // bytes below Dir
	run           func(*env) error
}

func (w *workload) String() string { return w.section + ": " + w.name }

// ErrNothing is the kind of a filter that leaves nothing to measure.
var ErrNothing = errors.New("no workload matches")

// Names lists what can be measured, as the filter sees it.
func Names(sweep bool) []string {
	var names []string
	for _, w := range catalogue(sweep) {
		names = append(names, w.String())
	}
	return names
}

func catalogue(sweep bool) []workload {
	if sweep {
		return sweeps()
	}
	return slices.Concat(streams(), randoms(), writes(), changes(), suites(), kinds(), records())
}

// Run measures. Everything it writes lies in one new directory below o.Dir that is gone when it returns.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	switch {
	case o.Jobs != 0:
	case o.Sweep:
		o.Jobs = runtime.NumCPU()
	default:
		o.Jobs = store.AutoJobs()
	}
	e := &env{Options: o, ctx: ctx, samples: 9}
	if o.Quick {
		e.samples = 3
	}
	var chosen []workload
	var need int64
	for _, w := range catalogue(o.Sweep) {
		if (w.slow && o.Quick) || (o.Filter != nil && !o.Filter.MatchString(w.String())) {
			continue
		}
		chosen = append(chosen, w)
		need = max(need, w.need)
	}
	if len(chosen) == 0 {
		return nil, ErrNothing
	}
	d, err := newWorkDir(o.Dir, need)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	e.dir = d.name
	if o.OSCold {
		if err := coldWorks(e.dir); err != nil {
			return nil, err
		}
	}
	r = &Report{Machine: e.machine()}
	if err := o.Begin(r.Machine); err != nil {
		return nil, err
	}
	for _, w := range chosen {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o.Next(w.String())
		e.sets, e.section, e.name = nil, w.section, w.name
		if err := w.run(e); err != nil {
			return nil, fmt.Errorf("%s: %w", w.String(), err)
		}
		if err := o.Done(e.sets); err != nil {
			return nil, err
		}
		r.Sets = append(r.Sets, e.sets...)
	}
	return r, nil
}

// words returns the text of fixtures, made or read when it is needed first.
func (e *env) words() (*Text, error) {
	if e.text == nil {
		var err error
		if e.text, err = LoadText(e.Source); err != nil {
			return nil, fmt.Errorf("reading text for the fixtures: %w", err)
		}
	}
	return e.text, nil
}

// files are count files of random bytes or of text.
func (e *env) files(count int, size int64, text bool) ([]File, error) {
	if !text {
		return each(count, size, nil), nil
	}
	t, err := e.words()
	if err != nil {
		return nil, err
	}
	return each(count, size, t), nil
}

// batch is how many small runs make a sample; only the first one of a batch would find a cold archive.
func (e *env) batch(n int) int {
	if e.OSCold {
		return 1
	}
	return n
}

// take measures contenders that read the files of cold, and returns a set for each.
func (e *env) take(n int, cold []string, cs ...Contender) ([]Set, error) {
	if e.OSCold {
		cs = slices.Clone(cs)
		for i := range cs {
			prepare := cs[i].Prepare
			cs[i].Prepare = func() error {
				if prepare != nil {
					if err := prepare(); err != nil {
						return err
					}
				}
				return dropAll(cold)
			}
		}
	}
	samples, err := Take(e.ctx, n, cs...)
	if err != nil {
		return nil, err
	}
	sets := make([]Set, len(cs))
	for i, c := range cs {
		sets[i] = Set{Section: e.section, Workload: e.name, Contender: c.Name, Samples: samples[i]}
	}
	return sets, nil
}

// settle makes archives ready to be dropped from the system's cache, when that is wanted.
func (e *env) settle(names ...string) error {
	if !e.OSCold {
		return nil
	}
	return syncFiles(names)
}

// add takes sets into the report.
func (e *env) add(sets ...Set) { e.sets = append(e.sets, sets...) }

// fastest returns the set with the smallest median.
func fastest(sets []Set) *Set {
	best := &sets[0]
	for i := range sets {
		if Median(sets[i].Samples) < Median(best.Samples) {
			best = &sets[i]
		}
	}
	return best
}

// figure makes a set of a number that is no time.
func (e *env) figure(what, shown string, value float64, unit string) Set {
	return Set{Section: e.section, Workload: e.name, Contender: "lockbox: " + what, Shown: shown, Value: &value, Unit: unit}
}

// oneCPU has the process use one CPU until the function it returns is called: work is compared, not parallelism.
func oneCPU() (restore func()) { return onCPUs(1) }

func onCPUs(cpus int) (restore func()) {
	n := runtime.GOMAXPROCS(cpus)
	return func() { runtime.GOMAXPROCS(n) }
}

// counted turns a handle's counters into what a set holds, without those that are 0.
func counted(c store.Counters) map[string]uint64 {
	m := map[string]uint64{
		"reads": c.Reads, "bytes_read": c.BytesRead, "nodes_decoded": c.NodesDecoded, "frames_decoded": c.FramesDecoded,
		"blocks_verified": c.BlocksVerified, "bytes_copied": c.BytesCopied, "cache_hits": c.CacheHits, "cache_misses": c.CacheMisses,
		"writes": c.Writes, "bytes_written": c.BytesWritten, "bytes_wiped": c.BytesWiped, "syncs": c.Syncs,
		"frames_written": c.FramesWritten, "nodes_written": c.NodesWritten,
	}
	for k, v := range m {
		if v == 0 {
			delete(m, k)
		}
	}
	return m
}

// withBytes says how many plain bytes a sample handles.
func withBytes(sets []Set, n int64) {
	for i := range sets {
		sets[i].Bytes = n
	}
}
