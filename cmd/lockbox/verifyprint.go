package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockbox/internal/format"
	"lockbox/internal/pathsafe"
	"lockbox/internal/seal"
	"lockbox/internal/verify"
)

// verdict prints the findings and the summary, and returns what the command has to say about the whole.
func (a *app) verdict(name string, c *check, sum verify.Summary, err error) error {
	switch {
	case err == nil:
	case errors.Is(err, format.ErrNotLockbox), errors.Is(err, format.ErrVersion), errors.Is(err, format.ErrAuth):
		return a.openFailure(name, err)
	case errors.Is(err, context.Canceled), hasWords(err):
		return err
	case !errors.Is(err, format.ErrCorrupt):
		return fmt.Errorf("cannot check %s: %w", quoted(name), err)
	}
	want := a.g.expectRoot.digest
	expected := want == nil || sum.Root == *want
	a.printFindings(name, c)
	// Nothing is left to say of an archive that is in order.
	silent := a.g.quiet && err == nil && sum.Complete && expected && len(c.findings) == 0
	if !silent {
		// What was found counts before a failure to print it.
		if werr := a.printVerdict(name, c, sum, err == nil); werr != nil && err == nil && sum.Damaged == 0 && sum.Complete {
			return werr
		}
	}
	if err != nil {
		return &failure{
			code: exitDamaged, err: fmt.Errorf("%s cannot be read at all: %w", quoted(name), err),
			hint: "lockbox recover " + shellWord(name) + " --dry-run looks for what is left",
		}
	}
	if sum.Damaged > 0 || !sum.Complete {
		return &failure{
			code: exitDamaged, err: fmt.Errorf("%s is damaged: %s", quoted(name), plural(uint64(sum.Damaged), "damaged place", "damaged places")),
			hint: "lockbox recover saves what is whole; lockbox add --no-dedup stores damaged files anew from their originals",
		}
	}
	if !expected {
		return unexpectedRoot(name, sum.Root, *want)
	}
	return nil
}

// printFindings names everything that was found: to people, and with --json on standard output.
func (a *app) printFindings(name string, c *check) {
	var o object
	shown, more := c.findings, c.more
	if !a.g.json && len(shown) > findingsShown {
		shown, more = shown[:findingsShown], more+len(shown)-findingsShown
	}
	for _, f := range shown {
		if a.g.json {
			o.begin().bytes("archive", name)
			o.finding(&f)
			_, _ = a.out.Write(o.line()) // printVerdict reports the error
			continue
		}
		var b strings.Builder
		b.WriteString(quoted(name) + ": ")
		if f.Path != "" {
			b.WriteString(quoted(f.Path) + ": ")
		}
		b.WriteString(f.Kind + ": " + f.Detail)
		if f.Offset >= 0 {
			fmt.Fprintf(&b, " (at offset %d)", f.Offset)
		}
		if f.Kind == verify.KindRepairable {
			a.say.Warnf("%s", b.String())
			a.say.Hintf("the next change to the archive mends it")
		} else {
			a.say.Errorf("%s", b.String())
		}
	}
	if more > 0 {
		a.say.Errorf("%s: %s more; --json lists all", quoted(name), plural(uint64(more), "finding", "findings"))
	}
}

// finding writes the keys of a finding.
func (o *object) finding(f *verify.Finding) {
	o.bytes("path", f.Path).str("kind", f.Kind).str("detail", f.Detail)
	if f.Offset >= 0 {
		o.int("offset", f.Offset)
	}
}

// pass writes how far a pass has come.
func (o *object) pass(p *verify.Part) {
	o.open("pass").uint("number", p.Pass).bool("complete", p.Complete()).when("began", p.Began).when("ended", p.Ended)
	o.uint("read", p.Read).uint("left", p.Left).uint("later", p.Later).uint("uncompared", p.Uncompared)
	if p.NextFrame > 0 {
		o.uint("next_frame", p.NextFrame)
	} else {
		o.null("next_frame")
	}
	if last := p.State.Last; last.Pass > 0 {
		o.open("last_complete").uint("number", last.Pass).when("began", last.Began).when("ended", last.Ended).close()
	} else {
		o.null("last_complete")
	}
	o.close()
}

// signer writes the key that has signed, null when none has.
func (o *object) signer(k seal.PublicKey) *object {
	if k.IsZero() {
		return o.null("signer")
	}
	return o.str("signer", k.String())
}

// when writes a time in seconds and UTC, null when it is zero.
func (o *object) when(k string, t time.Time) *object {
	if t.IsZero() {
		return o.null(k)
	}
	return o.str(k, t.UTC().Format(time.RFC3339))
}

func (a *app) printVerdict(name string, c *check, sum verify.Summary, finished bool) error {
	complete := finished && whole(&sum)
	if a.g.json {
		var o object
		o.begin().open("summary").bytes("archive", name).bool("full", c.opt.Full && c.opt.Only == nil)
		o.uint("entries", sum.Entries).uint("bytes", sum.Bytes).int("damaged", int64(sum.Damaged)).int("repairable", int64(sum.Repairable))
		o.bool("complete", complete).uint("generation", sum.Generation).str("root", sum.Root.String())
		o.signer(sum.Signer)
		o.seconds("seconds", c.took.Seconds())
		if sum.Part != nil {
			o.pass(sum.Part)
		}
		_, err := a.out.Write(o.close().line())
		return err
	}
	if a.g.quiet || !finished || !sum.Complete || sum.Damaged > 0 {
		return nil
	}
	what := "structure of " + plural(sum.Entries, "entry", "entries")
	if c.opt.Full {
		what = fmt.Sprintf("%s, every byte of %s", plural(sum.Entries, "entry", "entries"), humanBytes(int64(sum.Bytes)))
	}
	found, rest := "no damage found", ""
	if p := sum.Part; p != nil {
		what = fmt.Sprintf("structure of %s, pass %d", plural(sum.Entries, "entry", "entries"), p.Pass)
		if p.Complete() {
			what += " complete: every byte, " + humanBytes(int64(p.Read))
		} else {
			found = "no damage found so far"
			what += fmt.Sprintf(": %s read, %s left", humanBytes(int64(p.Read)), humanBytes(int64(p.Left)))
			rest = "; the next run goes on in the free space"
			if p.NextFrame > 0 {
				rest = fmt.Sprintf("; the next run goes on at frame %d", p.NextFrame)
			}
		}
		if p.Later > 0 {
			rest += fmt.Sprintf("; %s written since are for the next pass", humanBytes(int64(p.Later)))
		}
	}
	if !sum.Signer.IsZero() {
		what += ", signed by " + sum.Signer.Fingerprint()
	}
	_, err := fmt.Fprintf(a.out, "%s: %s (%s, generation %d, %.1f s)%s\n", pathsafe.Quote(name), found, what, sum.Generation, c.took.Seconds(), rest)
	return err
}

// whole reports whether a check has left nothing out: neither what damage hid, nor what a later run is to read.
func whole(sum *verify.Summary) bool { return sum.Complete && (sum.Part == nil || sum.Part.Complete()) }
