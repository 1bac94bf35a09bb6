package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockbox/internal/dump"
	"lockbox/internal/format"
	"lockbox/internal/seal"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

func newDebugCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "debug dump ARCHIVE",
		Short:   "look at an archive's bytes",
		Long:    "Look at an archive's bytes, to find out what is wrong with it or how it is made.",
		Example: "  lockbox debug dump broken.lbx | less",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return subcommandMissing(cmd, args, "what to look at is missing")
		},
	}
	cmd.AddCommand(newDebugDumpCommand(a))
	return cmd
}

func newDebugDumpCommand(a *app) *cobra.Command {
	limit := 100
	cmd := &cobra.Command{
		Use:   "dump ARCHIVE [FLAG...]",
		Short: "print an archive's structure, as far as it can be read",
		Long: `Print the structure of an archive: the superblock copies, the key directory, the commit block,
the sets of extents that are kept for writing and for wiping, and the five trees node by
node with their records and frames. FORMAT.md explains the words; numbers before names
are offsets in the file.

Each structure is verified before it is printed. One that is damaged is named in its place,
what can be read besides is printed, and the exit code is 15. When no superblock can be
read, the clean mark stands in for them, or else a search of the whole file for key directories, commit
blocks and frames; the output says so, as what is found may be an older state. Of an encrypted archive, without a
key and without a terminal to ask at, only what everybody can see is printed. What the
archive holds is not printed, but names are, and digests that tell who knows a content that it is there.`,
		Example: `  lockbox debug dump broken.lbx | less
  lockbox debug dump backup.lbx --limit 0 > all.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, err := onlyArchive("debug dump", args)
			if err != nil {
				return err
			}
			if limit < 0 {
				return usagef("--limit %d: it is 0, for all, or more", limit)
			}
			if err := a.noJSON(cmd); err != nil {
				return err
			}
			return a.dump(cmd.Context(), archive, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "items to print of each list and tree; 0: all")
	return cmd
}

// unlockIfPossible is unlock, for commands that have something to show without a key too: where none was given and
// nobody can be asked, the archive stays locked.
func (a *app) unlockIfPossible(archive string) seal.Unlock {
	unlock := a.unlock(archive)
	return func(ctx context.Context, slots []seal.Slot) ([]seal.Identity, error) {
		if !a.mustOpen() && !canAsk(slots) {
			return nil, errStaysLocked
		}
		return unlock(ctx, slots)
	}
}

var errStaysLocked = fmt.Errorf("%w: %w", format.ErrAuth, dump.ErrLocked)

func (a *app) dump(ctx context.Context, archive string, limit int) error {
	defer leaveWhenStuck(ctx)()
	system, counts := vfs.Counting(vfs.OS())
	f, err := system.Open(archive, false)
	if err != nil {
		return a.openFailure(archive, err)
	}
	defer f.Close()
	o := a.readOptions(archive)
	o.Unlock = a.unlockIfPossible(archive)
	// When the archive can be opened at all, that keeps a writer from wiping what is being read.
	held, err := store.Open(ctx, archive, o)
	hint := "lockbox verify --full says which entries that concerns; lockbox recover saves the rest"
	switch {
	case err == nil:
		defer held.Close()
	case errors.Is(err, errStaysLocked):
	case ctx.Err() != nil:
		return ctx.Err()
	case codeOf(err) == exitAuth, hasWords(err):
		return a.openFailure(archive, err)
	default:
		hint = "lockbox recover saves what can be read"
	}
	sum, err := dump.Run(ctx, f, a.out, dump.Options{
		Limit: limit, Unlock: o.Unlock, ExpectRoot: o.ExpectRoot, Signers: o.Signers, Encrypted: a.keyFlag() != "",
	})
	a.meter.add(store.Counters{Reads: uint64(counts.Reads.Load()), BytesRead: uint64(counts.BytesRead.Load())})
	if errors.Is(err, dump.ErrNotEncrypted) {
		return notLocked(archive, a.keyFlag())
	}
	if held != nil && (err == nil && sum.Damaged > 0 || errors.Is(err, format.ErrCorrupt)) {
		// Where there are no locks, what looks like damage may be another process's work.
		if rerr := held.Recheck(); rerr != nil {
			return fmt.Errorf("reading %s: %w", quoted(archive), rerr)
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) && !hasWords(err) {
		return a.openFailure(archive, err)
	}
	if err == nil && sum.Damaged > 0 {
		a.out.flush()
		return &failure{
			code: exitDamaged, err: fmt.Errorf("%s is damaged: %s", quoted(archive), plural(uint64(sum.Damaged), "structure cannot be read", "structures cannot be read")),
			hint: hint,
		}
	}
	return err
}
