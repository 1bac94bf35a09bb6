package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// removeOptions is a command line of remove.
type removeOptions struct {
	archive string
	stored  []string
	literal bool
}

func (o *removeOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.literal, "literal", false, "take names as they are, not as patterns")
}

// changeGlobHelp is part of the help of the commands that change what stored paths name.
const changeGlobHelp = `A name that no entry has is a pattern when it holds *, ? or [: * stays within one
directory, ** crosses them. What matches nothing ends the command before anything is
changed (exit 12).`

func newRemoveCommand(a *app) *cobra.Command {
	var opt removeOptions
	cmd := &cobra.Command{
		Use:     "remove ARCHIVE STORED... [FLAG...]",
		Aliases: []string{"rm"},
		Short:   "delete entries, and overwrite what they held",
		Long: `Delete entries, all in one transaction; a directory goes with everything below it.
After that, the bytes of what was deleted are overwritten in the file, names included, except for
contents that other entries share: the command says how much that is. While a reader still
uses the state before, overwriting waits for the next change, and info says how much is
pending. There is no way back; "list" with the same arguments shows beforehand what goes. ` + changeGlobHelp + `

The file keeps its size, as a rule: what became free is used again, and compact
gives it back.`,
		Example: `  lockbox remove backup.lbx docs/old photos/IMG_0001.jpg
  lockbox list backup.lbx '**/*.tmp'
  lockbox rm backup.lbx '**/*.tmp'`,
		ValidArgsFunction: completeStored,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opt.archive, opt.stored, err = archiveOperand(args); err != nil {
				return err
			}
			if len(opt.stored) == 0 {
				return &failure{code: exitUsage, err: errors.New("there is nothing to remove: no entry was named"), hint: `"." is everything in the archive`}
			}
			return a.remove(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), signKeyUsage)
	return cmd
}

// remover is one run of remove.
type remover struct {
	a             *app
	opt           removeOptions
	line          object
	files, others uint64
	bytes         int64
	lines, told   int // lines written, and of those the ones that an earlier try has written
}

func (a *app) remove(ctx context.Context, opt removeOptions) error {
	r := &remover{a: a, opt: opt}
	sum, err := a.change(ctx, opt.archive, func(ar *store.Archive) (store.Summary, error) {
		*r = remover{a: a, opt: opt, told: r.lines}
		return r.transact(ctx, ar)
	})
	if err != nil {
		return changeFailure(err, "removing from", opt.archive)
	}
	return r.report(sum)
}

// changeFailure puts into words why a change did not happen.
func changeFailure(err error, doing, archive string) error {
	if errors.Is(err, context.Canceled) || hasWords(err) {
		return err
	}
	if errors.Is(err, store.ErrOutcomeUnknown) {
		return &failure{
			code: exitFailed, err: fmt.Errorf("%s %s failed: %w", doing, quoted(archive), err),
			hint: "the archive is whole, with the change or without it: lockbox info " + pathsafe.Quote(archive) + " shows its generation",
		}
	}
	err = fmt.Errorf("%s %s failed, nothing was changed: %w", doing, quoted(archive), err)
	if diskFull(err) {
		return &failure{
			code: exitFailed, err: err,
			hint: "what changes needs a place of its own before anything is given back: change less at a time, or make room on the disk",
		}
	}
	return atDamage(archive, err)
}

func (r *remover) transact(ctx context.Context, ar *store.Archive) (sum store.Summary, err error) {
	sel, err := r.a.selectAll(ctx, ar, r.opt.archive, r.opt.stored, r.opt.literal)
	if err != nil {
		return sum, err
	}
	return transaction(ctx, ar, func(tx *store.Tx) error {
		for e, err := range during(ctx, sel.entries()) {
			if err == nil {
				err = tx.Remove(e.Path)
			}
			if err == nil {
				err = r.count(&e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// transaction runs fn in a transaction, and commits it.
func transaction(ctx context.Context, ar *store.Archive, fn func(*store.Tx) error) (sum store.Summary, err error) {
	tx, err := ar.Begin(ctx)
	if err != nil {
		return sum, err
	}
	if err = fn(tx); err == nil {
		sum, err = tx.Commit(ctx)
	}
	if err != nil {
		return sum, errors.Join(err, tx.Rollback())
	}
	return sum, nil
}

// selectAll looks operands up for a command that changes what they name: all of them must name something.
func (a *app) selectAll(ctx context.Context, ar *store.Archive, archive string, operands []string, literal bool) (*selection, error) {
	sel, err := newSelection(ar, operands, literal)
	if err != nil {
		return nil, err
	}
	if err := sel.settle(ctx); err != nil {
		return nil, err
	}
	missing := sel.unmatched()
	if len(missing) == 0 {
		return sel, nil
	}
	for _, op := range missing[:len(missing)-1] {
		a.fail(a.missingEntry(ar, archive, op))
	}
	return nil, a.missingEntry(ar, archive, missing[len(missing)-1])
}

// count adds a removed entry to the sums and writes its line.
func (r *remover) count(e *index.Entry) error {
	if e.Kind == index.File {
		r.files++
	} else {
		r.others++
	}
	r.bytes += e.Size
	if r.lines++; !r.a.g.json || r.lines <= r.told {
		return nil
	}
	_, err := r.a.out.Write(r.line.begin().bytes("path", e.Path.String()).str("action", "removed").line())
	return err
}

func (r *remover) report(sum store.Summary) error {
	a := r.a
	if a.g.json {
		o := r.line.begin().open("summary").uint("entries", r.files+r.others).int("bytes", r.bytes).int("stored", sum.StoredBytes)
		o.uint("skipped", 0).int("shared", sum.SharedBytes).uint("generation", sum.Generation).str("root", sum.Root.String())
		_, err := a.out.Write(o.close().line())
		return err
	}
	if a.g.quiet {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "removed %s, %s, generation %d\n", countEntries(r.files, r.others), humanBytes(r.bytes), sum.Generation)
	if err == nil && sum.SharedBytes > 0 {
		_, err = fmt.Fprintf(a.out, "%s stay, other entries share them\n", exactBytes(sum.SharedBytes))
	}
	return err
}
