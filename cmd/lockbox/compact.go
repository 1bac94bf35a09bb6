package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

func newCompactCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compact ARCHIVE [FLAG...]",
		Short: "give free space back to the file system",
		Long: `Give the space that removing and replacing have left back to the file system. Small
contents are packed together again, the rest moves to the front of the file, and its end
is cut off. What is stored, and how it reads, stays the same.

It happens in place, in many small transactions: interrupted at any moment, by a
crash too, the archive holds all that it held, and the next run goes on. The file may grow by
64 MiB and the size of its index on the way; on a full disk the command does with the
space inside the file. When there is nothing to gain, nothing is written. Readers of older
states are not disturbed: what they use is given back by the next run.`,
		Example: "  lockbox compact backup.lbx",
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, err := onlyArchive("compact", args)
			if err != nil {
				return err
			}
			return a.compact(cmd.Context(), archive)
		},
	}
	a.registerSignKey(cmd.Flags(), signKeyUsage)
	return cmd
}

func (a *app) compact(ctx context.Context, archive string) error {
	t := &tries{a: a, archive: archive, so: a.storeOptions()}
	done, err := t.compact(ctx, store.CompactOptions{})
	// When one state is meant, nobody must have to guess which this command has left.
	if diskFull(err) && (t.so.ExpectRoot == nil || !errors.Is(err, store.ErrOutcomeUnknown)) {
		before := done.Before
		done, err = t.compact(ctx, store.CompactOptions{Within: true})
		if before != 0 {
			done.Before = before
		}
	}
	if err != nil {
		if errors.Is(err, context.Canceled) || hasWords(err) {
			return err
		}
		return fmt.Errorf("compacting %s failed; it holds what it held: %w", quoted(archive), err)
	}
	if done.Held > 0 {
		a.say.Warnf("%s of %s cannot be given back yet: a reader uses an older state", exactBytes(done.Held), quoted(archive))
		a.say.Hintf("compact again when it has finished")
	}
	return a.reportCompact(archive, &done)
}

func (t *tries) compact(ctx context.Context, o store.CompactOptions) (done store.CompactSummary, err error) {
	sum, err := t.once(ctx, func(ar *store.Archive) (store.Summary, error) {
		t.a.startProgress("compacting", -1)
		defer t.a.endProgress()
		o.Progress = t.a.bar.set
		done, err = ar.Compact(ctx, o)
		return store.Summary{}, err
	})
	done.Generation, done.Root = sum.Generation, sum.Root
	return done, err
}

func (a *app) reportCompact(archive string, done *store.CompactSummary) error {
	var err error
	switch {
	case a.g.json:
		var o object
		o.begin().open("summary").bytes("archive", archive).int("before", done.Before).int("after", done.After)
		o.int("moved", done.Moved).int("merged", int64(done.Merged)).int("held", done.Held)
		o.uint("generation", done.Generation).str("root", done.Root.String()).close()
		_, err = a.out.Write(o.line())
	case a.g.quiet:
	case done.Before == done.After:
		_, err = fmt.Fprintf(a.out, "%s: nothing to give back, %s\n", pathsafe.Quote(archive), exactBytes(done.After))
	default:
		_, err = fmt.Fprintf(a.out, "compacted %s: %s → %s, generation %d\n", pathsafe.Quote(archive), humanBytes(done.Before), humanBytes(done.After), done.Generation)
	}
	return err
}
