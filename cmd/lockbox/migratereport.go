package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"lockbox/internal/migrate"
	"lockbox/internal/pathsafe"
	"lockbox/internal/vfs"
)

// lost names something that does not come over.
func (m *migrator) lost(old string, l migrate.Loss, shown *int) {
	a := m.a
	*shown++
	if a.g.json {
		var o object
		lossObject(o.begin().bytes("archive", old), &l)
		_, _ = a.out.Write(o.line()) // the summary returns the error
		return
	}
	if *shown > findingsShown {
		return
	}
	what := quoted(old)
	if l.Name != "" {
		what += ": " + quoted(l.Name)
	}
	if l.Entry {
		what += " is lost"
	}
	if m.opt.allowLoss {
		a.say.Warnf("%s: %s", what, l.Reason)
		return
	}
	a.say.Errorf("%s: %s", what, l.Reason)
}

func lossObject(o *object, l *migrate.Loss) {
	if l.Name != "" {
		o.bytes("name", l.Name)
	}
	o.str("lost", l.Reason).bool("entry", l.Entry).bool("damage", l.Damage)
}

// line keeps a migration for the report.
func (m *migrator) line(old, output string, r *migrate.Report, err error) {
	if m.opt.report == "" {
		return
	}
	var o object
	o.begin().bytes("source", old).str("format", r.Info.Format).bool("migrated", err == nil)
	if err != nil {
		o.str("error", m.failure(old, output, err).Error())
	}
	m.facts(&o, output, r, err)
	o.list("lost")
	for i := range r.Lost {
		lossObject(o.item(), &r.Lost[i])
		o.close()
	}
	o.endList()
	if r.Unlisted > 0 {
		o.int("lost_unlisted", int64(r.Unlisted))
	}
	m.report = append(m.report, o.line()...)
}

// facts are what report and summary both have.
func (m *migrator) facts(o *object, output string, r *migrate.Report, err error) {
	if err == nil {
		o.bytes("archive", output).int("entries", r.Entries).int("bytes", r.Bytes)
		o.int("stored", r.Summary.StoredBytes).uint("generation", r.Summary.Generation).str("root", r.Summary.Root.String())
	}
	o.bool("encrypted", r.Info.Encrypted).bool("signed", r.Info.Signed)
	if r.Info.Signer != "" {
		o.str("signer", r.Info.Signer)
	}
	o.texts("notes", r.Info.Notes).texts("repeated", r.Repeated)
}

// tell says what was migrated.
func (m *migrator) tell(old, output string, r *migrate.Report) error {
	a := m.a
	if a.g.json {
		var o object
		o.begin().open("summary").bytes("source", old).str("format", r.Info.Format)
		m.facts(&o, output, r, nil)
		_, err := a.out.Write(o.int("lost", int64(len(r.Lost)+r.Unlisted)).close().line())
		return err
	}
	if a.g.quiet {
		return nil
	}
	from := pathsafe.Quote(old)
	if old == output {
		from = pathsafe.Quote(migrate.BackupName(old))
	}
	more := ""
	if n := uint64(len(r.Lost) + r.Unlisted); n > 0 {
		more = ", without " + plural(n, "thing", "things") + " that cannot be carried over"
	}
	_, err := fmt.Fprintf(a.out, "migrated %s (%s) to %s: %s, %s, generation %d%s\n", from, r.Info.Format, pathsafe.Quote(output),
		plural(uint64(r.Entries), "entry", "entries"), humanBytes(r.Bytes), r.Summary.Generation, more)
	for _, n := range r.Info.Notes {
		if err == nil {
			_, err = fmt.Fprintf(a.out, "  %s\n", n)
		}
	}
	return err
}

// reportApart refuses a report that would be written over one of these files, there already or to be made.
func (m *migrator) reportApart(names ...string) error {
	if m.opt.report == "" {
		return nil
	}
	dir, base := filepath.Split(m.opt.report)
	for _, name := range names {
		d, b := filepath.Split(name)
		if same(m.opt.report, name) || strings.EqualFold(base, b) && same(filepath.Join(dir, "."), filepath.Join(d, ".")) {
			return usagef("the report would be written over %s", quoted(name))
		}
	}
	return nil
}

// writeReport writes the report, whole or not at all.
func (m *migrator) writeReport() error {
	if m.opt.report == "" || len(m.report) == 0 {
		return nil
	}
	if err := vfs.ReplaceFile(m.opt.report, 0o666, m.report); err != nil {
		return fmt.Errorf("cannot write the report %s: %w", quoted(m.opt.report), withoutPath(err))
	}
	return nil
}
