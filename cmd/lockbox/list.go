package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockbox/internal/format"
	"lockbox/internal/index"
	"lockbox/internal/pathsafe"
	"lockbox/internal/store"
)

// listOptions is a command line of list.
type listOptions struct {
	archive string
	stored  []string
	long    bool
	nul     bool
	digest  bool
	literal bool
}

func (o *listOptions) register(f *pflag.FlagSet) {
	f.BoolVarP(&o.long, "long", "l", false, "also type, mode, owner, size and time (local) of each entry")
	f.BoolVarP(&o.nul, "null", "0", false, "only the names, as they are, each ended by a zero byte")
	f.BoolVar(&o.digest, "digest", false, "files only, each with its BLAKE3 digest, as b3sum prints them")
	f.BoolVar(&o.literal, "literal", false, "take names as they are, not as patterns")
}

func (o *listOptions) validate(json bool) error {
	switch {
	case o.nul && json:
		return usagef("-0 and --json are two forms of output: choose one")
	case o.nul && (o.long || o.digest):
		return usagef("-0 prints names only: it cannot be used with -l or --digest")
	case o.long && o.digest:
		return usagef("--digest prints what b3sum prints: it cannot be used with -l (--json has both)")
	case json && o.long:
		return usagef("--json prints everything already: -l cannot be used with it")
	}
	return nil
}

func newListCommand(a *app) *cobra.Command {
	var opt listOptions
	cmd := &cobra.Command{
		Use:     "list ARCHIVE [STORED...] [FLAG...]",
		Aliases: []string{"ls"},
		Short:   "print the names of entries",
		Long: `Print the names of all entries, or of those that are named, in order. A
directory brings everything below it. Names are escaped where they would harm a
terminal; -0 and --json give them exactly. ` + globHelp + `

With --digest only files are printed, each with its digest in the form of b3sum,
which can check the lines where no name had to be escaped. Of a sparse file the digest
covers where its holes are and its data, and the line begins with "sparse:". With
--json every file has its digest anyway.

-l prints the owner as USER/GROUP where one is stored, a + after the mode where there
are extended attributes, sizes in units of 1,000 (--json has them exactly), "major, minor" of a device in place of its size, "@" and
seconds since 1970 for a time outside the years 0 to 9999; and of the names of one
file all but the first with an h, and with the first after them.`,
		Example: `  lockbox list backup.lbx
  lockbox list backup.lbx docs -l
  lockbox ls backup.lbx '**/*.go' -0 | xargs -0 wc -l
  lockbox list backup.lbx --digest | (cd restored && b3sum --check)
  lockbox list backup.lbx --json | jq .size`,
		ValidArgsFunction: completeStored,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opt.archive, opt.stored, err = archiveOperand(args); err != nil {
				return err
			}
			if err := opt.validate(a.g.json); err != nil {
				return err
			}
			return a.list(cmd.Context(), opt)
		},
	}
	opt.register(cmd.Flags())
	return cmd
}

func (a *app) list(ctx context.Context, opt listOptions) error {
	defer leaveWhenStuck(ctx)()
	ar, err := a.openRead(ctx, opt.archive)
	if err != nil {
		return err
	}
	sel, err := newSelection(ar, opt.stored, opt.literal)
	if err == nil {
		err = a.listEntries(ctx, ar, sel, opt)
	}
	if err == nil {
		a.reportUnmatched(opt.archive, sel)
	}
	if err = a.closeRead(ar, opt.archive, err); err != nil {
		return readingFailure(opt.archive, err)
	}
	return nil
}

// readingFailure adds the archive's name to an error that came up while it was read.
func readingFailure(archive string, err error) error {
	if hasWords(err) {
		return err
	}
	return atDamage(archive, fmt.Errorf("reading %s: %w", quoted(archive), err))
}

// atDamage adds to an error what to do about damage, if it is that.
func atDamage(archive string, err error) error {
	if !errors.Is(err, format.ErrCorrupt) || hasWords(err) {
		return err
	}
	return &failure{code: exitDamaged, err: err, hint: damageHint(archive)}
}

func damageHint(archive string) string {
	return fmt.Sprintf("lockbox verify --full %s names all that is damaged; lockbox recover saves what is whole", shellWord(archive))
}

func (a *app) listEntries(ctx context.Context, ar *store.Archive, sel *selection, opt listOptions) error {
	l := lister{a: a, ar: ar, opt: opt, json: a.g.json}
	if opt.long {
		for e, err := range sel.entries() {
			if err != nil {
				return err
			}
			l.plus = l.plus || hasXattrs(&e)
			l.owner.measure(appendOwner(l.line[:0], &e))
			l.size.measure(appendSize(l.line[:0], &e))
		}
	}
	for e, err := range during(ctx, sel.entries()) {
		if err == nil && opt.digest && !l.json && e.Kind != index.File {
			continue
		}
		if err == nil {
			err = l.format(ctx, &e)
		}
		if err == nil {
			_, err = a.out.Write(l.line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lister formats entries into a buffer that is used again.
type lister struct {
	a           *app
	ar          *store.Archive
	opt         listOptions
	json        bool
	plus        bool // one of them has extended attributes
	owner, size column
	line        []byte
	object      object
	links       map[uint64]string // the first entry of each link group that was seen
}

// column is as wide as the widest of what was measured.
type column int

func (c *column) measure(text []byte) { *c = max(*c, column(columns(text))) }

// pad appends the blanks that b, from start on, is short of the column's width.
func (c column) pad(b []byte, start int) []byte {
	for range int(c) - columns(b[start:]) {
		b = append(b, ' ')
	}
	return b
}

// firstName is the entry that this one is a hard link of: the one that came first of those that were listed. "" when
// it is that itself, or has no other names.
func (l *lister) firstName(e *index.Entry) string {
	if e.LinkGroup == 0 {
		return ""
	}
	first, ok := l.links[e.LinkGroup]
	if !ok {
		if l.links == nil {
			l.links = make(map[uint64]string)
		}
		l.links[e.LinkGroup] = e.Path.String()
	}
	return first
}

func (l *lister) format(ctx context.Context, e *index.Entry) error {
	switch {
	case l.json:
		return l.formatJSON(ctx, e)
	case l.opt.nul:
		l.line = append(append(l.line[:0], e.Path.String()...), 0)
		return nil
	}
	b := l.line[:0]
	if l.opt.digest {
		d, err := l.digest(e)
		if err != nil {
			return err
		}
		if e.Sparse != nil {
			b = append(b, "sparse:"...)
		}
		b = append(appendHex(b, d), "  "...)
	}
	first := ""
	if l.opt.long {
		first = l.firstName(e)
		b = l.appendLong(b, e, first != "")
	}
	b = append(b, pathsafe.Quote(e.Path.String())...)
	switch {
	case e.Kind == index.Dir:
		b = append(b, '/')
	case first != "":
		b = append(append(b, " link to "...), pathsafe.Quote(first)...)
	case l.opt.long && e.Kind == index.Symlink:
		b = append(append(b, " -> "...), pathsafe.Quote(e.Target)...)
	}
	l.line = append(b, '\n')
	return nil
}

func (l *lister) digest(e *index.Entry) (format.Digest, error) {
	d, err := l.ar.Digest(e)
	if err != nil {
		err = fmt.Errorf("the digest of %s: %w", quoted(e.Path.String()), err)
	}
	return d, err
}

func appendHex(b []byte, d format.Digest) []byte {
	for _, x := range d {
		b = append(b, hexDigits[x>>4], hexDigits[x&15])
	}
	return b
}
