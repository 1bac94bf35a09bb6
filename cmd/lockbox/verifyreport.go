package main

import (
	"fmt"

	"lockbox/internal/verify"
	"lockbox/internal/vfs"
)

// writeReport writes the file of --report: one JSON object, described in docs/json/verify-report.schema.json.
func (v *verifying) writeReport() error {
	if v.opt.report == "" {
		return nil
	}
	code := exitOK
	for _, o := range v.done {
		code = worse(code, o.code)
	}
	var j object
	now := v.a.now()
	j.begin().when("started", v.began).when("ended", now).seconds("seconds", now.Sub(v.began).Seconds()).int("exit_code", int64(code))
	j.list("archives")
	for _, o := range v.done {
		j.item()
		o.report(&j, v.opt.full && len(v.opt.only) == 0)
		j.close()
	}
	if err := vfs.ReplaceFile(v.opt.report, 0o666, j.endList().line()); err != nil {
		return fmt.Errorf("cannot write the report to %s: %w", quoted(v.opt.report), withoutPath(err))
	}
	return nil
}

// report writes what came of one archive, of which every byte was to be read when full.
func (o *outcome) report(j *object, full bool) {
	j.bytes("archive", o.name).int("exit_code", int64(o.code))
	if o.err != nil {
		j.str("error", oneLine(o.err.Error()))
	} else {
		j.null("error")
	}
	j.when("started", o.began).seconds("seconds", o.took.Seconds())
	c := o.check
	if c == nil || c.sum.Generation == 0 {
		j.null("id").null("generation").null("root").null("signer")
		c = &check{}
	} else {
		j.str("id", c.sum.Archive.String()).uint("generation", c.sum.Generation).str("root", c.sum.Root.String()).signer(c.sum.Signer)
	}
	sum := &c.sum
	j.bool("full", full).bool("complete", o.ended && whole(sum))
	j.open("checked").uint("entries", sum.Entries).uint("contents", sum.Contents).uint("frames", sum.Frames).uint("nodes", sum.Nodes)
	j.uint("bytes", sum.Bytes).uint("read_bytes", sum.Work.BytesRead).close()
	j.int("damaged_places", int64(sum.Damaged)).int("omitted", int64(c.more))
	for _, list := range []struct {
		key        string
		repairable bool
	}{{"damaged", false}, {"repairable", true}} {
		j.list(list.key)
		for i := range c.findings {
			if f := &c.findings[i]; (f.Kind == verify.KindRepairable) == list.repairable {
				j.item()
				j.finding(f)
				j.close()
			}
		}
		j.endList()
	}
	if sum.Part != nil {
		j.pass(sum.Part)
	} else {
		j.null("pass")
	}
}
