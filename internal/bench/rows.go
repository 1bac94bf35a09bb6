package bench

import (
	"fmt"
	"strings"
	"time"
)

// SectionTitle is the heading of a section.
func SectionTitle(section string) string {
	switch section {
	case "streaming":
		return "Reading whole archives, in process"
	case "random":
		return "Opening, and reading a little out of much, in process"
	case "writing":
		return "Making archives out of memory, in process"
	case "changes":
		return "Changing archives, in process"
	case "suites":
		return "Signed and encrypted archives, in process, beside one without protection"
	case "kinds":
		return "All sixteen kinds of archives, in process, beside one with neither protection nor padding"
	case "recorded":
		return "Encrypted and signed, against recorded figures"
	case "jobs":
		return "lockbox add with more workers, whole processes"
	case "commands":
		return "The command line, whole processes"
	case "memory":
		return "Memory, maximum resident, whole processes"
	}
	return section
}

// Row is a line of a table, in words.
type Row struct {
	Section, Label, Ours, Against, Figure, Goal, Size, Verdict string
	Loss                                                       bool

	set, other *Set
}

// Rows are the lines of a report's tables, in order.
func (r *Report) Rows() []Row {
	type key struct{ section, workload, contender string }
	sets := make(map[key]*Set, len(r.Sets))
	for i := range r.Sets {
		s := &r.Sets[i]
		sets[key{s.Section, s.Workload, s.Contender}] = s
	}
	var rows []Row
	for i := range r.Sets {
		if s := &r.Sets[i]; s.IsRow() {
			rows = append(rows, newRow(s, sets[key{s.Section, s.Workload, s.Against}]))
		}
	}
	return rows
}

func newRow(s, other *Set) Row {
	row := Row{Section: s.Section, Label: s.Label(), Ours: s.Shown, Verdict: s.Verdict(), Loss: s.Missed || s.Slower, set: s, other: other}
	if s.Note != "" {
		row.Ours = s.Note
		return row
	}
	if row.Ours == "" {
		row.Ours = Timing(s.Samples)
	}
	if other != nil {
		name, _, _ := strings.Cut(other.Contender, ": ")
		row.Against = name + " " + Timing(other.Samples)
	}
	if v, ok := s.Figure(); ok {
		row.Figure = number(v, s.Unit)
	}
	switch {
	case s.Goal == nil:
	case *s.Goal == 0:
		row.Goal = "0"
	case s.AtLeast:
		row.Goal = "≥ " + number(*s.Goal, s.Unit)
	default:
		row.Goal = "≤ " + number(*s.Goal, s.Unit)
	}
	if s.SizeRatio > 0 {
		row.Size = number(s.SizeRatio, "")
	}
	return row
}

// Timing is the median of samples with their spread, in words.
func Timing(samples []time.Duration) string {
	return fmt.Sprintf("%s ±%.0f%%", showTime(Median(samples)), 100*Spread(samples))
}

func showTime(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func showBytes(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func number(v float64, unit string) string {
	s := fmt.Sprintf("%.3g", v)
	if v >= 100 || v == 0 {
		s = fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSpace(s + " " + unit)
}

// Headline says in a sentence or two how lockbox stands.
func (r *Report) Headline() string {
	t := r.Count()
	var parts []string
	if n := t.Faster + t.Slower; n > 0 {
		parts = append(parts, fmt.Sprintf("Faster than ZIP in %d of %d comparisons, slower in %d.", t.Faster, n, t.Slower))
	}
	if t.Met+t.Missed > 0 {
		parts = append(parts, fmt.Sprintf("Goals met: %d, missed: %d.", t.Met, t.Missed))
	}
	return strings.Join(parts, " ")
}

// Lines describe a machine, and how it was measured, in sentences.
func (m *Machine) Lines() []string {
	version := ""
	if m.Version != "" {
		version = " lockbox " + m.Version + "."
	}
	out := []string{fmt.Sprintf("Machine: %s, %d CPUs, %s/%s, %s.%s %s.", m.CPU, m.CPUs, m.OS, m.Arch, m.Go, version, m.Begun)}
	cache := "warm cache"
	if m.OSCold {
		cache = "archives dropped from the system's cache before each sample"
	}
	how := fmt.Sprintf("Work files on %s, %s. Text: %s. %d samples after one that does not count; medians, ± half the distance between the quartiles.", m.Dir, cache, m.Text, m.Samples)
	if m.Quick {
		how += " Quick: a short run with few samples."
	}
	if m.Klauspost == "" {
		return append(out, how)
	}
	return append(out, how,
		fmt.Sprintf("ZIP: archive/zip of %s and klauspost/compress/zip %s, deflate level 6 or stored; the faster counts.", m.Go, m.Klauspost))
}
