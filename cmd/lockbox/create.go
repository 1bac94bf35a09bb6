package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

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
}

// levels are the words of --compression in the order of the format's levels.
var levels = []string{"none", "fast", "default", "better", "best"}

func (c *creation) register(f *pflag.FlagSet) {
	c.compression = newChoice("default", levels...)
	c.sector = newChoice("512", "512", "4096")
	f.Var(&c.compression, "compression", "how hard to compress; fixed when the archive is made")
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

func (c *creation) options(reproducible bool) store.CreateOptions {
	o := store.CreateOptions{Level: c.level(), Sector: 512, Reproducible: reproducible}
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
	return nil
}

func levelName(l frames.Level) string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return fmt.Sprintf("level %d", l)
}

func newCreateCommand(a *app) *cobra.Command {
	var opt creation
	cmd := &cobra.Command{
		Use:   "create ARCHIVE [FLAG...]",
		Short: "make an empty archive with chosen options",
		Long: `Make an empty archive. An existing file is never touched. "add" makes an archive
that is missing by itself; this command is for choosing its options beforehand.`,
		Example: `  lockbox create backup.lbx
  lockbox create backup.lbx --compression best`,
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
	opt.register(cmd.Flags())
	return cmd
}

func (a *app) create(ctx context.Context, archive string, opt creation) error {
	ar, err := a.openCreate(ctx, archive, a.storeOptions(), opt.options(false))
	if err != nil {
		return err
	}
	sum, err := commitNothing(ctx, ar)
	if err = a.closeWrite(ar, archive, err); err != nil {
		return createFailure(archive, err)
	}
	if a.g.json {
		var o object
		o.begin().open("summary").bytes("archive", archive).uint("entries", 0).uint("generation", sum.Generation).str("root", sum.Root.String()).close()
		_, err := a.out.Write(o.line())
		return err
	}
	if !a.g.quiet {
		_, err := fmt.Fprintf(a.out, "created %s: compression %s, generation %d\n", pathsafe.Quote(archive), opt.compression.value, sum.Generation)
		return err
	}
	return nil
}

func commitNothing(ctx context.Context, ar *store.Archive) (store.Summary, error) {
	tx, err := ar.Begin(ctx)
	if err != nil {
		return store.Summary{}, err
	}
	sum, err := tx.Commit(ctx)
	if err != nil {
		return sum, errors.Join(err, tx.Rollback())
	}
	return sum, nil
}

// openCreate begins a new archive, which gets its name when it is first committed.
func (a *app) openCreate(ctx context.Context, archive string, o store.Options, c store.CreateOptions) (*store.Archive, error) {
	ar, err := store.Create(ctx, archive, o, c)
	if err != nil {
		return nil, createFailure(archive, err)
	}
	a.meter.watch(ar)
	return ar, nil
}

func createFailure(archive string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return &failure{
			code: exitFailed, err: fmt.Errorf("cannot create %s: a file of that name exists", quoted(archive)),
			hint: "lockbox add " + pathsafe.Quote(archive) + " PATH... adds to an existing archive",
		}
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot create %s: its directory does not exist", quoted(archive))
	}
	return fmt.Errorf("cannot create %s: %w", quoted(archive), withoutPath(err))
}

// closeWrite ends a writer. What fails after the commit is a warning: the change is safe.
func (a *app) closeWrite(ar *store.Archive, archive string, err error) error {
	cerr := ar.Close()
	a.meter.take(ar)
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
func (a *app) openWrite(ctx context.Context, archive string, o store.Options) (*store.Archive, error) {
	ar, err := store.OpenWrite(ctx, archive, o)
	if err != nil {
		if errors.Is(err, format.ErrBusy) {
			return nil, &failure{
				code: exitBusy, err: fmt.Errorf("cannot change %s: %w", quoted(archive), err),
				hint: "--lock-timeout sets how long to wait for another writer",
			}
		}
		return nil, a.openFailure(archive, err)
	}
	a.meter.watch(ar)
	return ar, nil
}
