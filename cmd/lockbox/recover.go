package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
	salvage "lockbox/internal/recover"
	"lockbox/internal/seal"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// recoverOptions is a command line of recover.
type recoverOptions struct {
	archive, output string
	dryRun          bool
	plaintext       bool
	create          creation // only how it is protected
}

func (o *recoverOptions) register(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "the archive to make; it must not exist")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what can be recovered, and write nothing")
	f.BoolVar(&o.create.encrypt, "encrypt", false, "lock the new archive with a passphrase; a given one is for both archives")
	f.StringArrayVar(&o.create.recipients, "recipient", nil, "lock the new archive for this age or SSH public key, or those in this file (repeatable)")
	f.BoolVar(&o.plaintext, "plaintext", false, "save an encrypted archive into one that is not")
}

func (o *recoverOptions) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return usagef("recover takes one archive; %s was given as well (-o names the new one)", quoted(rest[0]))
	case o.dryRun && o.output != "":
		return usagef("--dry-run writes nothing, so -o cannot be used with it")
	case o.dryRun && (o.plaintext || o.create.encrypts()):
		return usagef("--dry-run makes no archive, so none can be protected, or not")
	case o.plaintext && o.create.encrypts():
		return usagef("--plaintext cannot be used with --encrypt or --recipient")
	case o.dryRun:
		return nil
	case o.output == "":
		return &failure{code: exitUsage, err: errors.New("the new archive is missing"), hint: "name it with -o, or see with --dry-run what can be recovered"}
	}
	return checkArchiveName(o.output)
}

func newRecoverCommand(a *app) *cobra.Command {
	var opt recoverOptions
	cmd := &cobra.Command{
		Use:   "recover ARCHIVE -o NEW [FLAG...]",
		Short: "save what is left of a damaged archive into a new one",
		Long: `Save what is left of a damaged archive into a new one, made with the same options.
The damaged archive is only read. Every byte that is carried over is verified; an
entry is carried over whole or not at all, and each one that is not is named with
the reason, a large file with the ranges that are intact.

Contents whose names are lost go to lost+found/content-N. Where the records that
could tell are lost, too, that may be something that was deleted, and it is said to be.
When the newest state cannot be read, an older one is used and called that.

Of an encrypted archive the new one has to be encrypted, too, with a content key of its
own: --encrypt or --recipient says for whom; only --plaintext saves it into one that
anybody can read. --sign-key signs the new one. Of a signed archive, what is authentic is
told from what is not as far as its signature and index are left.

The exit code is 0 only when nothing is missing from the newest state, else 15.`,
		Example: `  lockbox recover damaged.lbx --dry-run
  lockbox recover damaged.lbx -o saved.lbx
  lockbox recover damaged.lbx -o saved.lbx --json > report.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, rest, err := archiveOperand(args)
			if err != nil {
				return err
			}
			opt.archive = archive
			if err := opt.validate(rest); err != nil {
				return err
			}
			return a.recover(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), "sign the new archive by this key")
	return cmd
}

// salvager is one run of recover.
type salvager struct {
	a     *app
	opt   recoverOptions
	ar    *store.Archive // the new archive; nil in a dry run, and until it is known how it is to be made
	tx    *store.Tx
	line  object
	slots []seal.NewSlot
	asked bool   // for keys: the damaged archive is encrypted
	shown int    // losses that people were told of
	more  uint64 // and those that they were not
}

func (a *app) recover(ctx context.Context, opt recoverOptions) error {
	if opt.dryRun {
		defer leaveWhenStuck(ctx)()
	}
	system, counts := vfs.Counting(vfs.OS())
	f, err := system.Open(opt.archive, false)
	if err != nil {
		return a.openFailure(opt.archive, err)
	}
	defer f.Close()
	r := &salvager{a: a, opt: opt}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	// When the archive can be opened at all, that keeps a writer from wiping what is being read.
	so := a.storeOptions()
	so.Unlock, so.ExpectRoot = r.unlock, nil
	held, openErr := store.Open(ctx, opt.archive, so)
	if openErr == nil {
		defer held.Close()
	}
	if flag := r.keyFlag(); openErr == nil && flag != "" && !r.asked {
		return notLocked(opt.archive, flag)
	}
	rep, err := r.run(ctx, f)
	if flag := r.keyFlag(); err == nil && flag != "" && !r.asked {
		err = notLocked(opt.archive, flag)
	}
	a.meter.add(store.Counters{Reads: uint64(counts.Reads.Load()), BytesRead: uint64(counts.BytesRead.Load())})
	if err == nil && openErr == nil {
		if err = held.Recheck(); err != nil {
			err = fmt.Errorf("reading %s: %w", quoted(opt.archive), err)
		}
	}
	sum, err := r.finish(ctx, rep, err)
	if err != nil {
		return r.failure(err)
	}
	if err := r.report(rep, sum); err != nil {
		return err
	}
	return r.verdict(rep)
}

func (r *salvager) run(ctx context.Context, f vfs.File) (salvage.Report, error) {
	a := r.a
	o := salvage.Options{Jobs: a.jobs(), ExpectRoot: a.g.expectRoot.digest, Unlock: r.unlock, Signers: a.keys.pins, Found: r.found, Lost: r.lost, Note: r.note}
	if !r.opt.dryRun {
		o.Create = func(c store.CreateOptions) (salvage.Sink, error) { return r.create(ctx, c) }
	}
	a.startProgress("recovering", -1)
	defer a.endProgress()
	o.Progress = a.bar.set
	return salvage.Run(ctx, f, o)
}

// prepare looks at how the new archive is to be protected.
func (r *salvager) prepare(ctx context.Context) (err error) {
	if r.opt.dryRun {
		if r.a.keys.signKey != "" {
			return usagef("--dry-run makes no archive, so --sign-key cannot be used with it")
		}
		return nil
	}
	// A name that is taken is found before anybody is asked, and before anything is read, however long that takes.
	if err = r.free(); err != nil {
		return err
	}
	if _, err = r.a.signer(ctx); err == nil {
		r.slots, err = r.a.newSlots(ctx, r.opt.output, &r.opt.create)
	}
	return err
}

// keyFlag is the flag that says that the damaged archive is to be opened with a key. The passphrase may be the new one's.
func (r *salvager) keyFlag() string {
	if r.opt.create.encrypt && len(r.a.g.identities) == 0 {
		return ""
	}
	return r.a.keyFlag()
}

// unlock is asked for keys only when the damaged archive is encrypted.
func (r *salvager) unlock(ctx context.Context, slots []seal.Slot) ([]seal.Identity, error) {
	r.asked = true
	if !r.opt.dryRun && !r.opt.plaintext && !r.opt.create.encrypts() {
		return nil, &failure{
			code: exitUsage, err: fmt.Errorf("%s is encrypted, and it was not said how the new archive is to be", quoted(r.opt.archive)),
			hint: "--encrypt locks it with a passphrase, --recipient KEY for a public key; --plaintext leaves it open to everybody",
		}
	}
	return r.a.unlock(r.opt.archive)(ctx, slots)
}

// free refuses a new archive whose name is taken.
func (r *salvager) free() error {
	so := r.a.storeOptions()
	so.ExpectRoot = nil
	ar, err := store.Create(context.Background(), r.opt.output, so, store.CreateOptions{})
	if err != nil {
		return createFailure(r.opt.output, err)
	}
	return ar.Close() // without a commit nothing is left of it
}

func (r *salvager) create(ctx context.Context, c store.CreateOptions) (salvage.Sink, error) {
	so := r.a.storeOptions()
	so.ExpectRoot = nil
	if flag := r.keyFlag(); flag != "" && !r.asked {
		return nil, notLocked(r.opt.archive, flag)
	}
	c.Slots = r.slots
	ar, err := r.a.openCreate(ctx, r.opt.output, so, c)
	if err != nil {
		return nil, err
	}
	r.ar = ar
	if r.tx, err = ar.Begin(ctx); err != nil {
		return nil, err
	}
	return r.tx, nil
}

// finish commits what was recovered. Where that is nothing, no archive is made, except of an empty one.
func (r *salvager) finish(ctx context.Context, rep salvage.Report, err error) (sum store.Summary, _ error) {
	if r.ar == nil {
		return sum, err
	}
	if err == nil && rep.Recovered+rep.Found == 0 && !rep.Complete {
		r.a.meter.take(r.ar)
		return sum, r.ar.Close()
	}
	if err == nil {
		sum, err = r.tx.Commit(ctx)
	}
	if err != nil && r.tx != nil {
		err = errors.Join(err, r.tx.Rollback())
	}
	return sum, r.a.closeWrite(r.ar, r.opt.output, &sum, err)
}

func (r *salvager) failure(err error) error {
	a, name := r.a, r.opt.archive
	switch {
	case errors.Is(err, context.Canceled), hasWords(err):
		return err
	case errors.Is(err, format.ErrCorrupt):
		return &failure{code: exitDamaged, err: fmt.Errorf("nothing can be recovered from %s: %w", quoted(name), err)}
	case errors.Is(err, format.ErrNotLockbox):
		return foreignFailure(name, "nothing of one was found in it")
	case errors.Is(err, format.ErrVersion):
		return a.openFailure(name, err)
	case errors.Is(err, format.ErrAuth):
		return &failure{code: exitAuth, err: fmt.Errorf("%s was not recovered: %w", quoted(name), err)}
	}
	return fmt.Errorf("recovering %s into %s failed, no new archive was made: %w", quoted(name), quoted(r.opt.output), withoutPath(err))
}

func (r *salvager) note(text string) { r.a.say.Warnf("%s: %s", quoted(r.opt.archive), text) }

func (r *salvager) found(i salvage.Item) {
	a := r.a
	if a.g.json {
		o := r.line.begin().bytes("path", i.Path.String()).str("status", i.Status).str("type", i.Kind.String()).int("bytes", i.Bytes)
		if i.Content != 0 {
			o.uint("content", i.Content)
		}
		if i.Reason != "" {
			o.str("reason", i.Reason)
		}
		_, _ = a.out.Write(o.line()) // report returns the error
		return
	}
	if i.Status == salvage.StatusFound && !a.g.quiet {
		_, _ = fmt.Fprintf(a.out, "found %s: %s, %s\n", quoted(i.Path.String()), humanBytes(i.Bytes), i.Reason)
	}
}

// rangesShown is how many intact ranges of a file people are told of.
const rangesShown = 4

func (r *salvager) lost(l salvage.Loss) {
	a := r.a
	if a.g.json {
		o := r.line.begin()
		if l.Path != "" {
			o.bytes("path", l.Path)
		} else {
			o.null("path")
		}
		o.str("status", l.Status).str("reason", l.Reason).int("size", l.Size)
		if l.Content != 0 {
			o.uint("content", l.Content)
		}
		if len(l.Intact) > 0 {
			o.key("intact")
			for i, x := range l.Intact {
				o.b = append(o.b, "[,"[min(i, 1)], '[')
				o.b = append(strconv.AppendInt(o.b, x.From, 10), ',')
				o.b = append(strconv.AppendInt(o.b, x.To, 10), ']')
			}
			o.b = append(o.b, ']')
		}
		_, _ = a.out.Write(o.line()) // report returns the error
		return
	}
	if r.shown++; r.shown > findingsShown {
		r.more++
		return
	}
	what := "lost: "
	if l.Path != "" {
		what += quoted(l.Path) + ": "
	}
	what += l.Reason
	for i, x := range l.Intact {
		switch {
		case i == rangesShown:
			what += fmt.Sprintf(" and %s more", comma(uint64(len(l.Intact)-i)))
		case i > rangesShown:
		case i == 0:
			what += fmt.Sprintf("; intact are bytes %d to %d", x.From, x.To-1)
		default:
			what += fmt.Sprintf(", %d to %d", x.From, x.To-1)
		}
	}
	if l.Status == salvage.StatusPartial && len(l.Intact) > 0 {
		what += fmt.Sprintf(" of %d", l.Size)
	}
	a.say.Errorf("%s", what)
}

func (r *salvager) report(rep salvage.Report, sum store.Summary) error {
	a := r.a
	if !rep.Signer.IsZero() && !r.opt.dryRun && sum.Generation != 0 && a.keys.signKey == "" {
		a.say.Warnf("%s was signed by %s; %s is not signed", quoted(r.opt.archive), rep.Signer.Fingerprint(), quoted(r.opt.output))
		a.say.Hintf("--sign-key FILE signs the new archive")
	}
	if r.more > 0 {
		a.say.Errorf("%s more were lost; --json lists all", comma(r.more))
	}
	if a.g.json {
		o := r.line.begin().open("summary").bytes("archive", r.opt.archive)
		o.uint("recovered", rep.Recovered).uint("lost", rep.Lost).uint("found", rep.Found).int("bytes", rep.Bytes)
		o.uint("generation", rep.Generation).str("origin", rep.Origin).bool("current", rep.Current).bool("complete", rep.Complete)
		if rep.Root != (format.Digest{}) {
			o.str("root", rep.Root.String())
		}
		if r.opt.dryRun {
			o.bool("dry_run", true)
		} else if sum.Generation != 0 {
			o.bytes("output", r.opt.output).str("output_root", sum.Root.String())
		}
		_, err := a.out.Write(o.close().line())
		return err
	}
	if a.g.quiet {
		return a.out.err
	}
	n := plural(rep.Recovered, "entry", "entries")
	if rep.Found > 0 {
		n += " and " + plural(rep.Found, "content without a name", "contents without a name")
	}
	var err error
	switch {
	case r.opt.dryRun:
		_, err = fmt.Fprintf(a.out, "can recover %s, %s\n", n, humanBytes(rep.Bytes))
	case sum.Generation == 0:
		_, err = fmt.Fprintf(a.out, "nothing could be recovered; %s was not made\n", pathsafe.Quote(r.opt.output))
	default:
		_, err = fmt.Fprintf(a.out, "recovered %s, %s, into %s\n", n, humanBytes(rep.Bytes), pathsafe.Quote(r.opt.output))
	}
	return err
}

// verdict is the error that says what is missing.
func (r *salvager) verdict(rep salvage.Report) error {
	if rep.Complete {
		return nil
	}
	name := quoted(r.opt.archive)
	switch {
	case rep.Generation == 0:
		return &failure{code: exitDamaged, err: fmt.Errorf("%s has no index left: what was recovered has no names", name)}
	case rep.Lost > 0:
		return &failure{code: exitDamaged, err: fmt.Errorf("not all of %s could be recovered: %s", name, plural(rep.Lost, "entry is lost", "entries are lost"))}
	case rep.Found > 0:
		return &failure{code: exitDamaged, err: fmt.Errorf("not all of %s could be recovered under its name", name)}
	}
	return &failure{code: exitDamaged, err: fmt.Errorf("generation %d of %s was recovered whole, but it may not be the latest", rep.Generation, name)}
}
