package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/format"
	"lockbox/internal/frames"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// creation are the options that are fixed when an archive is made.
type creation struct {
	compression choice
	sector      choice
	padding     choice
	encrypt     bool
	recipients  []string
}

// levels are the words of --compression in the order of the format's levels.
var levels = []string{"none", "fast", "default", "better", "best"}

func (c *creation) register(f *pflag.FlagSet) {
	c.compression = newChoice("default", levels...)
	c.sector = newChoice("512", "512", "4096")
	f.Var(&c.compression, "compression", "how hard to compress: none, fast, default, better or best; fixed when the archive is made")
	c.padding = newChoice("none", "none", "padme", "pow2")
	f.BoolVar(&c.encrypt, "encrypt", false, "lock a new archive with a passphrase")
	f.StringArrayVar(&c.recipients, "recipient", nil, "lock a new archive for this age or SSH public key, or those in this file (repeatable)")
	f.Var(&c.padding, "padding", "round lengths up, so that they tell less: none, padme (a few percent) or pow2 (up to four times as large); fixed when the archive is made")
	f.Var(&c.sector, "sector", "alignment of the archive's parts in bytes; fixed when the archive is made")
}

func (c *creation) level() frames.Level {
	for i, w := range levels {
		if w == c.compression.value {
			return frames.Level(i)
		}
	}
	return frames.LevelDefault
}

func (c *creation) pad() format.Padding {
	switch c.padding.value {
	case "padme":
		return format.PadPadme
	case "pow2":
		return format.PadPow2
	}
	return format.PadNone
}

func (c *creation) options(reproducible bool) store.CreateOptions {
	o := store.CreateOptions{Level: c.level(), Sector: 512, Reproducible: reproducible, Padding: c.pad()}
	if c.sector.value == "4096" {
		o.Sector = 4096
	}
	return o
}

// agree refuses options that an existing archive does not have.
func (c *creation) agree(archive string, in store.Info) error {
	if c.compression.set && c.level() != in.Level {
		return usagef("%s was made with --compression %s, which cannot be changed to %s", quoted(archive), levelName(in.Level), c.compression.value)
	}
	if c.sector.set && c.sector.value != fmt.Sprint(in.Sector) {
		return usagef("%s was made with --sector %d, which cannot be changed to %s", quoted(archive), in.Sector, c.sector.value)
	}
	if c.padding.set && c.pad() != in.Padding {
		return usagef("%s was made with --padding %v, which cannot be changed to %s", quoted(archive), in.Padding, c.padding.value)
	}
	return nil
}

func levelName(l frames.Level) string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return fmt.Sprintf("level %d", l)
}

// createOptions is a command line of create.
type createOptions struct {
	create       creation
	reproducible bool
}

func newCreateCommand(a *app) *cobra.Command {
	var opt createOptions
	cmd := &cobra.Command{
		Use:   "create ARCHIVE [FLAG...]",
		Short: "make an empty archive with chosen options",
		Long: `Make an empty archive. An existing file is never touched. "add" makes an archive
that is missing by itself; this command is for choosing its options beforehand.

--encrypt locks it with a passphrase, --recipient for public keys, both together for
either; --sign-key signs it, and every change needs that key again; --padding rounds
lengths up. "lockbox help protection" has more.

With --reproducible the archive's id follows from these options and nothing else, and
every "add --reproducible" keeps it that way. A change without that flag ends it.`,
		Example: `  lockbox create backup.lbx
  lockbox create backup.lbx --compression best
  lockbox create private.lbx --encrypt --padding padme
  lockbox create team.lbx --recipient alice.pub --recipient bob.pub --sign-key ~/.ssh/id_ed25519
  lockbox create release.lbx --reproducible`,
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, rest, err := archiveOperand(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usagef("create takes one archive; %s was given as well (add stores files)", quoted(rest[0]))
			}
			if a.g.expectRoot.digest != nil {
				return usagef("--expect-root names a state of an archive that exists")
			}
			return a.create(cmd.Context(), archive, opt)
		},
	}
	opt.create.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), "sign the archive by this Ed25519 key (SSH or PEM; a public key's file: by an SSH agent)")
	cmd.Flags().BoolVar(&opt.reproducible, "reproducible", false, "the same options give the same bytes, anywhere")
	return cmd
}

func (a *app) create(ctx context.Context, archive string, opt createOptions) error {
	if fi, err := os.Stat(archive); err == nil {
		err := taken(archive, fi)
		if f := (*failure)(nil); fi.Mode().IsRegular() && errors.As(err, &f) {
			f.hint = "lockbox add " + shellWord(archive) + " PATH... adds to an existing archive"
		}
		return err
	}
	so := a.storeOptions()
	if opt.reproducible {
		so.Entropy, so.Reproducible = opt.create.seed(), true
	}
	ar, err := a.openNew(ctx, archive, so, &opt.create, opt.reproducible)
	if err != nil {
		return err
	}
	sum, err := transaction(ctx, ar, func(*store.Tx) error { return nil })
	if err = a.closeWrite(ar, archive, &sum, err); errors.Is(err, fs.ErrExist) {
		return overtaken(archive)
	} else if err != nil {
		return createFailure(archive, err)
	}
	if a.g.json {
		var o object
		o.begin().open("summary").bytes("archive", archive).uint("entries", 0).uint("generation", sum.Generation).str("root", sum.Root.String()).close()
		_, err := a.out.Write(o.line())
		return err
	}
	if !a.g.quiet {
		how := ""
		if opt.create.encrypts() {
			how += "encrypted, "
		}
		if a.keys.signKey != "" {
			how += "signed, "
		}
		_, err := fmt.Fprintf(a.out, "created %s: %scompression %s, generation %d\n", pathsafe.Quote(archive), how, opt.create.compression.value, sum.Generation)
		return err
	}
	return nil
}

// openCreate begins a new archive, which gets its name when it is first committed.
func (a *app) openCreate(ctx context.Context, archive string, o store.Options, c store.CreateOptions) (*store.Archive, error) {
	name, err := throughLinks(archive)
	if err != nil {
		return nil, createFailure(archive, err)
	}
	if name != "" && os.IsPathSeparator(name[len(name)-1]) {
		return nil, usagef("%s names a directory; an archive is a file", quoted(archive))
	}
	if o.SignKey, err = a.signer(ctx); err != nil {
		return nil, err
	}
	ar, err := store.Create(ctx, name, o, c)
	if err != nil {
		return nil, createFailure(archive, err)
	}
	a.meter.watch(ar)
	return ar, nil
}

// taken is the error for a new archive whose name something has already.
func taken(archive string, fi fs.FileInfo) error {
	f := &failure{code: exitFailed}
	switch {
	case fi.IsDir():
		f.err = fmt.Errorf("cannot create %s: it is a directory", quoted(archive))
		f.hint = "name a file, perhaps " + quoted(strings.TrimRight(archive, "/")+".lbx")
	case !fi.Mode().IsRegular():
		f.err = fmt.Errorf("cannot create %s: something that is not a file has that name", quoted(archive))
	default:
		return createFailure(archive, fs.ErrExist)
	}
	return f
}

// overtaken is the error for a new archive whose name was free when the command began.
func overtaken(archive string) error {
	return &failure{
		code: exitBusy, err: fmt.Errorf("%s was made by another process in the meantime; nothing of this command was stored", quoted(archive)),
		hint: "run the command again",
	}
}

func createFailure(archive string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return &failure{
			code: exitFailed, err: fmt.Errorf("cannot create %s: a file of that name exists", quoted(archive)),
			hint: "give another name, or move that file away: nothing is replaced",
		}
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("cannot create %s: what stands for its directory is none", quoted(archive))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot create %s: its directory does not exist", quoted(archive))
	}
	return fmt.Errorf("cannot create %s: %w", quoted(archive), withoutPath(err))
}

// closeWrite ends a writer. What fails after the commit is a warning: the change is safe. Wiping what was
// deleted makes a generation of its own, so sum is brought up to the state in which the archive is left, whatever err is.
func (a *app) closeWrite(ar *store.Archive, archive string, sum *store.Summary, err error) error {
	var cerr error
	if err == nil {
		if cerr = ar.Tidy(); cerr == nil {
			if in, ierr := ar.Info(); ierr != nil {
				a.say.Warnf("the change to %s is committed, but its state cannot be read back: %v", quoted(archive), ierr)
			} else if in.PendingWipe > 0 {
				a.say.Warnf("%s of what %s no longer holds are not overwritten yet: a reader may still need them", exactBytes(in.PendingWipe), quoted(archive))
				a.say.Hintf("the next change to the archive does it")
			}
		}
	}
	if e := ar.Close(); cerr == nil {
		cerr = e
	}
	a.meter.take(ar)
	sum.Generation, sum.Root = ar.Generation(), ar.Root()
	if diskFull(err) {
		// The handle refuses after a failed write. A new one gives back what the change had taken.
		o := a.readOptions(archive)
		if o.ExpectRoot != nil {
			o.ExpectRoot = &sum.Root
		}
		if again, e := store.OpenWrite(context.Background(), archive, o); e == nil {
			_ = again.Close()
			sum.Generation, sum.Root = again.Generation(), again.Root()
		}
	}
	var tidy *store.TidyError
	switch {
	case cerr == nil:
		return err
	case err != nil:
		return errors.Join(err, cerr)
	case errors.As(cerr, &tidy):
		a.say.Warnf("the change to %s is committed, but tidying up after it failed: %v", quoted(archive), tidy.Err)
		a.say.Hintf("the next change to the archive finishes it")
		return nil
	}
	return fmt.Errorf("closing %s: %w", quoted(archive), cerr)
}

// openWrite opens an existing archive for changing.
func (a *app) openWrite(ctx context.Context, archive string, o store.Options) (ar *store.Archive, err error) {
	o.Unlock = a.unlock(archive)
	if o.SignKey, err = a.signer(ctx); err != nil {
		return nil, err
	}
	if ar, err = store.OpenWrite(ctx, archive, o); err != nil {
		if errors.Is(err, format.ErrBusy) {
			return nil, &failure{
				code: exitBusy, err: fmt.Errorf("cannot change %s: %w", quoted(archive), a.waited(err)),
				hint: "--lock-timeout sets how long to wait for another writer",
			}
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("cannot open %s for writing: %w", quoted(archive), withoutPath(err))
		}
		return nil, a.openFailure(archive, err)
	}
	if err = a.lockedAsAsked(ar, archive); err == nil {
		err = a.changeable(ar, archive)
	}
	if err != nil {
		_ = ar.Close() // nothing was done with it
		return nil, err
	}
	a.meter.watch(ar)
	return ar, nil
}
