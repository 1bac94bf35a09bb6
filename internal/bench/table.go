package bench

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteTable writes a report for people, each loss marked.
func (r *Report) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, l := range r.Machine.Lines() {
		fmt.Fprintln(b, l)
	}
	rows := r.Rows()
	for _, section := range sections(rows) {
		cells := [][]string{{"workload", "lockbox", "against", "ratio", "goal", "size", ""}}
		for _, row := range rows {
			if row.Section == section {
				cells = append(cells, []string{row.Label, row.Ours, row.Against, row.Figure, row.Goal, row.Size, row.Verdict})
			}
		}
		fmt.Fprintf(b, "\n%s\n", SectionTitle(section))
		writeCells(b, cells)
	}
	for _, d := range r.Details() {
		fmt.Fprintf(b, "\n%s. %s\n", d.Title, d.Note)
		writeCells(b, d.Cells)
	}
	if h := r.Headline(); h != "" {
		fmt.Fprintf(b, "\n%s\n", h)
	}
	return b.Flush()
}

// Table is a table beside the rows; the first row of cells is its heading.
type Table struct {
	Title, Note string
	Cells       [][]string
}

// Details are the tables that a report has beside its rows.
func (r *Report) Details() []Table {
	var out []Table
	for _, t := range []Table{
		{"Workers in detail", "Stages are added up over the workers; cores are processor time by time. Equal sha256: the same bytes.", r.jobCells()},
		{"Sizes and memory", "Heap: what one run keeps alive at most. Allocated: in all. Both outside the timing.", r.useCells()},
	} {
		if len(t.Cells) > 1 {
			out = append(out, t)
		}
	}
	return out
}

// sections are those that rows have, in order.
func sections(rows []Row) []string {
	var out []string
	for _, row := range rows {
		if !slices.Contains(out, row.Section) {
			out = append(out, row.Section)
		}
	}
	return out
}

// writeCells writes columns side by side; the first row is their heading.
func writeCells(b *bufio.Writer, cells [][]string) {
	width := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range cells {
		var l strings.Builder
		for i, c := range row {
			if width[i] == 0 {
				continue
			}
			l.WriteString("  " + c + strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)))
		}
		fmt.Fprintln(b, strings.TrimRight(l.String(), " "))
	}
}

// useCells is the table of sizes and memory.
func (r *Report) useCells() [][]string {
	cells := [][]string{{"workload", "contender", "archive", "heap", "allocated"}}
	for i := range r.Sets {
		if s := &r.Sets[i]; s.PeakHeap > 0 || s.Allocated > 0 {
			cells = append(cells, []string{s.Section + ": " + s.Workload, s.Contender, showBytes(s.Archive), showBytes(s.PeakHeap), showBytes(s.Allocated)})
		}
	}
	return cells
}

// jobCells is the table of the jobs sweep.
func (r *Report) jobCells() [][]string {
	cells := [][]string{{"tree", "workers", "time", "CPU", "cores", "resident", "archive", "stages", "sha256"}}
	for i := range r.Sets {
		s := &r.Sets[i]
		if s.SHA256 == "" {
			continue
		}
		wall, cpu := Median(s.Samples), Median(s.CPU)
		var stages []string
		for _, name := range slices.Sorted(maps.Keys(s.Stages)) {
			if d := s.Stages[name]; d >= 100*time.Microsecond {
				stages = append(stages, fmt.Sprintf("%s %s", name, showTime(d.Round(10*time.Microsecond))))
			}
		}
		cells = append(cells, []string{s.Workload, strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(s.Contender, "lockbox, "), "s"), " worker"), Timing(s.Samples),
			showTime(cpu), fmt.Sprintf("%.2f", float64(cpu)/float64(max(wall, 1))), showBytes(s.Resident), showBytes(s.Archive), strings.Join(stages, ", "), s.SHA256[:min(12, len(s.SHA256))]})
	}
	return cells
}
