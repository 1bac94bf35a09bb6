package bench

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const pageStyle = `
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2rem auto;padding:0 1rem;background:#fff;color:#1f2328}
h1{margin-bottom:0}
h2{margin-top:2.5rem;border-bottom:1px solid #d8dee4}
.headline{font-size:1.3rem;font-weight:600}
.machine{color:#59636e}
table{border-collapse:collapse;width:100%;font-size:13px;margin-top:1rem}
td:not(:first-child),th{white-space:nowrap}
th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #d8dee4;vertical-align:top}
.scroll{overflow-x:auto}
tr.loss td{background:#fdeceA}
.loss b{color:#b3261e}
.key span{display:inline-block;width:1em;height:1em;border-radius:2px;vertical-align:-2px;margin:0 .3em 0 1em}
svg{width:100%;height:auto}
@media (prefers-color-scheme:dark){
body{background:#0d1117;color:#e6edf3}
h2,th,td{border-color:#30363d}
.machine{color:#9aa4ae}
tr.loss td{background:#3a1a18}
.loss b{color:#ff8f85}
}`

// WritePage writes a report as one HTML page that needs nothing else. c is how it stands
// against an earlier run, or nil.
func (r *Report) WritePage(w io.Writer, c *Comparison) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>lockbox bench</title>\n<style>%s</style>\n</head>\n<body>\n", pageStyle)
	fmt.Fprintf(b, "<h1>lockbox, measured</h1>\n<p class=\"headline\">%s</p>\n", escaped(r.Headline()))
	for _, l := range r.Machine.Lines() {
		fmt.Fprintf(b, "<p class=\"machine\">%s</p>\n", escaped(l))
	}
	rows := r.Rows()
	writeLosses(b, rows)
	if c != nil {
		writeComparison(b, c)
	}
	fmt.Fprint(b, `<p class="key">Bars are the time of lockbox by the other's; left of 1 is faster.`+
		`<span style="background:#3d7dca"></span>faster, goal met where there is one`+
		`<span style="background:#d99a2b"></span>goal missed<span style="background:#cf4a3c"></span>slower than ZIP or another program`+
		`<span style="background:#8c95a0"></span>slower than something that is no rival</p>`+"\n")
	for _, section := range sections(rows) {
		var of []Row
		for _, row := range rows {
			if row.Section == section {
				of = append(of, row)
			}
		}
		fmt.Fprintf(b, "<h2>%s</h2>\n%s", escaped(SectionTitle(section)), Plot(of, false))
		cells := [][]string{{"workload", "lockbox", "against", "ratio or figure", "goal", "size by ZIP's", ""}}
		for _, row := range of {
			cells = append(cells, []string{row.Label, row.Ours, row.Against, row.Figure, row.Goal, row.Size, row.Verdict})
		}
		writeHTML(b, cells, func(i int) bool { return of[i].Loss })
	}
	never := func(int) bool { return false }
	for _, d := range r.Details() {
		fmt.Fprintf(b, "<h2>%s</h2>\n<p>%s</p>\n", escaped(d.Title), escaped(d.Note))
		writeHTML(b, d.Cells, never)
	}
	if cells := r.counterCells(); len(cells) > 1 {
		fmt.Fprint(b, "<h2>What lockbox counted in one run</h2>\n")
		writeHTML(b, cells, never)
	}
	fmt.Fprint(b, "</body>\n</html>\n")
	return b.Flush()
}

func writeLosses(b *bufio.Writer, rows []Row) {
	n := 0
	for i := range rows {
		if !rows[i].Loss {
			continue
		}
		if n++; n == 1 {
			fmt.Fprint(b, "<h2>Losses</h2>\n<ul>\n")
		}
		goal := ""
		if rows[i].Goal != "" {
			goal = ", goal " + rows[i].Goal
		}
		fmt.Fprintf(b, "<li class=\"loss\">%s: %s: %s%s: <b>%s</b></li>\n", escaped(rows[i].Section), escaped(rows[i].Label), escaped(rows[i].Figure), escaped(goal), escaped(rows[i].Verdict))
	}
	if n > 0 {
		fmt.Fprint(b, "</ul>\n")
	}
}

func writeComparison(b *bufio.Writer, c *Comparison) {
	fmt.Fprintf(b, "<h2>Against an earlier run</h2>\n<p>%s</p>\n", escaped(c.Headline()))
	cells := [][]string{changeHeading}
	for i := range c.Changes {
		cells = append(cells, c.Changes[i].cells())
	}
	writeHTML(b, cells, func(i int) bool { return c.Changes[i].Worse })
}

// writeHTML writes a table whose first row is the heading; loss tells of a row behind it whether it is marked.
func writeHTML(b *bufio.Writer, cells [][]string, loss func(int) bool) {
	fmt.Fprint(b, "<div class=\"scroll\"><table>\n")
	for i, row := range cells {
		tag, class := "td", ""
		if i == 0 {
			tag = "th"
		} else if loss(i - 1) {
			class = ` class="loss"`
		}
		fmt.Fprintf(b, "<tr%s>", class)
		for _, c := range row {
			fmt.Fprintf(b, "<%s>%s</%s>", tag, escaped(c), tag)
		}
		fmt.Fprint(b, "</tr>\n")
	}
	fmt.Fprint(b, "</table></div>\n")
}

// counterCells is the table of counters.
func (r *Report) counterCells() [][]string {
	cells := [][]string{{"workload", "counters"}}
	for i := range r.Sets {
		s := &r.Sets[i]
		text := ""
		for _, k := range slices.Sorted(maps.Keys(s.Counters)) {
			text += fmt.Sprintf("%s %d   ", k, s.Counters[k])
		}
		if text != "" {
			cells = append(cells, []string{s.Section + ": " + s.Label(), text})
		}
	}
	return cells
}

// escaped is text as HTML and SVG take it, in attributes too. The standard library's function for it would add to the
// start of every command.
func escaped(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '&':
			b.WriteString("&amp;")
		case c == '<':
			b.WriteString("&lt;")
		case c == '>':
			b.WriteString("&gt;")
		case c == '"':
			b.WriteString("&#34;")
		case c < ' ' && c != '\t' && c != '\n', c == 0xfffe, c == 0xffff:
			b.WriteRune(utf8.RuneError) // what no such document may hold
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
