package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// added takes note of what became of a source. The engine calls it in the order of the sources.
func (r *adder) added(ctx context.Context, got store.Added) {
	p := <-r.waiting
	if got.Err != nil {
		if tooManyOpen(got.Err) {
			if r.fatal == nil {
				r.fatal = exhausted(p.host, got.Err)
				r.cancel()
			}
			return
		}
		r.leftOut(got.Path, p, got.Err)
		return
	}
	if p.reading != nil && p.reading.noXattrs != nil {
		p.noXattrs = p.reading.noXattrs
	}
	r.remove = append(r.remove, p.remove...)
	action := "added"
	if p.replaces {
		action = "replaced"
	}
	if r.unchanged(ctx, &p, &got) {
		action = "unchanged"
	}
	r.count(got.Path, p, got.Bytes, action)
}

// From manyEntries on the collector works earlier than Go's default has it, which spares a third of the memory. It
// costs little then, for what is kept of an entry has no pointers in it, but four per cent of a small add.
const manyEntries = 100_000

func (a *app) spareMemory() {
	if a.sys.getenv("GOGC") == "" {
		debug.SetGCPercent(30)
	}
}

// count adds an entry to the sums and writes its line.
func (r *adder) count(path pathsafe.Path, p pending, bytes int64, action string) {
	if p.kind == index.File {
		r.files++
	} else {
		r.others++
	}
	if r.files+r.others == manyEntries {
		r.a.spareMemory()
	}
	r.bytes += bytes
	if p.unlisted != nil {
		r.skipped++
		r.a.fail(&failure{code: exitSkipped, err: fmt.Errorf("the contents of %s were left out: %w", quoted(p.host), withoutPath(p.unlisted))})
	}
	if p.noXattrs != nil {
		r.skipped++
		r.a.fail(&failure{code: exitSkipped, err: fmt.Errorf("not all extended attributes of %s were stored: %w", quoted(p.host), withoutPath(p.noXattrs))})
	}
	if p.changed() {
		r.a.note(exitSkipped)
		r.a.say.Warnf("%s changed while it was read; a second reading was consistent and is stored: %v", quoted(p.host), withoutPath(p.reading.unsteady))
	}
	r.actionLine(path, action, &p)
}

// actionLine tells machines of one entry. An error stays in the output; what was added is safe all the
// same.
func (r *adder) actionLine(path pathsafe.Path, action string, p *pending) {
	if !r.a.g.json {
		return
	}
	o := r.line.begin().bytes("path", path.String()).str("action", action)
	if p.unlisted != nil || p.noXattrs != nil {
		o.bool("incomplete", true)
	}
	if p.changed() {
		o.bool("changed", true)
	}
	_, _ = r.a.out.Write(o.line())
}

// leftOut names a source that was not stored.
func (r *adder) leftOut(path pathsafe.Path, p pending, err error) {
	a, host := r.a, quoted(p.host)
	reason := withoutPath(err)
	switch {
	case errors.Is(err, context.Canceled):
		return // the command as a whole says so
	case errors.Is(err, hostfs.ErrExcluded):
		// That is what was asked for; it is only odd to ask for both.
		a.say.Warnf("%s was left out by %s", host, r.ruleFlags())
		r.actionLine(path, "excluded", &pending{})
		return
	case errors.Is(err, hostfs.ErrSelf):
		a.note(exitSkipped)
		a.say.Warnf("%s was left out: it is the archive itself", host)
	case errors.Is(err, hostfs.ErrSkipped):
		a.note(exitSkipped)
		a.say.Warnf("%s was left out: %s", host, strings.TrimPrefix(reason.Error(), hostfs.ErrSkipped.Error()+": "))
	default:
		a.fail(&failure{code: exitSkipped, err: fmt.Errorf("%s was left out: %w", host, reason)})
	}
	r.skipped++
	r.actionLine(path, "skipped", &pending{})
}

// ruleFlags names the flags that can have excluded something.
func (r *adder) ruleFlags() string {
	var exclude, file bool
	for _, rule := range r.opt.rules {
		exclude = exclude || rule.kind == ruleExclude
		file = file || rule.kind == ruleFile
	}
	switch {
	case exclude && file:
		return "--exclude or --exclude-from"
	case file:
		return "--exclude-from"
	}
	return "--exclude"
}

// patternFlag is the flag that the user gave a pattern with.
func (r *adder) patternFlag(pattern string) string {
	if slices.Contains(r.opt.rules, filterRule{ruleInclude, pattern}) {
		return "--include"
	}
	return "--exclude"
}

// exhausted is the error for sources that cannot be opened because too many files are open. Each one more
// would fail the same way, so that the command ends instead of leaving all of them out.
func exhausted(host string, err error) error {
	return limited(fmt.Errorf("nothing was changed: %s cannot be opened: %w", quoted(host), withoutPath(err)))
}

// limited adds what to do to an error that may be one of opening too many files.
func limited(err error) error {
	if tooManyOpen(err) {
		return &failure{code: exitFailed, err: err, hint: "the limit of open files is too low; ulimit -n shows and sets it"}
	}
	return err
}

// report says what was done.
func (r *adder) report(sum store.Summary) error {
	if !r.a.g.quiet {
		// No fault, as a rule is often there for what may come up; but it may also be misspelt.
		for _, pattern := range r.walk.Filter.Unmatched() {
			r.a.say.Hintf("the pattern %s of %s matched nothing", quoted(pattern), r.patternFlag(pattern))
		}
	}
	nothing := r.files+r.others+r.mirror.count() == 0
	if nothing && r.made && r.skipped > 0 {
		return &failure{code: exitFailed, err: fmt.Errorf("nothing was added: all of it was left out, and no archive %s was made", quoted(r.opt.archive))}
	}
	if nothing && r.made {
		r.a.say.Warnf("nothing was added, so no archive %s was made", quoted(r.opt.archive))
	}
	unchanged := r.files + r.others - min(r.files+r.others, uint64(sum.Added+sum.Replaced))
	if r.a.g.json {
		return r.reportJSON(sum, unchanged)
	}
	if r.a.g.quiet {
		return nil
	}
	end := fmt.Sprintf(", generation %d\n", sum.Generation)
	if r.opt.dryRun {
		end = "\n"
	}
	what := countEntries(r.files, r.others) + ", " + humanBytes(r.bytes)
	switch {
	case nothing && r.made:
		return nil
	case nothing && r.opt.dryRun:
		what = "nothing would be added"
	case nothing:
		what = "nothing was added"
	case r.files+r.others == 0:
		what = ""
	case r.opt.dryRun:
		what = "would add " + what
		if r.kept > 0 {
			what += fmt.Sprintf(", %s of them unchanged", comma(r.kept))
		}
	case unchanged == r.files+r.others:
		what = "unchanged: " + what
	case unchanged > 0:
		what = fmt.Sprintf("added %s → %s, %s of them unchanged", what, humanBytes(sum.StoredBytes), comma(unchanged))
	default:
		what = fmt.Sprintf("added %s → %s", what, humanBytes(sum.StoredBytes))
	}
	_, err := r.a.out.WriteString(what + r.mirror.words(what, r.opt.dryRun) + end)
	if err == nil && r.mirror.count() > 0 && sum.SharedBytes > 0 {
		_, err = fmt.Fprintf(r.a.out, "%s stay, other entries share them\n", exactBytes(sum.SharedBytes))
	}
	return err
}

func (r *adder) reportJSON(sum store.Summary, unchanged uint64) error {
	o := r.line.begin().open("summary").uint("entries", r.files+r.others).int("bytes", r.bytes).int("stored", sum.StoredBytes)
	o.uint("skipped", r.skipped)
	if !r.opt.dryRun {
		o.uint("unchanged", unchanged)
	}
	if r.mirror != nil {
		o.uint("removed", r.mirror.count()).int("shared", sum.SharedBytes)
	}
	o.uint("generation", sum.Generation).str("root", sum.Root.String())
	if r.opt.dryRun {
		o.bool("dry_run", true)
	}
	_, err := r.a.out.Write(o.close().line())
	return err
}

// countEntries says how many files there are, and how many directories and links beside them.
func countEntries(files, others uint64) string {
	switch {
	case others == 0:
		return plural(files, "file", "files")
	case files == 0:
		return plural(others, "entry", "entries")
	}
	return plural(files, "file", "files") + " and " + plural(others, "other entry", "other entries")
}
