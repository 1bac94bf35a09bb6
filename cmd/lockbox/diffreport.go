package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"lockbox/internal/hostfs"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
)

// count counts a change, and with it the exit code: a difference is a result, not a failure.
func (d *differ) count(c change) {
	d.changes[c]++
	if c != unchanged {
		d.a.note(exitDiffers)
	}
}

// tell reports one comparison.
func (d *differ) tell(c *comparison) error {
	if c.entry != nil {
		d.a.bar.add(d.weight(c.entry))
	}
	switch {
	case c.fatal != nil:
		return c.fatal
	case c.err != nil:
		d.unreadable++
		f := &failure{code: exitSkipped}
		if c.path.IsZero() || errors.Is(c.err, hostfs.ErrChanged) {
			f.err = fmt.Errorf("not compared: %w", c.err)
		} else {
			f.err = fmt.Errorf("%s was not compared: %w", quoted(c.path.String()), withoutPath(c.err))
		}
		d.a.fail(f)
		return nil
	}
	d.count(c.change)
	if c.change == unchanged || d.a.g.quiet && !d.a.g.json {
		return nil
	}
	if d.a.g.json {
		o := d.line.begin().bytes("path", c.path.String()).str("change", changeWords[c.change]).texts("fields", c.fields)
		_, err := d.a.out.Write(o.line())
		return err
	}
	_, err := d.a.out.WriteString(c.sentence())
	if d.a.bar != nil {
		d.a.out.flush() // whole lines only, where the bar may stand below them
	}
	return err
}

// sentence is the line for people.
func (c *comparison) sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s %s", changeWords[c.change], pathsafe.Quote(c.path.String()))
	if c.isDir() {
		b.WriteByte('/')
	}
	for i, field := range c.fields {
		b.WriteString([]string{": ", ", "}[min(i, 1)])
		b.WriteString(field)
		switch field {
		case "type":
			fmt.Fprintf(&b, " %s -> %s", kindWord(c.entry.Kind), kindWord(index.Kind(c.item.Kind)))
		case "size":
			fmt.Fprintf(&b, " %d -> %d", c.entry.Size, c.item.Size)
		case "mode":
			fmt.Fprintf(&b, " %s -> %s", octal(c.entry.Mode), octal(c.item.Mode))
		case "target":
			fmt.Fprintf(&b, " %s -> %s", pathsafe.Quote(c.entry.Target), pathsafe.Quote(c.item.Target))
		case "links":
			with, without := pathsafe.Quote(c.found.String()), pathsafe.Quote(c.stored.String())
			switch {
			case c.found.IsZero():
				fmt.Fprintf(&b, " not with %s", without)
			case c.stored.IsZero():
				fmt.Fprintf(&b, " with %s", with)
			default:
				fmt.Fprintf(&b, " with %s, not with %s", with, without)
			}
		}
	}
	b.WriteByte('\n')
	return b.String()
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

func (c *comparison) isDir() bool {
	if c.item != nil {
		return c.item.Kind == hostfs.KindDir
	}
	return c.entry.Kind == index.Dir
}

// hintPrefix speaks up when the two sides have no name in common because the directory was stored under its own name.
func (d *differ) hintPrefix() {
	common := d.changes[unchanged] + d.changes[typeChanged] + d.changes[modified] + d.changes[metadataChanged]
	if d.a.g.quiet || !d.prefix.IsZero() || common > 0 || d.changes[removed] == 0 || d.unreadable > 0 {
		return
	}
	dir, err := filepath.Abs(d.opt.dir)
	if err != nil {
		return
	}
	name, err := pathsafe.Parse(filepath.Base(dir))
	if err != nil {
		return
	}
	if e, err := d.ar.Get(name); err == nil && e.Kind == index.Dir {
		d.a.say.Hintf("a directory %s is stored: --to %s compares with that", quoted(name.String()), shellWord(name.String()))
	}
}

// report ends the output.
func (d *differ) report() error {
	var total uint64
	for _, n := range d.changes[unchanged+1:] {
		total += n
	}
	if d.a.g.json {
		in, err := d.ar.Info()
		if err != nil {
			return err
		}
		o := d.line.begin().open("summary").uint("entries", d.entries)
		for c := added; c < changeKinds; c++ {
			o.uint(changeWords[c], d.changes[c])
		}
		o.uint("unreadable", d.unreadable)
		_, err = d.a.out.Write(o.uint("generation", in.Generation).str("root", in.Root.String()).close().line())
		return err
	}
	if d.a.g.quiet {
		return nil
	}
	var parts []string
	for c := added; c < changeKinds; c++ {
		if n := d.changes[c]; n > 0 {
			parts = append(parts, comma(n)+" "+changeWords[c])
		}
	}
	what := "no differences"
	if total > 0 {
		what = plural(total, "difference", "differences") + " (" + strings.Join(parts, ", ") + ")"
	}
	if d.unreadable > 0 {
		what += ", " + comma(d.unreadable) + " not compared"
	}
	_, err := fmt.Fprintf(d.a.out, "%s; %s stored\n", what, plural(d.entries, "entry", "entries"))
	return err
}
