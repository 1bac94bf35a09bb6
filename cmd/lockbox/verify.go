package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// verifyOptions is a command line of verify.
type verifyOptions struct {
	archives []string
	full     bool
	only     []string
	literal  bool
	rate     sizeValue
}

func (o *verifyOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.full, "full", false, "also read and check every byte")
	f.StringArrayVar(&o.only, "only", nil, "read and check the bytes of these entries only (repeatable)")
	f.BoolVar(&o.literal, "literal", false, "take the names of --only as they are, not as patterns")
	f.Var(&o.rate, "rate", "read at most so many bytes a second, such as 50M")
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
	return nil
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
` + globHelp,
		Example: `  lockbox verify backup.lbx
  lockbox verify --full --quiet *.lbx
  lockbox verify --full --rate 20M backup.lbx
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

// verify checks one archive after the other. What is wrong with one does not keep it from the next.
func (a *app) verify(ctx context.Context, opt verifyOptions) error {
	defer leaveWhenStuck(ctx)()
	for _, name := range opt.archives {
		err := a.verifyOne(ctx, name, opt)
		a.out.flush()
		if ctx.Err() != nil || a.out.err != nil {
			return errors.Join(err, ctx.Err(), a.out.err)
		}
		if err != nil {
			a.fail(err)
		}
	}
	return nil
}

// finding limits: how many damaged places of an archive people are told of one by one.
const findingsShown = 1000

func (a *app) verifyOne(ctx context.Context, name string, opt verifyOptions) error {
	f, err := vfs.OS().Open(name, false)
	if err != nil {
		return a.openFailure(name, err)
	}
	defer f.Close()
	for range 10 {
		again, err := a.verifyState(ctx, f, name, opt)
		if err != nil || !again {
			return err
		}
	}
	return &failure{code: exitBusy, err: fmt.Errorf("%s changed faster than it could be checked", quoted(name))}
}

// verifyState checks the archive's current generation while it holds that generation against cleanup. It
// reports again, and nothing else, when another one was committed before that.
func (a *app) verifyState(ctx context.Context, f vfs.File, name string, opt verifyOptions) (again bool, err error) {
	o := a.readOptions(name)
	o.ExpectRoot = nil // it is compared with what the check finds
	held, openErr := store.Open(ctx, name, o)
	if openErr == nil {
		a.meter.watch(held)
		defer func() {
			a.meter.take(held)
			held.Close()
		}()
		if err := a.lockedAsAsked(held, name); err != nil {
			return false, err
		}
	} else if ctx.Err() != nil {
		return false, ctx.Err()
	} else if codeOf(openErr) == exitAuth || hasWords(openErr) {
		return false, a.openFailure(name, openErr)
	}
	check, missing, err := a.newCheck(held, name, opt)
	if err != nil {
		return false, readingFailure(name, err)
	}
	a.startProgress("verifying", -1)
	sum, err := check.run(ctx, f, a.jobs(), a.bar)
	a.endProgress()
	a.meter.add(store.Counters{Reads: sum.Work.Reads, BytesRead: sum.Work.BytesRead, NodesDecoded: sum.Work.Nodes,
		FramesDecoded: sum.Work.Frames, BlocksVerified: sum.Work.Blocks})
	if openErr == nil {
		in, ierr := held.Info()
		if ierr == nil && err == nil && sum.Generation != in.Generation {
			return true, nil
		}
		if rerr := held.Recheck(); rerr != nil && (err != nil || sum.Damaged > 0) {
			return true, nil // what it found may be the other process's work
		}
	}
	for _, op := range missing {
		a.fail(missingEntry(name, op))
	}
	return false, a.verdict(name, check, sum, err)
}

// check is the check of one archive.
type check struct {
	opt      verify.Options
	findings []verify.Finding
	more     int
	took     time.Duration
	now      func() time.Time
}

// newCheck prepares a check. held is the archive as the engine reads it, or nil when it cannot: then the
// names of --only are taken as they are.
func (a *app) newCheck(held *store.Archive, name string, opt verifyOptions) (*check, []string, error) {
	c := &check{now: a.now}
	c.opt.Rate = opt.rate.n
	c.opt.Unlock, c.opt.Signers = a.unlock(name), a.keys.pins
	c.opt.Full = opt.full || len(opt.only) > 0
	c.opt.Finding = func(f verify.Finding) {
		if len(c.findings) < findingsShown || a.g.json {
			c.findings = append(c.findings, f)
		} else {
			c.more++
		}
	}
	if len(opt.only) == 0 || held == nil {
		if len(opt.only) > 0 {
			a.say.Warnf("%s cannot be read, so that all of it is checked and not only what --only names", quoted(name))
		}
		return c, nil, nil
	}
	sel, err := newSelection(held, opt.only, opt.literal)
	if err != nil {
		return nil, nil, err
	}
	if !sel.all && len(sel.globs) > 0 {
		// Which patterns match nothing shows only at the end of a listing.
		for _, err := range sel.entries() {
			if err != nil {
				return nil, nil, err
			}
		}
	}
	c.opt.Only = sel.picks
	return c, sel.unmatched(), nil
}

// picks reports whether an entry is selected.
func (s *selection) picks(p pathsafe.Path) bool { return s.all || s.wants(p) }

func (c *check) run(ctx context.Context, f verify.File, jobs int, bar *progress) (verify.Summary, error) {
	c.opt.Jobs = jobs
	c.opt.Progress = bar.set
	start := c.now()
	sum, err := verify.Run(ctx, f, c.opt)
	c.took = c.now().Sub(start)
	return sum, err
}

// verdict prints the findings and the summary, and returns what the command has to say about the whole.
func (a *app) verdict(name string, c *check, sum verify.Summary, err error) error {
	switch {
	case err == nil:
	case errors.Is(err, format.ErrNotLockbox), errors.Is(err, format.ErrVersion), errors.Is(err, format.ErrAuth):
		return a.openFailure(name, err)
	case errors.Is(err, context.Canceled), hasWords(err):
		return err
	case !errors.Is(err, format.ErrCorrupt):
		return fmt.Errorf("cannot check %s: %w", quoted(name), err)
	}
	want := a.g.expectRoot.digest
	expected := want == nil || sum.Root == *want
	a.printFindings(name, c)
	// Nothing is left to say of an archive that is in order.
	silent := a.g.quiet && err == nil && sum.Complete && expected && len(c.findings) == 0
	if !silent {
		// What was found counts before a failure to print it.
		if werr := a.printVerdict(name, c, sum, err == nil); werr != nil && err == nil && sum.Damaged == 0 && sum.Complete {
			return werr
		}
	}
	if err != nil {
		return &failure{code: exitDamaged, err: fmt.Errorf("%s cannot be read at all: %w", quoted(name), err)}
	}
	if sum.Damaged > 0 || !sum.Complete {
		return &failure{
			code: exitDamaged, err: fmt.Errorf("%s is damaged: %s", quoted(name), plural(uint64(sum.Damaged), "damaged place", "damaged places")),
			hint: "lockbox extract saves what is whole; lockbox add --no-dedup stores a damaged file anew from its original",
		}
	}
	if !expected {
		return unexpectedRoot(name, sum.Root, *want)
	}
	return nil
}

// printFindings names everything that was found: to people, and with --json on standard output.
func (a *app) printFindings(name string, c *check) {
	var o object
	for _, f := range c.findings {
		if a.g.json {
			o.begin().bytes("archive", name).bytes("path", f.Path).str("kind", f.Kind).str("detail", f.Detail)
			if f.Offset >= 0 {
				o.int("offset", f.Offset)
			}
			_, _ = a.out.Write(o.line()) // printVerdict reports the error
			continue
		}
		var b strings.Builder
		b.WriteString(quoted(name) + ": ")
		if f.Path != "" {
			b.WriteString(quoted(f.Path) + ": ")
		}
		b.WriteString(f.Kind + ": " + f.Detail)
		if f.Offset >= 0 {
			fmt.Fprintf(&b, " (at offset %d)", f.Offset)
		}
		if f.Kind == verify.KindRepairable {
			a.say.Warnf("%s", b.String())
			a.say.Hintf("the next change to the archive mends it")
		} else {
			a.say.Errorf("%s", b.String())
		}
	}
	if c.more > 0 {
		a.say.Errorf("%s: %s more; --json lists all", quoted(name), plural(uint64(c.more), "finding", "findings"))
	}
}

func (a *app) printVerdict(name string, c *check, sum verify.Summary, finished bool) error {
	complete := finished && sum.Complete
	if a.g.json {
		var o object
		o.begin().open("summary").bytes("archive", name).bool("full", c.opt.Full && c.opt.Only == nil)
		o.uint("entries", sum.Entries).uint("bytes", sum.Bytes).int("damaged", int64(sum.Damaged)).int("repairable", int64(sum.Repairable))
		o.bool("complete", complete).uint("generation", sum.Generation).str("root", sum.Root.String())
		if sum.Signer.IsZero() {
			o.null("signer")
		} else {
			o.str("signer", sum.Signer.String())
		}
		o.seconds("seconds", c.took.Seconds())
		_, err := a.out.Write(o.close().line())
		return err
	}
	if a.g.quiet || !complete || sum.Damaged > 0 {
		return nil
	}
	what := "structure of " + plural(sum.Entries, "entry", "entries")
	if c.opt.Full {
		what = fmt.Sprintf("%s, every byte of %s", plural(sum.Entries, "entry", "entries"), humanBytes(int64(sum.Bytes)))
	}
	if !sum.Signer.IsZero() {
		what += ", signed by " + sum.Signer.Fingerprint()
	}
	_, err := fmt.Fprintf(a.out, "%s: no damage found (%s, generation %d, %.1f s)\n", pathsafe.Quote(name), what, sum.Generation, c.took.Seconds())
	return err
}
