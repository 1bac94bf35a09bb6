package main

import (
	"fmt"

	"lockbox/internal/pathsafe"
)

// report says what was done.
func (r *extractor) report() error {
	if r.entries == 0 && r.stripped > 0 {
		r.a.say.Warnf("nothing to extract after --strip %d: no selected path has more components than that", r.opt.strip.n)
	}
	if r.a.g.json {
		return r.reportJSON()
	}
	if r.a.g.quiet {
		return nil
	}
	left := ""
	if r.kept > 0 {
		left = fmt.Sprintf(", %s kept", plural(r.kept, "entry", "entries"))
	}
	if n := r.skipped + r.existing(); n > 0 {
		left += fmt.Sprintf(", %s skipped", plural(n, "entry", "entries"))
	}
	_, err := fmt.Fprintf(r.a.out, "extracted %s, %s, to %s%s\n", plural(r.w.entries, "entry", "entries"), humanBytes(r.w.bytes), pathsafe.Quote(r.opt.dest), left)
	return err
}

// existing counts what --skip-existing left alone.
func (r *extractor) existing() uint64 {
	return r.entries - min(r.entries, r.w.entries+r.kept+uint64(len(r.w.faults)))
}

// reportJSON says of every entry what became of it, in the archive's order.
func (r *extractor) reportJSON() error {
	in, err := r.ar.Info()
	if err != nil {
		return err
	}
	var o object
	for e, err := range r.sel.entries() {
		if err != nil {
			return err
		}
		action := "extracted"
		to, ok := r.target(&e)
		switch {
		case !ok:
			action = "skipped"
		case r.w.faults[e.Path] != nil:
			action = "failed"
		case r.x.Skipped(to) && r.opt.resume:
			action = "kept"
		case r.x.Skipped(to):
			action = "skipped"
		}
		if _, err := r.a.out.Write(r.renamedFrom(o.begin(), &e).str("action", action).line()); err != nil {
			return err
		}
	}
	o.begin().open("summary").uint("entries", r.w.entries).int("bytes", r.w.bytes).uint("stored", r.ar.Counters().BytesRead)
	if r.opt.resume {
		o.uint("kept", r.kept)
	}
	o.uint("skipped", r.skipped+r.existing()).uint("failed", uint64(len(r.w.faults)))
	_, err = r.a.out.Write(o.uint("generation", in.Generation).str("root", in.Root.String()).close().line())
	return err
}
