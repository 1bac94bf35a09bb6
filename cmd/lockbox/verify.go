package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// verifyOptions is a command line of verify.
type verifyOptions struct {
	archives []string
	full     bool
	only     []string
	literal  bool
	rate     sizeValue

	maxDuration durationValue
	state       string
	report      string
	metrics     string
}

func (o *verifyOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.full, "full", false, "also read and check every byte")
	f.StringArrayVar(&o.only, "only", nil, "read and check the bytes of these entries only (repeatable)")
	f.BoolVar(&o.literal, "literal", false, "take the names of --only as they are, not as patterns")
	f.Var(&o.rate, "rate", "read at most so many bytes a second, such as 50M")
	f.Var(&o.maxDuration, "max-duration", "with --state: begin to read no more after this time")
	f.Lookup("max-duration").DefValue = "" // no bound
	f.StringVar(&o.state, "state", "", "with --full: go on where the run before has stopped, as this file says")
	f.StringVar(&o.report, "report", "", "write what was found to this file, as JSON")
	f.StringVar(&o.metrics, "metrics", "", "write figures to this file, for a Prometheus text-file collector")
}

func (o *verifyOptions) validate() error {
	if len(o.archives) == 0 {
		return usagef("the archive is missing")
	}
	for _, name := range o.archives {
		if err := checkArchiveName(name); err != nil {
			return err
		}
	}
	if o.literal && len(o.only) == 0 {
		return usagef("--literal is for the names of --only")
	}
	if o.rate.set && o.rate.n == 0 {
		return usagef("--rate 0 would never end")
	}
	switch {
	case o.maxDuration < 0:
		return usagef("--max-duration is a time above 0")
	case o.maxDuration > 0 && o.state == "":
		return usagef("--max-duration needs --state FILE, or every run would read the same")
	case o.state != "" && !o.full:
		return usagef("--state is for --full: the structure is always checked whole")
	case o.state != "" && len(o.only) > 0:
		return usagef("--state and --only exclude each other: a pass goes over all entries")
	}
	return o.validateFiles()
}

// validateFiles keeps an output from another, and from an archive.
func (o *verifyOptions) validateFiles() error {
	files := []struct{ flag, name string }{{"--state", o.state}, {"--report", o.report}, {"--metrics", o.metrics}}
	for i, f := range files {
		if f.name == "" {
			continue
		}
		for _, g := range files[:i] {
			if g.name != "" && sameName(f.name, g.name) {
				return usagef("%s and %s name one file", g.flag, f.flag)
			}
		}
		for _, archive := range o.archives {
			if sameName(f.name, archive) {
				return usagef("%s names the archive %s, which would be overwritten", f.flag, quoted(archive))
			}
		}
	}
	return nil
}

// sameName reports whether two names stand for one file, which need not exist.
func sameName(a, b string) bool {
	return filepath.Clean(a) == filepath.Clean(b) || same(a, b)
}

func newVerifyCommand(a *app) *cobra.Command {
	var opt verifyOptions
	cmd := &cobra.Command{
		Use:   "verify ARCHIVE... [FLAG...]",
		Short: "check archives",
		Long: `Check archives without writing to them. Without --full that is the structure:
superblock copies, commit block, every node of the index, what its records say of each
other, and who owns which part of the file. With --full every frame is
read, decoded and compared with the digests of what was stored. Everything that
is damaged is named (exit 15). An unreadable superblock copy of the four is a
warning: the next change to the archive mends it.

Of a signed archive the whole index is checked against the signature, with --full every
byte that is stored; who signed is printed. Without a signature this finds damage, not a
forger.

--only reads the named entries instead of all; the structure is always checked.
--rate leaves the disk to others: at 20M a terabyte takes fifteen hours.

--max-duration and --state make a pass over an archive in many runs: each checks the
structure, reads for so long what the pass has not read, and what was written since,
and keeps in the state file how far it came (exit 0 when all that it read was well). A
pass ends however fast the archive grows; the next run begins the next one. What was
found damaged is read again in every run, until it is mended. The time is shared
between the archives of a call. A state that is not of the archive's past, or of another
file, in whose place a copy or the result of "key rotate" has come, is not used: that is a
warning, and a new pass begins.

--report and --metrics replace their files as a whole, also after damage.
` + globHelp,
		Example: `  lockbox verify backup.lbx
  lockbox verify --full --quiet *.lbx
  lockbox verify --full --rate 20M backup.lbx
  lockbox verify --full --quiet --max-duration 30m --state verify.state *.lbx
  lockbox verify backup.lbx --only docs --only '**/*.key'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.archives = args
			if err := opt.validate(); err != nil {
				return err
			}
			return a.verify(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	return cmd
}

// verifying is one run of verify over all its archives.
type verifying struct {
	a     *app
	opt   verifyOptions
	state *stateFile // nil without --state
	began time.Time
	done  []*outcome
}

// outcome is what came of one archive.
type outcome struct {
	name  string
	began time.Time
	took  time.Duration
	check *check // nil when it did not come to a check
	ended bool   // the check came to its end
	code  exitCode
	err   error
}

// verify checks one archive after the other. What is wrong with one does not keep it from the next.
func (a *app) verify(ctx context.Context, opt verifyOptions) (err error) {
	defer leaveWhenStuck(ctx)()
	v := &verifying{a: a, opt: opt, began: a.now()}
	for _, name := range []*string{&v.opt.report, &v.opt.metrics, &v.opt.state} {
		if err := preparePlace(name); err != nil {
			return err
		}
	}
	if opt.state != "" {
		if v.state, err = a.openState(v.opt.state); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.state.close()) }()
	}
	for i, name := range opt.archives {
		o := &outcome{name: name, began: a.now()}
		v.done = append(v.done, o)
		o.err = v.one(ctx, o, v.until(i))
		o.took = a.now().Sub(o.began)
		if o.err != nil {
			o.code = worse(o.code, codeOf(o.err))
		}
		if ctx.Err() != nil {
			o.code = exitInterrupted
		}
		a.out.flush()
		if err := v.keepState(o); err != nil {
			a.fail(err)
		}
		if ctx.Err() != nil || a.out.err != nil {
			err = errors.Join(o.err, ctx.Err(), a.out.err)
			break
		}
		if o.err != nil {
			a.fail(o.err)
		}
	}
	for _, write := range []func() error{v.writeReport, v.writeMetrics} {
		if werr := write(); werr != nil {
			a.fail(werr)
		}
	}
	return err
}

// until is when the i-th archive's time is over; zero: never. What earlier ones have left is shared by the rest.
func (v *verifying) until(i int) time.Time {
	if v.opt.maxDuration == 0 {
		return time.Time{}
	}
	now := v.a.now()
	left := max(v.began.Add(time.Duration(v.opt.maxDuration)).Sub(now), 0)
	return now.Add(left / time.Duration(len(v.opt.archives)-i))
}
