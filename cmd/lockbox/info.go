package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lockbox/internal/format"
	"lockbox/internal/store"
)

func newInfoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "info ARCHIVE",
		Short: "print what an archive is: format, state, sizes, protection",
		Long: `Print the archive's format, generation and root, how it is protected, what it
holds and how much room that takes. The root stands for the whole state: write it
down and give it to --expect-root to be sure of reading that very state.`,
		Example: "  lockbox info backup.lbx\n  lockbox info backup.lbx --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, rest, err := archiveOperand(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usagef("info takes one archive; %s was given as well", quoted(rest[0]))
			}
			return a.info(cmd.Context(), archive)
		},
	}
}

func (a *app) info(ctx context.Context, archive string) error {
	defer leaveWhenStuck(ctx)()
	ar, err := a.openRead(ctx, archive)
	if err != nil {
		return err
	}
	in, err := ar.Info()
	if err = a.closeRead(ar, archive, err); err != nil {
		return readingFailure(archive, err)
	}
	if in.CopiesDamaged > 0 {
		a.say.Warnf("%s: %d of the four superblock copies cannot be read", quoted(archive), in.CopiesDamaged)
		a.say.Hintf("the next change to the archive mends it")
	}
	if a.g.json {
		_, err = a.out.Write(infoJSON(&in))
	} else {
		_, err = a.out.WriteString(infoText(&in))
	}
	return err
}

func infoJSON(in *store.Info) []byte {
	var o object
	o.begin().int("format", format.Version).str("id", in.ID.String()).uint("generation", in.Generation).str("root", in.Root.String())
	o.uint("entries", in.Entries).uint("contents", in.Contents).uint("frames", in.Frames)
	o.uint("size", in.PlainBytes).uint("stored", in.StoredBytes).int("file_size", in.FileSize)
	o.int("free", in.FreeBytes).int("pending_wipe", in.PendingWipe)
	o.str("suite", in.Suite.String()).str("compression", levelName(in.Level)).str("padding", in.Padding.String()).int("sector", in.Sector)
	o.bool("reproducible", in.Reproducible).int("copies_damaged", int64(in.CopiesDamaged))
	o.null("signer").emptyList("slots")
	return o.line()
}

func infoText(in *store.Info) string {
	var b strings.Builder
	row := func(name, value string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(value, args...))
	}
	row("format", "%d", format.Version)
	row("id", "%s", in.ID)
	row("generation", "%d", in.Generation)
	row("root", "%s", in.Root)
	row("protection", "%s", protection(in.Suite))
	row("compression", "%s", levelName(in.Level))
	row("padding", "%s", in.Padding.String())
	row("sector", "%d", in.Sector)
	if in.Reproducible {
		row("reproducible", "yes")
	}
	row("entries", "%s", comma(in.Entries))
	row("contents", "%s", comma(in.Contents))
	row("frames", "%s", comma(in.Frames))
	row("size", "%s", exactBytes(int64(in.PlainBytes)))
	stored := exactBytes(int64(in.StoredBytes))
	if in.PlainBytes > 0 {
		stored += fmt.Sprintf(", %.1f %% of the size", 100*float64(in.StoredBytes)/float64(in.PlainBytes))
	}
	row("stored", "%s", stored)
	row("file size", "%s", exactBytes(in.FileSize))
	row("free", "%s", exactBytes(in.FreeBytes))
	row("pending wipe", "%s", exactBytes(in.PendingWipe))
	return b.String()
}

func protection(s format.Suite) string {
	if s == format.SuiteNone {
		return "none (damage is detected, a forger is not)"
	}
	return s.String()
}

// exactBytes prints a size for people who may also want to compute with it.
func exactBytes(n int64) string {
	s := comma(uint64(max(n, 0))) + " bytes"
	if n >= 1000 {
		s += " (" + humanBytes(n) + ")"
	}
	return s
}
