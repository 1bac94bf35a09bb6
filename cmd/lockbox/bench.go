package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"lockbox/internal/bench"
	"lockbox/internal/vfs"
)

// benchOptions is a command line of bench.
type benchOptions struct {
	filter, dir, source, report, compare string
	quick, osCold, sweep                 bool
}

func newBenchCommand(a *app) *cobra.Command {
	var opt benchOptions
	cmd := &cobra.Command{
		Use:   "bench [FLAG...]",
		Short: "measure lockbox against ZIP on this machine",
		Long: `Measure lockbox against two libraries for ZIP, the faster of which counts: whole
archives read and written, ranges, single files out of many, small changes. All of it happens in
this process and on fixtures that it makes; the bytes are compared outside the timing. Contenders take
turns, once without counting and then nine times; the table has medians, and every loss is
marked. One worker on one CPU is compared with ZIP; what more workers gain (--jobs says how many) has rows of
its own. Signed and encrypted archives are compared with unprotected ones, in all sixteen combinations with
compression and padding too, and with the rates of BLAKE3 and AES-256-GCM, and with figures recorded of
another program; an X25519 identity opens them, because what a passphrase costs is up to its owner. The complete run takes several minutes and some GB of space.

Text is generated, in the manner of program source, always the same; --source takes that of a directory
instead. Work files go below --dir, on whose device lockbox syncs what it writes, while ZIP does not. They
are removed at the end, and when the command is interrupted. --json prints the samples: first the
machine, then an object for each contender and workload, at last a summary, which a run that was cut
short lacks; --compare takes such a run as far as it got, with a warning.

--compare marks what became worse than in an earlier run, by its ratio: opening by more than 5 %, anything
else by more than 10 %; then the command ends with 1. --os-cold works on Linux, where the file system
lets go of what it has in memory: not on tmpfs.`,
		Example: `  lockbox bench --quick
  lockbox bench --report bench.html --json > today.ndjson
  lockbox bench --filter '^streaming: .*text' --compare yesterday.ndjson
  lockbox bench --filter '^suites: '
  lockbox bench --jobs-sweep`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("lock-timeout") {
				return usagef("bench opens no archive of yours, so --lock-timeout has no meaning here")
			}
			return a.bench(cmd.Context(), &opt)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opt.quick, "quick", false, "three samples, and nothing that takes long")
	f.StringVar(&opt.filter, "filter", "", `only workloads that match, such as "streaming: .*raw" or "entries"`)
	f.BoolVar(&opt.osCold, "os-cold", false, "drop archives from the system's cache before each sample; Linux, and not on tmpfs")
	f.BoolVar(&opt.sweep, "jobs-sweep", false, `measure "add" with one worker up to --jobs (default: all CPUs) instead; its output must not differ`)
	f.StringVar(&opt.report, "report", "", "write a page with plots: one HTML file that needs nothing else")
	f.StringVar(&opt.compare, "compare", "", "hold the figures against what --json printed earlier; exit 1 when some are worse")
	f.StringVar(&opt.dir, "dir", "", "where work files go (default: the system's directory for temporary files)")
	f.StringVar(&opt.source, "source", "", "take the text of fixtures from the text files below this directory")
	return cmd
}

func (a *app) bench(ctx context.Context, opt *benchOptions) error {
	o, err := a.benchRun(opt)
	if err != nil {
		return err
	}
	base, err := a.readBase(ctx, opt)
	if err != nil {
		return err
	}
	if err := preparePlace(&opt.report); err != nil {
		return err
	}
	r, err := bench.Run(ctx, o)
	if err != nil {
		return benchFailure(err, opt.sweep)
	}
	var c *bench.Comparison
	if base != nil {
		c = r.Compare(base)
	}
	if opt.report != "" {
		var page bytes.Buffer
		err := r.WritePage(&page, c)
		if err == nil {
			err = vfs.ReplaceFile(opt.report, 0o666, page.Bytes())
		}
		if err != nil {
			return benchFailure(fmt.Errorf("cannot write the report to %s: %w", quoted(opt.report), withoutPath(err)), opt.sweep)
		}
	}
	if err := a.benchOutput(r, c); err != nil {
		return err
	}
	if c != nil && c.Worse > 0 {
		return fmt.Errorf("%s worse than in %s", plural(uint64(c.Worse), "figure is", "figures are"), quoted(opt.compare))
	}
	return nil
}

// benchRun checks the flags and turns them into what is to be measured.
func (a *app) benchRun(opt *benchOptions) (o bench.Options, err error) {
	o = bench.Options{
		Dir: opt.dir, Source: opt.source, Quick: opt.quick, OSCold: opt.osCold, Jobs: a.g.jobs.n, Sweep: opt.sweep, Version: programVersion(),
		Begin: func(bench.Machine) error { return nil }, Next: func(string) {}, Done: func([]bench.Set) error { return nil },
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	for _, d := range []string{o.Dir, o.Source} {
		if fi, err := os.Stat(d); d != "" && err != nil {
			return o, fmt.Errorf("cannot use %s: %w", quoted(d), withoutPath(err))
		} else if d != "" && !fi.IsDir() {
			return o, fmt.Errorf("cannot use %s: it is not a directory", quoted(d))
		}
	}
	if o.Filter, err = regexp.Compile(opt.filter); err != nil {
		return o, usagef("--filter %s: %w", quoted(opt.filter), err)
	}
	if opt.sweep {
		switch {
		case opt.osCold:
			return o, usagef("--os-cold is about reading; --jobs-sweep measures writing")
		case opt.source != "":
			return o, usagef("--jobs-sweep has fixtures of its own; --source does not change them")
		}
		if o.Program, err = os.Executable(); err != nil {
			return o, fmt.Errorf("cannot find this program to run it: %w", err)
		}
	}
	if a.g.progress.value == "always" || a.g.progress.value == "auto" && !a.g.quiet && isTerminal(a.sys.stderr) {
		o.Next = func(workload string) { a.say.raw("lockbox: measuring " + workload + "\n") }
	}
	if a.g.json {
		// As it comes: a run that is stopped leaves what it measured.
		o.Begin = func(m bench.Machine) error { return bench.WriteMachine(a.out, m) }
		o.Done = func(sets []bench.Set) error {
			for i := range sets {
				if err := bench.WriteSet(a.out, &sets[i]); err != nil {
					return err
				}
			}
			a.out.flush()
			return nil
		}
	}
	return o, nil
}

// readBase reads the earlier run, if there is to be a comparison.
func (a *app) readBase(ctx context.Context, opt *benchOptions) (*bench.Report, error) {
	if opt.compare == "" {
		return nil, nil
	}
	base, err := readNamed(ctx, opt.compare, func(f *os.File) (*bench.Report, error) { return bench.Read(f) })
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return nil, fmt.Errorf("cannot read %s: %w", quoted(opt.compare), unread.Err)
	case err != nil:
		return nil, &failure{
			code: exitFailed, err: fmt.Errorf("%s is not what bench --json prints: %w", quoted(opt.compare), err),
			hint: "lockbox bench --json > FILE makes one",
		}
	}
	if !base.Whole {
		a.say.Warnf("%s has no summary: that run was cut short, and is compared as far as it got", quoted(opt.compare))
	}
	if base.Machine.OSCold != opt.osCold {
		return nil, usagef("%s was measured with --os-cold=%t; it cannot be compared with --os-cold=%t", quoted(opt.compare), base.Machine.OSCold, opt.osCold)
	}
	return base, nil
}

func (a *app) benchOutput(r *bench.Report, c *bench.Comparison) error {
	if !a.g.json {
		if a.g.quiet {
			return nil
		}
		if err := r.WriteTable(a.out); err != nil || c == nil {
			return err
		}
		return c.WriteTable(a.out)
	}
	if c != nil {
		for i := range c.Changes {
			if err := bench.WriteChange(a.out, &c.Changes[i]); err != nil {
				return err
			}
		}
	}
	return bench.WriteTotals(a.out, r.Count())
}

// benchFailure adds to an error what can be done about it.
func benchFailure(err error, sweep bool) error {
	var space *bench.NoSpaceError
	var cold *bench.NoColdError
	var unusable *bench.UnusableError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, bench.ErrNothing):
		return &failure{code: exitUsage, err: fmt.Errorf("--filter: %w", err), hint: "the workloads are " + strings.Join(bench.Names(sweep), "; ")}
	case errors.As(err, &unusable) && !diskFull(err):
		return &failure{
			code: exitFailed, err: fmt.Errorf("cannot use %s: %w", quoted(unusable.Dir), withoutPath(unusable.Err)),
			hint: "work files go there; --dir takes another directory",
		}
	case errors.As(err, &space), diskFull(err):
		return &failure{code: exitFailed, err: err, hint: "--quick and --filter need less, --dir takes another directory"}
	case errors.As(err, &cold):
		return &failure{code: exitFailed, err: err, hint: "--dir takes a directory on another file system"}
	}
	return err
}
