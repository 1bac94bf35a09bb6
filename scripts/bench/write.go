package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockbox/internal/bench"
)

// write writes the files that are wanted; the tables go to standard output when they have none.
func (b *run) write(out, raw, plot string) error {
	if raw != "" {
		var buf bytes.Buffer
		err := bench.WriteMachine(&buf, b.report.Machine)
		for i := range b.report.Sets {
			err = errors.Join(err, bench.WriteSet(&buf, &b.report.Sets[i]))
		}
		if err := errors.Join(err, bench.WriteTotals(&buf, b.report.Count()), os.WriteFile(raw, buf.Bytes(), 0o644)); err != nil {
			return err
		}
	}
	rows := b.report.Rows()
	if plot != "" {
		if err := os.WriteFile(plot, []byte(bench.Plot(rows, true)), 0o644); err != nil {
			return err
		}
	}
	text := b.markdown(rows, plot)
	if out == "" {
		fmt.Print(text)
		return nil
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

func (b *run) markdown(rows []bench.Row, plot string) string {
	var s strings.Builder
	s.WriteString("# Benchmarks\n\nWritten by `make bench`; do not edit. Contenders took turns in one run, so ratios mean more than times: machines differ and are noisy. ")
	s.WriteString("`benchmarks.ndjson` beside this page has every sample; `lockbox bench --compare` takes it.\n\n")
	for _, l := range b.report.Machine.Lines() {
		s.WriteString(l + "\n")
	}
	fmt.Fprintf(&s, "\n**%s**\n", b.report.Headline())
	if plot != "" {
		fmt.Fprintf(&s, "\n![time of lockbox by the other's, one bar for each row, on a logarithmic axis](%s)\n", filepath.Base(plot))
	}
	last := ""
	for _, row := range rows {
		if row.Section != last {
			last = row.Section
			fmt.Fprintf(&s, "\n## %s\n\n", bench.SectionTitle(last))
			tableRow(&s, "workload", "lockbox", "against", "ratio or figure", "goal", "size by ZIP's", "")
			s.WriteString("|---|---|---|---|---|---|---|\n")
		}
		verdict := row.Verdict
		if row.Loss {
			verdict = "**" + verdict + "**"
		}
		tableRow(&s, row.Label, row.Ours, row.Against, row.Figure, row.Goal, row.Size, verdict)
	}
	for _, d := range b.report.Details() {
		fmt.Fprintf(&s, "\n## %s\n\n%s\n\n", d.Title, d.Note)
		for i, cells := range d.Cells {
			tableRow(&s, cells...)
			if i == 0 {
				s.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
			}
		}
	}
	return s.String()
}

func tableRow(s *strings.Builder, cells ...string) {
	for _, c := range cells {
		s.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
	}
	s.WriteString("|\n")
}
