package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/migrate"
)

// migrateOptions is a command line of migrate.
type migrateOptions struct {
	old            []string
	output, into   string
	replace        bool
	skipExisting   bool
	passphraseFile string
	encoding       encodingValue
	allowLoss      bool
	report         string
	plaintext      bool
	maxSize        sizeValue
	maxEntries     countValue
	maxRatio       countValue
	create         creation
	revault        revaultOptions
}

func (o *migrateOptions) register(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "the archive to make; it must not exist")
	f.BoolVar(&o.replace, "replace", false, "give the new archive the old one's name; the old one becomes OLD.bak")
	f.StringVar(&o.into, "into", "", "migrate every old archive below OLD, a directory, or several of them, into this directory")
	f.BoolVar(&o.skipExisting, "skip-existing", false, "with --into: leave out what has a new archive there already")
	f.StringVar(&o.passphraseFile, "source-passphrase-file", "", "the first line of this file is the passphrase of the old archive")
	f.Var(&o.encoding, "source-encoding", "what names in a ZIP archive are written in that do not say it themselves, such as cp866 or shift_jis (default: what the format says)")
	f.BoolVar(&o.allowLoss, "allow-loss", false, "go on without what cannot be carried over; each is named")
	f.StringVar(&o.report, "report", "", "write what was migrated and what was not to this file, as JSON")
	f.BoolVar(&o.plaintext, "plaintext", false, "let the new archive have less protection than the old one: not encrypted, not signed, or neither, as the other flags say")
	f.Var(&o.maxSize, "max-size", "refuse an archive whose files have more bytes than this (default 4T)")
	f.Var(&o.maxEntries, "max-entries", "refuse an archive with more entries than this (default 500000; 1000 take half a megabyte of memory)")
	f.Var(&o.maxRatio, "max-ratio", "refuse an archive, once its files have more than 64 MiB, whose files are so many times larger than it (default 1000)")
	o.revault.register(f)
	o.create.register(f)
}

func (o *migrateOptions) validate() error {
	ways := 0
	for _, on := range []bool{o.output != "", o.replace, o.into != ""} {
		if on {
			ways++
		}
	}
	switch {
	case len(o.old) == 0:
		return usagef("the old archive is missing")
	case ways > 1:
		return usagef("-o, --replace and --into are three ways to name the new archive; one can be used")
	case ways == 0:
		return &failure{code: exitUsage, err: errors.New("the new archive is missing"), hint: "name it with -o, or put it into the old one's place with --replace"}
	case len(o.old) > 1 && o.into == "":
		return usagef("-o and --replace are for one old archive; %s was given as well (--into DIR takes several)", quoted(o.old[1]))
	case o.skipExisting && o.into == "":
		return usagef("--skip-existing is for --into")
	case o.maxSize.set && o.maxSize.n == 0 || o.maxEntries.set && o.maxEntries.n == 0 || o.maxRatio.set && o.maxRatio.n == 0:
		return usagef("a limit of 0 would let nothing through")
	}
	for _, old := range o.old {
		switch {
		case old == "":
			return usagef("the old archive's name is empty")
		case old == "-" && o.output == "":
			return usagef("an old archive from standard input needs a name for the new one: -o")
		}
	}
	if err := o.revault.validate(); err != nil {
		return err
	}
	if o.output != "" {
		return checkArchiveName(o.output)
	}
	return nil
}

func (o *migrateOptions) limits() migrate.Limits {
	return migrate.Limits{Size: o.maxSize.n, Entries: int64(o.maxEntries.n), Ratio: int64(o.maxRatio.n)}
}

func newMigrateCommand(a *app) *cobra.Command {
	var opt migrateOptions
	cmd := &cobra.Command{
		Use:   "migrate OLD -o NEW [FLAG...]",
		Short: "turn an archive of another format into a new one, proven equal",
		Long: `Turn an archive of another format into a lockbox. What it is shows in its content, not
in its name: ` + strings.Join(migrate.Formats(), ", ") + `. OLD may be -: standard input.

The old file is only read. The new one appears under its name when it is complete, on
the device, and every entry of it was compared with a second reading of the old one:
bytes, digests and metadata. Interrupted, it leaves nothing, and can be run again. Times
that a format keeps without a zone (ZIP's own, RAR before 5) are taken for this machine's.

What cannot be carried over, a damaged entry or an attribute that has no place, is named
and makes it fail (exit 1, or 15 for damage) unless --allow-loss accepts it; --report
writes the list. --max-size, --max-entries and --max-ratio stop bombs.

The new archive is protected as the old one was: of an encrypted one it is encrypted, of
a signed one it is signed, or the migration is refused (exit 1). --plaintext takes less:
neither, or with --encrypt no signature, or with --sign-key no encryption.

--replace gives the new archive the name of the old one, which is kept as OLD.bak. After
a crash the name stands for one of the two, whole; run again, it finishes or begins anew.

Of reVault's archives the variables come over with --variables-to, secret ones into an
encrypted archive only, and forms do not. An older state is never taken for the newest
one: where that is damaged, --allow-loss takes what is left and says what it is.

--into DIR migrates every old archive below a directory, or several that are named, each
to NAME.lbx: one after the other, all workers on each. It goes on after a failure, and
ends in 3 when one was not migrated, 15 when one is damaged. With --skip-existing a second
run does what the first one left: a new archive has its name only when it is proven.`,
		Example: `  lockbox migrate photos.zip -o photos.lbx
  lockbox migrate backup.tar.gz --replace
  lockbox migrate secret.zip -o secret.lbx --source-passphrase-file old.txt --encrypt
  lockbox migrate keys.lbox -o keys.lbx --source-passphrase-file vault.txt --encrypt --sign-key me --variables-to variables
  lockbox migrate old-archives --into new-archives --report report.json
  lockbox migrate old-archives --into new-archives --skip-existing
  ssh host tar c docs | lockbox migrate - -o docs.lbx`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.old = args
			if err := opt.validate(); err != nil {
				return err
			}
			if a.g.expectRoot.digest != nil {
				return usagef("--expect-root names a state of an archive that exists")
			}
			if opt.plaintext && opt.create.encrypts() && a.keys.signKey != "" {
				return usagef("--plaintext cannot be used with both encryption and --sign-key: there is no more protection than that")
			}
			return a.migrate(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	a.registerSignKey(cmd.Flags(), "sign the new archive by this key")
	return cmd
}

func (a *app) migrate(ctx context.Context, opt migrateOptions) error {
	m := &migrator{a: a, opt: opt}
	defer m.wipe()
	if opt.into != "" {
		return m.several(ctx)
	}
	if err := preparePlace(&m.opt.report); err != nil {
		return err
	}
	old := opt.old[0]
	var err error
	if opt.replace {
		err = m.replace(ctx, old)
	} else {
		err = m.one(ctx, old, opt.output)
	}
	if rerr := m.writeReport(); err == nil {
		err = rerr
	} else if rerr != nil {
		a.fail(rerr)
	}
	return err
}
