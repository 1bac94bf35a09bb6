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
	if n := r.skipped + r.existing(); n > 0 {
		left = fmt.Sprintf(", %s skipped", plural(n, "entry", "entries"))
	}
	_, err := fmt.Fprintf(r.a.out, "extracted %s, %s, to %s%s\n", plural(r.w.entries, "entry", "entries"), humanBytes(r.w.bytes), pathsafe.Quote(r.opt.dest), left)
	return err
}

// existing counts what --skip-existing left alone.
func (r *extractor) existing() uint64 {
	return r.entries - min(r.entries, r.w.entries+uint64(len(r.w.faults)))
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
		if to, ok := r.target(&e); !ok || r.x != nil && r.x.Skipped(to) {
			action = "skipped"
		} else if r.w.faults[e.Path] != nil {
			action = "failed"
		}
		if _, err := r.a.out.Write(o.begin().bytes("path", e.Path.String()).str("action", action).line()); err != nil {
			return err
		}
	}
	o.begin().open("summary").uint("entries", r.w.entries).int("bytes", r.w.bytes).uint("stored", r.ar.Counters().BytesRead)
	o.uint("skipped", r.skipped+r.existing()).uint("failed", uint64(len(r.w.faults)))
	_, err = r.a.out.Write(o.uint("generation", in.Generation).str("root", in.Root.String()).close().line())
	return err
}
