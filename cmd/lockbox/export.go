package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/index"
	"lockbox/internal/migrate/export"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// exportOptions is a command line of export.
type exportOptions struct {
	archive string
	stored  []string
	format  choice
	output  string
	literal bool
}

func (o *exportOptions) register(f *pflag.FlagSet) {
	o.format = newChoice("", export.Tar, export.Zip)
	f.Var(&o.format, "format", "what to write: tar or zip")
	f.StringVarP(&o.output, "output", "o", "", "the file to write; it must not exist (default: standard output)")
	f.BoolVar(&o.literal, "literal", false, "take names as they are, not as patterns")
}

func newExportCommand(a *app) *cobra.Command {
	var opt exportOptions
	cmd := &cobra.Command{
		Use:   "export ARCHIVE --format tar|zip [STORED...] [FLAG...]",
		Short: "write an archive as a tar or zip stream",
		Long: `Write entries, all of them or those that are named, as a tar or zip archive, so that any
other program can read them. It goes to standard output, or with -o to a file that
appears when it is complete.

tar keeps everything: owners, fine times, extended attributes, hard links, holes, special
files (the pax format, sparse files as GNU tar has them). POSIX ACLs are written as the
extended attributes that they are on Linux: GNU tar restores them when its pattern of
attributes to include is '*', and has another form for its own. zip keeps files,
directories, symbolic links, modes, owners by number and times in seconds; each thing that
it cannot hold is named, and entries that it cannot hold at all make exit 3.

Only verified bytes are written. Damage ends the stream in such a way that nothing takes
it for a whole archive (exit 15). ` + globHelp,
		Example: `  lockbox export backup.lbx --format tar | ssh host tar x
  lockbox export backup.lbx --format zip -o docs.zip docs`,
		ValidArgsFunction: completeStored,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opt.archive, opt.stored, err = archiveOperand(args); err != nil {
				return err
			}
			if opt.format.value == "" {
				return &failure{code: exitUsage, err: errors.New("the format is missing"), hint: "--format tar, or --format zip"}
			}
			if opt.output == "" || opt.output == "-" {
				if opt.output = ""; isTerminal(a.sys.stdout) {
					return &failure{code: exitUsage, err: errors.New("an archive is not written to a terminal"), hint: "-o FILE writes it to a file"}
				}
				if err := a.noJSON(cmd); err != nil {
					return err
				}
			}
			return a.export(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	return cmd
}

func (a *app) export(ctx context.Context, opt exportOptions) error {
	defer leaveWhenStuck(ctx)()
	if opt.output != "" {
		if fi, err := os.Lstat(opt.output); err == nil {
			return taken(opt.output, fi)
		}
	}
	ar, err := a.openRead(ctx, opt.archive)
	if err != nil {
		return err
	}
	sum, err := a.exportTo(ctx, ar, opt)
	if err != nil {
		if a.out.err != nil {
			return a.closeRead(ar, opt.archive, a.out.err) // of no entry's
		}
		if !hasWords(err) {
			err = fmt.Errorf("the export of %s is not complete: %w", quoted(opt.archive), err)
		}
		return atDamage(opt.archive, a.closeRead(ar, opt.archive, err))
	}
	if err := a.closeRead(ar, opt.archive, nil); err != nil || opt.output == "" || a.g.quiet {
		return err
	}
	if a.g.json {
		var o object
		o.begin().open("summary").bytes("archive", opt.archive).bytes("output", opt.output).str("format", opt.format.value)
		_, err = a.out.Write(o.uint("entries", sum.Entries).int("bytes", sum.Bytes).close().line())
		return err
	}
	_, err = fmt.Fprintf(a.out, "exported %s, %s, to %s\n", plural(sum.Entries, "entry", "entries"), humanBytes(sum.Bytes), pathsafe.Quote(opt.output))
	return err
}

// exportTo writes to where the output goes. A file gets its name when the archive was rechecked, too.
func (a *app) exportTo(ctx context.Context, ar *store.Archive, opt exportOptions) (sum export.Summary, err error) {
	sel, err := newSelection(ar, opt.stored, opt.literal)
	if err != nil {
		return sum, err
	}
	if opt.output == "" {
		if sum, err = a.exportSelected(ctx, ar, sel, a.out, opt); err == nil {
			a.reportUnmatched(opt.archive, sel)
		}
		return sum, err
	}
	t, err := vfs.OS().CreateTemp(opt.output, 0o666)
	if err != nil {
		return sum, &failure{code: exitFailed, err: createFailure(opt.output, err)}
	}
	defer func() {
		if cerr := t.Close(); err == nil {
			err = cerr
		}
	}()
	w := bufio.NewWriterSize(io.NewOffsetWriter(t, 0), 1<<20)
	if sum, err = a.exportSelected(ctx, ar, sel, w, opt); err != nil {
		return sum, err
	}
	if err = w.Flush(); err == nil {
		err = t.Sync()
	}
	if err == nil {
		err = ar.Recheck()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if err = t.Publish(); errors.Is(err, fs.ErrExist) {
			err = overtaken(opt.output)
		}
	}
	if err == nil {
		a.reportUnmatched(opt.archive, sel)
	}
	return sum, err
}

func (a *app) exportSelected(ctx context.Context, ar *store.Archive, sel *selection, w io.Writer, opt exportOptions) (export.Summary, error) {
	a.startProgress("exporting", -1)
	defer a.endProgress()
	if err := a.bar.expectAll(ctx, sel.entries(), (*index.Entry).DataSize); err != nil {
		return export.Summary{}, err
	}
	lost, left := 0, 0
	name := func(e *index.Entry) string { return quoted(e.Path.String()) }
	sum, err := export.Run(ctx, ar, sel.entries(), w, export.Options{
		Format: opt.format.value,
		Wrote:  a.bar.add,
		Lost: func(e *index.Entry, what string) {
			if lost++; lost <= findingsShown {
				a.say.Warnf("%s comes without %s", name(e), what)
			}
		},
		Left: func(e *index.Entry, why string) {
			a.note(exitSkipped)
			if left++; left <= findingsShown {
				a.say.Warnf("%s was left out: %s", name(e), why)
			}
		},
	})
	if more := max(lost-findingsShown, 0) + max(left-findingsShown, 0); more > 0 {
		a.say.Warnf("%s more do not come over whole", comma(uint64(more)))
	}
	return sum, err
}
