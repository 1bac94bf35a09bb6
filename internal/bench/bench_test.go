package bench

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func ms(ns ...int) []time.Duration {
	var ds []time.Duration
	for _, n := range ns {
		ds = append(ds, time.Duration(n)*time.Millisecond)
	}
	return ds
}

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		samples []time.Duration
		median  time.Duration
		spread  float64
	}{
		{nil, 0, 0},
		{ms(7), 7 * time.Millisecond, 0},
		{ms(3, 1, 2), 2 * time.Millisecond, 0.25},
		{ms(9, 1, 5, 3, 7), 5 * time.Millisecond, 0.4},
		{ms(10, 10, 10, 10, 10, 10, 10, 10, 1000), 10 * time.Millisecond, 0},
	} {
		given := slices.Clone(c.samples)
		if got := Median(c.samples); got != c.median {
			t.Errorf("median of %v: %v, want %v", c.samples, got, c.median)
		}
		if got := Spread(c.samples); got < c.spread-1e-9 || got > c.spread+1e-9 {
			t.Errorf("spread of %v: %v, want %v", c.samples, got, c.spread)
		}
		if !slices.Equal(given, c.samples) {
			t.Errorf("the order of measurement was lost: %v, %v", given, c.samples)
		}
	}
}

func TestTakeTurns(t *testing.T) {
	var order []string
	one := func(name string) Contender {
		return Contender{Name: name, Prepare: func() error { order = append(order, "-"); return nil },
			Run: func() (time.Duration, error) { order = append(order, name); return time.Duration(len(order)), nil }}
	}
	samples, err := Take(context.Background(), 2, one("a"), one("b"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "-a-b-a-b-a-b" {
		t.Errorf("order %s", got)
	}
	if len(samples[0]) != 2 || samples[0][0] != 6 {
		t.Errorf("the first round counts: %v", samples)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopping := Contender{Name: "c", Run: func() (time.Duration, error) { cancel(); return 1, nil }}
	if _, err := Take(ctx, 9, stopping); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// report is one with every kind of row.
func report() *Report {
	zip := Set{Section: "streaming", Workload: "w <&\">", Contender: kZip, Samples: ms(10, 11, 12)}
	mine := Set{Section: "streaming", Workload: "w <&\">", Contender: "lockbox", Samples: ms(2, 2, 3), Counters: map[string]uint64{"reads": 3}, PeakHeap: 9, SizeRatio: 0.9}
	mine.Compared(&zip, true)
	mine.WithGoal(0.15)
	slow := Set{Section: "streaming", Workload: "w <&\">", Contender: "lockbox, bulk", Samples: ms(20, 20, 30)}
	slow.Compared(&zip, true)
	opening := Set{Section: "random", Workload: "o", Contender: "lockbox: open and close", Samples: ms(1, 1, 1), Open: true}
	other := Set{Section: "random", Workload: "o", Contender: stdZip + ": open and close", Samples: ms(4, 4, 4)}
	opening.Compared(&other, true)
	opening.WithGoal(0.5)
	one := Set{Section: "jobs", Workload: "tree", Contender: "lockbox, 1 worker", Samples: ms(20), CPU: ms(19), SHA256: "00"}
	two := Set{Section: "jobs", Workload: "tree", Contender: "lockbox, 2 workers", Samples: ms(10), CPU: ms(20), SHA256: "00", Speedup: true, AtLeast: true, Stages: map[string]time.Duration{"read": time.Second}}
	two.Compared(&one, false)
	two.WithGoal(1.7)
	v := 3.0
	zero := Set{Section: "random", Workload: "z", Contender: "lockbox: nodes", Value: &v, Shown: "3"}
	zero.MustBeZero()
	note := Set{Section: "commands", Workload: "add", Contender: "lockbox", Note: "restic is not installed"}
	return &Report{Machine: Machine{CPU: "c<", CPUs: 2, OS: "linux"}, Sets: []Set{mine, zip, slow, opening, other, one, two, zero, note}}
}

func TestVerdicts(t *testing.T) {
	var got []string
	for _, row := range report().Rows() {
		got = append(got, row.Label+"|"+row.Figure+"|"+row.Goal+"|"+row.Verdict)
	}
	want := []string{
		"w <&\">|0.182|≤ 0.15|MISSED", "w <&\">, bulk|1.82||SLOWER than ZIP", "o: open and close|0.25|≤ 0.5|met",
		"tree, 2 workers|2|≥ 1.7|met", "z: nodes|3|0|MISSED", "add|||",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%q, want\n%q", got, want)
	}
	if n := report().Count(); n != (Totals{Sets: 9, Met: 2, Missed: 2, Faster: 2, Slower: 1}) {
		t.Errorf("%+v", n)
	}
}

func TestCompareMarks(t *testing.T) {
	change := func(name string, by float64) *Report {
		r := report()
		for i := range r.Sets {
			if s := &r.Sets[i]; s.Label() == name && s.Ratio != nil {
				v := *s.Ratio * by
				s.Ratio = &v
			}
		}
		return r
	}
	for _, c := range []struct {
		name  string
		by    float64
		worse int
	}{
		{"o: open and close", 1.04, 0}, {"o: open and close", 1.06, 1}, {"w <&\">", 1.09, 0}, {"w <&\">", 1.11, 1}, {"w <&\">", 0.5, 0},
		{"tree, 2 workers", 1.2, 0}, {"tree, 2 workers", 0.95, 0}, {"tree, 2 workers", 0.89, 1},
	} {
		got := change(c.name, c.by).Compare(report())
		if got.Worse != c.worse || got.New != 0 || len(got.Changes) != 5 || got.Other {
			t.Errorf("%s × %v: %d worse, %d new, %d changes", c.name, c.by, got.Worse, got.New, len(got.Changes))
		}
	}
	base := report()
	base.Machine.CPUs = 4
	*base.Sets[7].Value = 0
	base.Sets = base.Sets[1:]
	if got := report().Compare(base); got.Worse != 1 || got.New != 1 || !got.Other || got.Unlike {
		t.Errorf("%+v", got)
	}
	// The faster of the two libraries may change between runs.
	base = report()
	base.Sets[0].Against = stdZip
	if got := report().Compare(base); got.New != 0 {
		t.Errorf("%+v", got)
	}
}

// TestPage parses what is written: the page is well-formed, and every loss stands in it in words.
func TestPage(t *testing.T) {
	r := report()
	var page bytes.Buffer
	if err := r.WritePage(&page, r.Compare(report())); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, strings.TrimPrefix(page.String(), "<!DOCTYPE html>"))
	for _, want := range []string{"MISSED", "SLOWER than ZIP", "<svg", "Losses", "restic is not installed", "w &lt;&amp;&#34;&gt;"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if bad := regexp.MustCompile(`(src|href)=|url\(|<script|NaN|Inf`).FindString(page.String()); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	plot := Plot(r.Rows(), true)
	wellFormed(t, plot)
	for class, n := range map[string]int{`<rect class="lose"`: 1, `<rect class="near"`: 1, `<rect class="win"`: 2, `class="goal" x1`: 3} {
		if got := strings.Count(plot, class); got != n {
			t.Errorf("%d of %s, want %d", got, class, n)
		}
	}
	if Plot(nil, true) != "" {
		t.Error("a plot of nothing")
	}
	var table bytes.Buffer
	if err := errors.Join(r.WriteTable(&table), r.Compare(r).WriteTable(&table)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(table.String(), "MISSED") + strings.Count(table.String(), "SLOWER"); n != 3 {
		t.Errorf("%d losses marked, want 3:\n%s", n, table.String())
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}

func TestNDJSON(t *testing.T) {
	r := report()
	var b bytes.Buffer
	err := WriteMachine(&b, r.Machine)
	for i := range r.Sets {
		err = errors.Join(err, WriteSet(&b, &r.Sets[i]))
	}
	ch := r.Compare(r)
	if err = errors.Join(err, WriteChange(&b, &ch.Changes[0]), WriteTotals(&b, r.Count())); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Sets) != len(r.Sets) || got.Machine != r.Machine || got.Compare(r).Worse != 0 || len(got.Rows()) != len(r.Rows()) {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "{}", "[]", "{\"machine\":{}}", "{\"machine\":{\"os\":\"x\"}}\n{\n", strings.Repeat("x", longestLine+1), "{\"workload\":\"w\"}"} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%.40q was read", bad)
		}
	}
}

// FuzzRead demands that whatever is read can be shown.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"machine":{"os":"linux"}}` + "\n" + `{"section":"s","workload":"w","contender":"lockbox","samples_ns":[1,2],"ratio":-1,"goal":0,"against":"archive/zip"}`))
	f.Add([]byte(`{"machine":{"os":"linux"}}` + "\n" + `{"section":"s","workload":"w","ratio":1e308,"speedup":true,"at_least":true,"value":5,"sha256":"é\u0001\uffff"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var page bytes.Buffer
		if err := errors.Join(r.WritePage(&page, r.Compare(r)), r.WriteTable(io.Discard)); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, strings.TrimPrefix(page.String(), "<!DOCTYPE html>"))
	})
}

func TestWorkDir(t *testing.T) {
	below := t.TempDir()
	killed := filepath.Join(below, workPrefix+"killed")
	if err := errors.Join(os.Mkdir(killed, 0o700), os.WriteFile(filepath.Join(killed, lockName), nil, 0o600), os.WriteFile(filepath.Join(killed, "x.lbx"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(below, workPrefix+"without-lock")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := newWorkDir(below, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newWorkDir(below, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{killed: false, other: true, d.name: true, second.name: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(d.remove(), second.remove(), os.Remove(other)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(below); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	var space *NoSpaceError
	if _, err := newWorkDir(below, 1<<60); !errors.As(err, &space) || space.Need <= 1<<60 {
		t.Errorf("no space: %v", err)
	}
	if left, err := os.ReadDir(below); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestRun measures one small workload and leaves nothing, whether it ends or is stopped.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	o := Options{
		Dir: dir, Quick: true, Filter: regexp.MustCompile("streaming: 512 × 4 KiB raw"),
		Begin: func(Machine) error { return nil }, Next: func(string) {}, Done: func([]Set) error { return nil },
	}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range r.Sets {
		s := &r.Sets[i]
		if len(s.Samples) != 3 || s.Bytes != 2*mib {
			t.Errorf("%s: %d samples, %d bytes", s.Contender, len(s.Samples), s.Bytes)
		}
		if s.isZip() {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d comparisons with ZIP, want 4", n)
	}
	if c := r.Sets[0].Counters; c["blocks_verified"] < 512 || c["frames_decoded"] != 0 {
		t.Errorf("counters %v", c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Next = func(string) { cancel() }
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	o.Filter = regexp.MustCompile("nothing of the kind")
	if _, err := Run(context.Background(), o); !errors.Is(err, ErrNothing) {
		t.Errorf("nothing to measure: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestSweepJobs(t *testing.T) {
	for cpus, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 3, 4, 5, 6}, 24: {1, 2, 3, 4, 5, 6, 7, 8, 16, 24}} {
		if got := sweepJobs(cpus); !slices.Equal(got, want) {
			t.Errorf("%d CPUs: %v, want %v", cpus, got, want)
		}
	}
}

func TestParseStages(t *testing.T) {
	got := parseStages("lockbox: timing: whole 5.000 ms\nlockbox: timing: read            1.500 ms\nlockbox: counter: reads 5\nlockbox: warning: x ms\nlockbox: timing: two words 2.000 ms\n")
	if len(got) != 2 || got["read"] != 1500*time.Microsecond || got["two words"] != 2*time.Millisecond {
		t.Errorf("%v", got)
	}
}
