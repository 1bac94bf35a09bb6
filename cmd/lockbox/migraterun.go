package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"lockbox/internal/format"
	"lockbox/internal/migrate"
	"lockbox/internal/migrate/source"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
	"lockbox/internal/vfs"
)

// migrator runs migrations.
type migrator struct {
	a          *app
	opt        migrateOptions
	passphrase []byte // of the old archives; nil: not yet read
	report     []byte // a line for each
}

func (m *migrator) wipe() {
	clear(m.passphrase)
	m.opt.revault.wipe()
}

// one migrates one old archive to a new name.
func (m *migrator) one(ctx context.Context, old, output string) error {
	if err := m.reportApart(old, output); err != nil {
		return err
	}
	rep, err := m.attempt(ctx, old, output, nil)
	return m.conclude(old, output, &rep, err)
}

// conclude reports a migration that has come to its end.
func (m *migrator) conclude(old, output string, rep *migrate.Report, err error) error {
	m.line(old, output, rep, err)
	if err != nil {
		return m.failure(old, output, err)
	}
	return m.tell(old, output, rep)
}

// replace puts the new archive into the old one's place.
func (m *migrator) replace(ctx context.Context, old string) error {
	if fi, err := os.Lstat(old); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		return usagef("%s is a symbolic link: name the file that it leads to", quoted(old))
	}
	if err := m.reportApart(old, migrate.NewName(old), migrate.BackupName(old)); err != nil {
		return err
	}
	done, err := migrate.Resume(vfs.OS(), old)
	if err != nil {
		return m.failure(old, old, err)
	}
	if done {
		if !m.a.g.quiet && !m.a.g.json {
			_, err = fmt.Fprintf(m.a.out, "%s was replaced by an earlier run; the old archive is %s\n", pathsafe.Quote(old), pathsafe.Quote(migrate.BackupName(old)))
		}
		return err
	}
	rep, err := m.attempt(ctx, old, migrate.NewName(old), func(in *migrate.Input) error { return migrate.Exchange(vfs.OS(), in) })
	return m.conclude(old, old, &rep, err)
}

// attempt migrates old to output and, when that is there, calls then.
func (m *migrator) attempt(ctx context.Context, old, output string, then func(*migrate.Input) error) (rep migrate.Report, err error) {
	a := m.a
	if fi, err := os.Lstat(output); err == nil {
		err := taken(output, fi)
		if f := (*failure)(nil); m.opt.into != "" && errors.As(err, &f) {
			f.hint = "an earlier run may have made it: --skip-existing leaves it alone; to migrate the old archive again, move it away"
		}
		return rep, err
	}
	in, err := m.open(ctx, old, output)
	if err != nil {
		return rep, err
	}
	defer func() {
		if cerr := in.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	var ar *store.Archive
	shown := 0
	o := migrate.Options{Limits: m.opt.limits(), AllowLoss: m.opt.allowLoss, Jobs: a.jobs()}
	o.Source = source.Options{Encoding: string(m.opt.encoding), Passphrase: func() ([]byte, error) { return m.sourcePassphrase(ctx, old) }}
	if err := m.opt.revault.options(ctx, old, &o.Source); err != nil {
		return rep, err
	}
	o.Create = func(ctx context.Context, info source.Info) (*store.Archive, error) {
		var err error
		ar, err = m.create(ctx, old, output, info)
		return ar, err
	}
	o.Lost = func(l migrate.Loss) { m.lost(old, l, &shown) }
	a.startProgress("migrating", -1)
	o.Progress = a.bar.set
	rep, err = migrate.Run(ctx, in, o)
	a.endProgress()
	if shown > findingsShown && !a.g.json {
		a.say.Warnf("%s: %s more; --json or --report lists all", quoted(old), comma(uint64(shown-findingsShown)))
	}
	if ar != nil {
		err = a.closeWrite(ar, output, &rep.Summary, err)
	}
	if err == nil && then != nil {
		err = then(in)
	}
	return rep, err
}

func (m *migrator) open(ctx context.Context, old, output string) (*migrate.Input, error) {
	if old == "-" {
		defer leaveWhenStuck(ctx)()
		return migrate.Spool(ctx, vfs.OS(), output, m.a.sys.stdin)
	}
	if _, err := store.Peek(ctx, old, store.Options{}); err == nil || errors.Is(err, format.ErrVersion) {
		return nil, &failure{code: exitFailed, err: fmt.Errorf("%s is a lockbox archive already", quoted(old))}
	}
	return migrate.OpenInput(vfs.OS(), old)
}

// sourcePassphrase is the old archive's passphrase.
func (m *migrator) sourcePassphrase(ctx context.Context, old string) (p []byte, err error) {
	if m.passphrase != nil {
		return m.passphrase, nil
	}
	if name := m.opt.passphraseFile; name != "" {
		m.passphrase, err = readPassphrase(ctx, name)
		return m.passphrase, err
	}
	p, err = m.a.askSecret(ctx, "passphrase of "+quoted(old))
	if errors.Is(err, errNoTerminal) {
		return nil, &failure{
			code: exitAuth, err: fmt.Errorf("%s is encrypted: no passphrase was given, and %w", quoted(old), err),
			hint: "--source-passphrase-file FILE names a file with it",
		}
	}
	m.passphrase = bytes.Clone(p)
	clear(p)
	return m.passphrase, err
}

// create makes the new archive for what is known of the old one.
func (m *migrator) create(ctx context.Context, old, output string, info source.Info) (*store.Archive, error) {
	a, c := m.a, m.opt.create
	if err := m.opt.revault.fits(old, info, m.opt.into != ""); err != nil {
		return nil, err
	}
	if m.opt.encoding != "" && info.Format != "zip" && m.opt.into == "" {
		return nil, usagef("--source-encoding is for ZIP archives; %s is %s, whose names need none", quoted(old), info.Format)
	}
	if !m.opt.plaintext {
		switch {
		case info.Encrypted && !c.encrypts():
			return nil, &failure{
				code: exitFailed, err: fmt.Errorf("%s is encrypted, and it was not said how the new archive is to be protected", quoted(old)),
				hint: "--encrypt locks it with a passphrase, --recipient KEY for a public key; --plaintext leaves it open to everybody",
			}
		case info.Signed && a.keys.signKey == "":
			return nil, &failure{
				code: exitFailed, err: fmt.Errorf("%s is signed, and no key was given to sign the new archive by", quoted(old)),
				hint: "--sign-key FILE signs it; --plaintext does without, also where the new archive is encrypted",
			}
		}
	}
	if info.Entries < 0 || info.Entries >= manyEntries {
		a.spareMemory()
	}
	return a.openNew(ctx, output, a.storeOptions(), &c, false)
}

// failure puts into words why there is no new archive.
func (m *migrator) failure(old, output string, err error) error {
	name := quoted(old)
	var loss *migrate.LossError
	if f := lossFailure(name, err); f != nil {
		return f
	}
	switch {
	case errors.As(err, &loss) && loss.Locked && !loss.Damaged:
		return &failure{
			code: exitAuth, err: fmt.Errorf("%s was not migrated: some of it does not open with the key that was given (%w)", name, loss),
			hint: "--allow-loss migrates the rest; --report FILE lists what is missing",
		}
	case errors.As(err, &loss):
		return &failure{
			code: codeOf(err), err: fmt.Errorf("%s was not migrated: %w", name, loss),
			hint: "--allow-loss migrates the rest; --report FILE lists what is missing",
		}
	case errors.Is(err, context.Canceled), hasWords(err):
		return err
	case old != "-" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && missingFile(old):
		return &failure{code: exitMissing, err: fmt.Errorf("there is no archive %s", name)}
	case errors.Is(err, migrate.ErrUnknown):
		f := &failure{code: exitForeign, err: fmt.Errorf("%s cannot be migrated: %w", name, err)}
		if what := foreignKind(old); what != "" && err == migrate.ErrUnknown {
			f.hint = "it looks like " + what
		}
		return f
	case errors.Is(err, vfs.ErrNotRegular):
		return &failure{
			code: exitForeign, err: fmt.Errorf("%s cannot be migrated: it is not a regular file", name),
			hint: "--into DIR2 migrates what is in a directory; - reads standard input",
		}
	case errors.Is(err, migrate.ErrNotOurs):
		return &failure{code: exitFailed, err: fmt.Errorf("%s was not migrated: %w", name, err), hint: "move it away, or name the new archive with -o"}
	case errors.Is(err, source.ErrLimit):
		f := &failure{code: exitFailed, err: fmt.Errorf("%s was not migrated: %w", name, err)}
		var l *source.LimitError
		if errors.As(err, &l) {
			flag := map[source.Bound]string{source.BoundEntries: "--max-entries", source.BoundSize: "--max-size", source.BoundRatio: "--max-ratio"}[l.Bound]
			f.hint = "when it is to be trusted, a larger " + flag + " lets it through"
		}
		return f
	case errors.Is(err, format.ErrAuth):
		return &failure{code: exitAuth, err: fmt.Errorf("%s was not migrated: %w", name, err), hint: "--source-passphrase-file FILE names a file with its passphrase, and for reVault --raw-key-file or --source-identity one with its key"}
	case errors.Is(err, fs.ErrExist) && old == output:
		return &failure{code: exitBusy, err: fmt.Errorf("%s was not migrated: another migration of it was there first", name), hint: "run the command again"}
	case errors.Is(err, fs.ErrExist):
		return overtaken(output)
	}
	return fmt.Errorf("%s was not migrated, no new archive was made: %w", name, withoutPath(err))
}

func missingFile(name string) bool {
	_, err := os.Stat(name)
	return err != nil
}
