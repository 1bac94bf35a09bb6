package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// row is one line of the tables. A goal is an upper bound unless atLeast is set; 0 is no goal.
type row struct {
	section  int
	workload string
	ours     string
	against  string
	value    float64 // the ratio, or the figure itself
	unit     string  // of value: "" for a ratio
	goal     float64
	atLeast  bool
	mustBe0  bool   // the goal is 0
	note     string // instead of a figure: why there is none
}

type report struct{ rows []row }

func (r *report) add(x row) { r.rows = append(r.rows, x) }

// ratio adds a row that compares two stats.
func (r *report) ratio(section int, workload string, ours, theirs stat, goal float64) {
	r.add(row{section: section, workload: workload, ours: ours.String(), against: theirs.name + " " + theirs.String(),
		value: float64(ours.median()) / float64(max(theirs.median(), 1)), goal: goal})
}

// figure adds a row with a number of its own.
func (r *report) figure(section int, workload, ours string, value float64, unit string, goal float64) {
	r.add(row{section: section, workload: workload, ours: ours, value: value, unit: unit, goal: goal})
}

// zero adds a row for a count that must be 0.
func (r *report) zero(section int, workload string, n uint64) {
	r.add(row{section: section, workload: workload, ours: fmt.Sprint(n), value: float64(n), mustBe0: true})
}

// missing adds a row that says why nothing was measured.
func (r *report) missing(section int, workload, why string) {
	r.add(row{section: section, workload: workload, note: why})
}

func (x *row) verdict() string {
	switch {
	case x.mustBe0 && x.value == 0:
		return "met"
	case x.mustBe0:
		return "**missed**"
	case x.note != "" || x.goal == 0:
		return ""
	case x.atLeast == (x.value >= x.goal) || x.value == x.goal:
		return "met"
	}
	return "**missed**"
}

func number(v float64, unit string) string {
	s := fmt.Sprintf("%.3g", v)
	if v >= 100 {
		s = fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSpace(s + " " + unit)
}

func (x *row) markdown() string {
	if x.note != "" {
		return fmt.Sprintf("| %s | %s | | | | |\n", x.workload, x.note)
	}
	goal := ""
	if x.mustBe0 {
		goal = "0"
	}
	if x.goal != 0 {
		goal = "≤ " + number(x.goal, x.unit)
		if x.atLeast {
			goal = "≥ " + number(x.goal, x.unit)
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", x.workload, x.ours, x.against, number(x.value, x.unit), goal, x.verdict())
}

var sectionNames = map[int]string{
	1: "Streaming, in process",
	2: "Random access, in process",
	3: "The command line, whole processes",
	4: "Memory, maximum resident",
}

func (r *report) markdown(b *bench) string {
	var s strings.Builder
	s.WriteString("# Benchmarks\n\nWritten by `make bench`; do not edit. Each figure is a median with half the distance between the quartiles. ")
	s.WriteString("Contenders took turns in one run, so ratios mean more than times: machines differ and are noisy.\n\n")
	fmt.Fprintf(&s, "Machine: %s, %d CPUs, %s/%s, %s. Samples: %d. Work in %s.\n", cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), b.samples, medium(b.tmp))
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, d := range bi.Deps {
			if d.Path == "github.com/klauspost/compress" {
				fmt.Fprintf(&s, "ZIP in process: archive/zip of %s and klauspost/compress/zip %s, deflate level 6 or stored; the faster counts.\n", runtime.Version(), d.Version)
			}
		}
	}
	met, missed := 0, 0
	for _, x := range r.rows {
		switch x.verdict() {
		case "met":
			met++
		case "":
		default:
			missed++
		}
	}
	fmt.Fprintf(&s, "\nGoals met: %d. Goals missed: %d.\n", met, missed)
	last := 0
	for _, x := range r.rows {
		if x.section != last {
			fmt.Fprintf(&s, "\n## %d. %s\n\n| workload | lockbox | against | ratio or figure | goal | |\n|---|---|---|---|---|---|\n", x.section, sectionNames[x.section])
			last = x.section
		}
		s.WriteString(x.markdown())
	}
	return s.String()
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "unknown CPU"
}

func medium(dir string) string {
	if strings.HasPrefix(dir, "/dev/shm/") {
		return "tmpfs"
	}
	return "the directory for temporary files"
}
