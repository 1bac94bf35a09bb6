package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockbox/internal/bench"
)

// run is one run of this program.
type run struct {
	ctx     context.Context
	bin     string // the lockbox binary
	self    string // this program, as the launcher of measured processes
	goroot  string
	tmp     string
	samples int
	quick   bool
	filter  *regexp.Regexp
	pattern string
	report  bench.Report
}

const everything = "inprocess,jobs,commands,memory"

func main() {
	b := &run{}
	bin := flag.String("lockbox", "bin/lockbox", "the binary")
	sections := flag.String("section", everything, "sections to measure")
	flag.StringVar(&b.pattern, "filter", "", "measure only workloads that match this regular expression")
	flag.BoolVar(&b.quick, "quick", false, "three samples, and no workload that takes long")
	out := flag.String("o", "", "write the tables to this file (default: docs/benchmarks.md for a complete run, else standard output)")
	raw := flag.String("raw", "", "write every sample to this file, as lockbox bench --json does (a complete run: docs/benchmarks.ndjson)")
	plot := flag.String("svg", "", "write the plot to this file (a complete run: docs/benchmarks.svg)")
	tmp := flag.String("tmp", "", "work below this directory (default: /dev/shm where there is one)")
	launch := flag.String("launch", "", "internal: run the operands as a process and write what it used to this file")
	flag.Parse()
	if *launch != "" {
		os.Exit(launcher(*launch, flag.Args()))
	}
	var stop context.CancelFunc
	b.ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.main(*bin, *sections, *out, *raw, *plot, *tmp); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func (b *run) main(bin, sections, out, raw, plot, tmp string) (err error) {
	if b.filter, err = regexp.Compile(b.pattern); err != nil {
		return err
	}
	if b.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("asking go for GOROOT: %w", err)
	}
	b.goroot = strings.TrimSpace(string(root))
	b.samples = 9
	if b.quick {
		b.samples = 3
	}
	if tmp == "" {
		if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
			tmp = "/dev/shm"
		}
	}
	if b.tmp, err = os.MkdirTemp(tmp, "lockbox-peers-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()
	b.report.Machine = bench.ThisMachine(b.tmp)
	b.report.Machine.Samples, b.report.Machine.Quick = b.samples, b.quick
	b.report.Machine.Text = "Go source"

	steps := map[string]func() error{
		"inprocess": func() error { return b.inProcess(false) }, "jobs": func() error { return b.inProcess(true) },
		"commands": b.commandLine, "memory": b.memory,
	}
	for s := range strings.SplitSeq(sections, ",") {
		step, ok := steps[strings.TrimSpace(s)]
		if !ok {
			return fmt.Errorf("no section %q", s)
		}
		if err := step(); err != nil {
			return fmt.Errorf("section %s: %w", s, err)
		}
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if !b.quick && b.pattern == "" && sections == everything {
		out = cmp.Or(out, filepath.Join("docs", "benchmarks.md"))
		raw = cmp.Or(raw, filepath.Join("docs", "benchmarks.ndjson"))
		plot = cmp.Or(plot, filepath.Join("docs", "benchmarks.svg"))
	}
	return b.write(out, raw, plot)
}

// inProcess has the binary measure itself.
func (b *run) inProcess(sweep bool) error {
	if !slices.ContainsFunc(bench.Names(sweep), b.filter.MatchString) {
		return nil
	}
	args := []string{"bench", "--json", "--progress", "always", "--dir", b.tmp}
	if sweep {
		args = append(args, "--jobs-sweep")
	} else {
		args = append(args, "--source", filepath.Join(b.goroot, "src"))
	}
	if b.quick {
		args = append(args, "--quick")
	}
	if b.pattern != "" {
		args = append(args, "--filter", b.pattern)
	}
	cmd := exec.CommandContext(b.ctx, b.bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it tidies up
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r, err := bench.Read(pipe)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("%s %s: %w", b.bin, strings.Join(args, " "), err)
	}
	if !sweep {
		b.report.Machine = r.Machine
	}
	b.report.Sets = append(b.report.Sets, r.Sets...)
	return nil
}

// wanted tells whether a workload is to be measured, and says on standard error that it is.
func (b *run) wanted(section, workload string) bool {
	name := section + ": " + workload
	if !b.filter.MatchString(name) || b.ctx.Err() != nil {
		return false
	}
	fmt.Fprintf(os.Stderr, "bench: measuring %s\n", name)
	return true
}

// take lets contenders take turns and returns a set for each.
func (b *run) take(section, workload string, samples int, cs ...bench.Contender) ([]bench.Set, error) {
	times, err := bench.Take(b.ctx, samples, cs...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", workload, err)
	}
	sets := make([]bench.Set, len(cs))
	for i, c := range cs {
		sets[i] = bench.Set{Section: section, Workload: workload, Contender: c.Name, Samples: times[i]}
	}
	return sets, nil
}

// against adds the first set's comparison with each of the others; a goal of 0 is none.
func (b *run) against(sets []bench.Set, goals []float64) {
	for i := range sets[1:] {
		mine, other := sets[0], sets[1+i]
		mine.Workload += ", against " + other.Contender
		other.Workload = mine.Workload
		mine.Compared(&other, true)
		mine.WithGoal(goals[1+i])
		b.report.Sets = append(b.report.Sets, mine, other)
	}
}

// figure adds a number that is no time.
func (b *run) figure(section, workload, shown string, value float64, unit string, goal float64) {
	s := bench.Set{Section: section, Workload: workload, Contender: "lockbox", Shown: shown, Value: &value, Unit: unit}
	s.WithGoal(goal)
	b.report.Sets = append(b.report.Sets, s)
}

// missing adds a row that says why nothing was measured.
func (b *run) missing(section, workload, why string) {
	b.report.Sets = append(b.report.Sets, bench.Set{Section: section, Workload: workload, Contender: "lockbox", Note: why})
}
