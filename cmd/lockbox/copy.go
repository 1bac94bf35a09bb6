package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

func newCopyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "copy ARCHIVE NEW [FLAG...]",
		Short: "make a verified copy of an archive that may be in use",
		Long: `Copy one state of an archive, whole, to a new file, while others may read and write
it. Every byte is verified on the way. The copy is the same archive: info prints the
same id, generation and root. What is free or was deleted is not copied: there the
new file has zeros. NEW appears when it is complete and must not exist before.`,
		Example: "  lockbox copy backup.lbx ~/usb/backup.lbx",
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, rest, err := archiveOperand(args)
			if err != nil {
				return err
			}
			switch len(rest) {
			case 0:
				return usagef("the name of the new archive is missing")
			case 1:
				return a.copyArchive(cmd.Context(), archive, rest[0])
			}
			return usagef("copy takes an archive and a name for the new one; %s was given as well", quoted(rest[1]))
		},
	}
}

func (a *app) copyArchive(ctx context.Context, archive, name string) error {
	if err := checkArchiveName(name); err != nil {
		return err
	}
	ar, err := a.openRead(ctx, archive)
	if err != nil {
		return err
	}
	in, err := ar.Info()
	if err == nil {
		a.startProgress("copying", -1)
		err = ar.CopyTo(ctx, name, store.CopyOptions{Progress: a.bar.set})
		a.endProgress()
	}
	if err = a.closeRead(ar, archive, err); err != nil {
		switch {
		case errors.Is(err, context.Canceled), hasWords(err):
			return err
		case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return createFailure(name, err) // the archive is open
		}
		return atDamage(archive, fmt.Errorf("copying %s to %s failed, no copy was made: %w", quoted(archive), quoted(name), err))
	}
	if a.g.json {
		var o object
		o.begin().open("summary").bytes("archive", name).uint("entries", in.Entries).int("bytes", in.FileSize)
		o.uint("generation", in.Generation).str("root", in.Root.String()).close()
		_, err = a.out.Write(o.line())
		return err
	}
	if !a.g.quiet {
		_, err = fmt.Fprintf(a.out, "copied %s to %s: %s, %s, generation %d\n", pathsafe.Quote(archive), pathsafe.Quote(name),
			plural(in.Entries, "entry", "entries"), humanBytes(in.FileSize), in.Generation)
	}
	return err
}
