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
down and give it to --expect-root to be sure of reading that very state.

Of an encrypted archive, without a key and without a terminal to ask at, only what
everybody can see is printed (exit 0): id, generation, size of the file, kinds of keys.
No content is read.`,
		Example: "  lockbox info backup.lbx\n  lockbox info backup.lbx --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, err := onlyArchive("info", args)
			if err != nil {
				return err
			}
			return a.info(cmd.Context(), archive)
		},
	}
}

func (a *app) info(ctx context.Context, archive string) error {
	defer leaveWhenStuck(ctx)()
	in, err := a.look(ctx, archive)
	if err != nil {
		return err
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

// infoJSON has null for what does not show of an encrypted archive without a key.
func infoJSON(in *store.Info) []byte {
	var o object
	count := func(k string, n uint64) {
		if in.Locked {
			o.null(k)
		} else {
			o.uint(k, n)
		}
	}
	text := func(k, s string) {
		if in.Locked || s == "" {
			o.null(k)
		} else {
			o.str(k, s)
		}
	}
	o.begin().int("format", format.Version).str("id", in.ID.String()).uint("generation", in.Generation)
	text("root", in.Root.String())
	count("entries", in.Entries)
	count("contents", in.Contents)
	count("frames", in.Frames)
	count("size", in.PlainBytes)
	count("stored", in.StoredBytes)
	o.int("file_size", in.FileSize)
	count("free", uint64(in.FreeBytes))
	count("pending_wipe", uint64(in.PendingWipe))
	o.str("suite", in.Suite.String())
	text("compression", levelName(in.Level))
	text("padding", in.Padding.String())
	o.int("sector", in.Sector)
	o.bool("reproducible", in.Reproducible).int("copies_damaged", int64(in.CopiesDamaged)).bool("locked", in.Locked)
	if in.Cipher == "" {
		o.null("cipher")
	} else {
		o.str("cipher", in.Cipher)
	}
	signer, fingerprint := "", ""
	if !in.Signer.IsZero() {
		signer, fingerprint = in.Signer.String(), in.Signer.Fingerprint()
	}
	text("signer_fingerprint", fingerprint)
	text("signer", signer)
	o.list("slots")
	for _, s := range in.Slots {
		slotJSON(o.item(), s, in.Locked).close()
	}
	return o.endList().line()
}

func infoText(in *store.Info) string {
	var b strings.Builder
	row := func(name, value string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(value, args...))
	}
	row("format", "%d", format.Version)
	row("id", "%s", in.ID)
	row("generation", "%d", in.Generation)
	if !in.Locked {
		row("root", "%s", in.Root)
	}
	row("protection", "%s", protection(in))
	if !in.Signer.IsZero() {
		row("signer", "%s", in.Signer)
		row("fingerprint", "%s", in.Signer.Fingerprint())
	}
	for _, text := range slotTexts(in.Slots) {
		row("key slot", "%s", text)
	}
	if !in.Locked {
		row("compression", "%s", levelName(in.Level))
		row("padding", "%s", in.Padding.String())
	}
	row("sector", "%d", in.Sector)
	if in.Reproducible {
		row("reproducible", "yes")
	}
	if in.Locked {
		row("file size", "%s", exactBytes(in.FileSize))
		return b.String()
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

func protection(in *store.Info) string {
	locked := ""
	if in.Locked {
		locked = "; locked: what it holds shows only with a key"
	}
	switch in.Suite {
	case format.SuiteSigned:
		return "signed (Ed25519)"
	case format.SuiteEncrypted:
		return "encrypted (" + in.Cipher + ")" + locked
	case format.SuiteBoth:
		return "encrypted (" + in.Cipher + ") and signed (Ed25519)" + locked
	}
	return "none (damage is detected, a forger is not)"
}

// exactBytes prints a size for people who may also want to compute with it.
func exactBytes(n int64) string {
	s := comma(uint64(max(n, 0))) + " bytes"
	if n >= 1000 {
		s += " (" + humanBytes(n) + ")"
	}
	return s
}
