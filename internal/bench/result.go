package bench

import (
	"encoding/json"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Set is what one contender did in one workload: samples of time, or a figure. Its JSON keys are a contract.
type Set struct {
	Section   string            `json:"section"`
	Workload  string            `json:"workload"`
	Contender string            `json:"contender"`
	Samples   []time.Duration   `json:"samples_ns,omitempty"` // in the order of measurement
	Bytes     int64             `json:"bytes,omitempty"`      // plain bytes that a sample handles
	Archive   int64             `json:"archive_bytes,omitempty"`
	PeakHeap  int64             `json:"peak_heap_bytes,omitempty"`
	Allocated int64             `json:"allocated_bytes,omitempty"`
	Counters  map[string]uint64 `json:"counters,omitempty"` // of one sample

	CPU       []time.Duration          `json:"cpu_ns,omitempty"`
	Resident  int64                    `json:"max_resident_bytes,omitempty"`
	Stages    map[string]time.Duration `json:"stages_ns,omitempty"` // of one sample, added up over the workers
	SHA256    string                   `json:"sha256,omitempty"`    // of the output
	Value     *float64                 `json:"value,omitempty"`
	Unit      string                   `json:"unit,omitempty"` // of value and of its goal
	Shown     string                   `json:"shown,omitempty"`
	Note      string                   `json:"note,omitempty"`    // why nothing was measured
	Against   string                   `json:"against,omitempty"` // the contender of the same workload that it is compared with
	Ratio     *float64                 `json:"ratio,omitempty"`   // own median by the other's; with speedup the inverse
	Speedup   bool                     `json:"speedup,omitempty"`
	Goal      *float64                 `json:"goal,omitempty"` // for ratio, else for value
	AtLeast   bool                     `json:"at_least,omitempty"`
	Open      bool                     `json:"open,omitempty"` // opening an archive: held to a narrower bound by Compare
	Missed    bool                     `json:"missed,omitempty"`
	Slower    bool                     `json:"slower,omitempty"`     // than what it is compared with, where that is a loss
	SizeRatio float64                  `json:"size_ratio,omitempty"` // archive bytes by those of the ZIP archive
}

// Compared relates a set to the samples of another one. rival says that to be slower is a loss.
func (s *Set) Compared(other *Set, rival bool) {
	s.Against = other.Contender
	r := float64(Median(s.Samples)) / float64(max(Median(other.Samples), 1))
	if s.Speedup {
		r = 1 / max(r, 1e-9)
	}
	s.Ratio, s.Slower = &r, rival && r > 1
	s.judge()
}

// WithGoal sets a goal; 0 is none.
func (s *Set) WithGoal(goal float64) {
	if goal != 0 {
		s.Goal = &goal
		s.judge()
	}
}

// MustBeZero sets the goal 0.
func (s *Set) MustBeZero() {
	s.Goal = new(float64)
	s.judge()
}

// Figure returns what the goal is for: the ratio, or the value.
func (s *Set) Figure() (float64, bool) {
	switch {
	case s.Ratio != nil:
		return *s.Ratio, true
	case s.Value != nil:
		return *s.Value, true
	}
	return 0, false
}

func (s *Set) judge() {
	v, ok := s.Figure()
	if !ok || s.Goal == nil {
		return
	}
	s.Missed = v > *s.Goal
	if s.AtLeast {
		s.Missed = v < *s.Goal
	}
}

// Verdict says in words how the set stands: a loss is always said.
func (s *Set) Verdict() string {
	than := "" // the column beside it says whom
	if s.isZip() {
		than = " than ZIP"
	}
	switch {
	case s.Missed && s.Slower:
		return "MISSED, slower" + than
	case s.Missed:
		return "MISSED"
	case s.Slower && s.Goal != nil:
		return "met, slower" + than
	case s.Slower:
		return "SLOWER" + than
	case s.Goal != nil:
		return "met"
	}
	return ""
}

// Label names the row of a table that a set makes.
func (s *Set) Label() string {
	if rest, ok := strings.CutPrefix(s.Contender, "lockbox"); ok {
		return s.Workload + rest
	}
	return s.Workload
}

// IsRow reports whether the set makes a row of a table. The others are what rows are compared with.
func (s *Set) IsRow() bool { return s.Ratio != nil || s.Value != nil || s.Note != "" }

// Machine describes where and how a report was made.
type Machine struct {
	CPU       string `json:"cpu"`
	CPUs      int    `json:"cpus"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Go        string `json:"go"`
	Klauspost string `json:"klauspost_compress,omitempty"`
	Version   string `json:"version"` // of lockbox
	Dir       string `json:"dir"`     // the kind of file system of the work files
	Text      string `json:"text"`
	Samples   int    `json:"samples"`
	Quick     bool   `json:"quick"`
	OSCold    bool   `json:"os_cold"`
	Jobs      int    `json:"jobs"` // what "all workers" are
	Begun     string `json:"begun"`
}

// ThisMachine describes the machine and the file system of a directory.
func ThisMachine(dir string) Machine {
	m := Machine{
		CPU: cpuModel(), CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
		Dir: fileSystemOf(dir), Begun: time.Now().UTC().Format(time.RFC3339),
	}
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, d := range bi.Deps {
			if d.Path == "github.com/klauspost/compress" {
				m.Klauspost = d.Version
			}
		}
	}
	return m
}

func (e *env) machine() Machine {
	m := ThisMachine(e.dir)
	m.Version, m.Samples, m.Quick, m.OSCold, m.Jobs = e.Version, e.samples, e.Quick, e.OSCold, e.Jobs
	if m.Text = "generated source-like text"; e.Source != "" {
		// Where it stands on this machine is nobody's business who reads the figures.
		m.Text = "the text files below " + filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(e.Source)), filepath.Base(e.Source)))
	}
	return m
}

// Report is a whole run.
type Report struct {
	Machine Machine
	Sets    []Set
	Whole   bool // of one that was read: it has its summary
}

// Count adds up what a reader wants to know first.
func (r *Report) Count() (t Totals) {
	for i := range r.Sets {
		s := &r.Sets[i]
		t.Sets++
		if s.Goal != nil && !s.Missed {
			t.Met++
		}
		if s.Missed {
			t.Missed++
		}
		switch {
		case !s.isZip():
		case s.Slower:
			t.Slower++
		default:
			t.Faster++
		}
	}
	return t
}

// Totals are counts of a report's sets.
type Totals struct {
	Sets   int `json:"sets"`
	Met    int `json:"met"`
	Missed int `json:"missed"`
	Faster int `json:"faster_than_zip"`
	Slower int `json:"slower_than_zip"`
}

// isZip reports whether the set is compared with one of the ZIP libraries.
func (s *Set) isZip() bool {
	return s.Ratio != nil && (hasPrefix(s.Against, stdZip) || hasPrefix(s.Against, kZip))
}

// line is an object of NDJSON output.
type line struct {
	Machine *Machine `json:"machine,omitempty"`
	Compare *Change  `json:"compare,omitempty"`
	Summary *Totals  `json:"summary,omitempty"`
}

// WriteMachine writes the first line of NDJSON output.
func WriteMachine(w io.Writer, m Machine) error { return json.NewEncoder(w).Encode(line{Machine: &m}) }

// WriteSet writes a set as a line.
func WriteSet(w io.Writer, s *Set) error { return json.NewEncoder(w).Encode(s) }

// WriteChange writes what became of a row since an earlier run.
func WriteChange(w io.Writer, c *Change) error { return json.NewEncoder(w).Encode(line{Compare: c}) }

// WriteTotals writes the last line, without which a run was not complete.
func WriteTotals(w io.Writer, t Totals) error { return json.NewEncoder(w).Encode(line{Summary: &t}) }
