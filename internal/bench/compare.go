package bench

import (
	"bufio"
	"fmt"
	"io"
)

// What may be lost against an earlier run before it is marked.
const (
	openBound = 0.05
	bound     = 0.10
	// fromNothing stands for a growth from 0, which is no part of anything, and for any that is larger.
	fromNothing = 1e6
)

// Change is a row now and in an earlier run.
type Change struct {
	Section string  `json:"section"`
	Label   string  `json:"workload"`
	Was     float64 `json:"was"` // ratios or values
	Now     float64 `json:"now"`
	By      float64 `json:"worse_by"` // as a part of Was; below 0 is better
	Bound   float64 `json:"bound"`
	Worse   bool    `json:"worse"`
}

// Comparison holds a report against an earlier one.
type Comparison struct {
	Changes []Change
	New     int // rows that the earlier run does not have
	Worse   int
	Other   bool // the earlier run was on another machine
	Unlike  bool // it had other text in its fixtures, or fewer samples
}

// Compare holds r against an earlier report, row by row: by the ratio where there is one, because it is from one
// run, else by the value. More than 5 % for opening, more than 10 % for anything else is marked.
func (r *Report) Compare(base *Report) *Comparison {
	type key struct{ section, workload, contender, against string }
	keyOf := func(s *Set) key {
		against := s.Against
		if s.isZip() { // which of the two libraries was the faster one may differ
			against = "zip"
		}
		return key{s.Section, s.Workload, s.Contender, against}
	}
	was := make(map[key]*Set)
	for i := range base.Sets {
		was[keyOf(&base.Sets[i])] = &base.Sets[i]
	}
	m, n := r.Machine, base.Machine
	c := &Comparison{Other: m.CPU != n.CPU || m.CPUs != n.CPUs || m.OS != n.OS || m.Arch != n.Arch,
		Unlike: m.Text != n.Text || m.Quick != n.Quick}
	for i := range r.Sets {
		s := &r.Sets[i]
		now, ok := s.Figure()
		if !ok || hasPrefix(s.Against, recorded) { // that ratio is a time, and not from one run
			continue
		}
		old := was[keyOf(s)]
		if old == nil {
			c.New++
			continue
		}
		then, ok := old.Figure()
		if !ok {
			c.New++
			continue
		}
		ch := Change{Section: s.Section, Label: s.Label(), Was: then, Now: now, Bound: bound}
		if s.Open {
			ch.Bound = openBound
		}
		if s.AtLeast {
			then, now = now, then
		}
		switch {
		case then == now:
		case then == 0:
			ch.By = fromNothing
		default:
			ch.By = min(now/then-1, fromNothing)
		}
		if ch.Worse = ch.By > ch.Bound; ch.Worse {
			c.Worse++
		}
		c.Changes = append(c.Changes, ch)
	}
	return c
}

// Headline says how many rows became worse.
func (c *Comparison) Headline() string {
	s := fmt.Sprintf("Held against the earlier run: %d of %d figures are worse than allowed (opening +5 %%, anything else +10 %%), %d are new.", c.Worse, len(c.Changes), c.New)
	if c.Other {
		s += " It was made on another machine, so only ratios mean something."
	}
	if c.Unlike {
		s += " It had other text in its fixtures, or another number of samples."
	}
	return s
}

var changeHeading = []string{"workload", "earlier", "now", "worse by", ""}

func (c *Change) cells() []string {
	mark := ""
	if c.Worse {
		mark = fmt.Sprintf("WORSE, over +%.0f%%", 100*c.Bound)
	}
	by := fmt.Sprintf("%+.1f%%", 100*c.By)
	switch {
	case c.By < fromNothing:
	case c.Was == 0:
		by = "was 0"
	default:
		by = "over a million times"
	}
	return []string{c.Section + ": " + c.Label, number(c.Was, ""), number(c.Now, ""), by, mark}
}

// WriteTable writes a comparison for people.
func (c *Comparison) WriteTable(w io.Writer) error {
	b := bufio.NewWriter(w)
	cells := [][]string{changeHeading}
	for i := range c.Changes {
		cells = append(cells, c.Changes[i].cells())
	}
	fmt.Fprintln(b)
	writeCells(b, cells)
	fmt.Fprintf(b, "\n%s\n", c.Headline())
	return b.Flush()
}
