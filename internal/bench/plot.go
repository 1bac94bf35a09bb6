package bench

import (
	"fmt"
	"math"
	"strings"
)

// The plot's columns, in its own units.
const (
	plotWidth   = 1180
	plotLeft    = 470 // where the axis begins; labels stand before it
	plotRight   = 850 // where it ends; figures stand behind it
	plotRow     = 22
	plotTop     = 42
	lowestTick  = 1e-3
	highestTick = 1e6
)

// plotStyle has no variables, so that programs other than browsers show it as well.
const plotStyle = `
.plot text{font:12px system-ui,sans-serif;fill:#1f2328}
.plot .label{text-anchor:end}
.plot .tick{text-anchor:middle;fill:#59636e}
.plot .loss{fill:#b3261e;font-weight:600}
.plot .paper{fill:#fff}
.plot .grid{stroke:#d8dee4}
.plot .one{stroke:#1f2328;stroke-width:1.5}
.plot .goal{stroke:#1f2328;stroke-width:3}
.plot .spread{stroke:#1f2328;stroke-width:1}
.plot .win{fill:#3d7dca}
.plot .near{fill:#d99a2b}
.plot .lose{fill:#cf4a3c}
.plot .other{fill:#8c95a0}
@media (prefers-color-scheme:dark){
.plot text{fill:#e6edf3}
.plot .tick{fill:#9aa4ae}
.plot .loss{fill:#ff8f85}
.plot .paper{fill:#0d1117}
.plot .grid{stroke:#30363d}
.plot .one,.plot .goal,.plot .spread{stroke:#e6edf3}
}`

// Plot returns the ratios of rows as one SVG image: a bar from 1 to the ratio on a logarithmic axis, to the left when
// lockbox takes less time. "" when no row has a ratio. titles puts each section's name before its rows.
func Plot(rows []Row, titles bool) string {
	lo, hi := 0.1, 1.0
	n := 0
	for i := range rows {
		if b, ok := barOf(&rows[i]); ok {
			lo, hi = min(lo, b.value, b.low), max(hi, b.value, b.high)
			n++
		}
	}
	if n == 0 {
		return ""
	}
	lo = max(math.Pow(10, math.Floor(math.Log10(lo))), lowestTick)
	hi = math.Pow(10, math.Ceil(math.Log10(min(hi, highestTick/2)*1.05)))
	x := func(v float64) float64 {
		v = min(max(v, lo), hi)
		return plotLeft + (plotRight-plotLeft)*(math.Log10(v)-math.Log10(lo))/(math.Log10(hi)-math.Log10(lo))
	}

	var body strings.Builder
	y := plotTop
	last := ""
	for i := range rows {
		b, ok := barOf(&rows[i])
		if !ok {
			continue
		}
		if titles && rows[i].Section != last {
			last = rows[i].Section
			fmt.Fprintf(&body, `<text x="8" y="%d" font-weight="600" style="font-weight:600">%s</text>`+"\n", y+plotRow-4, escaped(SectionTitle(last)))
			y += plotRow + 4
		}
		b.draw(&body, &rows[i], x, y)
		y += plotRow
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %d %d" role="img" aria-label="time of lockbox by the other's, a bar each, on a logarithmic axis">`+"\n", plotWidth, y+10)
	fmt.Fprintf(&s, "<style>%s</style>\n<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", plotStyle, plotWidth, y+10)
	for v := lo; v <= hi*1.01; v *= 10 {
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="tick" x="%.1f" y="%d">%g</text>`+"\n", x(v), x(v), plotTop-6, y, x(v), plotTop-12, math.Round(v*1e6)/1e6)
	}
	fmt.Fprintf(&s, `<text class="tick" x="%.1f" y="14">← lockbox takes less time</text>`+"\n", (plotLeft+x(1))/2)
	fmt.Fprintf(&s, `<text x="%d" y="14">ratio; thick mark: goal; thin line: spread</text>`+"\n", plotRight+14)
	s.WriteString(body.String())
	fmt.Fprintf(&s, `<line class="one" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n</svg>\n", x(1), x(1), plotTop-6, y)
	return s.String()
}

// bar is what a row draws: time by time, also where the row tells a speed-up.
type bar struct {
	value, low, high, goal float64
	class                  string
}

func barOf(row *Row) (b bar, ok bool) {
	s, o := row.set, row.other
	if s.Ratio == nil || *s.Ratio <= 0 { // a ratio of 0 has no place on this axis
		return b, false
	}
	b = bar{value: *s.Ratio, low: *s.Ratio, high: *s.Ratio}
	if s.Goal != nil {
		b.goal = *s.Goal
	}
	if s.Speedup {
		b.value = 1 / max(b.value, 1e-9)
		b.low, b.high = b.value, b.value
		if b.goal != 0 {
			b.goal = 1 / b.goal
		}
	}
	if o != nil && len(o.Samples) > 0 && len(s.Samples) > 0 {
		b.low = float64(at(s.Samples, 0.25)) / float64(max(at(o.Samples, 0.75), 1))
		b.high = float64(at(s.Samples, 0.75)) / float64(max(at(o.Samples, 0.25), 1))
	}
	switch {
	case s.Slower:
		b.class = "lose"
	case s.Missed:
		b.class = "near"
	case b.value > 1:
		b.class = "other"
	default:
		b.class = "win"
	}
	return b, true
}

func (b *bar) draw(w *strings.Builder, row *Row, x func(float64) float64, y int) {
	mid := y + plotRow/2
	from, to := min(x(b.value), x(1)), max(x(b.value), x(1))
	fmt.Fprintf(w, `<text class="label" x="%d" y="%d">%s</text>`, plotLeft-10, mid+4, escaped(row.Label))
	fmt.Fprintf(w, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>`, b.class, from, y+4, max(to-from, 1.5), plotRow-8)
	fmt.Fprintf(w, `<line class="spread" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x(b.low), x(b.high), mid, mid)
	if b.goal > 0 {
		fmt.Fprintf(w, `<line class="goal" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x(b.goal), x(b.goal), y+2, y+plotRow-2)
	}
	text, class := row.Figure, ""
	if row.set.Speedup {
		text += " ×"
	}
	if row.Goal != "" {
		text += "   goal " + row.Goal
	}
	if row.Verdict != "" {
		text += "   " + row.Verdict
	}
	if row.Loss {
		class = ` class="loss"`
	}
	fmt.Fprintf(w, `<text%s x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", class, plotRight+14, mid+4, escaped(text))
}
